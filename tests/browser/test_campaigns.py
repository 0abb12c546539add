"""A campaign in a browser: from failed episodes to the curve of what the same words are worth, by keys."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.test_every_page import AXE, COLORS, SERIOUS
from tests.browser.test_reviewing import press
from tests.running import until

pytestmark = pytest.mark.browser
PLAN = {"tasks": {"scenarios": ["helpdesk_1"], "limit": 3}, "arms": [{"name": "wrong", "policy": "script:negative"}]}


@pytest.fixture
def failed(house):
    """The run of three episodes that failed, by name."""
    with house.http(house.token("launch")) as loop:
        run = loop.post("/runs", json={"name": "wrong ones", "plan": PLAN}).raise_for_status().json()["id"]
        until(lambda: loop.get(f"/runs/{run}").json()["state"] == "finished", 300)
    return run


def test_a_campaign_is_estimated_launched_and_read_by_keys(house, person, failed):
    page = person(house.link("mina", "admin"), color_scheme="dark")
    page.goto(f"{house.url}/runs/")
    page.get_by_role("link", name="What-if campaigns").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/campaigns/")
    page.get_by_label("Branches per arm").fill("1")
    page.locator("#roots .facet-rail").get_by_role("link", name="wrong ones").click()
    expect(page.locator("#roots")).to_contain_text("3 episodes match.")
    expect(page.get_by_label("Branches per arm")).to_have_value("1")  # what was typed stays
    page.get_by_label("Times, in % of the turns").fill("0, 50")
    page.locator("[name=words]").focus()
    press(page, "Control+Enter")
    expect(page.get_by_role("alert")).to_contain_text("Words: ")
    page.locator("[name=words]").fill("Read the task once more.")
    press(page, "Control+Enter")
    takes = page.locator("#takes")
    expect(takes).to_contain_text("3 episodes match. 3 can be forked:")
    expect(takes).to_contain_text("can show nothing.")
    page.locator("[name=words]").focus()
    press(page, "Control+Enter")
    page.wait_for_url("**/campaigns/*/")
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_contain_text("A script makes the same choices", timeout=120_000)
    expect(page.get_by_text("0 of 3 episodes left out")).to_have_count(0)
    page.reload()
    expect(
        page.locator("#plot-" + page.locator("[data-chart]").get_attribute("data-chart") + " svg").first
    ).to_be_visible()
    page.get_by_text("Show numbers").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("cell", name="50%", exact=True)).to_be_visible()
    for size in ({"width": 1440, "height": 900}, {"width": 390, "height": 844}):
        page.set_viewport_size(size)
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    if AXE.exists():
        page.evaluate(AXE.read_text(encoding="utf-8"))
        assert page.evaluate(COLORS) == []
        page.emulate_media(color_scheme="light")
        assert page.evaluate(SERIOUS) == []
    page.set_viewport_size({"width": 1440, "height": 900})
    page.locator("h1").click()
    press(page, "j")
    press(page, "Enter")
    page.wait_for_url("**/forks/*/")
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{house.url}/campaigns/")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    expect(page.get_by_role("link", name="Until when does advice help?").first).to_be_visible()


def test_a_live_campaign_is_cancelled_in_its_dialog(house, person, failed):
    page = person(house.link("mina", "admin"))
    about = {"change": {"words": "Look."}, "query": f"?run={failed}", "at": "times", "tries": 6}
    with house.http(house.token("launch")) as loop:
        made = loop.post("/campaigns", json=about).raise_for_status().json()
        page.goto(f"{house.url}/campaigns/{made['id']}/")
        if page.get_by_role("button", name="Cancel campaign").count():
            page.get_by_role("button", name="Cancel campaign").first.click()
            page.get_by_role("dialog").get_by_role("button", name="Cancel campaign").click()
            expect(page.get_by_role("heading", level=1)).to_contain_text("Cancelled by a person")
        until(lambda: loop.get(f"/campaigns/{made['id']}").json()["state"] in ("cancelled", "ended"), 60)
        assert loop.get("/episodes", params={"run": failed, "state": "running"}).json()["items"] == []
