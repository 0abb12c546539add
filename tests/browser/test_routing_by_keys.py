"""Who answers is set by keys, in a house without an expert model, where what models need is folded away."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
PROJECT = "routing"


def test_the_desk_is_set_by_keys_and_a_bad_value_keeps_its_place(house, person):
    house.manage("createproject", PROJECT)
    owner = person(house.link("owner", "admin", PROJECT))
    owner.goto(f"{house.url}/queue/")
    expect(owner.locator("[data-keyline]")).to_contain_text("keyboard shortcuts")
    expect(owner.locator("#connection-words")).to_have_text("Live")
    owner.keyboard.press("/")
    owner.keyboard.press("Control+k")
    owner.keyboard.type("zebra")
    expect(owner.locator("#palette [data-entry]")).to_have_text(["Search all episodes for “zebra”"])
    owner.keyboard.press("Escape")
    expect(owner.locator("#palette")).to_be_hidden()
    owner.keyboard.press("Control+k")
    owner.keyboard.type("routing")
    expect(owner.locator("#palette [data-commands] button")).to_have_text(["switch to routing", "go to Routing"])
    owner.keyboard.type(" go")
    expect(owner.locator("#palette [data-commands] button")).to_have_text(["go to Routing"])
    owner.keyboard.press("ArrowDown")
    owner.keyboard.press("Enter")
    owner.wait_for_url("**/routing/")
    owner.locator("details:has([name=audit_share]) > summary").press("Enter")
    owner.get_by_label("Audit share").fill("7")
    owner.get_by_label("Claim limit", exact=True).fill("4")
    owner.keyboard.press("Control+Enter")
    expect(owner.get_by_role("alert")).to_contain_text("Not saved. Fix 1 value.")
    expect(owner.get_by_label("Claim limit", exact=True)).to_have_value("4")
    expect(owner.locator("[data-keyline]")).to_contain_text("save")
    owner.get_by_label("Audit share").fill("0.07")
    owner.keyboard.press("Control+Enter")
    expect(owner.locator(".told")).to_contain_text("Saved: audit share, claim limit.")
    expect(owner.locator("tbody")).to_contain_text("Audit share: 0.05 to 0.07; Claim limit: 3 to 4")
