"""A human baseline: a run whose only agent is a person, launched and played from pages."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.test_every_page import AXE, SERIOUS

pytestmark = pytest.mark.browser
PLAN = """
name: How good is a person?
tasks: [helpdesk_1/0]
arms:
  - {name: person, person: true}
"""


def call(page, tool, **values):
    page.locator("select[name=tool]").select_option(tool)
    page.get_by_role("button", name="Choose tool").click()
    for name, value in values.items():
        page.get_by_label(re.compile(f"^{name}")).fill(value)
    page.get_by_role("button", name=f"Call {tool}").click()


def test_person_plays_an_episode_from_its_runs_page(house, person):
    page = person(house.link("mira", "admin"))
    page.goto(f"{house.url}/runs/")
    page.get_by_text("Plan as YAML").click()
    page.get_by_label("Replaces the fields above").fill(PLAN)
    expect(page.locator("#takes")).to_contain_text("1 task × 1 arm × 1 seed: 1 episode.")
    page.get_by_role("button", name="Launch run").click()
    expect(page.locator("#run")).to_be_visible()
    run = page.url
    page.get_by_role("link", name="Act in 1 episode").click()
    expect(page.locator("h1")).to_have_text("You act in place of the agent.")
    call(page, "search_tickets", customer_id="1.5")
    expect(page.get_by_role("alert")).to_have_text("customer_id must be a whole number.")
    call(page, "search_tickets", customer_id="2")
    expect(page.get_by_role("heading", name="Turn 2: call a tool")).to_be_visible()
    expect(page.get_by_role("region", name="search_tickets")).to_contain_text("1025")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    assert page.evaluate(SERIOUS) == []
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_label("Your answer to the task").fill("Nothing was done.")
    page.get_by_role("button", name="Answer and finish").click()
    expect(page.get_by_role("heading", name="The episode has ended.")).to_be_visible()
    page.goto(run)
    expect(page.get_by_role("link", name="Act in 1 episode")).to_have_count(0)
    expect(page.locator("#run")).to_contain_text("1 of 1 episodes ended")
