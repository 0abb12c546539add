"""An answer that is interrupted: by its deadline, its agent, another tab or a lost response. What a page says is so,
and nothing is recorded that was not meant."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.running import until

pytestmark = pytest.mark.browser

DOCKS = [{"id": name[0].lower(), "label": f"Dock {name}"} for name in ("North", "South", "East")]
CHOICE = {"kind": "choice", "options": DOCKS}
CALL = {"id": "1", "name": "create_refund", "arguments": {"order": 7, "amount": 249.0}}
APPROVAL = {"kind": "approval", "calls": [CALL], "on_timeout": "reject"}
PICKUP = {
    "type": "object", "required": ["contact"],
    "properties": {
        "contact": {"type": "string"}, "day": {"type": "string", "format": "date"},
        "ready": {"type": "string", "format": "date-time"}, "gate": {"type": "string", "format": "time"},
    },
}  # fmt: skip
TAGS = """
from reviews.models import Annotation
print("ROWS", [(one.label, one.text) for one in Annotation.objects.filter(ask_id={pk!r}).order_by("created_at")])
"""

DRAFTS = """
from experts.models import Draft
print("ROWS", [one.decision for one in Draft.objects.filter(ask_id={pk!r})])
"""


@pytest.fixture(scope="module")
def house(desk):
    return desk.with_project("interrupted")


@pytest.fixture
def ask(house, request):
    """Open an ask of an episode of its own; returns its ID and how its agent looks at it and withdraws it."""
    count = iter(range(100))
    with house.http(house.token("agent")) as loop:

        def opens(question, deadline_s=3000, **typed):
            plan = {"key": f"{request.node.name} {next(count)}", "task": "Ship order 7", "expert": "plain"}
            episode = loop.post("/episodes", json=plan).json()["id"]
            body = {"key": "q", "episode": episode, "seq": 1, "question": question, "deadline_s": deadline_s, **typed}
            pk = loop.post("/asks", json=body).raise_for_status().json()["id"]
            return (
                pk,
                lambda: loop.get(f"/asks/{pk}").json(),
                lambda: loop.post(f"/asks/{pk}/cancel").raise_for_status(),
            )

        yield opens


def claimed(page, house, pk):
    page.goto(f"{house.url}/asks/{pk}/")
    page.keyboard.press("c")
    expect(page.locator("form[data-answer]")).to_be_visible()
    awake(page)
    return page


def awake(page):
    expect(page.locator("[data-keyline] kbd").first).to_be_visible()


def offered(page):
    expect(page.locator("form[data-unsent] kbd").first).to_be_visible()


def annotations(house, pk):
    return _rows(house, TAGS, pk)


def drafts(house, pk):
    return _rows(house, DRAFTS, pk)


def _rows(house, script, pk):
    return house.manage("shell", "-c", script.format(pk=pk)).partition("ROWS")[2].strip()


def saved(page):
    expect(page.locator("[data-saved]")).to_contain_text("saved")


def test_words_typed_past_the_deadline_set_no_tag(house, ask, person):
    pk, look, _ = ask("By when?", deadline_s=15)
    page = claimed(person(house.link("edo", "expert")), house, pk)
    page.keyboard.type("On Nov 30")
    expect(page.locator("[data-ended]")).to_be_focused()
    page.keyboard.type(" or 1 2 3 days later")
    expect(page.locator("[data-act=tag-late]")).to_be_disabled()
    assert page.locator("[data-cap^=tag-] kbd").count() == 0
    until(lambda: look()["status"] == "fell_back", 60)
    assert annotations(house, pk) == "[]"
    page.wait_for_timeout(800)
    page.keyboard.press("y")
    expect(page.locator("#answer")).to_contain_text("too late; saved as an annotation")
    assert annotations(house, pk) == "[('late_advice', 'On Nov 30')]"


def test_nothing_is_offered_where_nothing_was_decided(house, ask, person):
    page = person(house.link("edo", "expert"))
    for question, typed in (("May I?", APPROVAL), ("Which dock?", CHOICE)):
        pk, _, cancel = ask(question, **typed)
        claimed(page, house, pk)
        cancel()
        expect(page.locator("#answer")).to_contain_text("The agent withdrew its question.")
        expect(page.get_by_role("button", name="Save")).to_have_count(0)


def test_unsent_decision_is_shown_and_saved_in_words(house, ask, person):
    pk, _, cancel = ask("May I?", **APPROVAL)
    page = claimed(person(house.link("edo", "expert")), house, pk)
    page.keyboard.press("e")
    page.locator("[data-argument=amount]").fill("12.5")
    saved(page)
    page.goto(f"{house.url}/queue/")
    cancel()
    saving = []
    page.route("**/draft", lambda route: saving.append(route), times=1)
    with page.expect_request("**/draft"):
        page.goto(f"{house.url}/asks/{pk}/")
    unsent = page.locator("form[data-unsent]")
    expect(unsent).to_contain_text("Edited create_refund(order: 7, amount: 12.5)")
    awake(page)
    page.keyboard.press("y")  # what this device has is on its way, and the page is shown again with it
    expect(unsent.locator("kbd").first).to_be_hidden()
    page.wait_for_timeout(500)
    assert annotations(house, pk) == "[]" and unsent.evaluate("form => form.inert")
    saving.pop().continue_()
    offered(page)
    page.keyboard.press("y")
    expect(page.locator("#answer")).to_contain_text("saved as an annotation")
    assert annotations(house, pk) == "[('late_advice', 'Edited create_refund(order: 7, amount: 12.5)')]"


def test_unsent_text_is_offered_though_the_device_reaches_no_one(house, ask, person):
    pk, _, cancel = ask("By when?")
    page = claimed(person(house.link("edo", "expert")), house, pk)
    page.keyboard.type("On Nov 30")
    saved(page)
    page.goto(f"{house.url}/queue/")
    cancel()
    page.route("**/draft", lambda _: None)  # no response ever comes
    page.goto(f"{house.url}/asks/{pk}/")
    offered(page)
    page.keyboard.press("y")
    expect(page.locator("#answer")).to_contain_text("saved as an annotation")
    assert annotations(house, pk) == "[('late_advice', 'On Nov 30')]"


def test_no_decision_of_two_devices_is_lost(house, ask, person):
    pk, _, cancel = ask("Which dock?", **CHOICE)
    phone = claimed(person(house.link("edo", "expert")), house, pk)
    phone.keyboard.press("1")
    saved(phone)
    phone.goto(f"{house.url}/queue/")
    laptop = person(house.link("edo", "expert"))
    laptop.goto(f"{house.url}/asks/{pk}/")
    awake(laptop)
    laptop.keyboard.press("2")
    saved(laptop)
    until(lambda: drafts(house, pk) == "[{'chosen': ['s']}]", 10)
    laptop.goto(f"{house.url}/queue/")
    cancel()
    phone.goto(f"{house.url}/asks/{pk}/")
    unsent = phone.locator("form[data-unsent]")
    expect(unsent).to_contain_text("Chosen: Dock North")
    expect(unsent).to_contain_text("Chosen: Dock South")
    offered(phone)
    phone.keyboard.press("y")
    expect(phone.locator("#answer")).to_contain_text("saved as an annotation")
    words = "Another draft:\nChosen: Dock North\nChosen: Dock South"
    assert annotations(house, pk) == str([("late_advice", words)])


def test_other_tab_shows_what_it_decided(house, ask, person):
    pk, look, _ = ask("Which dock?", **CHOICE)
    first = claimed(person(house.link("edo", "expert")), house, pk)
    second = first.context.new_page()
    second.goto(f"{house.url}/asks/{pk}/")
    awake(second)
    first.keyboard.press("1")
    saved(first)
    second.keyboard.press("2")
    other = second.locator("[data-other]")
    expect(other).to_contain_text("Dock North")
    expect(other.get_by_role("button", name="Keep both")).to_be_hidden()
    other.get_by_role("button", name="Use the other").click()
    expect(second.get_by_role("radio", name="Dock North")).to_be_checked()
    second.keyboard.press("3")
    expect(second.locator("#advice")).to_have_value("")
    expect(second.get_by_role("radio", name="Dock East")).to_be_checked()
    second.keyboard.press("Control+Shift+Enter")
    expect(second.locator("#answer")).to_contain_text("You answered")
    expect(first.locator("[data-ended]")).to_contain_text(
        "You answered this ask already. What is here now was not sent."
    )
    assert look()["advice"]["decision"] == {"chosen": ["e"]}


def test_answer_whose_response_was_lost_is_shown_as_sent(house, ask, person):
    def lose(route):
        route.fetch(max_retries=3)  # a kept connection can close as it is used; the same press again is one answer
        route.abort()

    for typed, press, words in (({}, "To Ann.", "To Ann."), (APPROVAL, "a", "Approved")):
        pk, _, _ = ask("To whom?", **typed)
        page = claimed(person(house.link("edo", "expert")), house, pk)
        page.keyboard.type(press)
        saved(page)
        page.route("**/answer", lose, times=1)
        page.keyboard.press("Control+Shift+Enter")
        expect(page.locator("#answer")).to_contain_text("You answered in")
        expect(page.locator("#answer")).to_contain_text(words)
        # what this device kept of it was sent. The page itself loads again by then, so a reload would meet that
        again = page.context.new_page()
        again.goto(f"{house.url}/asks/{pk}/")
        expect(again.locator("#answer")).to_contain_text("You answered in")
        awake(again)
        again.wait_for_function("!Object.keys(localStorage).some((key) => key.startsWith('awmweb-draft-'))")
        expect(again.locator("form[data-unsent]")).to_have_count(0)


def test_part_of_a_date_is_refused_at_its_field(house, ask, person):
    pk, look, _ = ask("When do they come?", kind="form", response_schema=PICKUP)
    page = claimed(person(house.link("edo", "expert"), locale="en-US", timezone_id="UTC"), house, pk)
    page.keyboard.type("Ada")
    page.get_by_label("day").focus()
    page.keyboard.type("1203")
    page.keyboard.press("Control+Shift+Enter")
    expect(page.locator("[data-wrong]:visible")).to_have_text(["day is not complete"])
    expect(page.locator("[data-problem]")).to_have_text("day is not complete.")
    expect(page.get_by_label("day")).to_be_focused()
    assert look()["status"] == "open"
    page.get_by_label("day").fill("2026-12-03")
    for name, words in (("ready", "12032026\t0830AM"), ("gate", "0600PM")):
        page.get_by_label(name).focus()
        for part in words.split("\t"):
            page.keyboard.type(part)
            page.keyboard.press("Tab")
    page.keyboard.press("Control+Shift+Enter")
    expect(page.locator("#answer .decided")).to_be_visible()
    value = {"contact": "Ada", "day": "2026-12-03", "ready": "2026-12-03T08:30:00Z", "gate": "18:00"}
    assert look()["advice"]["decision"]["value"] == value


def test_half_a_form_is_saved_in_words(house, ask, person):
    pk, _, cancel = ask("When do they come?", kind="form", response_schema=PICKUP)
    page = claimed(person(house.link("edo", "expert")), house, pk)
    page.get_by_label("day").fill("2026-12-03")
    saved(page)
    cancel()
    expect(page.locator("[data-ended]")).to_be_focused()
    page.wait_for_timeout(800)
    page.keyboard.press("y")
    expect(page.locator("#answer")).to_contain_text("saved as an annotation")
    assert annotations(house, pk) == "[('late_advice', 'day: 2026-12-03')]"
    page.reload()
    awake(page)
    page.wait_for_load_state("networkidle")
    expect(page.locator("form[data-unsent]")).to_have_count(0)
    assert drafts(house, pk) == "[]"


def test_half_a_form_stays_until_the_server_has_it(house, ask, person):
    pk, _, cancel = ask("When do they come?", kind="form", response_schema=PICKUP)
    page = claimed(person(house.link("edo", "expert")), house, pk)
    page.get_by_label("day").fill("2026-12-03")
    saved(page)
    page.route("**/draft", lambda route: route.abort())
    page.get_by_label("day").fill("2026-12-04")
    cancel()
    expect(page.locator("[data-ended]")).to_be_focused()
    page.wait_for_timeout(800)
    page.keyboard.press("y")
    expect(page.locator("[data-problem]")).to_have_text("Not saved yet. Your text is still here. Try again.")
    assert annotations(house, pk) == "[]"
    page.unroute("**/draft")
    page.wait_for_timeout(800)
    page.locator("[data-ended]").focus()
    page.keyboard.press("y")
    expect(page.locator("#answer")).to_contain_text("saved as an annotation")
    assert annotations(house, pk) == "[('late_advice', 'day: 2026-12-04')]"


def test_release_without_words_promises_no_text(house, ask, person):
    pk, _, _ = ask("Not mine?")
    page = claimed(person(house.link("edo", "expert")), house, pk)
    page.keyboard.type("  ")
    for key in ("Escape", "r"):
        page.keyboard.press(key)
    expect(page.locator(".told")).to_contain_text("Released.")
    expect(page.locator(".told")).not_to_contain_text("saved")
