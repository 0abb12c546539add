"""An admin sees on Home what needs an operator, and it goes while the page is open, once the thing works again. A run
names what stopped its episodes once."""

from __future__ import annotations

import json
import os

import pytest
from playwright.sync_api import expect

from tests.awmclient.openai_server import error
from tests.running import until

pytestmark = pytest.mark.browser
ADVICE = {"advice": "Into 5.", "confidence": 0.9, "needs_person": False}
PLAN = {
    "tasks": ["helpdesk_1/0", "helpdesk_1/1", "helpdesk_1/2"],
    "arms": [{"name": "alone"}],
    "policy": "model",
}


@pytest.fixture(scope="module")
def refusing(roles):
    """An endpoint that refuses until a test says otherwise."""
    roles[1].reply = lambda body: error(401, "Incorrect API key provided")
    return roles[1]


@pytest.fixture(scope="module")
def house(roles):
    running = roles[0].with_project("needs")
    actor = f"access.system_actor({running.project!r})"
    code = "from experts.record import desk; from people import access; "
    running.manage("shell", "-c", f"{code}desk.set_policy({actor}, model_first=True, audit_share=0.0)")
    return running


def asks(house, key):
    """Open an ask, which goes to the expert model first."""
    with house.http(house.token("agent")) as loop:
        episode = loop.post("/episodes", json={"key": key, "task": "merge", "expert": "plain"}).json()["id"]
        about = {"key": "q", "episode": episode, "seq": 1, "question": f"Into which, {key}?", "deadline_s": 600}
        assert loop.post("/asks", json=about).is_success


def test_refusing_models_are_on_home_and_on_the_page_of_the_run(house, refusing, person):
    with house.http(house.token("launch")) as launcher:
        run = launcher.post("/runs", json={"name": "refused", "plan": PLAN}).json()["id"]
        asks(house, "first")
        until(lambda: sum(one["episodes"] for one in launcher.get(f"/runs/{run}").json()["causes"]) == 3, 180, 0.5)
    admin = person(house.link("ada", "admin"), at_home=True)
    needs = admin.get_by_role("region", name="Needs an operator")
    model, agent = needs.get_by_text("Expert model wise"), needs.get_by_text("Agent model")
    until(lambda: admin.reload() and model.is_visible() and agent.is_visible(), 180, 0.5)
    expect(needs).to_contain_text("Incorrect API key provided")
    folder = os.environ.get("SHOTS")
    for scheme in ("light", "dark") if folder else ():
        admin.emulate_media(color_scheme=scheme)
        for width in (1280, 390):
            admin.set_viewport_size({"width": width, "height": 900})
            admin.goto(f"{house.url}/")
            admin.screenshot(path=f"{folder}/home-{scheme}-{width}.png", full_page=True)
            admin.goto(f"{house.url}/runs/{run}/")
            admin.screenshot(path=f"{folder}/run-{scheme}-{width}.png", full_page=True)
    admin.goto(f"{house.url}/runs/{run}/")
    why = admin.get_by_role("region", name="Why episodes failed or wait")
    expect(why).to_contain_text("3 episodes failed, fault model")
    assert why.get_by_text("Incorrect API key provided").count() == 1
    edo = person(house.link("edo", "expert"), at_home=True)
    expect(edo.get_by_role("region", name="Needs an operator")).to_have_count(0)
    refusing.reply = lambda body: json.dumps(ADVICE)
    admin.goto(f"{house.url}/")
    expect(model).to_be_visible()
    asks(house, "second")
    # the queue's hint renews the page's parts, and no one reloads it
    expect(model).to_have_count(0)
