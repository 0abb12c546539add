"""A run in a browser: launched, paused, resumed after a kill of its worker, and compared after its last episode."""

from __future__ import annotations

import os
import re
import signal

import pytest
from playwright.sync_api import expect

from tests.browser.hovering import hovered, told
from tests.running import until

pytestmark = pytest.mark.browser
PLAN = """
name: Does the right script help?
tasks: {limit: 6}
arms:
  - {name: wrong, policy: "script:negative"}
  - {name: right, policy: "script:oracle"}
parallel: 1
"""


def chart_of(page, title):
    return page.locator("[data-chart]").filter(has=page.get_by_role("heading", name=title))


def see_the_charts(page, tmp_path):
    """The forest plot: its words, its table, its picture, and its colors by theme."""
    chart = chart_of(page, "Difference in completion by scenario")
    drawing = chart.locator(".plot[role=img]")
    expect(drawing).to_have_attribute("aria-label", re.compile(r"all tasks \+100 points"))
    expect(drawing.locator("path.point").last).to_be_visible()
    expect(drawing.get_by_text("no effect")).to_be_visible()
    chart.get_by_text("Show numbers").click()
    expect(chart.get_by_role("row").last).to_contain_text("All tasks")
    with page.expect_download() as download:
        chart.get_by_role("button", name="Download PNG").click()
    download.value.save_as(tmp_path / "forest.png")
    assert (tmp_path / "forest.png").read_bytes().startswith(b"\x89PNG") and download.value.suggested_filename[
        -4:
    ] == ".png"
    color = "document.querySelector('[data-chart^=forest] .plot').data[0].marker.color"
    light = page.evaluate(color)
    page.get_by_role("button", name="Switch theme").click()
    until(lambda: page.evaluate(color) != light, 60)
    page.locator("#h-rewards").scroll_into_view_if_needed()
    page.mouse.wheel(0, 600)
    expect(chart_of(page, "Shaped reward pr428, mean so far").locator(".plot[role=img]")).to_be_visible()


def point_at_the_charts(page):
    """What appears at a point is what the chart's table has: in the forest plot and in both lines of the other."""
    forest = chart_of(page, "Difference in completion by scenario")
    name, tasks, won, lost, total, _ = told(forest)[-1]
    assert [name, won, lost] == ["All tasks", tasks, "0"], "every task is won"
    lines = " ".join(hovered(forest, -1, 0))
    assert lines.startswith("All tasks") and total in lines and f"{won} won" in lines
    completions = chart_of(page, "Complete episodes so far")
    for row in (told(completions)[0], told(completions)[-1]):
        for place, arm in enumerate(("wrong", "right")):
            assert hovered(completions, place, int(row[0])) == [f"{arm}: {row[1 + place]} of {row[0]}"]


def nothing_is_at_work(page):
    """Whether every episode that began has its outcome; the page's own refresh waits while a run is paused."""
    page.reload()
    return page.locator('[aria-label*="0 left out, 0 live of"]').count() == 2


def open_from_the_list(page, address, run):
    """By keys; the list refreshes itself while a run is active, and the row in view stays in view."""
    page.goto(address)
    row = page.locator(f"[data-key='{run}']")
    for _ in range(page.locator("[data-list] [data-key]").count()):
        page.keyboard.press("j")
        if row.get_attribute("aria-selected"):
            break
    page.evaluate("document.getElementById('runs').dataset.seen = 'yes'")
    expect(page.locator("#runs[data-seen]")).to_have_count(0)
    expect(row).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(rf"/runs/{run}/$"))


def walk_the_tasks(page):
    """By keys: numbers of all charts, a task's episode, the arms of a task side by side, and the run's export."""
    run = page.url
    page.set_viewport_size({"width": 1440, "height": 900})
    page.reload()
    expect(page.locator("[data-keyline]")).to_contain_text("compare")
    numbers = page.locator("details[id^=numbers-]")
    page.keyboard.press("v")
    page.locator("#h-rewards").scroll_into_view_if_needed()  # its charts load now, and open like the others
    page.mouse.wheel(0, 600)
    expect(page.locator("details[id^=numbers-rewards]")).not_to_have_count(0)
    expect(numbers.last).to_have_attribute("open", "")
    page.keyboard.press("v")
    expect(numbers.last).not_to_have_attribute("open", "")
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator(".matrix tr[data-key]").nth(1)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("c")
    expect(page).to_have_url(re.compile(r"/episodes/compare/\?episode=\w+&episode=\w+$"))
    for key, address in (("Enter", r"/episodes/\w+/"), ("e", r"/exports/\?run=\w+$")):
        page.goto(run)
        expect(page.locator("[data-keyline]")).to_contain_text("compare")
        page.keyboard.press("j")
        page.keyboard.press(key)
        expect(page).to_have_url(re.compile(address))


def test_run_is_launched_paused_killed_resumed_and_compared(house, person, tmp_path):
    page = person(house.link("mira", "admin"))
    page.goto(f"{house.url}/runs/")
    page.get_by_text("Plan as YAML").click()
    page.get_by_label("Replaces the fields above").fill(PLAN)
    expect(page.locator("#takes")).to_contain_text("6 tasks × 2 arms × 1 seed: 12 episodes.")
    page.get_by_role("button", name="Launch run").click()
    expect(page).to_have_url(re.compile(r"/runs/\w+/$"))
    expect(page.locator("h1")).to_contain_text(re.compile("No result yet|Nothing shown yet on"))
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    expect(page.locator("#run")).to_contain_text("Paused by mira")
    assert page.locator(".try.open").count() > 0, "paused before its end"
    until(
        lambda: nothing_is_at_work(page), 120, every=0.5
    )  # a kill between an end and its verdict would lose that outcome
    killed = house.children()["rollouts"]
    os.kill(killed, signal.SIGKILL)
    until(lambda: house.children().get("rollouts", killed) != killed, 120)
    page.reload()
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("h1")).to_have_text(re.compile("^Better on these 6 tasks"))
    expect(page.locator(".try.complete")).to_have_count(6)
    expect(page.get_by_role("button", name="Cancel run")).to_have_count(0)
    see_the_charts(page, tmp_path)
    point_at_the_charts(page)
    with page.expect_download() as download:
        page.get_by_role("link", name="scenarios", exact=True).click()
    download.value.save_as(tmp_path / "scenarios.csv")
    assert "right,wrong," in (tmp_path / "scenarios.csv").read_text()
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390, "nothing is wider than the screen"
    walk_the_tasks(page)


def test_long_names_of_arms_widen_no_page_and_meet_no_bar(house, person):
    names = [f"checkpoint-of-the-second-week-step-{step:04}" for step in (100, 200, 300, 400, 500)]
    arms = [{"name": name, "policy": "script:oracle"} for name in names]
    with house.http(house.token("launch")) as launcher:
        plan = {"tasks": {"limit": 1}, "arms": arms, "start": False}
        run = launcher.post("/runs", json={"name": "long", "plan": plan}).json()["id"]
    page = person(house.link("mira", "admin"))
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 844})
        for path in (f"/runs/{run}/", "/runs/"):
            page.goto(house.url + path)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
            lane = page.locator(".armbars li").filter(has_text=names[0])
            name, bar = (lane.locator(part).bounding_box() for part in (".arm", "svg.bar"))
            assert name["x"] + name["width"] <= bar["x"] or name["y"] + name["height"] <= bar["y"]


def test_refresh_keeps_drawing_zoom_and_open_table(house, person):
    """The second arm asks and waits, so that the run goes on."""
    alone = {"name": "alone", "policy": "script:oracle"}
    arms = [alone, {"name": "asking", "policy": "script:demo", "expert": "plain"}]
    with house.http(house.token("launch")) as launcher:
        answer = launcher.post("/runs", json={"name": "waits", "plan": {"tasks": {"limit": 6}, "arms": arms}})
        run = answer.json()["id"]
        page = person(house.link("mira", "admin"))
        page.goto(f"{house.url}/runs/{run}/")
        chart = chart_of(page, "Complete episodes so far")
        expect(chart.locator(".plot[role=img]")).to_be_visible()
        page.evaluate("window.kept = document.querySelector('[data-chart^=completions] .main-svg')")
        page.evaluate("Plotly.relayout(kept.closest('.plot'), {'xaxis.range[0]': 0.5, 'xaxis.range[1]': 1.5})")
        chart.get_by_text("Show numbers").click()
        page.evaluate("document.getElementById('run').dataset.seen = 'yes'")
        expect(page.locator("#run[data-seen]")).to_have_count(0)
        assert page.evaluate("kept.isConnected && String(kept.closest('.plot').layout.xaxis.range)") == "0.5,1.5"
        expect(chart.get_by_role("table")).to_be_visible()
        chart.get_by_role("button", name="Reset zoom").click()
        expect(chart.get_by_role("button", name="Reset zoom")).to_have_count(0)
        until(lambda: page.evaluate("kept.closest('.plot').layout.xaxis.range[0]") == 0, 60)
        expect(page.locator(".plot:empty:visible")).to_have_count(0)  # also below the view
        page.emulate_media(media="print")
        expect(page.locator(":is(button, .btn, input, select, .menu):visible")).to_have_count(0)
        page.emulate_media(media="screen")
        open_from_the_list(page, f"{house.url}/runs/", run)
        assert launcher.post(f"/runs/{run}/cancel").is_success
