"""An admin sets a rule, previews it, and places and releases a hold."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
PROJECT = "keeping"


def test_rule_and_hold_are_set_on_the_page(house, person):
    house.manage("createproject", PROJECT)
    owner = person(house.link("owner", "admin", PROJECT))
    owner.goto(f"{house.url}/projects/{PROJECT}/retention/")
    expect(owner.get_by_role("heading", level=1)).to_have_text("Everything is kept.")
    steps = owner.get_by_role("form", name="Raw steps")
    steps.get_by_label("Days").fill("90")
    steps.get_by_role("button").click()
    expect(owner.get_by_role("heading", level=1)).to_have_text("1 of 4 retention rules are set.")
    owner.get_by_role("link", name="Preview rules").click()
    expect(steps).to_contain_text("Would erase 0 episodes.")
    owner.get_by_label("Reason").fill("Case 12.")
    owner.get_by_role("button", name="Place hold").click()
    expect(owner.get_by_role("heading", level=1)).to_have_text("The project is on legal hold. Nothing is erased.")
    owner.set_viewport_size({"width": 390, "height": 844})
    assert owner.evaluate("document.documentElement.scrollWidth") <= 390
    owner.get_by_role("button", name="Release hold").click()
    expect(owner.get_by_role("heading", level=1)).to_have_text("1 of 4 retention rules are set.")
