"""An approval of two people in browsers: the first by keys, then it is another person's, and both are named."""

from __future__ import annotations

import threading

import pytest
from playwright.sync_api import expect

from tests.running import until

pytestmark = pytest.mark.browser
CALLS = [{"id": "1", "name": "issue_refund", "arguments": {"order": 7, "amount": 40}}]


@pytest.fixture(scope="module")
def house(house):
    made = house.with_project("two-people")
    code = "from experts.record import desk; from people import access; "
    rules = "quorum='issue_* => 2'"
    made.manage("shell", "-c", f"{code}desk.set_policy(access.system_actor('two-people'), {rules})")
    return made


@pytest.fixture
def ask(house):
    """An approval that the project's rule makes one of two people, and how its agent looks at it."""
    with house.http(house.token("agent")) as loop:
        plan = {"key": "e", "task": "refund order 7", "expert": "plain"}
        episode = loop.post("/episodes", json=plan).json()["id"]
        body = {"key": "q", "episode": episode, "seq": 1, "question": "May I refund order 7?", "deadline_s": 3000}
        typed = {"kind": "approval", "calls": CALLS, "on_timeout": "reject"}
        pk = loop.post("/asks", json={**body, **typed}).json()["id"]
        done = threading.Event()
        waiting = threading.Thread(target=wait, args=(house, pk, done))
        waiting.start()
        yield pk, lambda: loop.get(f"/asks/{pk}").json()
        done.set()
        waiting.join()
        loop.post(f"/episodes/{episode}/finish", json={"stop_reason": "done"})


def wait(house, pk, done):
    """Wait as an agent does, so that its episode lives however long the pages take."""
    with house.http(house.token("agent")) as loop:
        while not done.wait(5):
            loop.get(f"/asks/{pk}")


def approve(page, url):
    page.goto(url)
    expect(page.locator("[data-keyline]")).to_contain_text("claim")
    page.keyboard.press("c")
    card = page.locator(".callcard")
    expect(card).to_have_count(1)
    page.keyboard.press("a")
    expect(card).to_have_attribute("data-decided", "approve")
    page.keyboard.press("Control+Shift+Enter")


def test_two_people_approve_by_keys_and_both_are_named(house, ask, person):
    pk, look = ask
    url = f"{house.url}/asks/{pk}/"
    first, second = person(house.link("edo", "expert")), person(house.link("mina", "expert"))
    second.goto(f"{house.url}/queue/")
    row = second.locator(f'[data-key="{pk}"]')
    expect(row.locator("[data-quorum]")).to_have_text("Needs 2 people.")
    approve(first, url)
    expect(first.locator("#answer")).to_contain_text("You decided. It needs another person.")
    expect(first.locator("[data-quorum]")).to_contain_text("1 of 2: edo approved 0:0")
    assert look()["status"] == "open" and [one["by"] for one in look()["decided"]] == ["edo"]
    second.goto(f"{house.url}/queue/")
    expect(row.locator("[data-quorum]")).to_contain_text("1 of 2: edo approved")
    # it is no work of the first one anymore, and theirs to withdraw
    expect(first.locator("[data-act=claim]")).to_have_count(0)
    first.keyboard.press("z")
    expect(first.locator("[data-quorum]")).to_have_text("Needs 2 people.")
    assert look()["decided"] == []
    first.keyboard.press("Control+Shift+Enter")
    expect(first.locator("#answer")).to_contain_text("You decided.")
    approve(second, url)
    view = until(lambda: (seen := look())["status"] == "answered" and seen, 20)
    assert [one["by"] for one in view["decided"]] == ["edo", "mina"]
    expect(first.locator("[data-quorum]")).to_contain_text("2 of 2:")
