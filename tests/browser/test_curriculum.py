"""The page Curriculum in a browser: it follows a trainer, goes by keys, and fits a dark phone."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from awmclient.client import SyncHttpDashboard
from tests.browser.hovering import hovered, told

pytestmark = pytest.mark.browser
WHY = "rollouts get an expert;"


def play(dash, run, step, executed):
    """Eight rollouts of a step, of which some hold an executable call."""
    for number in range(8):
        episode = dash.start_episode(
            "Sell.", key=f"{run}-{step}-{number}", run=run, training_step=step, scenario="shop"
        )
        if number < executed:
            episode.append({"kind": "tool_call", "name": "sell", "arguments": {}, "result": 1})
        episode.finish("done")


def test_page_follows_a_trainer_and_takes_a_decision_by_keys(house, person):
    page = person(house.link("ada", "admin"))
    with SyncHttpDashboard(house.url, house.token("agent")) as dash:
        run = dash.start_run("t-31", key="page-31")
        play(dash, run, 1, executed=1)
        assert dash.report_step(run, 1, losses={"policy": 0.5}).next_phase == "scaffold"
        complaints = []
        page.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
        page.goto(f"{house.url}/curriculum/?run={run}")
        expect(page.get_by_role("img", name="Format errors: 88% at step 1, 88% at step 1.")).to_be_visible()
        page.evaluate("window.kept = document.querySelector('#plot-format-errors .main-svg')")
        heading = page.locator("h1")
        expect(heading).to_have_text(f"Scaffold: 6 of 8 {WHY} 88% of step 1 were format errors.")
        expect(page.locator("#connection-words")).to_have_text("Live")
        play(dash, run, 2, executed=4)
        dash.report_step(run, 2)
        expect(heading).to_have_text(
            f"Scaffold: 6 of 8 {WHY} 50% of step 2 were format errors, not yet enough for Balanced."
        )
        expect(page.get_by_role("img", name="Format errors: 88% at step 1, 50% at step 2.")).to_be_visible()
        assert page.evaluate("kept.isConnected"), "the same drawing, with another step"

        page.keyboard.press("h")
        expect(page.locator("#decision")).to_be_focused()
        page.select_option("#decision", "override:balanced")
        page.get_by_label("Reason").fill("New tools: two jumps at once are too much.")
        page.keyboard.press("Control+Enter")
        expect(heading).to_have_text("Balanced, held by ada: 4 of 8 rollouts get an expert.")
        coming = dash.next_tasks(3, run=run, seed=1)
        assert (coming.phase, coming.decided_by, coming.ratio.expert, len(coming.tasks)) == ("balanced", "person", 4, 3)
        assert dash.next_tasks(3, run=run, seed=1, snapshot=coming.snapshot) == coming
        expect(page.locator("#snapshot")).to_have_text(coming.snapshot)
        expect(page.locator("#connection-words")).to_have_text("Live")  # this page's scripts are there
        page.keyboard.press("j")
        expect(page.locator("tr[aria-selected=true]")).to_have_count(1)
        page.get_by_role("button", name="Undo").click()
        expect(heading).to_contain_text("Scaffold: 6 of 8")
        assert complaints == []


def decide(page, kind, reason, task=""):
    """A decision by keys alone: from the key to the form, through its fields, and sent."""
    expect(page.locator("#connection-words")).to_have_text("Live")
    page.keyboard.press("h")
    expect(page.locator("#decision")).to_be_focused()
    page.keyboard.type(kind)  # a list of choices goes to the one whose words begin so
    for words in (task, reason):
        page.keyboard.press("Tab")
        page.keyboard.type(words)
    page.keyboard.press("Control+Enter")


def test_pin_skip_and_freeze_are_made_and_undone_by_keys(house, person):
    page = person(house.link("ada", "admin"))
    with SyncHttpDashboard(house.url, house.token("agent")) as dash:
        run = dash.start_run("t-32", key="page-32")
        play(dash, run, 1, executed=8)
        dash.report_step(run, 1, components={"overall": 0.5})
        [first, second] = [one.task for one in dash.next_tasks(2, run=run, seed=1).tasks]
        page.goto(f"{house.url}/curriculum/?run={run}")
        story = page.locator("[data-decision]")

        decide(page, "Pin", "Its verifier is new.", first)
        expect(story).to_have_count(1)
        decide(page, "Skip", "Its text is ambiguous.", second)
        expect(story).to_have_count(2)
        drawn = [one.task for one in dash.next_tasks(8, run=run, seed=2).tasks]
        assert drawn[0] == first and second not in drawn
        decide(page, "Skip", "I mistyped it.", "nowhere/0")
        expect(page.get_by_role("alert")).to_contain_text("nowhere/0")
        expect(page.get_by_label("Reason")).to_have_value("I mistyped it.")
        page.goto(f"{house.url}/curriculum/?run={run}")
        decide(page, "Freeze", "The paper needs one curriculum.")
        expect(story).to_have_count(3)
        frozen = dash.next_tasks(1, run=run, seed=3).snapshot
        play(dash, run, 2, executed=0)
        dash.report_step(run, 2)
        assert dash.next_tasks(1, run=run, seed=3).snapshot == frozen

        for left in (3, 2, 1):
            undo = page.get_by_role("button", name="Undo").first
            undo.focus()
            page.keyboard.press("Enter")
            expect(page.get_by_text("Undone by ada")).to_have_count(4 - left)
        assert dash.next_tasks(1, run=run, seed=3).phase == "scaffold"

        page.goto(f"{house.url}/curriculum/?run={run}")
        expect(page.locator("#h-turns")).to_have_text("Generations of step 2")
        page.keyboard.press("[")
        expect(page.locator("#h-turns")).to_have_text("Generations of step 1")
        expect(page.locator("article.turn")).to_have_count(5)


def test_point_of_a_chart_says_what_its_table_has(house, person):
    page = person(house.link("edo", "expert"))
    with SyncHttpDashboard(house.url, house.token("agent")) as dash:
        run = dash.start_run("t-34", key="t-34")
        for step, executed in ((1, 1), (2, 4)):
            play(dash, run, step, executed)
            dash.report_step(run, step)
    page.goto(f"{house.url}/curriculum/?run={run}")
    errors = page.locator("[data-chart=format-errors]")
    rows = told(errors)
    assert [row[:3] for row in rows] == [["1", "7 of 8", "88%"], ["2", "4 of 8", "50%"]]
    for place, (step, part, share, interval) in enumerate(rows):
        assert hovered(errors, 1, place) == [f"step {step}: {share}, {part}", f"95% {interval}"]


def test_page_fits_a_dark_phone(house, person):
    page = person(house.link("edo", "expert"), viewport={"width": 390, "height": 844}, color_scheme="dark")
    with SyncHttpDashboard(house.url, house.token("agent")) as dash:
        run = dash.start_run("t-33", key="t-33")
        play(dash, run, 1, executed=4)
        dash.report_step(run, 1, components={"overall": 0.5})
    page.goto(f"{house.url}/curriculum/?run={run}")
    expect(page.locator("article.turn")).to_have_count(5)
    page.get_by_role("heading", name="reward/overall").scroll_into_view_if_needed()
    expect(page.get_by_role("img", name="reward/overall: 0.5 at step 1, 0.5 at step 1.")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate(
        "getComputedStyle(document.body).colorScheme || matchMedia('(prefers-color-scheme: dark)').matches"
    )
