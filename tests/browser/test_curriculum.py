"""The page Curriculum in a browser: it follows a trainer, goes by keys, and fits a dark phone."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from awmclient.client import SyncHttpDashboard

pytestmark = pytest.mark.browser
WHY = "rollouts get an expert, because"


def play(dash, run, step, executed):
    """Eight rollouts of a step, of which some hold an executable call."""
    for number in range(8):
        episode = dash.start_episode("Sell.", key=f"{step}-{number}", run=run, training_step=step, scenario="shop")
        if number < executed:
            episode.append({"kind": "tool_call", "name": "sell", "arguments": {}, "result": 1})
        episode.finish("done")


def test_page_follows_a_trainer_and_takes_a_decision_by_keys(house, person):
    page = person(house.link("ada", "admin"))
    with SyncHttpDashboard(house.url, house.token("agent")) as dash:
        run = dash.start_run("t-31", key="t-31")
        play(dash, run, 1, executed=1)
        assert dash.report_step(run, 1, losses={"policy": 0.5}).next_phase == "scaffold"
        page.goto(f"{house.url}/curriculum/?run={run}")
        heading = page.locator("h1")
        expect(heading).to_have_text(f"Scaffold: 6 of 8 {WHY} 88% of step 1 were format errors.")
        expect(page.locator("#connection-words")).to_have_text("Live")
        play(dash, run, 2, executed=4)
        dash.report_step(run, 2)
        expect(heading).to_have_text(f"Balanced: 4 of 8 {WHY} 50% of step 2 were format errors.")

        page.keyboard.press("h")
        expect(page.locator("#decision")).to_be_focused()
        page.select_option("#decision", "override:scaffold")
        page.get_by_label("Reason").fill("New tools: two jumps at once are too much.")
        page.keyboard.press("Control+Enter")
        expect(heading).to_have_text("Scaffold, held by ada: 6 of 8 rollouts get an expert.")
        coming = dash.next_tasks(3, run=run, seed=1)
        assert (coming.phase, coming.decided_by, coming.ratio.expert, len(coming.tasks)) == ("scaffold", "person", 6, 3)
        assert dash.next_tasks(3, run=run, seed=1, snapshot=coming.snapshot) == coming
        expect(page.locator("#snapshot")).to_have_text(coming.snapshot)
        page.keyboard.press("j")
        expect(page.locator("tr[aria-selected=true]")).to_have_count(1)
        page.get_by_role("button", name="Undo").click()
        expect(heading).to_contain_text("Balanced: 4 of 8")


def test_page_fits_a_dark_phone(house, person):
    page = person(house.link("edo", "expert"), viewport={"width": 390, "height": 844}, color_scheme="dark")
    page.goto(f"{house.url}/curriculum/")
    expect(page.locator("h1")).to_be_visible()
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 390
