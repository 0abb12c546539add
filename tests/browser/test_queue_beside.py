"""The queue in two panes: looking claims nothing, the first letter does, and rows go on without a page load."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.test_two_at_the_queue import ask, queue_of, row

__all__ = ["ask"]
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def house(desk):
    return desk.with_project("beside")


@pytest.fixture(scope="module")
def loop(house):
    with house.http(house.token("agent")) as loop:
        yield loop


def test_keys_look_claim_send_and_decline_beside_the_list(house, ask, person):
    first, second, third = (ask(f"{name} stays open?", f"task {name}", 600 + n) for n, name in enumerate("ABC"))
    edo, lena = (person(house.link(name, "expert")) for name in ("edo", "lena"))
    queue_of(edo, house)
    loads = []
    edo.on("request", lambda request: loads.append(request.url) if request.is_navigation_request() else None)
    pane, text = edo.locator("#main"), edo.locator("#main textarea[name=text]")

    edo.keyboard.press("j")
    expect(pane.locator("h1")).to_contain_text("A stays open?")
    expect(pane.locator("[data-unclaimed]")).to_be_visible()
    edo.keyboard.press("j")
    edo.keyboard.press("k")
    expect(pane.locator("h1")).to_contain_text("A stays open?")
    expect(edo).to_have_url(re.compile(f"ask={first}"))
    queue_of(lena, house)
    expect(row(lena, first)).not_to_contain_text("Claimed by")

    text.click()
    edo.keyboard.type("It does.")
    expect(pane.locator("[data-lease]")).to_be_visible()
    expect(row(lena, first)).to_contain_text("Claimed by edo")
    edo.reload()
    expect(text).to_have_value("It does.")

    text.click()
    loads.clear()
    edo.keyboard.press("Control+Enter")
    expect(pane.locator("h1")).to_contain_text("B stays open?")
    expect(text).to_be_focused()
    expect(pane.locator("[data-unclaimed]")).to_be_visible()
    expect(row(edo, first)).to_have_attribute("data-gone", "")

    edo.keyboard.press("Escape")
    pane.locator("[data-act=pass]").click()
    expect(edo.locator("dialog[open]")).to_contain_text("Others can still answer")
    edo.locator("dialog[open] button.main").click()
    expect(edo.locator("[data-said]")).to_contain_text("Declined. Others can still answer")
    expect(pane.locator("h1")).to_contain_text("C stays open?")
    expect(row(edo, third)).to_have_attribute("aria-selected", "true")

    lena.goto(f"{house.url}/asks/{third}/")
    lena.locator("[data-act=claim]").click()
    expect(pane).to_contain_text("lena is answering")
    assert loads == [] and row(edo, second).count() == 1


def test_keys_of_a_row_wait_for_a_row(house, ask, person):
    first = ask("Is a row in view?", "row", 500)
    edo = person(house.link("edo", "expert"))
    queue_of(edo, house)
    line = edo.locator("[data-keyline]")

    expect(line).to_contain_text("next row")
    expect(line).not_to_contain_text("claim and open")
    edo.keyboard.press("j")
    expect(line).to_contain_text("claim and open")
    edo.locator("[data-search]").fill("nothing is like this")
    edo.keyboard.press("Enter")
    expect(row(edo, first)).to_have_count(0)
    edo.evaluate("document.activeElement.blur()")
    expect(line).to_contain_text("search")
    expect(line).not_to_contain_text("next row")


def test_esc_leaves_a_text_for_its_ask_and_the_ask_for_its_row(house, ask, person):
    first = ask("Where does Esc lead?", "esc", 400)
    edo = person(house.link("edo", "expert"))
    queue_of(edo, house)
    row(edo, first).locator("a[data-row=open]").click()
    text = edo.locator("#main textarea[name=text]")
    text.click()
    edo.keyboard.type("To the ask.")

    edo.keyboard.press("Escape")
    expect(edo.locator("#main")).to_be_focused()
    edo.keyboard.press("w")
    expect(text).to_be_focused()
    for _ in range(3):  # to the ask, to the list, and no further
        edo.keyboard.press("Escape")
    expect(edo.locator("#list")).to_be_focused()
    expect(row(edo, first)).to_have_attribute("aria-selected", "true")


def test_next_ask_is_the_equal_one_of_a_folded_group(house, ask, person):
    group = [ask(f"Where does the boat land{'?' * (1 + n)}", f"boat {n}", 600 + n) for n in range(3)]
    other = ask("Which sail is torn?", "sail", 700)
    edo = queue_of(person(house.link("edo", "expert")), house)
    pane = edo.locator("#main")
    head = edo.locator("#list [data-list] > [aria-selected=true]")
    edo.keyboard.press("j")
    for place, mine in enumerate(group):
        expect(pane).to_have_attribute("data-ask", mine)
        expect(head).to_have_attribute("data-key", mine)
        pane.locator("textarea[name=text]").click()
        edo.keyboard.type(f"At pier {place}.")
        for box in pane.locator("[data-part=same] input:checked").all():
            box.uncheck()
        edo.keyboard.press("Control+Enter")
    expect(pane).to_have_attribute("data-ask", other)
    expect(row(edo, other)).to_have_attribute("aria-selected", "true")


def test_ask_after_a_transfer_leaves_the_focus_in_the_list(house, ask, person):
    first, second = ask("Who has the key?", "key", 600), ask("Who has the map?", "map", 700)
    owner = queue_of(person(house.link("owner", "admin")), house, "?q=who+has")
    owner.keyboard.press("j")
    expect(owner.locator("#main")).to_have_attribute("data-ask", first)
    owner.keyboard.press("Shift+T")
    owner.keyboard.press("Tab")
    owner.keyboard.type("ask the porter")
    owner.keyboard.press("Enter")
    expect(owner.locator("#main")).to_have_attribute("data-ask", second)
    expect(owner.locator("#list")).to_be_focused()
    owner.keyboard.press("Shift+V")
    expect(owner.locator("#views")).to_be_visible()


def test_late_look_at_a_lost_ask_leaves_the_list_its_keys(house, ask, person):
    mine = ask("Who painted the blue door?", "task of doors")
    owner = queue_of(person(house.link("owner", "admin")), house, "?q=painted")
    held = []
    owner.route(f"**/asks/{mine}/look", lambda look: held.append(look))
    with owner.expect_request(f"**/asks/{mine}/look"):
        owner.keyboard.press("j")
    owner.keyboard.press("Shift+T")
    owner.keyboard.press("Tab")
    owner.keyboard.type("ask the painter")
    owner.keyboard.press("Enter")
    expect(owner.locator("[data-said]")).to_contain_text("Transferred to ")
    with owner.expect_response(f"**/asks/{mine}/look"):
        held[0].continue_()
    expect(owner.locator("#main")).to_contain_text("Select an ask")
    owner.keyboard.press("Shift+V")
    expect(owner.locator("#views")).to_be_visible()
    expect(owner.locator("#main")).to_contain_text("Select an ask")
