"""An approval, a choice and a form, decided by keyboard alone; a reload in the middle; a phone."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect

from tests.awmclient.openai_server import OpenAIServer, answering
from tests.running import product

REFUND = {
    "type": "object", "required": ["order_id", "amount"],
    "properties": {
        "order_id": {"type": "integer"}, "amount": {"type": "number", "minimum": 0.01, "maximum": 249},
        "reason": {"enum": ["duplicate", "goodwill", "return"]},
    },
}  # fmt: skip
BIG = {"order_id": 9007199254740993, "amount": 249.0, "reason": "duplicate"}
REPLY = {"ticket_id": 4127, "body": "The duplicate charge is being refunded.\nThank you."}
CLOSE = {"ticket_id": 4127, "status": "closed"}
CALLS = [
    {"id": "1", "name": "create_refund", "arguments": BIG, "schema": REFUND, "reason": "The customer paid twice."},
    {"id": "2", "name": "send_reply", "arguments": REPLY, "reason": "The task asks to tell the customer."},
    {"id": "3", "name": "update_ticket", "arguments": CLOSE, "reason": "The refund is done, so the ticket is closed."},
]
OPTIONS = [
    {"id": "owner_12", "label": "Dana Liu", "description": "owns workflows 40 and 42, last signed in today"},
    {"id": "owner_31", "label": "Dana Lindqvist"},
    {"id": "both", "label": "Both", "description": "one notification each"},
]
PICKUP = {
    "type": "object", "required": ["contact", "pallets"],
    "properties": {
        "contact": {"type": "string", "minLength": 1}, "pallets": {"type": "integer", "minimum": 1, "maximum": 33},
        "tail_lift": {"enum": ["yes", "no", "not needed"]}, "call_ahead": {"type": "boolean"},
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def desk():
    back = {"return": True, "reason": "Ticket 9 does not exist."}
    model = OpenAIServer(lambda body: json.dumps(back if "Into 9." in body["messages"][-1]["content"] else {}))
    with answering(model):
        looks = {"AWMWEB_EXPERT_BASE_URL": model.base_url, "AWMWEB_EXPERT_MODEL": "wise"}
        # its agents only look at the end
        with product(AWMWEB_DEMO="0", **looks) as running:
            yield running


@pytest.fixture
def ask(desk):
    """Open a typed ask of an episode of its own; returns its ID and how its agent looks at it."""
    http = desk.http(desk.token("agent"))
    count = iter(range(100))

    def open_(question, **typed):
        episode = http.post(
            "/episodes", json={"key": f"{question[:50]}{next(count)}", "task": "Refund", "expert": "plain"}
        ).json()
        body = {"key": "a", "episode": episode["id"], "seq": 1, "question": question, "deadline_s": 3000, **typed}
        made = http.post("/asks", json=body)
        assert made.status_code == 201, made.text
        return made.json()["id"], lambda: http.get(f"/asks/{made.json()['id']}").json(), episode["id"]

    with http:
        yield open_


def claimed(desk, person, ask_id, name):
    page = person(desk.link(name, "expert"))
    page.goto(f"{desk.url}/asks/{ask_id}/")
    page.keyboard.press("c")
    expect(page.locator("form[data-answer]")).to_be_visible()
    return page


def test_calls_are_approved_edited_and_rejected_by_keys(desk, person, ask):
    ask_id, seen, episode = ask("May I make these 3 calls?", kind="approval", calls=CALLS, on_timeout="reject")
    page = claimed(desk, person, ask_id, "mina")
    cards = page.locator(".callcard")
    expect(cards).to_have_count(3)
    for digit in ("3", "1"):
        page.keyboard.press(digit)
        expect(cards.nth(int(digit) - 1)).to_be_focused()
    page.keyboard.press("e")
    amount = cards.nth(0).locator('[data-argument="amount"]')
    expect(cards.nth(0).locator('[data-argument="order_id"]')).to_have_value("9007199254740993")
    amount.fill("250")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Enter")
    expect(page.locator("[data-problem]")).to_contain_text("Call 1: amount must be at most 249")
    expect(amount).to_be_focused()
    amount.fill("124.50")
    expect(cards.nth(0).locator("[data-was]:visible")).to_contain_text("249.0 proposed by the agent")
    page.keyboard.press("Escape")
    page.keyboard.press("a")
    expect(cards.nth(0)).to_have_attribute("data-decided", "edit")  # approved as it was typed
    page.keyboard.press("Control+Enter")
    expect(page.locator("[data-problem]")).to_contain_text("Decide call 2")
    expect(cards.nth(1)).to_be_focused()
    page.keyboard.press("a")
    expect(cards.nth(2)).to_be_focused()
    page.keyboard.press("y")  # the last approved call
    cards.nth(1).locator(".sames input").nth(0).uncheck()  # for any ticket
    page.keyboard.press("3")
    page.keyboard.press("x")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Enter")
    expect(page.locator("[data-problem]")).to_contain_text("Give a reason for rejecting call 3.")
    page.keyboard.type("Leave it open until the refund is paid.")
    expect(page.locator("[data-saved]")).to_contain_text("saved")
    page.reload()
    expect(cards.nth(0).locator('[data-argument="amount"]')).to_have_value("124.50")
    expect(cards.nth(2).locator("textarea.voice")).to_have_value("Leave it open until the refund is paid.")
    page.keyboard.press("Control+Enter")
    page.wait_for_url("**/queue/")
    expect(page.locator(".standing")).to_contain_text("send_reply")
    again, standing, _ = ask(
        "And this one?", kind="approval", calls=[{**CALLS[1], "arguments": {**REPLY, "ticket_id": 1}}]
    )
    assert standing()["advice"]["by"] == "standing"
    page.reload()
    page.locator(".ahead-line summary").click()
    page.get_by_role("button", name="End the standing answer for send_reply").click()
    expect(page.locator("body")).to_contain_text("Ended. It approved 1 call.")
    expect(page.locator(".standing")).to_have_count(0)
    advice = seen()["advice"]
    assert advice["by"] == "person"
    assert advice["decision"]["calls"] == [
        {"id": "1", "verdict": "edit", "arguments": {**BIG, "amount": 124.5}},
        {"id": "2", "verdict": "approve", "arguments": REPLY},
        {"id": "3", "verdict": "reject", "arguments": CLOSE, "reason": "Leave it open until the refund is paid."},
    ]
    page.goto(f"{desk.url}/episodes/{episode}/")
    expect(page.locator(".decided").first).to_contain_text("Edited")
    expect(page.locator(".decided del").first).to_have_text("249.0")
    page.goto(f"{desk.url}/asks/{ask_id}/")
    expect(page.locator("#answer")).to_contain_text("Rejected")
    page.set_viewport_size({"width": 390, "height": 844})
    names = page.locator("#answer .decided .arg > :first-child")
    lines = names.evaluate_all("all => all.map((one) => one.getClientRects().length)")
    assert lines and set(lines) == {1}, "no name of an argument is cut in two"


def test_long_standing_answer_fits_a_phone(desk, person):
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    with desk.http(desk.token("expert")) as other:
        body = {"tool": "send_reply", "arguments": {"body": "x" * 500}, "until": until}
        given = other.post("/standing-answers", json=body).json()["id"]
        page = person(desk.link("lea", "expert"), viewport={"width": 390, "height": 844})
        page.goto(f"{desk.url}/queue/")
        expect(page.locator(".standing")).to_contain_text("x…")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert other.delete(f"/standing-answers/{given}").is_success


def test_equal_calls_are_approved_by_one_press(desk, person, ask):
    calls = [[{**CALLS[1], "arguments": {**REPLY, "ticket_id": number}}] for number in range(3)]
    first, second, third = (ask("Reply?", kind="approval", calls=one, on_timeout="reject") for one in calls)
    refund = ask("Refund?", kind="approval", calls=CALLS[:1], on_timeout="reject")
    page = person(desk.link("lea", "expert"), viewport={"width": 1180, "height": 720})  # no ask beside the list
    page.goto(f"{desk.url}/queue/?kind=approval")
    rows = page.locator(".askrow")
    row = page.locator(f'[data-key="{refund[0]}"]')
    expect(row).to_contain_text("high risk")
    row.locator("input.tick").check()
    expect(page.locator("[data-why-not]")).to_have_text("1 of high risk: approve them one by one.")
    page.set_viewport_size({"width": 1024, "height": 240})
    for key in ("End", "x", "x"):  # the last row is the refund's
        page.keyboard.press(key)
    bottom = "one => one.getBoundingClientRect().bottom - document.querySelector('.bulk').getBoundingClientRect().top"
    assert page.locator("[aria-selected=true]").evaluate(bottom) <= 1, "the bar covers the row in view"
    page.set_viewport_size({"width": 1180, "height": 720})
    expect(page.locator("[data-approves]")).to_be_hidden()
    page.keyboard.press("Escape")
    page.locator(f'[data-key="{first[0]}"] input.tick').check()
    page.get_by_role("button", name="Select 2 equal").click()
    expect(page.locator("[data-approves]")).to_contain_text("Approve 3")
    page.locator(f'[data-key="{third[0]}"] input.tick').uncheck()
    page.locator("h1").first.click()
    page.keyboard.press("a")
    expect(page.locator("[data-said]")).to_contain_text("Approved 2 calls.")
    page.locator(f'[data-key="{third[0]}"] input.tick').check()
    page.get_by_role("button", name="Reject 1").click()
    page.keyboard.type("Use the template.")
    page.keyboard.press("Control+Enter")  # a dialog, too
    expect(page.locator("[data-said]")).to_contain_text("Rejected 1 call.")
    fourth = ask("Reply?", kind="approval", calls=calls[0], on_timeout="reject")
    expect(page.locator("[data-pill]")).to_contain_text("1 more")  # new rows wait while the list is in use
    page.keyboard.press(".")
    page.locator(f'[data-key="{fourth[0]}"] input.tick').check()
    page.keyboard.press("y")
    expect(page.locator("#ahead")).to_contain_text("Approve 1 call of send_reply, and calls like it?")
    page.locator("#ahead select[name=hours]").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # of a field: sends the form
    expect(page.locator(".standing li")).to_contain_text("0 of 20 used")
    assert fourth[1]()["advice"]["decision"]["calls"][0]["verdict"] == "approve"
    page.locator(".ahead-line summary").click()
    page.get_by_role("button", name="End the standing answer").click()
    expect(page.locator(".standing")).to_have_count(0)
    expect(rows).to_have_count(1)
    said = [one()["advice"]["decision"]["calls"][0] for _, one, _ in (first, second, third)]
    assert [one["verdict"] for one in said] == ["approve", "approve", "reject"]
    assert said[2]["reason"] == "Use the template."
    page.locator(f'[data-key="{refund[0]}"] a.q').click()
    expect(page.locator("[data-keyline]")).to_contain_text("next step")
    page.keyboard.press("c")
    expect(page.locator("[data-keyline]")).to_contain_text("approve call")
    page.keyboard.press("a")
    expect(page.locator(".callcard")).to_contain_text("standing answers are off")
    expect(page.locator(".standing-box")).to_be_hidden()
    page.keyboard.press("Escape")
    page.keyboard.press("h")
    expect(page.locator("#similar")).to_contain_text("decision")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Enter")  # no ask is left open for the tests below
    page.wait_for_url("**/queue/")


def test_equal_asks_are_one_row_that_stays_true(desk, person, ask):
    calls = [{**CALLS[1], "arguments": {**REPLY, "ticket_id": 5}}]
    asks = [ask(f"Reply {n}?", kind="approval", calls=calls, on_timeout="reject") for n in range(4)]
    (first, *_), (second, *_), (third, *_), (fourth, *_) = asks
    page = person(desk.link("lea", "expert"), viewport={"width": 1180, "height": 720})  # no ask beside the list
    page.goto(f"{desk.url}/queue/?kind=approval")
    expect(page.locator("#connection-words")).to_have_text("Live")
    rows, group = page.locator(".asks > .askrow"), page.locator(".samequestion summary")
    expect(rows).to_have_count(1)
    expect(group).to_contain_text("4 equal asks.")
    page.keyboard.press("j")  # a list in use changes in place
    page.keyboard.press("o")
    page.keyboard.press("j")
    expect(page.locator(f'[data-key="{second}"]')).to_have_attribute("aria-selected", "true")
    page.keyboard.press("x")
    expect(page.locator("[data-chosen]")).to_have_text("1 ask selected")
    with desk.http(desk.token("expert")) as other:
        assert other.post(
            f"/asks/{first}/claim"
        ).is_success  # someone else takes the first: the next one heads the group
    expect(rows).to_have_attribute("data-key", second)
    expect(group).to_contain_text("4 equal asks.")
    expect(page.locator(f'[data-key="{first}"] .go')).to_contain_text("Claimed by")
    expect(page.locator(f'input.tick[value="{second}"]')).to_be_checked()
    expect(page.locator("input.tick:checked")).to_have_count(1)
    with desk.http(desk.token("agent")) as loop:
        assert loop.post(f"/asks/{second}/cancel").is_success
        expect(rows).to_have_attribute("data-key", third)
        expect(group).to_contain_text("3 equal asks.")
        expect(rows).not_to_have_attribute("data-gone", "")
        expect(page.locator("input.tick:checked")).to_have_count(0)
        assert loop.post(f"/asks/{first}/cancel").is_success
        expect(group).to_contain_text("2 equal asks.")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("o")  # folded, it is selected as one
    page.keyboard.press("x")
    expect(page.locator("[data-approves]")).to_contain_text("Approve 2")
    page.keyboard.press("a")
    expect(page.locator("[data-said]")).to_contain_text("Approved 2 calls.")
    assert [one()["status"] for _, one, _ in asks] == ["cancelled", "cancelled", "answered", "answered"]


def test_an_option_is_chosen_and_changed_by_digits(desk, person, ask):
    ask_id, seen, _ = ask("Which Dana?", kind="choice", options=OPTIONS, other=True, on_timeout={"value": "owner_12"})
    page = person(desk.link("jonas", "expert"))
    page.goto(f"{desk.url}/asks/{ask_id}/")
    for key in ("c", "z", "z"):  # what is typed while a decision loads is no note
        page.keyboard.press(key)
    expect(page.locator("#question")).to_contain_text("No answer: owner_12")
    expect(page.locator(".option")).to_have_count(4)
    page.keyboard.press("Control+Enter")
    expect(page.locator("[data-problem]")).to_have_text("Choose an option.")
    expect(page.locator("input[value=owner_12]")).to_be_focused()
    page.keyboard.press("4")
    page.keyboard.type("Ask Dana")
    page.keyboard.press("Escape")
    page.keyboard.press("1")
    expect(page.locator(".option input:not([type=radio])")).to_have_value("")
    page.keyboard.press("3")
    page.keyboard.press("Control+Shift+Enter")
    expect(page.locator("[data-cap=amend] kbd")).to_be_visible()  # keys work from here on
    expect(page.locator("#answer .decided")).to_contain_text("Both")
    page.keyboard.press("e")
    page.wait_for_url("**amend=1")
    expect(page.locator("input[value=both]")).to_be_checked()
    page.keyboard.press("2")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#answer .decided")).to_contain_text("Dana Lindqvist")
    advice = seen()["advice"]
    assert (advice["decision"], advice["text"]) == ({"chosen": ["owner_31"]}, "")


def test_form_is_filled_by_keys_and_sent_on_a_phone(desk, person, ask):
    ask_id, seen, _ = ask("What does the carrier need?", kind="form", response_schema=PICKUP)
    page = claimed(desk, person, ask_id, "lena")
    expect(page.locator('[data-argument="contact"]')).to_be_focused()
    page.keyboard.type("Loading bay")
    page.keyboard.press("Escape")
    page.keyboard.press("2")
    page.keyboard.type("34")
    page.keyboard.press("Escape")
    page.keyboard.press("3")
    page.keyboard.press("Control+Enter")
    expect(page.locator("[data-problem]")).to_contain_text("pallets must be at most 33")
    expect(page.locator('[data-argument="pallets"]')).to_be_focused()
    page.set_viewport_size({"width": 390, "height": 844})
    page.locator('[data-argument="pallets"]').fill("4")
    page.locator('[data-argument="call_ahead"]').select_option("true")
    wide = page.evaluate("document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth")
    assert wide <= 0
    page.get_by_role("button", name="Send and next").click()
    page.wait_for_url("**/queue/")
    assert seen()["advice"]["decision"] == {"value": {"contact": "Loading bay", "pallets": 4, "call_ahead": True}}


def test_arrow_leads_from_the_filter_to_the_options_left(desk, person, ask):
    owners = [{"id": f"owner_{number}", "label": f"Dana {number}"} for number in range(1, 13)]
    ask_id, _, _ = ask("Which of the Danas?", kind="choice", options=owners)
    page = claimed(desk, person, ask_id, "dora")
    expect(page.locator("[data-option-filter]")).to_be_visible()  # the page's script makes it, after the form is there
    page.keyboard.press("/")
    page.keyboard.type("12")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("radio", name="Dana 12")).to_be_focused()
    page.keyboard.press("Space")
    expect(page.get_by_role("radio", name="Dana 12")).to_be_checked()


PERSON = {"type": "object", "title": "Person", "required": ["name"], "properties": {"name": {"title": "Full name"}}}
DOCKS = [{"const": "n", "title": "North"}, {"const": "s", "title": "South"}]
LINES = {"type": "array", "minItems": 1, "items": {"type": "object", "properties": {"kg": {"type": "number"}}}}
VISIT = {
    "type": "object", "required": ["contact", "lines", "dock"],
    "properties": {
        "contact": {"$ref": "#/$defs/person"}, "lines": LINES, "dock": {"title": "Dock", "oneOf": DOCKS},
        "days": {"type": "array", "items": {"enum": ["mo", "tu"], "enumNames": ["Monday", "Tuesday"]}},
        "day": {"type": "string", "format": "date"}, "mail": {"title": "Mail", "format": "email"},
        "lift": {"type": ["boolean", "null"]},
    },
    "$defs": {"person": PERSON},
}  # fmt: skip


def test_nested_form_names_all_that_is_wrong_at_its_field(desk, person, ask):
    ask_id, seen, _ = ask("Who comes, and when?", kind="form", response_schema=VISIT)
    page = claimed(desk, person, ask_id, "noor")
    wrong = page.locator("[data-wrong]:visible")
    page.get_by_label("Mail").fill("ada")  # only the server checks this
    page.keyboard.press("Control+Enter")
    expect(wrong).to_have_text(["Full name is missing", "Dock is missing", "Mail must be a mail address"])
    expect(page.locator("[data-problem]")).to_have_text("Person › Full name is missing; 2 more fields don't fit.")
    expect(page.get_by_label("Full name")).to_be_focused()
    page.keyboard.type("Ada")
    page.get_by_role("button", name="Add to lines").click()
    page.keyboard.type("7.50")
    remove = page.get_by_role("button", name="Remove row 1")
    row, end = page.locator(".formrow").first.bounding_box(), remove.bounding_box()
    assert end["x"] + end["width"] == pytest.approx(row["x"] + row["width"], abs=1) and end["width"] < 120
    assert end["y"] == pytest.approx(row["y"], abs=1)
    remove.click()  # the other row moves up with its text
    page.get_by_label("Dock").select_option("North")
    page.get_by_label("Tuesday").check()
    page.get_by_label("day (optional)").fill("2026-12-03")
    page.get_by_label("lift").select_option("No value")
    page.keyboard.press("Control+Shift+Enter")
    expect(wrong).to_have_text(["Mail must be a mail address"])
    expect(page.get_by_label("Mail")).to_be_focused()
    page.keyboard.type("@example.org")
    page.keyboard.press("Control+Shift+Enter")
    expect(page.locator("#answer .decided")).to_be_visible()
    assert seen()["advice"]["decision"]["value"] == {
        "contact": {"name": "Ada"}, "lines": [{"kg": 7.5}], "dock": "n", "days": ["tu"], "day": "2026-12-03",
        "mail": "ada@example.org", "lift": None,
    }  # fmt: skip


def test_long_question_is_read_and_kept_from_the_answer(desk, person, ask):
    question = "The warehouse closes at six. " * 90 + "Which dock do they use? The rest is known. " + "It rains. " * 40
    ask_id, _, _ = ask(question)
    page = claimed(desk, person, ask_id, "rosa")
    box, answer = page.locator("[data-question]"), page.locator("textarea[name=text]")
    expect(page.get_by_role("heading", level=1)).to_have_text("Which dock do they use?")
    expect(page.locator("[data-below]")).to_be_visible()
    expect(answer).to_be_focused()
    for _ in range(6):
        page.keyboard.press("PageDown")
    expect(page.locator("[data-below]")).to_be_hidden()
    assert box.evaluate("box => box.scrollTop") > 0
    expect(page.get_by_role("heading", level=1)).to_be_in_viewport()
    page.set_viewport_size({"width": 390, "height": 844})
    expect(answer).to_be_in_viewport()
    expect(page.locator(".jump [aria-current]")).to_have_text("Your answer")
    page.set_viewport_size({"width": 740, "height": 390})
    expect(answer).to_be_in_viewport()


def test_returned_answer_is_mended_or_sent_anyway(desk, person, ask):
    owner = person(desk.link("owner", "admin"))
    owner.goto(f"{desk.url}/routing/")
    owner.get_by_label("Second look by a model").select_option("expert")
    owner.keyboard.press("Control+Enter")
    expect(owner.locator("main")).to_contain_text("Saved: second look by a model.")
    first, second = ask("Into which one?"), ask("And the other?")
    page = claimed(desk, person, first[0], "lea")
    anyway, problem = page.get_by_role("button", name="Send anyway"), page.locator("[data-problem]")
    expect(page.locator("[data-keyline]")).to_contain_text("send and watch")
    page.keyboard.type("Into 9.")
    expect(anyway).to_be_hidden()
    page.keyboard.press("Control+Shift+Enter")
    expect(problem).to_contain_text("thinks: Ticket 9 does not exist.")
    expect(anyway).to_be_visible()
    page.locator("#advice").fill("Into 8.")
    expect(anyway).to_be_hidden()
    page.keyboard.press("Control+Shift+Enter")
    expect(page.locator("h2").first).to_contain_text("You answered")
    assert first[1]()["advice"]["text"] == "Into 8."
    page.goto(f"{desk.url}/asks/{second[0]}/")
    page.keyboard.press("c")
    expect(page.locator("[data-keyline]")).to_contain_text("send and watch")
    page.keyboard.type("Into 9.")
    page.keyboard.press("Control+Shift+Enter")
    expect(anyway).to_be_visible()
    anyway.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#answer")).to_contain_text("Sent despite a second look. expert: Ticket 9 does not exist.")
    assert second[1]()["advice"]["text"] == "Into 9."
    owner.get_by_label("Second look by a model").select_option("")
    owner.keyboard.press("Control+Enter")
    expect(owner.locator("main")).to_contain_text("Saved: second look by a model.")


def test_decision_is_sent_by_a_browser_without_scripts(desk, person, ask):
    gated = ask("May I?", kind="approval", calls=CALLS, on_timeout="reject")
    page = person(desk.link("lea", "expert"), java_script_enabled=False, viewport={"width": 390, "height": 844})
    page.goto(f"{desk.url}/asks/{gated[0]}/")
    page.get_by_role("button", name="Claim and answer").click()
    first, second, third = (page.locator("fieldset.plain").nth(n) for n in range(3))
    first.get_by_label("Approve").check()
    second.get_by_label("Edit").check()
    second.get_by_text("Values for Edit").click()
    second.get_by_label("body").fill("It is refunded.")
    third.get_by_label("Reject", exact=True).check()
    page.get_by_role("button", name="Send and next").click()
    expect(page.get_by_role("alert")).to_contain_text("a rejection needs a reason")
    expect(second.get_by_label("body")).to_have_value("It is refunded.")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    third.get_by_label("Reason for Reject").fill("Not yet.")
    page.get_by_role("button", name="Send and next").click()
    page.wait_for_url("**/queue/")
    said = gated[1]()["advice"]["decision"]["calls"]
    assert [one["verdict"] for one in said] == ["approve", "edit", "reject"]
    assert said[0]["arguments"] == BIG and said[1]["arguments"] == {**REPLY, "body": "It is refunded."}
