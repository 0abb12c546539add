"""Pages in their states: what is drawn is what works now, and the focus is where a person goes on (`docs/keys.md`)."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

FAULTS = """async () => {
  const shell = document.querySelector('script[src$="/shell.js"]').src;
  const { capsOf, workingKeys } = await import(shell.replace("shell.js", "keys.js"));
  for (const frame of [1, 2]) await new Promise(requestAnimationFrame);
  const works = new Map(workingKeys().map(({ id, keys, words }) => [id, { cap: capsOf(keys[0]).join(""), words }]));
  const isShown = (one) => one.checkVisibility({ visibilityProperty: true });
  const types = document.activeElement.matches("textarea, select, input:not([type=checkbox], [type=radio])");
  const faults = [];
  for (const slot of document.querySelectorAll("body > :not(dialog) [data-cap]")) {
    const { textContent: cap, dataset: { cap: id } } = slot;
    if (![...slot.querySelectorAll("kbd")].some(isShown)) continue;
    if (works.get(id)?.cap !== cap) faults.push(`drawn, and does not work: ${id}`);
    if (types && !/^Ctrl/.test(cap)) faults.push(`drawn, and would be typed: ${cap}`);
  }
  const words = [...works.values()].map(({ cap, words }) => `${cap} ${words}`);
  const line = [...document.querySelectorAll("[data-keyline] > span")].map((span) => span.textContent);
  faults.push(...line.filter((said) => !words.includes(said)).map((said) => `in the key line: ${said}`));
  if (!line.length) faults.push("the key line is empty");
  const loose = [...document.querySelectorAll("main kbd")].filter((one) => !one.closest("[data-cap], dialog"));
  return [...faults, ...loose.map((one) => `drawn by hand: ${one.textContent}`)];
}"""
OPTIONS = [{"id": f"row_{number}", "label": f"Row {number}"} for number in range(1, 51)]
CALL = {"id": "1", "name": "create_refund", "arguments": {"amount": 249, "order": 7}}
FORM = {"type": "object", "required": ["contact"], "properties": {"contact": {"type": "string"}}}
RETURNED = {"error": {"code": "second_look_rule", "message": "Not sent: it names no date."}}


@pytest.fixture(scope="module")
def place(house):
    return house.with_project("holding")


def opens(loop, number, question, **typed):
    """An ask of an episode of its own; the first of them is due first."""
    start = {"key": question, "task": "Refund", "expert": "plain"}
    episode = loop.post("/episodes", json=start).json()["id"]
    body = {"key": "a", "episode": episode, "seq": 1, "question": question, "deadline_s": 2000 + number, **typed}
    return loop.post("/asks", json=body).json()["id"]


def awake(page):
    expect(page.locator("[data-keyline] kbd").first).to_be_visible()


def holds(page, focus=""):
    """The page wakes, and holds the rule; with a selector, the focus is there."""
    awake(page)
    if focus:
        expect(page.locator(focus).first).to_be_focused()
    assert page.evaluate(FAULTS) == [], page.url


def sends_to(page, ask, key="Control+Enter"):
    """Send, and see the next ask in the place of this one."""
    expect(page.locator("[data-saved]")).to_contain_text("saved")
    page.keyboard.press(key)
    page.wait_for_url(f"**/asks/{ask}/")


def test_expert_goes_from_kind_to_kind_by_keys(place, person):
    with place.http(place.token("agent")) as loop:
        kinds = [
            ("To whom?", {}),
            ("Which row?", {"kind": "choice", "options": OPTIONS[:3]}),
            ("And of these?", {"kind": "choice", "options": OPTIONS}),
            ("May I?", {"kind": "approval", "calls": [CALL], "on_timeout": "reject"}),
            ("What is it?", {"kind": "form", "response_schema": FORM}),
            ("By when?", {}),
            ("And then?", {}),
        ]
        asks = [opens(loop, number, words, **typed) for number, (words, typed) in enumerate(kinds)]
        page = person(place.link("lea", "expert"))
        page.goto(f"{place.url}/asks/{asks[0]}/")
        holds(page)
        page.keyboard.press("c")
        holds(page, "#advice")
        page.keyboard.type("To Ann.")
        page.keyboard.press("Escape")
        holds(page)
        page.keyboard.press("p")
        expect(page.locator("#pass input:not([type=hidden])")).to_be_focused()
        page.keyboard.press("Escape")
        holds(page)
        page.keyboard.press("w")
        sends_to(page, asks[1])
        holds(page, ".option input")
        page.keyboard.press("2")
        expect(page.locator("input[value=row_2]")).to_be_checked()
        sends_to(page, asks[2])
        holds(page, ".option input")  # not in the note, which is below fifty options
        page.keyboard.press("3")
        expect(page.locator("#advice")).to_have_value("")
        page.locator("#advice").focus()
        holds(page, "#advice")  # digits are typed, so none is drawn
        page.keyboard.press("Escape")
        holds(page, "[data-panel]")
        page.keyboard.press("4")
        expect(page.locator("input[value=row_4]")).to_be_checked()
        sends_to(page, asks[3])
        edits_and_approves(page)
        sends_to(page, asks[4])
        holds(page, "[data-argument=contact]")
        page.keyboard.type("Ann")
        page.keyboard.press("Escape")
        holds(page, "[data-panel]")
        sends_to(page, asks[5])
        is_returned_and_typed_on(page)
        page.keyboard.press("Control+Shift+Enter")
        expect(page.locator("[data-keyline]")).to_contain_text("edit answer")
        holds(page)
        assert loop.post(f"/asks/{asks[5]}/consumed").is_success
        expect(page.get_by_role("link", name="Edit answer")).to_be_hidden()
        expect(page.locator("[data-keyline]")).not_to_contain_text("edit answer")
        holds(page)
        answers = [loop.get(f"/asks/{ask}").json()["advice"] for ask in asks[:6]]
    assert [answer["text"] for answer in answers] == ["To Ann.", "", "", "", "", "No date.On Nov 30."]
    assert [answer["decision"] for answer in answers[1:5]] == [
        {"chosen": ["row_2"]},
        {"chosen": ["row_4"]},
        {"calls": [{"id": "1", "verdict": "edit", "arguments": {"amount": 5, "order": 7}}]},
        {"value": {"contact": "Ann"}},
    ]


def edits_and_approves(page):
    """An edit is approved as it was typed; the agent's values come back by a button alone."""
    card, amount = page.locator(".callcard"), page.locator("[data-argument=amount]")
    holds(page, ".callcard")
    page.keyboard.press("e")
    amount.fill("3")
    for key in ("Escape", "a"):
        page.keyboard.press(key)
    expect(card).to_have_attribute("data-decided", "edit")
    holds(page, ".callcard")
    page.get_by_role("button", name="Use the agent's values").click()
    expect(card).to_have_attribute("data-decided", "approve")
    page.keyboard.press("e")
    expect(amount).to_have_value("249")
    amount.fill("5")
    for key in ("Escape", "a"):
        page.keyboard.press(key)


def is_returned_and_typed_on(page):
    """A refusal, while the next ask is already shown, gives the focus back: what is typed is text, and sets no tag."""
    holds(page, "#advice")
    with page.expect_response("**/next"):
        page.keyboard.type("No date.")
    page.route("**/answer", lambda route: route.fulfill(status=422, json=RETURNED), times=1)
    page.keyboard.press("Control+Enter")
    expect(page.locator("[data-problem]")).to_have_text("Not sent: it names no date.")
    holds(page, "#advice")
    page.keyboard.type("On Nov 30.")
    expect(page.locator("[data-act=tag-late]")).to_contain_text("not set")


def test_commands_give_the_focus_back(place, person):
    page = person(place.link("lena", "admin"))
    page.goto(f"{place.url}/queue/")
    holds(page)
    page.keyboard.press("Control+k")
    expect(page.locator("#palette input")).to_be_focused()
    page.keyboard.press("Escape")
    holds(page)
