"""A run in a browser: launched from a plan, paused, resumed, and compared when its last episode has ended."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
PLAN = """
name: Does the right script help?
tasks: {limit: 6}
arms:
  - {name: wrong, policy: "script:negative"}
  - {name: right, policy: "script:oracle"}
parallel: 1
"""


def test_run_is_launched_paused_resumed_and_compared(house, person, tmp_path):
    page = person(house.link("mira", "admin"))
    page.goto(f"{house.url}/runs/")
    page.get_by_text("Plan as YAML").click()
    page.get_by_label("Replaces the fields above").fill(PLAN)
    page.get_by_label("Replaces the fields above").blur()
    expect(page.locator("#takes")).to_contain_text("6 tasks × 2 arms × 1 seed: 12 episodes.")
    page.get_by_role("button", name="Launch", exact=True).click()
    expect(page).to_have_url(re.compile(r"/runs/\w+/$"))
    expect(page.locator("h1")).to_contain_text("Nothing shown yet at")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    expect(page.locator("#run")).to_contain_text("Paused by mira")
    assert page.locator(".try.open").count() > 0, "paused before its end"
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("h1")).to_have_text(re.compile("^Better on these 6 tasks"))
    expect(page.locator(".try.complete")).to_have_count(6)
    expect(page.get_by_role("button", name="Cancel run")).to_have_count(0)
    with page.expect_download() as download:
        page.get_by_role("link", name="scenarios", exact=True).click()
    download.value.save_as(tmp_path / "scenarios.csv")
    assert "right,wrong," in (tmp_path / "scenarios.csv").read_text()
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390, "nothing is wider than the screen"
