"""A fork in a browser: from a step of a replay, by keys, to what its branches show."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.running import until

pytestmark = pytest.mark.browser


@pytest.fixture
def played(house):
    """An episode of an oracle that has ended, and the step of its last call."""
    with house.http(house.token("launch")) as loop:
        plan = {"tasks": ["helpdesk_1/0"], "arms": [{"name": "right", "policy": "script:oracle"}]}
        run = loop.post("/runs", json={"name": "to fork", "plan": plan}).raise_for_status().json()["id"]
        until(lambda: loop.get(f"/runs/{run}").json()["state"] == "finished", 300)
        episode = loop.get("/episodes", params={"run": run}).json()["items"][0]["id"]
        calls = [one for one in loop.get(f"/episodes/{episode}/steps").json()["steps"] if one["kind"] == "tool_call"]
    return episode, calls[-1]["seq"]


def test_a_step_is_forked_by_keys_and_its_branches_are_compared(house, person, played):
    episode, seq = played
    page = person(house.link("mina", "admin"), color_scheme="dark")
    page.goto(f"{house.url}/episodes/{episode}/replay/?step={seq}")
    page.keyboard.press("f")
    page.wait_for_url(f"**/fork?step={seq}")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"What if step {seq} had been different?")
    page.get_by_label("Branches per arm").fill("0")
    page.keyboard.press("Control+Enter")
    assert "/fork?" in page.url, "no branches are no fork"
    page.get_by_label("Branches per arm").fill("1")
    page.locator("main textarea").first.fill("billing")
    page.keyboard.press("Control+Enter")
    page.wait_for_url("**/forks/*/")
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_contain_text("Changed call: 0 of 1 complete; recorded call: 1 of 1.")
    expect(heading).to_contain_text("nothing is shown")
    page.reload()
    expect(page.get_by_role("link", name="Changed call")).to_have_count(1)
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.get_by_role("link", name="Changed call").click()
    expect(page.locator("main")).to_contain_text(re.compile("billing"))
