"""What was sent is undone by one key within its hold: an answer with its text, and a batch as a whole."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.running import until

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def house(house):
    made = house.with_project("undo")
    code = "from experts.record import desk; from people import access; "
    made.manage("shell", "-c", f"{code}desk.set_policy(access.system_actor('undo'), undo_s=10)")
    return made


@pytest.fixture
def ask(house, request):
    """Open an ask of an episode of its own; returns its ID and how its agent looks at it."""
    opened = []
    with house.http(house.token("agent")) as loop:

        def one(question, **typed):
            plan = {"key": f"{request.node.name}-{len(opened)}", "task": "merge the tickets", "expert": "plain"}
            opened.append(loop.post("/episodes", json=plan).json()["id"])
            body = {"key": "q", "episode": opened[-1], "seq": 1, "question": question, "deadline_s": 3000, **typed}
            pk = loop.post("/asks", json=body).json()["id"]
            return pk, lambda: loop.get(f"/asks/{pk}").json()

        yield one
        for episode in opened:
            loop.post(f"/episodes/{episode}/finish", json={"stop_reason": "done"})


def test_answer_is_undone_by_one_key_and_leaves_after_its_hold(house, ask, person):
    (first, look), (second, _) = ask("Which of the two tickets stays?"), ask("May I refund order 7?")
    page = person(house.link("edo", "expert"))
    page.goto(f"{house.url}/asks/{first}/")
    page.keyboard.press("c")
    text, toast = page.locator("textarea[name=text]"), page.locator("[data-held-answers]")
    expect(text).to_be_focused()
    page.keyboard.type("Into 4127.")
    page.keyboard.press("Control+Enter")
    expect(toast).to_contain_text("Answered. The agent gets it in 0:0")
    page.wait_for_url(f"**/asks/{second}/")
    assert look()["status"] == "open"
    expect(text).to_be_focused()
    expect(text).to_have_value("")
    page.keyboard.press("Escape")
    expect(page.locator("[data-keyline]")).to_contain_text("undo what you sent")
    page.keyboard.press("z")
    page.wait_for_url(f"**/asks/{first}/")
    expect(text).to_have_value("Into 4127.")
    expect(toast).to_be_hidden()
    page.keyboard.type(" Not into 9.")
    page.keyboard.press("Control+Shift+Enter")
    expect(page.locator("#answer")).to_contain_text("Answered by you")
    expect(page.locator("#answer")).to_contain_text("You answered in")
    expect(toast).to_be_hidden()
    assert look()["advice"]["text"] == "Into 4127. Not into 9."


def test_batch_is_undone_as_a_whole_by_one_key(house, ask, person):
    call = {"id": "1", "name": "send_reply", "arguments": {"ticket": 4127}}
    looks = [ask("May I?", kind="approval", calls=[call])[1] for _ in range(7)]
    page = person(house.link("lena", "expert"))
    page.goto(f"{house.url}/queue/?kind=approval")
    expect(page.locator("[data-keyline]")).to_contain_text("next row")
    page.keyboard.press("j")
    expect(page.locator("#main")).to_contain_text("May I?")
    page.keyboard.press("x")
    page.keyboard.press("a")
    toast = page.locator("[data-held-answers]")
    expect(toast).to_contain_text("Approved 7 calls. The agents get them in 0:0")
    expect(toast.locator("kbd")).to_have_text("z")
    assert {look()["status"] for look in looks} == {"open"}
    page.keyboard.press("z")
    expect(page.locator("body")).to_contain_text("Undone before it was read. 7 asks are open again.")
    expect(page.locator("#bulk")).to_contain_text("7 asks selected")
    expect(page.locator("#main")).to_contain_text("May I?")
    page.keyboard.press("a")
    expect(toast).to_contain_text("Approved 7 calls.")
    expect(page.locator("#main")).to_contain_text("Answered by you")  # the ask beside the list
    until(lambda: {look()["status"] for look in looks} == {"answered"}, 60)
