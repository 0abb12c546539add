"""Answering in a browser: agents with and without tools, by keyboard alone, against a deadline, a rival, a line that is
cut, a second tab, a lease that lapses and an owner who removes people; with a model's draft, together, on a phone."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from awmclient.client import SyncHttpDashboard
from tests.asking import picture
from tests.browser.frames import deafen
from tests.running import until

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


PICTURE = picture(width=320)
HEAR = """() => {
  window.heard = [];
  const said = document.querySelector("[data-said]");
  const every = { childList: true, subtree: true, characterData: true };
  new MutationObserver(() => heard.push(said.textContent)).observe(said, every);
}"""
"""Keep every message that the page shows."""
ASKED_WHILE_SENDING = """() => {
  window.asked = [];
  const real = window.fetch;
  window.fetch = (...about) => {
    if (document.querySelector("[data-answer]").dataset.sending) asked.push(String(about[0]));
    return real(...about);
  };
}"""


@pytest.fixture(scope="module")
def house(desk):
    return desk.with_project("answering")


@pytest.fixture(scope="module")
def agent(house):
    with house.http(house.token("agent")) as loop, house.http(house.token("launch")) as launcher:
        yield Agent(loop, launcher)


GUESTS = (
    "mina", "nora", "otto", "pia", "quinn", "rosa", "sven", "tara", "ursel", "victor", "wanda", "xenia", "yann", "zoe",
)  # fmt: skip


@pytest.fixture(scope="module")
def guests(house):
    """Links of further experts, of one command: each holds asks of their own."""
    code = f"""
from datetime import timedelta
from django.conf import settings
from people import access
from people.record import members
for name in {GUESTS!r}:
    secret = members.link_for(access.system_actor("{house.project}"), name, "expert", timedelta(hours=1))
    print(f"{{settings.LINK_BASE}}/login/once/{{secret}}")
"""
    return dict(zip(GUESTS, house.manage("shell", "-c", code).split()[-len(GUESTS) :], strict=True))


class Agent:
    """A loop outside that asks."""

    def __init__(self, loop, launcher):
        self.loop, self.launcher, self.count = loop, launcher, 0

    def ask(self, question="", tools=None, deadline_s=600, steps=0, expert="plain"):
        """A question of its own, unless words are given that others may have, too."""
        self.count += 1
        question = question or f"Into which one, {' '.join(str(self.count * 7 + n) for n in range(6))}?"
        plan = {"key": f"e{self.count}", "task": "merge the tickets", "expert": expert, "tools": tools or []}
        if expert == "informed":
            plan["run"] = self.launcher.post("/runs", json={"name": "informed", "expert": expert}).json()["id"]
        self.episode = self.loop.post("/episodes", json=plan).json()["id"]
        calls = [{"seq": n + 1, "kind": "tool_call", "name": "close_ticket", "arguments": {}} for n in range(steps)]
        if calls:
            self.loop.post(f"/episodes/{self.episode}/steps", json={"steps": calls})
        body = {"key": "q", "episode": self.episode, "seq": steps + 1, "question": question, "deadline_s": deadline_s}
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


def test_ask_without_tools_is_saved_renewed_and_sent_by_key(house, agent, person):
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


def test_suggested_call_by_keyboard_sends_on_ctrl_enter_only(house, agent, person):
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
    assert (call["name"], call["arguments"]) == ("merge_tickets", {"into": 5, "note": "as agreed\n"})


def test_member_removed_while_answering_keeps_the_text(house, agent, person):
    ask = agent.ask()
    max_ = claimed(person(house.link("max", "expert")), house, ask)
    max_.keyboard.type("Words worth keeping.")
    owner = person(house.link("owner", "admin"))
    owner.goto(house.url + "/members/")
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
    expect(max_.locator("[data-ended]")).to_contain_text("You are no longer a member of this project.")
    expect(max_.locator("#advice")).to_have_value("Words worth keeping.")
    expect(max_.get_by_role("button", name="Copy my text")).to_be_visible()
    expect(max_.get_by_role("button", name="Send and next")).to_be_hidden()
    expect(max_.locator("body")).not_to_contain_text("Can't reach the server", ignore_case=True)
    assert agent.look(ask)["status"] == "open"


COLOR = "one => getComputedStyle(one).color"


def test_unreachable_server_is_said_and_text_is_resent(house, agent, person):
    ask = agent.ask()
    edo = claimed(person(house.link("edo", "expert")), house, ask)
    edo.keyboard.type("Into 4127.")
    expect(edo.locator("[data-saved]")).to_contain_text(re.compile(r"saved \d"))
    held = []
    saved, problem = edo.locator("[data-saved]"), edo.locator("[data-problem]")
    calm = saved.evaluate(COLOR)
    edo.route("**/answer", lambda route: held.append(route))
    with edo.expect_request("**/answer"):
        edo.keyboard.press("Control+Shift+Enter")  # without the next ask, which would be shown meanwhile
    expect(saved).to_have_text("sending")
    assert saved.evaluate(COLOR) == calm
    expect(problem).to_be_hidden()
    edo.context.set_offline(True)
    held[0].abort()
    edo.unroute("**/answer")
    expect(problem).to_contain_text("Not sent: can't reach the server.")
    assert problem.evaluate(COLOR) != calm
    edo.context.set_offline(False)
    expect(problem).to_be_hidden()
    expect(saved).to_contain_text(re.compile(r"saved \d"))
    expect(saved).not_to_have_class(re.compile("bad"))
    assert saved.evaluate(COLOR) == calm
    for banner in edo.locator("[role=alert]").all():
        expect(banner).to_be_hidden()
    expect(edo.locator("[data-said]")).to_have_text("You're online again. Your answer is saved, not sent yet.")
    edo.keyboard.press("Control+Enter")
    left(edo, ask)
    assert agent.look(ask)["advice"]["text"] == "Into 4127."


def test_the_loser_of_a_claim_race_hears_so_and_has_a_way_on(house, agent, person):
    ask, other = agent.ask("First?"), agent.ask("Second?", deadline_s=900)
    slow = person(house.link("lena", "expert"), java_script_enabled=False)
    slow.goto(f"{house.url}/asks/{ask}/")
    claimed(person(house.link("edo", "expert")), house, ask)
    slow.get_by_role("button", name="Claim and answer").click()
    expect(slow.locator("#answer")).to_contain_text("Someone else claimed this ask first.")
    expect(slow.locator("#answer")).to_contain_text("edo is answering")
    expect(slow.locator("#answer").get_by_role("link", name="Back to queue")).to_be_visible()
    slow.locator("#answer").get_by_role("button", name="Claim next").click()
    slow.wait_for_url(f"**/asks/{other}/")
    expect(slow.locator("#advice")).to_be_visible()


@pytest.mark.parametrize("key", ["y", "n"])
def test_after_the_deadline_the_keys_decide_over_the_text(house, agent, person, key):
    edo = person(house.link("edo", "expert"))
    ask = agent.ask(deadline_s=15)  # the page must be open and claimed by then
    claimed(edo, house, ask)
    edo.keyboard.type("Nearly")
    expect(edo.locator("[data-lease]")).to_contain_text("Claimed")
    expect(edo.locator("[data-ended]")).to_be_focused()
    line = edo.locator("[data-keyline]")
    expect(line).to_contain_text("save as annotation")
    expect(line).to_contain_text("discard")
    for gone in ("send and next", "insert call"):
        expect(line).not_to_contain_text(gone)
    until(lambda: agent.look(ask)["status"] == "fell_back", 60)
    edo.keyboard.press(key)
    if key == "y":
        expect(edo.locator("#answer")).to_contain_text("edo, too late; saved as an annotation")
        expect(edo.locator("#answer")).to_contain_text("Nearly")
    else:
        edo.wait_for_url(re.compile("/queue/$"))
        edo.goto(f"{house.url}/asks/{ask}/")
        expect(edo.locator("#answer")).not_to_contain_text("Nearly")


def test_revoking_a_token_asks_first_and_names_it(house, person):
    house.manage("createtoken", "old loop", "--project", house.project, "--scope", "agent")
    owner = person(house.link("owner", "admin"))
    owner.goto(house.url + "/api-tokens/")
    owner.get_by_role("button", name="Revoke old loop").press("Enter")
    dialog = owner.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    owner.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    owner.get_by_role("button", name="Revoke old loop").press("Enter")
    dialog.get_by_role("button", name="Revoke old loop").press("Enter")
    expect(owner.locator(".told")).to_contain_text("Revoked the token old loop.")


def test_unfetched_advice_is_said_after_the_episode_ends(house, agent, person):
    ask = agent.ask()
    edo = claimed(person(house.link("edo", "expert")), house, ask)
    edo.keyboard.type("Into 4127.")
    edo.keyboard.press("Control+Shift+Enter")
    expect(edo.locator("#answer")).to_contain_text("Not delivered yet.")
    agent.end(stop_reason="error")
    expect(edo.locator("#answer")).to_contain_text("The episode failed before delivery. The answer was not used.")


def lapse(house, ask):
    """The lease runs out while nobody renews it."""
    code = (
        "from django.utils import timezone; from experts.models import Assignment;"
        f"Assignment.objects.filter(ask='{ask}').update(lease_until=timezone.now())"
    )
    house.manage("shell", "-c", code)


def test_a_line_that_is_cut_in_mid_answer_costs_no_word(house, agent, person, guests):
    ask = agent.ask()
    mina = person(guests["mina"])
    mina.clock.install()
    claimed(mina, house, ask)
    mina.keyboard.type("Into 41")
    mina.clock.run_for(1500)
    expect(mina.locator("[data-saved]")).to_contain_text(re.compile(r"saved \d"))
    mina.context.set_offline(True)
    mina.keyboard.type("27, for it is the oldest.")
    mina.clock.run_for(1500)
    expect(mina.locator("[data-saved]")).to_have_text("saved on this device, not on the server yet")
    mina.clock.run_for(26_000)
    expect(mina.locator("[data-lease]")).to_contain_text("Offline, claimed for")
    mina.context.set_offline(False)
    mina.clock.run_for(12_000)
    expect(mina.locator("[data-saved]")).to_contain_text(re.compile(r"saved \d"))
    expect(mina.locator("[data-lease]")).to_contain_text("Claimed, renews")
    phone = person(house.url, storage_state={"cookies": mina.context.cookies(), "origins": []})
    phone.goto(f"{house.url}/asks/{ask}/")
    expect(phone.locator("#advice")).to_have_value("Into 4127, for it is the oldest.")


def test_a_second_tab_overwrites_nothing_and_a_person_chooses(house, agent, person, guests):
    ask = agent.ask()
    nora = claimed(person(guests["nora"]), house, ask)
    other = nora.context.new_page()
    other.goto(f"{house.url}/asks/{ask}/")
    nora.keyboard.type("The oldest.")
    expect(nora.locator("[data-saved]")).to_contain_text(re.compile(r"saved \d"))
    other.locator("#advice").fill("No, the newest.")
    box = other.locator("[data-other]")
    expect(box).to_contain_text("This draft was edited in another tab or device.")
    expect(box).to_contain_text("The oldest.")
    other.get_by_role("button", name="Keep both").click()
    expect(other.locator("#advice")).to_have_value("No, the newest.\n\nThe oldest.")
    expect(other.locator("[data-saved]")).to_contain_text(re.compile(r"saved \d"))
    other.reload()
    expect(other.locator("#advice")).to_have_value("No, the newest.\n\nThe oldest.")


def test_lease_expired_while_typing_keeps_text_and_names_claimer(house, agent, person, guests):
    ask = agent.ask()
    otto = claimed(person(guests["otto"]), house, ask)
    otto.keyboard.type("Slowly, into")
    lapse(house, ask)
    pia = claimed(person(guests["pia"]), house, ask)
    expect(otto.locator("[data-lease]")).to_have_text("Claimed by pia; your text is saved")
    otto.keyboard.type(" 4127.")
    otto.keyboard.press("Control+Enter")
    expect(otto.locator("[data-problem]")).to_have_text("pia claimed this ask. Your text is saved with it.")
    expect(otto.locator("#advice")).to_have_value("Slowly, into 4127.")
    again, lost = otto.get_by_role("button", name="Claim again"), otto.locator("[data-again]")
    expect(lost).to_contain_text("pia has this ask now. Your text is saved.")
    expect(again).to_be_hidden()
    expect(otto.locator("[data-saved]")).to_contain_text(re.compile(r"saved \d"))
    assert agent.look(ask)["status"] == "open"
    pia.keyboard.press("Escape")
    pia.keyboard.press("r")
    left(pia, ask)
    expect(pia.locator(".told")).to_contain_text("Released. Others can claim it.")
    expect(again).to_be_visible()
    claimed(pia, house, ask)
    expect(again).to_be_hidden()
    pia.keyboard.type("Mine.")
    pia.keyboard.press("Control+Shift+Enter")
    expect(otto.locator("[data-ended]")).to_contain_text("pia answered in")
    for gone in (lost, otto.locator(".fuse"), otto.locator("[data-in-hand] [data-deadline]")):
        expect(gone).to_be_hidden()
    expect(otto.locator("[data-in-hand]")).to_have_text("Closed")


def test_one_answer_serves_three_agents_and_one_is_withdrawn(house, agent, person, guests):
    asks = [agent.ask("Which of the two is the older one?") for _ in range(3)]
    quinn = claimed(person(guests["quinn"]), house, asks[0])
    others = quinn.get_by_role("group", name="2 other agents asked the same question").get_by_role("checkbox")
    expect(others).to_have_count(2)
    others.nth(1).uncheck()
    expect(quinn.get_by_role("button", name="Send to 2 and next")).to_be_visible()
    quinn.locator("#advice").fill("4127.")
    quinn.keyboard.press("Control+Shift+Enter")
    expect(quinn.locator("#answer")).to_contain_text("Sent to 2 asks.")
    assert [agent.look(ask)["status"] for ask in asks] == ["answered", "answered", "open"]
    expect(quinn.locator("[data-part=family]")).to_contain_text("delivered")
    quinn.get_by_role("button", name="Withdraw the answer to").click()
    expect(quinn.locator("[data-part=family]")).to_contain_text("withdrawn")
    assert [agent.look(ask)["status"] for ask in asks] == ["answered", "open", "open"]


def test_answer_fetched_in_another_episode_shows_immediately(house, agent, person, guests):
    first, second = (agent.ask("May the order be paid back in parts?") for _ in range(2))
    wanda = claimed(person(guests["wanda"]), house, first)
    wanda.locator("#advice").fill("4128.")
    wanda.keyboard.press("Control+Shift+Enter")
    family = wanda.locator("[data-part=family]")
    expect(family).to_contain_text("not delivered yet")
    expect(wanda.locator("#connection-words")).to_have_text("Live")
    assert agent.look(second)["status"] == "answered"
    expect(family).not_to_contain_text("not delivered yet")  # no frame of this page's own episode tells of it


def test_typed_call_arrives_digit_by_digit_and_line_by_line(house, agent, person):
    ask = agent.ask(tools=TOOLS)
    edo = claimed(person(house.link("edo", "expert")), house, ask)
    edo.keyboard.type("Run:\n  x = 1")
    edo.locator("[data-pick-tool]").fill("merge_tickets")
    edo.locator("[data-pick-tool]").press("Enter")
    edo.locator("[data-argument=into]").fill("1e400")
    expect(edo.locator("[data-fits]")).to_have_text("into must be a whole number")
    edo.locator("#advice").focus()
    edo.keyboard.press("Control+Enter")
    expect(edo.locator("[data-problem]")).to_have_text("into must be a whole number")
    expect(edo.locator("[data-argument=into]")).to_be_focused()
    edo.locator("[data-argument=into]").fill("9007199254740993")
    expect(edo.locator("[data-problem]")).to_be_hidden()
    expect(edo.locator("[data-fits]")).to_have_text("fits the tool's schema")
    note, warning = edo.locator("[data-argument=note]"), edo.locator("[data-argument=note] ~ [data-turned]")
    expect(warning).to_be_hidden()
    note.fill("42\u202e71\n\tnext")
    expect(warning).to_have_text(re.compile("holds characters that draw nothing or turn lines around: 42⟨U\\+202E⟩71"))
    edo.keyboard.press("Control+Enter")
    expect(edo).not_to_have_url(re.compile(ask))
    advice = agent.look(ask)["advice"]
    assert advice["tool_calls"][0]["arguments"] == {"into": 9007199254740993, "note": "42\u202e71\n\tnext"}
    assert advice["text"] == "Run:\n  x = 1"


def test_draft_is_inserted_marked_and_answer_edited_until_read(house, agent, person, guests):
    ask = agent.ask(tools=TOOLS)
    rosa = claimed(person(guests["rosa"]), house, ask)
    rosa.keyboard.type("I think so, too.")
    rosa.keyboard.press("Escape")
    expect(rosa.locator("#answer")).not_to_contain_text("the oldest")
    rosa.keyboard.press("d")
    expect(rosa.locator("[data-words]")).to_have_text("Into 5, the oldest.")
    rosa.keyboard.press("d")
    expect(rosa.locator("#advice")).to_have_value("I think so, too.\n\nInto 5, the oldest.")
    expect(rosa.locator('[data-began="model:"]')).to_be_visible()
    expect(rosa.locator("[data-argument=into]")).to_have_value("5")
    rosa.keyboard.press("Control+Shift+Enter")
    expect(rosa.locator("#answer")).to_contain_text("Started from a draft by")
    expect(rosa.locator("[data-keyline]")).to_contain_text("edit answer")
    rosa.keyboard.press("e")
    expect(rosa.locator("#advice")).to_be_focused()
    rosa.keyboard.type(" Or so.")
    rosa.keyboard.press("Escape")
    rosa.keyboard.press("Escape")
    expect(rosa.locator("#answer")).to_contain_text("Unsent draft.")
    expect(rosa.locator("[data-keyline]")).to_contain_text("discard")
    rosa.keyboard.press("n")
    expect(rosa.locator("#answer")).not_to_contain_text("Unsent draft")
    expect(rosa.locator("[data-keyline]")).to_contain_text("edit answer")
    rosa.keyboard.press("e")
    expect(rosa.locator("#advice")).to_be_focused()
    rosa.locator("#advice").fill("Into 6.")
    rosa.keyboard.press("Control+Enter")
    expect(rosa.locator("#answer")).to_contain_text("Into 6.")
    rosa.evaluate(HEAR)  # what is said is shown for some seconds only
    assert agent.look(ask)["advice"]["text"] == "Into 6."
    until(lambda: re.search(r"Delivered in <?\d+\.\d s", rosa.evaluate("heard.join(' ')")), 60)
    agent.loop.post(f"/asks/{ask}/consumed")
    expect(rosa.locator("#answer")).to_contain_text("Read by the agent.")
    expect(rosa.get_by_role("link", name="Edit answer")).to_be_hidden()
    expect(rosa.locator("[data-keyline]")).not_to_contain_text("edit answer")
    rosa.keyboard.press("2")
    rosa.keyboard.press("2")
    expect(rosa.get_by_role("button", name="answerable: no")).to_be_visible()


def test_earlier_answer_is_reused_by_keyboard_and_marked(house, agent, person, guests):
    question = "Does the blue crane of pier nine lift before dawn?"
    tara = person(guests["tara"])
    for answer in ("It does.", "Only with a lamp."):
        ask = agent.ask(question)
        claimed(tara, house, ask)
        tara.keyboard.type(answer)
        tara.keyboard.press("Control+Enter")
        left(tara, ask)
    ask = agent.ask(f"{question} Say so.")
    claimed(tara, house, ask)
    tara.keyboard.type("Listen.")
    tara.keyboard.press("Escape")
    tara.keyboard.press("h")
    first = tara.locator("#similar [data-pick]").first
    expect(first).to_be_focused()
    tara.keyboard.press("Escape")
    expect(tara.locator("#similar")).to_be_hidden()
    tara.keyboard.press("h")
    expect(first).to_be_focused()
    expect(first).to_contain_text("Only with a lamp.")
    tara.keyboard.press("ArrowDown")
    tara.keyboard.press("Enter")
    expect(tara.locator("#advice")).to_have_value("Listen.\n\nIt does.")
    expect(tara.locator("[data-saved]")).to_contain_text("saved")
    tara.reload()
    expect(tara.locator('[data-began="advice:"]')).to_be_visible()
    tara.keyboard.press("Control+Shift+Enter")
    expect(tara.locator("#answer")).to_contain_text("Reused tara's answer")


def test_ask_context_labels_and_release_work_by_keyboard(house, agent, person, guests):
    ask = agent.ask(tools=TOOLS, steps=40, expert="informed")
    ursel = claimed(person(guests["ursel"]), house, ask)
    for seen in ("h1", "#step-40", "#tab-tables"):  # the question stands above the newest of many steps
        expect(ursel.locator(seen)).to_be_in_viewport()
    ursel.keyboard.type("First thought.")
    ursel.keyboard.press("Escape")
    at = ursel.locator("#panel-steps .step[aria-current]")
    for key, seq in (("k", "40"), ("k", "39"), ("j", "40"), ("ArrowLeft", "39"), ("End", "40")):
        ursel.keyboard.press(key)
        expect(at).to_have_attribute("data-seq", seq)
    for key, panel, words in (("t", "tables", "No "), ("v", "verifier", "not available for this task")):
        ursel.keyboard.press(key)
        expect(ursel.locator(f"#panel-{panel}")).to_be_visible()
        expect(ursel.locator(f"#panel-{panel}")).to_contain_text(words)
        ursel.keyboard.press(key)
        expect(ursel.locator("#panel-steps")).to_be_visible()
    ursel.keyboard.press("1")
    expect(ursel.get_by_role("button", name="Needed", exact=False)).to_have_attribute("aria-pressed", "true")
    ursel.keyboard.press(";")
    expect(ursel.locator("#replies textarea")).to_be_focused()
    ursel.keyboard.type("Look at {column}.")
    ursel.keyboard.press("Tab")
    ursel.keyboard.press("Tab")
    ursel.keyboard.press("Enter")
    expect(ursel.locator("#replies [data-reply]")).to_be_focused()
    ursel.keyboard.press("Enter")
    expect(ursel.locator("#replies [data-fill] input")).to_be_focused()
    ursel.keyboard.type("created_at")
    ursel.keyboard.press("Enter")
    expect(ursel.locator("#advice")).to_have_value("First thought.Look at created_at.")
    expect(ursel.locator("[data-saved]")).to_contain_text("saved")
    edo = person(house.link("edo", "expert"))
    edo.goto(f"{house.url}/asks/{ask}/")
    expect(edo.locator("[data-part=looking]")).to_contain_text("ursel")
    for key in ("Escape", "Escape", "r"):  # Escape alone releases nothing
        ursel.keyboard.press(key)
    left(ursel, ask)
    claimed(ursel, house, ask)
    expect(ursel.locator("#advice")).to_have_value("First thought.Look at created_at.")
    ursel.keyboard.press("Escape")
    ursel.keyboard.press("l")
    ursel.keyboard.type("it knows the tickets")
    ursel.keyboard.press("Enter")
    left(ursel, ask)
    until(lambda: agent.look(ask)["status"] == "answered", 60)
    assert agent.look(ask)["advice"]["source"] == "llm"


def test_a_draft_is_asked_for_anew_with_a_hint_by_key(house, agent, person, guests):
    ask = agent.ask(tools=TOOLS)
    victor = claimed(person(guests["victor"]), house, ask)
    victor.keyboard.press("Escape")
    victor.keyboard.press("d")
    drafted = victor.locator("[data-part=model-draft] [data-words]")
    expect(drafted).to_have_text("Into 5, the oldest.")
    victor.keyboard.press("Shift+D")
    victor.keyboard.type("think of the refund rule")
    with victor.expect_response(re.compile("/model-draft$")) as wanted:
        victor.keyboard.press("Enter")
    assert "refund" in wanted.value.request.post_data
    expect(drafted).to_have_text("Into 5, the oldest.")


SLID = """
const view = new EventTarget();
Object.assign(view, { height: innerHeight, offsetTop: 0, width: 390 });
Object.defineProperty(globalThis, "visualViewport", { value: view });
globalThis.openKeyboard = () => {
  Object.assign(view, { height: 400, offsetTop: 90 });
  view.dispatchEvent(new Event("resize"));
};
"""


def test_phone_keyboard_keeps_question_and_send_visible(house, agent, person, guests):
    ask = agent.ask("Which of these is meant, " + "and why " * 30 + "?", tools=TOOLS)
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    sven = person(guests["sven"], **phone)
    sven.add_init_script(SLID)
    sven.goto(f"{house.url}/asks/{ask}/")
    sven.get_by_role("button", name="Claim and answer").tap()
    sven.locator("#advice").tap()
    expect(sven.locator("#advice")).to_be_focused()
    sven.evaluate("openKeyboard()")
    expect(sven.locator("html")).to_have_class(re.compile("keyboard"))
    for part in (".cd.big", ".peek", "#advice", "button.main:visible"):
        box = sven.locator(part).first.bounding_box()
        assert box["y"] >= 90 and box["y"] + box["height"] <= 490, (part, box)
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390, (part, box)
    assert sven.evaluate("document.scrollingElement.scrollWidth") == 390
    sven.evaluate("document.activeElement.blur()")
    expect(sven.locator("html")).not_to_have_class(re.compile("keyboard"))
    low = "all => all.filter(e => e.getClientRects().length && e.offsetHeight < 44).map(e => e.outerHTML)"
    assert sven.eval_on_selector_all("#answer :is(button, a, input:not([type=checkbox]), select, .check)", low) == []


def test_page_asks_for_no_steps_while_its_answer_is_sent(house, agent, guests, person):
    ask, waiting, frames = agent.ask(steps=2), [], []
    zoe = person(guests["zoe"])
    zoe.on("websocket", lambda line: line.on("framereceived", lambda frame: frames.append(str(frame))))
    claimed(zoe, house, ask)
    zoe.evaluate(ASKED_WHILE_SENDING)
    zoe.route("**/answer", lambda route: (route.fetch(max_retries=3), waiting.append(route)))
    zoe.keyboard.type("Into 1.")
    zoe.keyboard.press("Control+Enter")
    # the server has taken it, and the frame of its end is here, before its response
    until(lambda: zoe.evaluate("1") and waiting and any('"answered_by": "zoe"' in frame for frame in frames), 60)
    assert [url for url in zoe.evaluate("asked") if "steps.html" in url] == []
    with zoe.expect_request("**/steps.html?*"):
        waiting[0].abort()


def test_send_and_next_swaps_ask_and_survives_back_and_reload(house, agent, guests, person):
    agent_of = {agent.ask(tools=TOOLS, steps=2, deadline_s=300 + n): agent.episode for n in range(3)}
    first, second, third = agent_of
    xenia = claimed(person(guests["xenia"]), house, first)
    xenia.evaluate("document.kept = true")
    xenia.keyboard.type("Into 1.")
    slow = []  # what the first ask asked for comes when the second is on the page
    for part in (f"**/asks/{first}/steps.html?*", f"**/asks/{first}/tag", f"**/asks/{first}/model-draft*"):
        xenia.route(part, lambda route: slow.append(route))
    ask_again = """() => {
      document.dispatchEvent(new Event("visibilitychange"));
      document.querySelector("[data-act=draft]").click();
      document.querySelector("[data-act=tag-needed]").click();
    }"""
    xenia.evaluate(ask_again)
    until(lambda: xenia.evaluate("1") and len({route.request.url.partition("?")[0] for route in slow}) == 3, 60)
    xenia.keyboard.press("Control+Enter")
    xenia.wait_for_url(f"**/asks/{second}/")
    expect(xenia.locator("#advice")).to_be_focused()
    xenia.route(f"**/asks/{second}/steps.html?*", lambda route: route.abort())  # it would draw the parts again
    for route in slow:
        with xenia.expect_response(route.request.url) as late:
            route.continue_()
        late.value.finished()
    xenia.evaluate("fetch('/health').then((one) => one.text())")
    shown = "all => all.map(one => one.dataset.copyText)"
    assert xenia.eval_on_selector_all("[data-part=ask-episode] [data-copy-text]", shown) == [second, agent_of[second]]
    assert xenia.locator("[data-part=model-draft]").get_attribute("data-url").endswith(f"/asks/{second}/model-draft")
    assert xenia.locator("[data-act=tag-needed]").inner_text().endswith("not set")
    xenia.unroute(f"**/asks/{second}/steps.html?*")
    expect(xenia.locator("#advice")).to_have_value("")
    expect(xenia).to_have_title(re.compile("answer$"))
    assert xenia.evaluate("document.kept"), "the page was loaded"
    xenia.keyboard.type("Into 2, ")
    expect(xenia.locator("[data-saved]")).to_contain_text("saved")
    xenia.go_back()
    expect(xenia.locator("#answer")).to_contain_text("Into 1.")
    xenia.go_forward()
    expect(xenia.locator("#advice")).to_have_value("Into 2, ")
    xenia.reload()
    expect(xenia.locator("#advice")).to_be_focused()  # before it, letters are keys: l opens a dialog
    deafen(xenia)  # an ask of another test that opens now would drop the one that is fetched
    with xenia.expect_response("**/next") as fetched:
        xenia.keyboard.type("really.")
    expect(xenia.locator("#advice")).to_have_value("Into 2, really.")
    fetched.value.finished()
    xenia.evaluate("fetch('/health').then((one) => one.text())")  # after it the page has read what it fetched before
    held = []
    xenia.route("**/answer", lambda route: held.append(route))
    with xenia.expect_request("**/answer"):
        xenia.keyboard.press("Control+Enter")
    expect(xenia.locator("main")).to_have_attribute("data-ask", third)  # before it is claimed
    expect(xenia.locator("#advice")).to_be_focused()
    xenia.keyboard.type("Too early")
    xenia.keyboard.press("Control+Enter")
    held[0].abort()
    expect(xenia.locator("[data-problem]")).to_contain_text("Not sent")
    expect(xenia.locator("#advice")).to_have_value("Into 2, really.")
    expect(xenia.locator("#advice")).to_be_focused()
    assert len(held) == 1 and agent.look(third)["status"] == "open"
    xenia.unroute("**/answer")
    xenia.keyboard.press("End")  # the same key again would be the press of before, held
    expect(xenia.locator("[data-keyline] kbd").first).to_be_visible()
    xenia.keyboard.press("Control+Enter")
    xenia.wait_for_url(f"**/asks/{third}/")
    expect(xenia.locator("[data-keyline] kbd").first).to_be_visible()
    xenia.keyboard.press("Escape")
    covers = """() => {
      const [toast, bar] = [".said", ".actions"].map((one) => document.querySelector(one).getBoundingClientRect());
      const apart = toast.right <= bar.left || bar.right <= toast.left || toast.bottom <= bar.top;
      return toast.height > 0 && !apart;
    }"""
    for width, words in ((390, "You are set to Away."), (1024, "You are available."), (1440, "You are set to Away.")):
        xenia.set_viewport_size({"width": width, "height": 900})
        xenia.keyboard.press("Shift+A")
        expect(xenia.locator("[data-said]")).to_have_text(words)
        assert not xenia.evaluate(covers), width
    xenia.keyboard.press("i")  # keys and forms are those of the ask that is shown
    xenia.keyboard.type("close")
    xenia.keyboard.press("Enter")
    xenia.keyboard.press("Control+Enter")
    left(xenia, third)
    assert [agent.look(one)["advice"]["text"] for one in (first, second, third)] == ["Into 1.", "Into 2, really.", ""]
    assert [call["name"] for call in agent.look(third)["advice"]["tool_calls"]] == ["close_ticket"]


PASTE = """(form, [name, type, text]) => {
  const clipboardData = new DataTransfer();
  clipboardData.items.add(new File([text], name, { type }));
  form.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
}"""


def test_files_are_picked_pasted_and_sent_with_the_answer(house, agent, person, guests):
    ask = agent.ask()
    with SyncHttpDashboard(house.url, house.token("agent")) as dash:
        asked = dash.attach(ask, "where it failed.png", PICTURE)
        page = claimed(person(guests["yann"]), house, ask)
        thumb = page.get_by_role("img", name="where it failed.png")
        assert thumb.evaluate("img => img.decode().then(() => img.naturalWidth)") == 320
        page.keyboard.type("As marked.")
        files = page.get_by_role("list", name="Files of your answer").get_by_role("listitem")
        with page.expect_file_chooser() as chooser:
            page.get_by_role("button", name="Attach", exact=True).click()
        chooser.value.set_files({"name": "marked.png", "mimeType": "image/png", "buffer": PICTURE})
        expect(files).to_have_count(1)
        form = page.locator("form[data-answer]")
        # refused by its bytes, whatever it is called
        form.evaluate(PASTE, ["fake.png", "image/png", "<svg onload='alert(1)'/>"])
        expect(page.locator("[data-file-problem]")).to_contain_text("fake.png: Only PNG")
        for name in ("steps.csv", "wrong.txt"):
            form.evaluate(PASTE, [name, "text/plain", f"{name},1"])
        expect(files).to_have_count(3)
        page.get_by_role("button", name="Remove wrong.txt").click()
        expect(files).to_have_count(2)
        page.reload()
        expect(files.get_by_role("link")).to_have_text(["marked.png", "steps.csv"])
        assert files.get_by_role("img").evaluate("img => img.decode().then(() => img.naturalWidth)") == 320
        assert dash.attachments(ask) == [asked]
        page.locator("#advice").press("Control+Enter")
        left(page, ask)
        sent = agent.look(ask)["advice"]["files"]
        assert [dash.download(one["id"]) for one in sent] == [PICTURE, b"steps.csv,1"]
        page.goto(f"{house.url}/asks/{ask}/")
        links = page.get_by_role("list", name="Files of the answer").get_by_role("link")
        expect(links).to_have_text(["marked.png", "steps.csv"])
        with page.expect_download() as download:
            links.first.click()
        assert download.value.path().read_bytes() == PICTURE
