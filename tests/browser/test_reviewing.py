"""A reviewer with the keyboard: claim, label, correct, blind verdict, and only then the outcome."""

from __future__ import annotations

import contextlib
import json
import re
from itertools import pairwise

import pytest
from playwright.sync_api import TimeoutError, expect

from tests.running import until

pytestmark = pytest.mark.browser

TOOL = {
    "name": "update",
    "description": "Change a ticket",
    "input_schema": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
}
VERIFIED = """
from awmclient.schema import Outcome
from episodes.record import ending, recording
from episodes.models import Episode
from people.access import system
one = Episode.objects.get(pk={pk!r})
found = Outcome(reward_type="others", reward=0.0, details={{"why": "zebra-detail"}}, source="verifier")
ending.record_outcome(system(one.project), one.pk, found)
"""
PROJECT = "reviewing"
"""A project of its own: in another one episodes that are not judged blind show their outcomes."""
ARGUMENTS = {"20": 9007199254740993, "id": 8, "3": {"b": 1.0, "1": 2}}
"""A number and names that JavaScript would change."""
TELLS = ("Not complete", "not complete", "zebra-detail", "others")


@pytest.fixture
def played(house):
    """An ended episode whose verifier says that the task is not complete."""
    house.manage("createproject", PROJECT)
    return play(house, PROJECT, 0)


def play(house, project, number):
    with house.http(house.token("agent", project)) as loop:
        start = {
            "key": f"review-me-{number}",
            "task": "Shut ticket 7.",
            "scenario": "reviewing_1",
            "task_idx": number,
            "tools": [TOOL],
        }
        episode = loop.post("/episodes", json=start).json()["id"]
        call = {"seq": 2, "kind": "tool_call", "name": "update", "arguments": ARGUMENTS, "result": "ok"}
        steps = [{"seq": 1, "kind": "message", "role": "assistant", "content": "<img src=x onerror=alert(1)>"}, call]
        for path, body in (("steps", {"steps": steps}), ("finish", {"stop_reason": "done"})):
            answer = loop.post(f"/episodes/{episode}/{path}", json=body)
            assert answer.is_success, answer.text
    house.manage("shell", "-c", VERIFIED.format(pk=episode))
    return episode


def make_queue(house, person, project=PROJECT, count="1 episode"):
    """A label and a queue with one review per episode, made by hand on the pages."""
    page = person(house.link("mila", "admin", project))
    page.goto(f"{house.url}/reviews/")
    page.get_by_text("Add or change a label").click()
    label = page.locator("form[action$='/reviews/labels']")
    label.get_by_label("Name").fill("step_quality")
    label.get_by_label("Title").fill("Step quality")
    label.get_by_label("Options").fill("Good step\nWrong argument")
    label.get_by_role("button", name="Save label").click()
    queue = page.get_by_role("form", name="New queue")
    queue.get_by_label("Name").fill("First look")
    queue.get_by_role("button", name="Create queue").click()
    expect(page.locator("h1")).to_have_text("First look has no episodes yet.")
    page.get_by_label("Scenario").select_option("reviewing_1")
    page.get_by_role("button", name="Add episodes").click()
    expect(page.locator(".told")).to_contain_text(f"Added {count}.")
    return page.url


def press(page, key):
    """Press a key once the page listens: what it prints in its key line works."""
    expect(page.locator("[data-keyline] kbd").first).to_be_visible()
    page.keyboard.press(key)


def press_as(page, key, code, modifiers=0):
    """Press a key of another layout; 8 is Shift, and Alt with Ctrl, 3, is AltGr on Windows."""
    session = page.context.new_cdp_session(page)
    for kind in ("keyDown", "keyUp"):
        session.send("Input.dispatchKeyEvent", {"type": kind, "key": key, "code": code, "modifiers": modifiers})


def keys_of_any_layout(page):
    """Caps Lock, a German keyboard whose brackets need AltGr, and a Russian one; Escape leaves a field first."""
    at = page.locator("[data-where]")
    press(page, "n")
    page.keyboard.type("hjkl")
    for key in ("Escape", "J"):  # Caps Lock: a capital without Shift
        page.keyboard.press(key)
    expect(at).to_have_text("step 2 of 2")
    expect(page.locator("[data-note]")).to_have_value("hjkl")
    page.locator("ol[data-steps]").evaluate("list => { list.dataset.codes = 'ww'; }")  # two writes, to go between
    for key, code, modifiers, step in (
        ("ArrowLeft", "ArrowLeft", 8, 1),
        ("о", "KeyJ", 0, 2),
        ("ü", "BracketLeft", 0, 1),
        ("ArrowRight", "ArrowRight", 8, 2),
        ("ü", "BracketLeft", 0, 1),
        ("+", "BracketRight", 0, 2),
        ("[", "Digit8", 3, 1),
        ("]", "Digit9", 3, 2),
        ("[", "Digit5", 1, 1),
    ):
        press_as(page, key, code, modifiers)
        expect(at).to_have_text(f"step {step} of 2")
    typed = "{key: ']', code: 'Digit9', modifierAltGraph: true, bubbles: true}"
    page.evaluate(f"document.body.dispatchEvent(new KeyboardEvent('keydown', {typed}))")
    expect(at).to_have_text("step 2 of 2")
    press_as(page, "?", "Minus", 8)
    expect(page.locator("[data-keysheet]")).to_contain_text("next write, ask or error")
    page.keyboard.press("Escape")
    page.locator("[data-note]").fill("")
    page.keyboard.press("Escape")


def test_blind_verdict_by_keys_opens_the_outcome(house, person, played):
    queue = make_queue(house, person)
    page = person(house.link("rolf", "reviewer", PROJECT))
    leaks_nothing(house, page, played, [queue])  # who reads the lists before the claim learns nothing either
    page.goto(queue)
    press(page, "Enter")
    expect(page.locator(".chip.priv")).to_have_text("BLIND")
    review = page.url.partition("?")[0]  # the script adds the step that it shows
    keys_of_any_layout(page)
    press(page, "2")
    expect(page.locator("[data-said-list]")).to_contain_text("step_quality: wrong_argument")
    press(page, "z")
    expect(page.locator("[data-said-list]")).to_have_count(0)
    press(page, "w")
    arguments = page.get_by_label("Arguments, JSON")
    expect(arguments).to_have_value(json.dumps(ARGUMENTS, indent=2))
    arguments.fill('{"id": "seven"}')
    expect(page.locator("[data-diff] .ad")).to_contain_text('id "seven"')
    page.get_by_role("button", name="Save correction").click()
    expect(page.locator(".problem")).to_contain_text("update: id")
    for seen in (arguments, page.locator(".problem")):
        expect(seen).to_be_in_viewport(ratio=0.5)
    expect(arguments).to_have_value('{"id": "seven"}')
    arguments.fill('{"id": 7}')
    page.get_by_role("button", name="Save correction").click()
    expect(page.locator("[data-said-list]")).to_contain_text("unverified")
    leaks_nothing(house, page, played, [queue, review])
    mention_is_read_and_answered(house, page, person, review)
    press(page, "a")
    press(page, "Control+Shift+Enter")
    beside = page.locator("section[aria-labelledby='h-revealed']")
    expect(beside).to_contain_text("Not complete")
    expect(page.locator("[data-said-list]")).to_contain_text("canary-answer")
    page.get_by_role("button", name="The verifier is wrong").click()
    expect(page.locator("h1")).to_contain_text("of 1 review")
    page.goto(f"{house.url}/reviews/court/")
    expect(page.locator("h1")).to_have_text("1 task waits for a ruling.")


PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
OUT = "all => all.filter((one) => one.scrollWidth > one.clientWidth).length"
BEHIND = """() => {
  const all = document.querySelectorAll("main :is(a[href], button, input, select, textarea, summary)");
  return [...all].filter((one) => one.checkVisibility() && !one.matches(".vh, .vh *")).filter((one) => {
    const place = one.closest("label") || one;
    place.scrollIntoView({ block: "nearest", behavior: "instant" });
    const { x, top, bottom, width } = place.getBoundingClientRect();
    return ![top + 3, bottom - 3].every((y) => place.contains(document.elementFromPoint(x + width / 2, y)));
  }).map((one) => one.outerHTML);
}"""


def test_phone_gives_verdict_type_and_label_by_taps(house, person):
    project = "reviewing-phone"
    house.manage("createproject", project)
    for number in range(2):
        play(house, project, number)
    queue = make_queue(house, person, project, "2 episodes")
    page = person(house.link("rolf", "reviewer", project), **PHONE)
    page.goto(queue)
    expect(page.get_by_role("button", name="Leave queue").first).to_be_in_viewport(ratio=1)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.get_by_role("button", name="Review next").tap()
    following = page.get_by_role("button", name="Give and next")
    expect(following).to_be_visible()  # the script is there
    first = page.locator("main").get_attribute("data-review")
    for early in ("[data-act-target=accept]", "[data-act-target=reject]"):
        expect(page.locator(early)).to_be_in_viewport()  # the verdict comes before the steps
    assert page.evaluate(BEHIND) == []  # what is scrolled to is never behind the bars

    def ends_above_the_bars():
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        ends = [page.locator(one).bounding_box() for one in ("#verdict", ".actions", "nav[aria-label=Main]")]
        return all(above["y"] + above["height"] <= below["y"] + 1 for above, below in pairwise(ends))

    until(ends_above_the_bars, 20)  # the step to begin with may come into view meanwhile
    page.locator("a.seq", has_text="2").first.tap()
    page.locator("#step-2 [data-names]").first.tap()
    expect(page.locator("[data-place-title]")).to_have_text("Label selection")
    place, bar = (page.locator(one).bounding_box() for one in ("[data-place-bar]", ".actions"))
    assert place["y"] + place["height"] <= bar["y"]
    page.get_by_role("button", name="Wrong argument").tap()
    expect(page.locator("[data-said-list]")).to_contain_text("step_quality: wrong_argument")
    for word in ("Reject", "Missed step"):
        page.locator("#verdict label", has_text=word).tap()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    following.tap()
    expect(page.locator(f"main[data-review='{first}']")).to_have_count(0)
    page.goto(f"{house.url}/episodes/?verdict=reject&label_value=step_quality:wrong_argument")
    expect(page.locator("tr[data-key]")).to_have_count(1)


def test_three_keys_give_a_decision_and_the_next_review(house, person):
    """Failure type, label, verdict: each by one key, and the next review without a page load."""
    house.manage("createproject", "deciding")
    for number in range(3):
        play(house, "deciding", number)
    queue = make_queue(house, person, "deciding", "3 episodes")
    page = person(house.link("rolf", "reviewer", "deciding"))
    page.goto(queue)
    press(page, "Enter")
    expect(page.locator("[data-verdict-next]")).to_be_visible()
    first = page.url.partition("?")[0]
    page.evaluate("document.body.kept = true")
    for seen in ("[data-act-target=reject]", "[data-failure='6']", ".actions [data-act=complete]"):
        expect(page.locator(seen)).to_be_in_viewport()  # above the fold
    expect(page.locator("main").get_by_text("Shut ticket 7.")).to_have_count(1)  # the task, once
    press(page, "x")
    page.keyboard.press("2")
    expect(page.get_by_role("radio", name="Reject")).to_be_checked()
    expect(page.get_by_role("radio", name="Wrong argument")).to_be_checked()
    press(page, "1")
    expect(page.locator("[data-said-list]")).to_contain_text("step_quality: good_step")
    expect(page.locator("[data-label-key='1']")).to_have_attribute("aria-pressed", "true")
    press(page, "j")
    expect(page.locator("[data-label-key='1']")).to_have_attribute("aria-pressed", "false")
    expect(page.get_by_role("radio", name="Reject")).to_be_checked()  # a label leaves the verdict in the making
    page.keyboard.press("Control+Enter")
    expect(page.locator("[data-said]")).to_contain_text("Verdict given. The verifier agrees.")
    assert page.url.partition("?")[0] != first and page.evaluate("document.body.kept")
    expect(page.locator(".rail a", has_text="Given")).to_have_count(1)
    expect(page.locator(".rail a[aria-current]")).to_contain_text("Claimed")
    press(page, "a")
    page.keyboard.press("Control+Enter")
    shown = page.locator("[data-revealed]")
    expect(shown).to_contain_text("Your verdict differs from the verifier")
    expect(page.locator("[data-said]")).to_be_hidden()  # it said of the review before that the verifier agrees
    for seen in ("[data-revealed] h2", "[data-reason='3']", "[data-change] summary"):  # without scrolling
        expect(page.locator(seen)).to_be_in_viewport()
    decides_with_the_focus_in_it_alone(page)
    press(page, "e")
    page.keyboard.press("x")
    page.keyboard.press("3")
    page.keyboard.press("Control+Shift+Enter")
    expect(shown.locator("h2")).to_have_text("Your verdict agrees with the verifier.")
    expect(shown).to_contain_text("Reject Missed step first Accept")
    press(page, "e")
    page.keyboard.press("a")
    page.keyboard.press("Control+Shift+Enter")
    expect(page.locator("[data-reason='2'] kbd")).to_be_visible()
    expect(page.locator("[data-keyline]")).to_contain_text("next review")
    page.route("**/go-on", lambda route: (page.keyboard.press("x"), route.continue_()))  # pressed while it loads
    page.keyboard.press("2")
    expect(page.locator("[data-said]")).to_contain_text("You answered: I was wrong.")
    # neither the digit of the reason nor what was pressed meanwhile is for the next review
    expect(page.locator("[data-label-key='2']")).to_have_attribute("aria-pressed", "false")
    expect(page.get_by_role("radio", name="Reject")).not_to_be_checked()
    assert page.evaluate("document.body.kept")
    page.reload()
    expect(page.locator("[data-label-key='2']")).to_have_attribute("aria-pressed", "false")
    press(page, "x")
    expect(page.get_by_role("radio", name="Reject")).to_be_checked()
    page.evaluate("document.body.kept = true")
    rail, opener = page.locator(".rail"), page.get_by_text("Your reviews", exact=True)
    for width in (1024, 853, 390):  # at most 1,180 px it is behind a button; 853 px is 1,280 px at 150 %
        page.set_viewport_size({"width": width, "height": 664})
        expect(rail).to_be_hidden()
        assert page.eval_on_selector_all(".pick label", OUT) == 0
        opener.click()
        expect(rail).to_contain_text("given")
        expect(rail.locator("a[aria-current]")).to_be_in_viewport()
        expect(page.get_by_role("button", name="Give and next")).to_be_in_viewport()
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, width
        opener.click()
    page.set_viewport_size({"width": 1024, "height": 664})
    verdict_that_arrived_unseen_is_shown(page)
    opener.click()
    rail.get_by_role("link", name=re.compile("Given|Accept|Reject")).last.click()
    expect(page.locator("[data-revealed]")).to_be_visible()
    page.go_back()
    page.set_viewport_size({"width": 1440, "height": 900})
    page.go_back()
    expect(shown).to_contain_text("You answered: I was wrong.")


def decides_with_the_focus_in_it_alone(page):
    """Keys that are meant for the next review give no reason: the first that means nothing here leaves the panel."""
    reason, main = page.locator("[data-reason='3'] kbd"), page.locator("main")
    expect(page.locator("[data-revealed]")).to_be_focused()
    expect(reason).to_be_visible()
    for key in ("x", "3", "1"):
        page.keyboard.press(key)
        expect(main).to_be_focused()
    expect(reason).to_be_hidden()
    expect(page.locator("[data-said-list]")).to_have_count(0)
    for key in ("n", "Escape"):
        page.keyboard.press(key)
    page.keyboard.press("2")
    expect(page.locator("[data-reasons]")).to_be_visible()
    for key in ("g", "v"):
        page.keyboard.press(key)
    expect(page.locator("[data-revealed]")).to_be_focused()
    expect(reason).to_be_visible()


def verdict_that_arrived_unseen_is_shown(page):
    """A page that was loaded again in the middle of a verdict still has its form; the next key shows the verdict."""
    form = page.locator("#verdict")
    fields = form.evaluate("form => Object.fromEntries(new FormData(form))")
    address = page.url.partition("?")[0] + "verdict"
    assert page.request.post(address, form={**fields, "decision": "accept", "nonce": "lost"}).ok
    press(page, "a")
    page.keyboard.press("Control+Enter")
    expect(page.locator("[data-revealed]")).to_contain_text("Accept")
    expect(page.locator("[data-problem]")).to_be_hidden()


def mention_is_read_and_answered(house, page, person, review):
    """A comment by keys reaches whom it names; what they answer stays closed to the blind reviewer."""
    page.goto(f"{review}?step=2")
    press(page, "n")
    note, listed = page.locator("[data-note]"), page.get_by_role("listbox", name="Members")
    page.keyboard.type("Ask @mi")
    expect(listed.get_by_role("option", selected=True)).to_have_text("@mila")
    page.keyboard.press("Escape")  # closes the list; the field keeps the focus
    expect(listed).to_have_count(0)
    expect(note).to_be_focused()
    page.keyboard.press("Control+a")
    page.keyboard.type("@")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowDown")
    page.keyboard.type("mil")
    page.keyboard.press("Enter")
    page.keyboard.type("and @milla")
    page.keyboard.press("Control+Enter")
    expect(page.locator("[data-problem]")).to_have_text(re.compile("No member is named @milla"))
    expect(note).to_have_value("@mila and @milla")
    expect(page.locator("[data-said-list]")).not_to_contain_text("@milla")
    page.keyboard.type(" is 7 right?")
    said = page.locator("[data-said-list]", has_text="@mila and @milla is 7 right?")
    with page.expect_response("**/label"):
        page.keyboard.press("Control+Enter")
    for _ in range(20):  # the second time it is meant as text; while the first is being read, a press does nothing
        page.keyboard.press("Control+Enter")
        with contextlib.suppress(TimeoutError):
            said.wait_for(timeout=3_000)
            break
    expect(said).to_be_visible()
    named = person(house.link("mila", "admin", PROJECT))
    named.goto(f"{house.url}/reviews/")
    named.get_by_role("link", name="Mentions 1").click()
    named.get_by_role("link", name="rolf").click()
    expect(named.locator("h1")).to_have_text("rolf commented on step 2.")
    expect(named.locator(".scrub a.lab")).to_have_attribute("data-seq", "2")
    named.get_by_label("Your comment").fill("@rolf, yes: canary-answer.")
    named.get_by_role("button", name="Comment").click()
    expect(named.get_by_role("region", name="Comments").locator("article")).to_have_count(2)
    page.goto(review)
    expect(page.locator("[data-said-list]")).not_to_contain_text("canary-answer")


def leaks_nothing(house, page, episode, more):
    """Every page of the blind session, as the browser shows it and as the API answers it, without the outcome."""
    paths = ["/", "/episodes/", f"/episodes/{episode}/", f"/episodes/{episode}/replay/", "/metrics/", "/queue/"]
    paths += ["/reviews/", "/reviews/court/", "/reviews/agreement/"]
    for address in [*(house.url + path for path in paths), *more]:
        page.goto(address)
        page.evaluate("for (const one of document.querySelectorAll('main option')) one.remove()")
        said = page.locator("main").evaluate("one => one.outerHTML")
        assert [word for word in TELLS if word in re.sub(r"(?s)<script.*?</script>", "", said)] == [], address
    for path in ("/api/v1/episodes", f"/api/v1/episodes/{episode}/steps", "/api/v1/episodes?outcome=others"):
        answer = page.request.get(house.url + path)
        assert answer.ok and not any(f'"{word}"' in answer.text() for word in ("others", "zebra-detail")), path
