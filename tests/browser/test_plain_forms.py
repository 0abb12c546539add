"""Plain forms in a browser: where the focus is after a refusal."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def test_a_refused_form_has_the_focus_where_one_goes_on(house, person):
    page = person(house.link("mina", "admin"))
    page.goto(f"{house.url}/campaigns/")
    page.get_by_role("button", name="Estimate").click()
    words = page.get_by_role("textbox", name="Words", exact=True)
    expect(words).to_be_focused()
    expect(words).to_have_accessible_description(page.get_by_role("alert").inner_text())
    page.goto(f"{house.url}/runs/")
    page.get_by_label("Or a list of tasks").fill("no such task")
    page.get_by_role("button", name="Launch run").click()
    expect(page.get_by_role("alert")).to_be_focused()
    page.goto(f"{house.url}/runs/")
    expect(page.locator("body")).to_be_focused()
