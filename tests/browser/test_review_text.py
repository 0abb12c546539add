"""What a reviewer typed is never lost: not by another form, a key, a slow server, another step or a reload."""

from __future__ import annotations

import re
import zlib

import pytest
from playwright.sync_api import expect

from tests.browser.test_reviewing import TOOL, press
from tests.running import until

pytestmark = pytest.mark.browser

PROJECT = "review-text"
QUEUED = """
from awmclient.schema import Outcome
from episodes.record import ending, recording
from episodes.models import Episode
from people.access import person, system
from people.models import Membership
from reviews.record import assigning, schemas
rows = Episode.objects.filter(project__slug={project!r})
for one in rows:
    found = Outcome(reward_type="others", reward=0.0, details={{}}, source="verifier")
    ending.record_outcome(system(one.project), one.pk, found)
mila = person(Membership.objects.get(user__username="mila", project__slug={project!r}))
schemas.define(mila, "quality", "Quality", "single", ["Good", "Wrong argument"])
queue = assigning.create_queue(mila, "Typing", rubric=["Right ticket", "Polite"])
assigning.fill(mila, queue.pk, rows)
print(queue.pk)
"""


@pytest.fixture(scope="module")
def queue(house):
    """The address of a queue with enough episodes of five steps for every test here."""
    house.manage("createproject", PROJECT)
    house.link("mila", "admin", PROJECT)
    with house.http(house.token("agent", PROJECT)) as loop:
        for number in range(10):
            start = {"key": str(number), "task": "Shut ticket 7.", "scenario": "typing_1", "task_idx": number}
            episode = loop.post("/episodes", json={**start, "tools": [TOOL]}).json()["id"]
            steps = [
                {"seq": seq, "kind": "tool_call", "name": "update", "arguments": {"id": 10 + seq}, "result": "ok"}
                for seq in range(1, 6)
            ]
            for path, body in (("steps", {"steps": steps}), ("finish", {"stop_reason": "done"})):
                assert loop.post(f"/episodes/{episode}/{path}", json=body).is_success
    return f"{house.url}/reviews/queues/{house.manage('shell', '-c', QUEUED.format(project=PROJECT)).split()[-1]}/"


@pytest.fixture
def page(house, person, queue, request):
    """A review that a person of this test alone has claimed, at step 1, with its script running."""
    one = person(house.link(f"r{zlib.crc32(request.node.name.encode())}", "reviewer", PROJECT))
    one.goto(queue)
    press(one, "Enter")
    expect(one.locator("[data-verdict-next]")).to_be_visible()
    return one


def judge(page):
    """Fill the whole form of the verdict without giving it."""
    page.get_by_role("checkbox", name="Right ticket").check()
    page.get_by_role("radio", name="Missed step").check()
    page.get_by_label("Confidence").select_option("low")
    page.locator("#verdict").get_by_label("Note", exact=True).fill("Shut the wrong one.")


def is_judged(page):
    expect(page.get_by_role("checkbox", name="Right ticket")).to_be_checked()
    expect(page.get_by_role("checkbox", name="Polite")).not_to_be_checked()
    expect(page.get_by_role("radio", name="Reject")).to_be_checked()
    expect(page.get_by_role("radio", name="Missed step")).to_be_checked()
    expect(page.get_by_label("Confidence")).to_have_value("low")
    expect(page.locator("#verdict").get_by_label("Note", exact=True)).to_have_value("Shut the wrong one.")


def comment(page):
    return page.get_by_label(re.compile("^Comment on"))


def test_correction_is_saved_beside_a_verdict_in_the_making(page):
    judge(page)
    comment(page).fill("Half a thought")
    press(page, "Escape")
    page.locator("h1").click()
    page.keyboard.press("w")
    arguments = page.get_by_label("Arguments, JSON")
    expect(arguments).to_have_value(re.compile('"id": 11'))
    arguments.fill('{"id": "seven"}')
    page.get_by_role("button", name="Save correction").click()
    expect(page.locator(".problem")).to_contain_text("update: id")
    expect(arguments).to_have_value('{"id": "seven"}')
    arguments.fill('{"id": 7}')
    page.get_by_role("button", name="Save correction").click()
    expect(page.locator("[data-said-list]")).to_contain_text("unverified")
    expect(page.locator(".problem")).to_be_hidden()
    is_judged(page)
    expect(comment(page)).to_have_value("Half a thought")
    page.locator("h1").click()
    page.keyboard.press("w")
    expect(arguments).to_have_value(re.compile('"id": 11'))
    page.get_by_role("button", name="Withdraw correction").click()
    expect(page.locator("[data-said-list]")).to_have_count(0)
    is_judged(page)


def test_text_typed_while_a_comment_is_saved_stays(page):
    held = []
    page.route("**/label", lambda route: held.append(route))
    comment(page).fill("First\nthought")
    button = page.get_by_role("button", name="Comment", exact=True)
    with page.expect_request("**/label"):
        button.click()
    button.click()  # the same again is one comment
    comment(page).fill("Second thought")
    held[0].continue_()
    expect(page.locator("[data-said-list] li")).to_have_count(1)
    expect(comment(page)).to_have_value("Second thought")
    page.unroute("**/label")
    button.click()
    expect(page.locator("[data-said-list] li")).to_have_count(2)
    expect(comment(page)).to_have_value("")


@pytest.mark.parametrize("keys", ["Control+Shift+Enter", "Control+Enter"])
def test_key_in_a_comment_saves_it_and_gives_no_verdict(page, keys):
    judge(page)
    comment(page).press_sequentially("Why 11?")
    comment(page).press(keys)
    expect(page.locator("[data-said-list]")).to_contain_text("Why 11?")
    expect(comment(page)).to_have_value("")
    is_judged(page)


def test_verdict_saves_typed_text_first_or_waits(page):
    judge(page)
    comment(page).fill("Keep me")
    page.locator("h1").click()
    page.keyboard.press("w")
    arguments = page.get_by_label("Arguments, JSON")
    expect(arguments).to_have_value(re.compile('"id": 11'))
    arguments.fill("no JSON")
    for name in ("Give and next", "Give verdict"):
        page.get_by_role("button", name=name).click()
        # the words may be those of the click before, and a click while this one is on its way does nothing
        expect(page.locator("body")).not_to_have_attribute("aria-busy", "true")
        expect(page.locator(".problem")).to_contain_text("Not sent, because your text in another form is not saved.")
        expect(arguments).to_have_value("no JSON")
    is_judged(page)
    arguments.fill('{"id": 7}')
    page.get_by_role("button", name="Give verdict").click()
    expect(page.locator("section[aria-labelledby='h-revealed']")).to_contain_text("Reject")
    expect(page.locator("[data-said-list]")).to_contain_text("Keep me")
    expect(page.locator("[data-said-list]")).to_contain_text("unverified")


def test_correction_stays_on_the_step_it_was_begun_on(page):
    for _ in range(3):
        press(page, "ArrowRight")
    expect(page.locator("[data-where]")).to_have_text("step 4 of 5")
    page.keyboard.press("w")
    arguments = page.get_by_label("Arguments, JSON")
    expect(arguments).to_have_value(re.compile('"id": 14'))
    arguments.fill('{"id": 7}')
    page.locator("h1").click()
    page.keyboard.press("ArrowRight")
    expect(page.locator("[data-where]")).to_have_text("step 5 of 5")
    form = page.locator("[data-correct-form]")
    expect(form).to_contain_text("Correction of step 4")
    expect(form).to_contain_text("Step 5 is in view.")
    expect(page.locator("[data-diff] .rm")).to_contain_text("id 14")
    page.get_by_role("button", name="Save correction").click()
    expect(page.locator("[data-said-list] .seq")).to_have_text("4")
    page.locator("h1").click()
    page.keyboard.press("w")
    expect(form).to_contain_text("Correction of step 5")
    expect(arguments).to_have_value(re.compile('"id": 15'))
    arguments.fill("{}")
    page.get_by_role("button", name="Discard correction").click()
    expect(arguments).to_be_hidden()


TAKEN = """
from reviews.models import ReviewSlot
ReviewSlot.objects.filter(review={pk!r}).update(holder="user:0", holder_name="Other", lease_token="other")
"""


def correct(page, text):
    page.locator("h1").click()
    page.keyboard.press("w")
    arguments = page.get_by_label("Arguments, JSON")
    expect(arguments).to_have_value(re.compile(r'"id": 1\d'))
    arguments.fill(text)
    return arguments


def test_reload_brings_back_all_that_was_typed(page):
    judge(page)
    comment(page).fill("Half a\nthought")
    arguments = correct(page, '{"id": 7}')
    page.locator("h1").click()
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile(r"step=2"))
    page.reload()
    is_judged(page)
    expect(comment(page)).to_have_value("Half a\nthought")
    expect(arguments).to_have_value('{"id": 7}')
    expect(page.locator("[data-correct-form]")).to_contain_text("Correction of step 1")
    expect(page.locator("[data-diff] .rm")).to_contain_text("id 11")
    expect(page.locator("[data-kept]")).to_be_hidden()
    page.get_by_role("button", name="Give verdict").click()
    expect(page.locator("section[aria-labelledby='h-revealed']")).to_contain_text("Reject")
    expect(page.locator("[data-said-list]")).to_contain_text("Half a thought")
    kept = "Object.keys(localStorage).some((key) => key.startsWith('awmweb-draft-review'))"
    until(lambda: not page.evaluate(kept), 60)


def test_given_verdict_leaves_no_text_on_the_device(page):
    page.get_by_role("radio", name="Accept").check()
    page.locator("#verdict").get_by_label("Note", exact=True).fill("Fine.")
    first = page.locator("main").get_attribute("data-review")
    kept = f"Object.keys(localStorage).filter((key) => key.includes('{first}'))"
    assert len(page.evaluate(kept)) == 1
    page.get_by_role("button", name="Give and next").click()
    expect(page.locator("section[aria-labelledby='h-revealed']")).to_contain_text("Your verdict differs")
    assert page.evaluate(kept) == []


def test_text_of_a_review_that_was_taken_over_is_readable(house, page):
    judge(page)
    comment(page).fill("Half a thought")
    house.manage("shell", "-c", TAKEN.format(pk=page.locator("main").get_attribute("data-review")))
    page.reload()
    kept = page.get_by_role("textbox", name="Typed on this device, not sent")
    for words in ("Half a thought", "Failure type: missed_step", "Rubric, met: Right ticket", "Shut the wrong one."):
        expect(kept).to_have_value(re.compile(words))
    page.reload()
    expect(kept).to_have_value(re.compile("Half a thought"))
    page.get_by_role("button", name="Discard text").click()
    expect(kept).to_be_hidden()
    page.reload()
    expect(page.locator(".hatch").first).to_contain_text("You have not claimed this review.")
    expect(kept).to_be_hidden()
