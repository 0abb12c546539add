"""Answering in a browser: agents with and without tools, by keyboard alone, against a deadline, a rival and an owner
who removes people."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.running import product, until

pytestmark = pytest.mark.browser

TOOLS = [
    {
        "name": "merge_tickets",
        "description": "Merge two tickets.",
        "input_schema": {
            "type": "object",
            "properties": {"into": {"type": "integer"}, "note": {"type": "string"}},
            "required": ["into"],
        },
    },
    {"name": "close_ticket", "input_schema": {"type": "object", "properties": {}}},
    {"name": "odd", "input_schema": {"properties": "none", "required": 7}},
]


@pytest.fixture(scope="module")
def house():
    with product() as running:
        yield running


@pytest.fixture(scope="module")
def agent(house):
    with house.http(house.token("agent")) as loop:
        yield Agent(loop)


class Agent:
    """A loop outside that asks."""

    def __init__(self, loop):
        self.loop, self.count = loop, 0

    def ask(self, question="Into which one?", tools=None, deadline_s=600):
        self.count += 1
        plan = {"key": f"e{self.count}", "task": "merge the tickets", "expert": "plain", "tools": tools or []}
        self.episode = self.loop.post("/episodes", json=plan).json()["id"]
        body = {"key": "q", "episode": self.episode, "seq": 1, "question": question, "deadline_s": deadline_s}
        return self.loop.post("/asks", json=body).json()["id"]

    def look(self, ask):
        return self.loop.get(f"/asks/{ask}").json()

    def end(self, **how):
        assert self.loop.post(f"/episodes/{self.episode}/finish", json=how).is_success


def claimed(page, house, ask):
    page.goto(f"{house.url}/asks/{ask}/")
    page.keyboard.press("c")
    expect(page.locator("#advice")).to_be_focused()
    return page


def left(page, ask):
    """Sent: the page went on to the next ask or to the queue."""
    page.wait_for_url(lambda url: ask not in url)


def test_an_ask_of_an_agent_without_tools_is_saved_renewed_and_sent_by_key(house, agent, person):
    ask = agent.ask()
    edo = person(house.link("edo", "expert"))
    edo.clock.install()
    claimed(edo, house, ask)
    edo.keyboard.type("Into 4127.")
    expect(edo.locator("[data-saved]")).to_contain_text("saved")
    edo.reload()
    expect(edo.locator("#advice")).to_have_value("Into 4127.")
    with edo.expect_response(re.compile("/renew$")) as renewed:
        edo.clock.fast_forward(26_000)
    assert renewed.value.ok and renewed.value.json()["lease_until"]
    edo.locator("#advice").press("Control+Enter")
    left(edo, ask)
    assert agent.look(ask)["advice"]["text"] == "Into 4127."


def test_a_call_is_added_by_keyboard_alone_and_only_ctrl_enter_sends_it(house, agent, person):
    ask = agent.ask(tools=TOOLS)
    edo = claimed(person(house.link("edo", "expert")), house, ask)
    edo.keyboard.press("Escape")
    edo.keyboard.press("i")
    edo.keyboard.type("ticket")
    edo.keyboard.press("Enter")
    expect(edo.locator("[data-pick-problem]")).to_contain_text("2 tools match: merge_tickets, close_ticket")
    edo.locator("[data-pick-tool]").fill("")
    edo.keyboard.type("MERGE")
    edo.keyboard.press("Enter")
    expect(edo.locator("[data-argument=into]")).to_be_focused()
    edo.keyboard.type("5")
    edo.keyboard.press("Enter")
    edo.keyboard.press("Tab")
    edo.keyboard.type("as agreed")
    edo.keyboard.press("Enter")
    expect(edo.locator("[data-fits]")).to_have_text("fits the tool's schema")
    assert not edo.locator("body").get_attribute("aria-busy") and agent.look(ask)["status"] == "open"
    edo.keyboard.press("Control+Enter")
    left(edo, ask)
    [call] = agent.look(ask)["advice"]["tool_calls"]
    assert (call["name"], call["arguments"]) == ("merge_tickets", {"into": 5, "note": "as agreed"})


def test_who_is_removed_while_answering_hears_the_truth_and_keeps_the_text(house, agent, person):
    ask = agent.ask()
    max_ = claimed(person(house.link("max", "expert")), house, ask)
    max_.keyboard.type("Words worth keeping.")
    owner = person(house.link("owner", "admin"))
    owner.goto(house.url + "/people/")
    owner.get_by_role("button", name="Remove max").click()
    dialog = owner.get_by_role("dialog")
    expect(dialog).to_contain_text("Remove max from this project?")
    owner.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(owner.get_by_role("button", name="Remove max")).to_be_visible()
    owner.get_by_role("button", name="Remove max").click()
    dialog.get_by_role("button", name="Remove max").click()
    expect(owner.locator(".told")).to_contain_text("Removed max.")
    max_.keyboard.press("Control+Enter")
    expect(max_.locator("[data-ended]")).to_contain_text("You are no longer in this project.")
    expect(max_.locator("#advice")).to_have_value("Words worth keeping.")
    expect(max_.get_by_role("button", name="Copy my text")).to_be_visible()
    expect(max_.get_by_role("button", name="Send and next")).to_be_hidden()
    expect(max_.locator("body")).not_to_contain_text("no contact", ignore_case=True)
    assert agent.look(ask)["status"] == "open"


def test_no_contact_is_called_no_contact_and_the_same_words_go_out_later(house, agent, person):
    ask = agent.ask()
    edo = claimed(person(house.link("edo", "expert")), house, ask)
    edo.keyboard.type("Into 4127.")
    edo.context.set_offline(True)
    edo.keyboard.press("Control+Enter")
    expect(edo.locator("[data-problem]")).to_contain_text("Not sent: no contact with the server.")
    edo.context.set_offline(False)
    edo.keyboard.press("Control+Enter")
    left(edo, ask)
    assert agent.look(ask)["advice"]["text"] == "Into 4127."


def test_the_loser_of_a_claim_race_hears_so_and_has_a_way_on(house, agent, person):
    ask, other = agent.ask("First?"), agent.ask("Second?", deadline_s=900)
    slow = person(house.link("lena", "expert"), java_script_enabled=False)
    slow.goto(f"{house.url}/asks/{ask}/")
    claimed(person(house.link("edo", "expert")), house, ask)
    slow.get_by_role("button", name="Claim and answer").click()
    expect(slow.locator("#answer")).to_contain_text("Somebody was faster.")
    expect(slow.locator("#answer")).to_contain_text("edo is answering")
    expect(slow.locator("#answer").get_by_role("link", name="Back to the queue")).to_be_visible()
    slow.locator("#answer").get_by_role("button", name="Next for me").click()
    slow.wait_for_url(f"{house.url}/asks/{other}/")
    expect(slow.locator("#advice")).to_be_visible()


@pytest.mark.parametrize("key", ["y", "n"])
def test_after_the_deadline_the_keys_decide_over_the_text(house, agent, person, key):
    edo = person(house.link("edo", "expert"))
    ask = agent.ask(deadline_s=6)
    claimed(edo, house, ask)
    edo.keyboard.type("Nearly")
    expect(edo.locator("[data-lease]")).to_contain_text("Yours to the deadline")
    expect(edo.locator("[data-ended]")).to_be_focused(timeout=10_000)
    line = edo.locator("[data-keyline]")
    expect(line).to_contain_text("keep as annotation")
    expect(line).to_contain_text("discard")
    for gone in ("send and next", "insert call", "release"):
        expect(line).not_to_contain_text(gone)
    until(lambda: agent.look(ask)["status"] == "fell_back", 5)
    edo.keyboard.press(key)
    if key == "y":
        expect(edo.locator("#answer")).to_contain_text("edo, too late, kept with the ask")
        expect(edo.locator("#answer")).to_contain_text("Nearly")
    else:
        edo.wait_for_url(re.compile("/queue/$"))
        edo.goto(f"{house.url}/asks/{ask}/")
        expect(edo.locator("#answer")).not_to_contain_text("Nearly")


def test_revoking_a_token_asks_first_and_names_it(house, person):
    house.manage("createtoken", "old loop", "--project", "demo", "--scope", "agent")
    owner = person(house.link("owner", "admin"))
    owner.goto(house.url + "/tokens/")
    owner.get_by_role("button", name="Revoke old loop").press("Enter")
    dialog = owner.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    owner.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    owner.get_by_role("button", name="Revoke old loop").press("Enter")
    dialog.get_by_role("button", name="Revoke old loop").press("Enter")
    expect(owner.locator(".told")).to_contain_text("Revoked the token old loop.")


def test_advice_that_nobody_fetched_says_so_once_the_episode_has_ended(house, agent, person):
    ask = agent.ask()
    edo = claimed(person(house.link("edo", "expert")), house, ask)
    edo.keyboard.type("Into 4127.")
    edo.keyboard.press("Control+Shift+Enter")
    expect(edo.locator("#answer")).to_contain_text("The agent has not fetched it yet.")
    agent.end(stop_reason="error")
    expect(edo.locator("#answer")).to_contain_text("before the agent fetched it; the advice was not used.")
