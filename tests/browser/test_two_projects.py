"""Two projects in two tabs of one browser, and the bar that names them."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
WIDTHS = (1440, 1100, 1024, 960, 853, 768, 761, 390)
"""Among them a window of 1,440 px and one of 1,280 px at 150 %."""


def opened(project, question):
    """An ask in this project."""
    with project.http(project.token("agent")) as loop:
        start = {"key": question, "task": "merge", "expert": "plain"}
        episode = loop.post("/episodes", json=start).json()["id"]
        body = {"key": question, "episode": episode, "seq": 1, "question": question, "deadline_s": 900}
        return loop.post("/asks", json=body).json()["id"]


def live(page):
    expect(page.locator("#connection-words")).to_have_text("Live")
    return page


def test_two_tabs_stay_in_their_projects(house, person):
    left, right = (house.with_project(name) for name in ("a-support-desk-with-a-long-name", "tab-right"))
    asks = [opened(left, "Left one?"), opened(right, "Right one?")]
    a = person(left.link("toni", "expert"))
    a.goto(right.link("toni", "expert"))
    a.goto(f"{house.url}/asks/{asks[0]}/")
    expect(a).to_have_url(f"{house.url}/projects/{left.project}/asks/{asks[0]}/")
    b = a.context.new_page()
    for page, own in ((a, left), (b, right)):
        page.goto(f"{house.url}/projects/{own.project}/queue/")
        expect(live(page).locator(".proj summary")).to_have_text(re.compile(own.project))
        expect(page.locator("#bell")).to_have_attribute("data-open", "1")
    opened(right, "Another?")
    expect(b.locator("#bell")).to_have_attribute("data-open", "2")
    expect(a.locator("#bell")).to_have_attribute("data-open", "1")
    a.keyboard.press("Shift+N")
    expect(a).to_have_url(f"{house.url}/projects/{left.project}/asks/{asks[0]}/")
    b.keyboard.press("Shift+N")
    expect(b).to_have_url(f"{house.url}/projects/{right.project}/asks/{asks[1]}/")
    live(a).locator("#advice").fill("Keep it.")
    a.get_by_role("button", name="Send and next").click()
    expect(a).to_have_url(f"{house.url}/projects/{left.project}/queue/")
    for width in WIDTHS:
        a.set_viewport_size({"width": width, "height": 800})
        assert a.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, width
        box = a.locator('summary[aria-label^="Menu of"]').bounding_box()
        assert box["x"] + box["width"] <= width, width
    a.set_viewport_size({"width": 768, "height": 800})
    a.locator(".proj summary").click()
    a.get_by_role("link", name=right.project, exact=True).click()
    expect(a).to_have_url(f"{house.url}/projects/{right.project}/")
