"""A fork in a browser: from a step of a replay, by keys, to what its branches show."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

from tests.browser.test_reviewing import press
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
    page.locator("[data-fields] textarea").first.fill("billing")  # once the script has drawn the fields
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


QUEUED = """
from episodes.models import Episode
from people.access import person
from people.models import Membership
from reviews.record import assigning
mina = person(Membership.objects.get(user__username="mina", project__slug="demo"))
queue = assigning.create_queue(mina, "To prove", is_blind=False)
assigning.fill(mina, queue.pk, Episode.objects.filter(pk="{episode}"))
print(queue.pk)
"""


def test_a_correction_is_proven_by_keys(house, person, played):
    """From the step of a review to what two arms show, beside the correction and on the tree."""
    episode, seq = played
    page = person(house.link("mina", "admin"))
    queue = house.manage("shell", "-c", QUEUED.format(episode=episode)).split()[-1]
    page.goto(f"{house.url}/reviews/queues/{queue}/")
    press(page, "Enter")
    expect(page.locator("[data-verdict-next]")).to_be_visible()
    review = page.url.partition("?")[0]
    page.goto(f"{review}?step={seq}")
    press(page, "w")
    arguments = page.get_by_label("Arguments, JSON")
    expect(arguments).to_have_value(re.compile('":'))
    call = json.loads(arguments.input_value())
    text = next(name for name, value in call.items() if isinstance(value, str))
    arguments.fill(json.dumps({**call, text: "billing"}))
    page.get_by_role("button", name="Save correction").focus()
    page.keyboard.press("Enter")
    said = page.locator("[data-said-list]")
    expect(said).to_contain_text("unverified")
    expect(said.get_by_role("link", name="Prove it")).to_be_visible()
    page.locator("h1").click()
    page.keyboard.press("y")
    page.wait_for_url("**/fork?*")
    expect(page.locator("main")).to_contain_text("Correction by mina")
    page.get_by_label("Branches per arm").fill("1")
    expect(page.locator("[data-cost]")).to_contain_text("In all 2 branches")
    page.keyboard.press("Control+Enter")
    page.wait_for_url("**/forks/*/")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Changed call: 0 of 1 complete", timeout=60_000)
    page.goto(review)
    expect(said).to_contain_text("corrected 0 of 1, recorded 1 of 1")
    expect(said).to_contain_text("not shown")
    expect(said).to_contain_text("world exact")
    page.goto(f"{house.url}/episodes/{episode}/replay/?step={seq}")
    expect(page.locator("[data-said-list]")).to_contain_text("corrected 0 of 1, recorded 1 of 1")
    press(page, "b")
    page.wait_for_url("**/tree")
    lanes = page.locator(".branch")
    assert lanes.count() >= 3 and "The episode itself" in lanes.first.text_content()
    expect(page.get_by_role("link", name=re.compile("^Branch 1: complete"))).not_to_have_count(0)
    press(page, "j")
    press(page, "j")
    press(page, "Enter")
    page.wait_for_url("**/forks/*/")
