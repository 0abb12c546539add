"""The wheel in two browsers: one person drives, the other waits; the worker is killed meanwhile, then the page."""

from __future__ import annotations

import asyncio
import re

import pytest
from playwright.sync_api import expect
from starlette.responses import StreamingResponse

from tests.browser.test_every_page import AXE, SERIOUS
from tests.running import until

pytestmark = pytest.mark.browser
LOST = (
    "from episodes.models import Wheel; from django.utils.timezone import now; Wheel.objects.update(lease_until=now())"
)


async def never():
    await asyncio.Event().wait()
    yield b""


@pytest.fixture(scope="module")
def model(roles):
    """A model that chooses its first step without end, and answers when something has been done."""
    roles[1].reply = lambda body: "Done." if len(body["messages"]) > 2 else StreamingResponse(never())
    return roles[1]


@pytest.fixture(scope="module")
def house(roles):
    return roles[0].with_project("driving")


@pytest.fixture
def episode(house, model):
    """An episode of ours whose model is choosing."""
    model.bodies.clear()
    with house.http(house.token("launch")) as loop:
        plan = {"tasks": ["helpdesk_1/0"], "arms": [{"name": "slow", "policy": "model"}]}
        run = loop.post("/runs", json={"name": "to drive", "plan": plan}).raise_for_status().json()["id"]
        until(lambda: model.bodies, 120)
        return loop.get("/episodes", params={"run": run}).json()["items"][0]["id"]


def call(page, tool):
    page.goto(f"{page.url.partition('?')[0]}?tool={tool}")
    expect(page.get_by_role("button", name=f"Call {tool}")).to_contain_text("Enter")
    page.keyboard.press("Control+Enter")


def test_two_people_and_one_wheel(house, person, episode):
    mina, lena = (person(house.link(name, "expert")) for name in ("mina", "lena"))
    mina.goto(f"{house.url}/episodes/{episode}/")
    expect(mina.locator("[data-cap=wheel]")).to_contain_text("w", ignore_case=True)
    mina.keyboard.press("w")
    mina.wait_for_url(f"**/episodes/{episode}/wheel")
    expect(mina.get_by_role("heading", level=1)).to_have_text("You act in place of the agent.")
    lena.goto(f"{house.url}/episodes/{episode}/wheel")
    expect(lena.get_by_role("heading", level=1)).to_have_text("mina acts in place of the agent.")
    expect(lena.get_by_role("button", name="Take the wheel")).to_have_count(0)
    options = mina.locator("select[name=tool] option")
    expect(options.filter(has_text="list_").first).to_be_attached()
    tools = options.all_inner_texts()
    listing = next(name.strip() for name in tools if name.strip().startswith("list_"))
    call(mina, listing)
    steps = mina.locator("#wheel-steps .step", has_text="by a person at the wheel")
    expect(steps).to_have_count(1)
    expect(lena.locator("#wheel-steps")).to_contain_text(listing)
    house.kill("rollouts")
    call(mina, listing)
    expect(steps).to_have_count(2)
    mina.evaluate(AXE.read_text(encoding="utf-8"))
    assert mina.evaluate(SERIOUS) == []
    mina.set_viewport_size({"width": 390, "height": 844})
    assert mina.evaluate("document.documentElement.scrollWidth") == 390
    mina.close()
    house.manage("shell", "-c", LOST)
    expect(lena.locator("#wheel-steps")).to_contain_text("The episode has ended.")
    lena.goto(f"{house.url}/episodes/{episode}/")
    expect(lena.locator("main")).to_contain_text("assisted, counts in no rate")
    expect(lena.locator("main")).to_contain_text("Done.")
    expect(lena.locator("main")).to_contain_text("2 actions")


def test_a_call_is_undone_before_it_is_sent(house, person, episode):
    mina = person(house.link("mina", "expert"))
    mina.goto(f"{house.url}/episodes/{episode}/wheel")
    mina.get_by_role("button", name="Take the wheel").click()
    options = mina.locator("select[name=tool] option")
    expect(options.filter(has_text="list_").first).to_be_attached()
    tools = options.all_inner_texts()
    listing = next(name.strip() for name in tools if name.strip().startswith("list_"))
    made = mina.locator("#wheel-steps .step", has_text="by a person at the wheel")
    undone = mina.get_by_text("Undone. Nothing was sent.")
    for sent in range(10):  # on a slow machine the five seconds can pass before the key works
        call(mina, listing)
        expect(mina.locator("[data-cap=undo-order]:not(:empty)").or_(made.nth(sent)).first).to_be_visible()
        mina.keyboard.press("z")
        expect(undone.or_(made.nth(sent)).first).to_be_visible()
        if undone.is_visible():
            break
    expect(undone).to_be_visible()
    expect(mina.locator("#wheel-steps")).not_to_contain_text("is sent in")
    expect(made).to_have_count(sent)
    call(mina, listing)
    expect(made).to_have_count(sent + 1)
    expect(mina.get_by_role("button", name="Undo")).to_have_count(0)
    mina.goto(f"{house.url}/episodes/{episode}/")
    assert mina.locator("main").get_by_text("by a person at the wheel").count() == sent + 1


def test_escape_twice_hands_the_wheel_back(house, person, episode):
    mina = person(house.link("mina", "expert"))
    mina.goto(f"{house.url}/episodes/{episode}/wheel")
    mina.get_by_role("button", name="Take the wheel").click()
    expect(mina.get_by_role("heading", level=1)).to_have_text("You act in place of the agent.")
    expect(mina.locator(".strap .cd [data-left]")).to_have_text(re.compile(r"^(9:\d\d|10:00)$"))
    words = mina.locator("textarea[name=words]")
    expect(mina.locator("[data-cap=hand-back]")).not_to_be_empty()  # keys work from here on
    words.fill("Mind the order.")
    words.press("Escape")
    expect(words).not_to_be_focused()
    expect(mina.get_by_role("heading", level=1)).to_have_text("You act in place of the agent.")
    mina.keyboard.press("Escape")
    mina.keyboard.press("Escape")
    mina.wait_for_url(f"**/episodes/{episode}/")
    expect(mina.locator("main")).to_contain_text("assisted, counts in no rate")
