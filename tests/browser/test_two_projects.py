"""Two projects in two tabs of one browser, and the bar that names them."""

from __future__ import annotations

import re
from urllib.parse import quote

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


def test_two_tabs_stay_in_their_projects(desk, person):
    left, right = (desk.with_project(name) for name in ("a-support-desk-with-a-long-name", "tab-right"))
    asks = [opened(left, "Left one?"), opened(right, "Right one?")]
    a = person(left.link("toni", "expert"))
    a.goto(right.link("toni", "expert"))
    a.goto(f"{desk.url}/asks/{asks[0]}/")
    expect(a).to_have_url(f"{desk.url}/projects/{left.project}/asks/{asks[0]}/")
    b = a.context.new_page()
    for page, own in ((a, left), (b, right)):
        page.goto(f"{desk.url}/projects/{own.project}/queue/")
        expect(live(page).locator(".proj summary")).to_have_text(re.compile(own.project))
        expect(page.locator("#bell")).to_have_attribute("data-open", "1")
    opened(right, "Another?")
    expect(b.locator("#bell")).to_have_attribute("data-open", "2")
    expect(a.locator("#bell")).to_have_attribute("data-open", "1")
    a.keyboard.press("Shift+N")
    expect(a).to_have_url(f"{desk.url}/projects/{left.project}/asks/{asks[0]}/")
    b.keyboard.press("Shift+N")
    expect(b).to_have_url(f"{desk.url}/projects/{right.project}/asks/{asks[1]}/")
    live(a).locator("#advice").fill("Keep it.")
    a.get_by_role("button", name="Send and next").click()
    expect(a).to_have_url(f"{desk.url}/projects/{left.project}/queue/")
    for width in WIDTHS:
        a.set_viewport_size({"width": width, "height": 800})
        assert a.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, width
        box = a.locator('summary[aria-label*="menu of"]').bounding_box()
        assert box["x"] + box["width"] <= width, width
        assert a.locator(".proj .cut-text").bounding_box()["width"] >= 50, width
    a.set_viewport_size({"width": 768, "height": 800})
    a.locator(".proj summary").click()
    a.get_by_role("link", name=right.project, exact=True).click()
    expect(a).to_have_url(f"{desk.url}/projects/{right.project}/")


def test_ended_session_keeps_the_page_and_the_text(desk, person):
    own = desk.with_project("ended")
    where = f"/projects/{own.project}/asks/{opened(own, 'Which?')}/"
    page = person(own.link("uma", "expert"))
    page.goto(desk.url + where)
    page.get_by_role("button", name="Claim").first.click()
    live(page).locator("#advice").fill("Into 4127, it is older.")
    other = page.context.new_page()
    other.goto(f"{desk.url}/queue/")
    other.get_by_label("menu of").click()
    with page.expect_response(lambda answer: answer.status == 401, timeout=60_000):
        other.get_by_role("button", name="Sign out").click()
    expect(page.locator("#connection")).to_contain_text("You are signed out. This page no longer updates.")
    expect(page.locator("#connection")).to_contain_text("Your text is saved on this device")
    expect(page.locator("#connection a")).to_have_attribute("href", f"/login?next={quote(where, safe='')}")
    expect(page.locator("#advice")).to_have_value("Into 4127, it is older.")
    expect(page).to_have_url(desk.url + where)
    page.goto(f"{own.link('uma', 'expert')}?next={where}")
    expect(page).to_have_url(desk.url + where)
    expect(page.locator("#advice")).to_have_value("Into 4127, it is older.")


LOW = """all => all.filter((one) => one.offsetHeight && one.offsetHeight < 44)
    .map((one) => one.outerHTML.slice(0, 90))"""
FIELDS = "main :is(input:not([type=checkbox], [type=radio], [type=hidden], [type=range], .vh), select, textarea)"


def test_small_windows_reach_menu_fields_and_filters(desk, person):
    page = person(desk.with_project("small").link("vera", "admin"), timezone_id="Asia/Tokyo")
    for width, height in ((1180, 800), (760, 800), (390, 664)):
        page.set_viewport_size({"width": width, "height": height})
        page.goto(f"{desk.url}/exports/")
        field = live_on(page, width).get_by_role("textbox", name="Scenario", exact=True)
        expect(field).to_be_hidden()
        page.get_by_text("Filters", exact=True).click()
        field.fill("desk_1")
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, width
        page.get_by_label("menu of").click()
        leave = page.get_by_role("button", name="Sign out")
        leave.scroll_into_view_if_needed()
        menu, button = (one.bounding_box() for one in (page.locator(".menu[open] .menu-list"), leave))
        assert menu["y"] <= button["y"] and button["y"] + button["height"] <= menu["y"] + menu["height"] <= height
        bar = page.locator('nav[aria-label="Main"]').bounding_box()
        assert width > 760 or menu["y"] + menu["height"] <= bar["y"]
    low = {}
    for path in ("people", "tokens", "desk", "exports", "runs", "queue", "episodes", "audit", "imports", "notices"):
        page.goto(f"{desk.url}/{path}/{'?launch=1' if path == 'runs' else ''}")
        low[path] = page.eval_on_selector_all(FIELDS, LOW)
    assert not any(low.values()), low
    page.goto(f"{desk.url}/audit/")  # its zone is known to the server by now
    expect(page.locator("time").first).to_have_attribute("title", re.compile("GMT\\+9$"))
    expect(page.locator("time").first).not_to_contain_text("UTC")
    expect(page.locator("th [data-zone]")).to_have_text("Asia/Tokyo")


def live_on(page, width):
    """The page once its scripts work; a phone shows no line of keys."""
    return live(page) if width > 760 else page
