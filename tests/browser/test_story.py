"""The first journey, as a newcomer lives through it: the demo runs, one agent is stuck, a person answers, another
watches, the verifier runs, the episode is replayed and downloaded. A model advises beside people."""

from __future__ import annotations

import json
import re
import time

import pytest
from playwright.sync_api import expect

from tests.awmclient.openai_server import OpenAIServer, answering
from tests.examples import some_of
from tests.running import product, until

pytestmark = pytest.mark.browser
KEY = "sk-expert-0123456789abcdef"
ADVICE = "Merge into the oldest ticket of that customer."


@pytest.fixture(scope="module")
def wise():
    said = json.dumps({"advice": ADVICE, "confidence": 0.9, "needs_person": False})
    server = OpenAIServer(lambda body: said, key=KEY)
    with answering(server):
        yield server


@pytest.fixture(scope="module")
def demo(wise):
    endpoint = {"BASE_URL": wise.base_url, "MODEL": "wise-1", "API_KEY": KEY}
    with product(AWMWEB_DEMO="1", **{f"AWMWEB_EXPERT_{name}": value for name, value in endpoint.items()}) as running:
        yield running


def test_two_people_live_through_the_demo(demo, person, tmp_path):
    owner, patience = person(demo.login, at_home=True), demo.patience
    expect(owner.get_by_text("Running", exact=True).nth(2)).to_be_visible(timeout=25_000 * patience)
    expect(owner.locator("tr[data-state=running]").get_by_text("in queue")).to_have_count(0)
    ask = owner.get_by_text("Who is the fixed contact")
    expect(ask.first).to_be_visible(timeout=30_000 * patience)
    assert time.monotonic() - demo.ready_at < 30 * patience
    expect(owner.locator("h1")).to_have_text(re.compile(r"1 ask is open, due in \d+:\d\d\."))
    owner.set_viewport_size({"width": 1100, "height": 900})
    body, go = (owner.locator(f".askrow {part}").first.bounding_box() for part in (".body", ".go"))
    assert go["x"] > body["x"] and go["y"] < body["y"] + body["height"], "the button to claim left its row"
    owner.set_viewport_size({"width": 1440, "height": 900})
    said = owner.locator("h1").inner_text()
    expect(owner.locator("h1")).not_to_have_text(said)

    edo = person(demo.link("edo", "expert"), at_home=True)
    edo.keyboard.press("Shift+N")
    edo.wait_for_url(re.compile(r"/asks/"))
    episode = edo.locator("a[href*='/episodes/']:not([href$='/episodes/'])").first.get_attribute("href")
    owner.goto(demo.url + episode)
    expect(owner.locator("body")).to_contain_text("Waiting")

    edo.locator("textarea").first.fill("Priya. She has looked after this hotel for years.")
    edo.keyboard.press("Control+Shift+Enter")
    expect(owner.locator("body")).to_contain_text("Priya. She has looked after", timeout=1_500 * patience)
    expect(owner.locator("body")).to_contain_text("Running", timeout=1_000 * patience)
    expect(edo.locator("body")).to_contain_text("assign_ticket", timeout=15_000 * patience)

    expect(owner.locator("body")).to_contain_text("Complete", timeout=60_000 * patience)
    expect(owner.locator("body")).to_contain_text("reward 1.0")
    expect(owner.locator("body")).to_contain_text("Changed between start and end")

    owner.goto(demo.url + episode + "replay/?step=4")
    owner.keyboard.press("ArrowRight")
    owner.wait_for_url(re.compile(r"step=5$"))
    owner.reload()
    expect(owner.locator("[aria-current=step]")).to_be_visible()
    owner.keyboard.press("End")
    owner.wait_for_url(re.compile(r"step=2\d$"))

    owner.goto(demo.url + "/exports/")
    owner.locator("[data-act=build]").click()
    with owner.expect_download(timeout=90_000) as download:
        owner.get_by_role("link", name="data/train.jsonl").click(timeout=90_000)
    rows = [json.loads(line) for line in download.value.path().read_text().splitlines()]
    mine = next(row for row in rows if row["episode_id"] in episode)
    assert "Priya. She has looked after this hotel for years." in json.dumps(mine["messages"])
    assert mine["reward_type"] == "complete" and mine["expert_kinds"] == ["human"]
    command = tmp_path / "sft.jsonl"
    demo.manage("export", "--format", "sft", "--filter", f"id={mine['episode_id']}", "--output", str(command))
    assert [json.loads(line) for line in command.read_text().splitlines()] == [mine]


def test_the_demo_asks_a_person_and_a_model_side_by_side(demo, wise):
    """The same task in two arms: one asks people, and the model answers the other over HTTP."""
    with demo.http(demo.token("launch")) as reader:
        (run,) = reader.get("/runs", params={"name": "demo"}).raise_for_status().json()["items"]
    with demo.http(demo.token("expert")) as expert:

        def advice_of(ask):
            steps = expert.get(f"/episodes/{ask['episode']}/steps", params={"limit": 200}).json()["steps"]
            (step,) = (one for one in steps if one["kind"] == "ask")
            return step.get("advice") or {}

        def asks():
            found = [
                ask
                for status in ("answered", "open")
                for ask in expert.get("/asks", params={"status": status, "run": run["id"]}).json()["asks"]
            ]
            by_model = [ask for ask in found if advice_of(ask).get("source") == "llm"]
            return (found, by_model) if len(found) == 2 and by_model else None

        (first, second), (answered,) = until(asks, 60)
        assert first["question"] == second["question"]
        assert advice_of(answered) == {"text": ADVICE, "source": "llm", "author": "expert", "privilege": "blind",
                                     "model": "wise-1", "options": {}}  # fmt: skip
        told = json.loads(wise.bodies[0]["messages"][1]["content"])
        assert told["question"] == answered["question"] and told["tools"]
    assert KEY not in demo.logs()


def test_the_demo_plays_again_at_a_button(demo, person):
    owner = person(demo.link("owner", "admin"), at_home=True)
    owner.get_by_role("button", name="Run the demo again").click()
    expect(owner.locator("body")).to_contain_text("Demo started")
    expect(owner.locator("body")).to_contain_text("Waiting")


@pytest.mark.long
def test_an_ended_episode_leaves_running_also_in_a_list_in_use(demo, person):
    """It never stands under Running as Finished, and the row under the pointer keeps its place."""
    owner = person(demo.link("owner", "admin"))
    owner.goto(demo.url + "/")
    with demo.http(demo.token("agent")) as agent:
        ends, stays = (
            agent.post("/episodes", json={"key": key, "task": key}).json()["id"] for key in ("ends", "stays")
        )
        first, second = (owner.locator(f"tr[data-episode='{pk}']") for pk in (ends, stays))
        expect(second).to_be_visible()
        second.locator("[data-row=open]").hover()
        place = second.bounding_box()["y"]
        agent.post(f"/episodes/{ends}/finish", json={"stop_reason": "done"}).raise_for_status()
        expect(first).to_have_attribute("data-need", "over")
        expect(owner.locator("tr.grp[data-need=over]")).to_contain_text("Just ended")
        notice = owner.locator("[data-wall-pill]")
        notice.evaluate("pill => { pill.hidden = false; pill.textContent = '2 rows have moved'; }")
        assert second.bounding_box()["y"] == place, "neither the row that left nor the notice above moves it"
        owner.mouse.move(0, 0)
        expect(first).to_have_count(0)
        expect(owner.locator("tr.gap")).to_have_count(0)
        agent.post(f"/episodes/{stays}/finish", json={"stop_reason": "done"}).raise_for_status()


def test_an_unanswered_ask_shows_that_the_agent_went_on_alone(demo, person):
    token = demo.token("agent")
    with demo.http(token) as agent:
        episode = agent.post("/episodes", json={"key": "alone", "task": "be alone", "expert": "plain"}).json()["id"]
        watcher = person(demo.link("vera", "viewer"))
        watcher.goto(f"{demo.url}/episodes/{episode}/")
        agent.post(
            "/asks", json={"key": "q", "episode": episode, "seq": 1, "question": "Is anybody there?", "deadline_s": 2}
        )
        expect(watcher.locator("body")).to_contain_text("Is anybody there?")
        expect(watcher.locator("body")).to_contain_text("fell back")


def test_a_newcomer_connects_an_agent_and_the_page_turns_green(demo, person):
    owner = person(demo.link("owner", "admin"))
    owner.goto(demo.url + "/connect/")
    owner.get_by_role("button", name=re.compile("token", re.I)).first.click()
    secret = re.search(r"awm_[\w-]{43}", owner.locator("body").inner_text() + owner.content())[0]
    assert demo.url in owner.content()
    with demo.http(secret) as agent:
        agent.post("/episodes", json={"key": "first", "task": "say hello"})
    expect(owner.locator("body")).to_contain_text(re.compile("connected|first episode|heard", re.I))


SMALL = """() => [...document.querySelectorAll("button, select, textarea, summary, a.btn, input")]
    .filter((e) => e.checkVisibility() && !e.matches("[type=hidden], [type=checkbox], [type=radio]"))
    .filter((e) => e.getBoundingClientRect().height < 36).map((e) => e.outerHTML.slice(0, 120))"""


@pytest.mark.parametrize("theme", some_of(["dark", "light"]))
def test_phone_pages_fit_width_and_tap_targets(demo, person, theme):
    phone = person(
        demo.link("owner", "admin"),
        viewport={"width": 390, "height": 844},
        color_scheme=theme,
        has_touch=True,
        is_mobile=True,
    )
    for path in [
        "/",
        "/queue/",
        "/episodes/",
        "/connect/",
        "/members/",
        "/api-tokens/",
        "/models/",
        "/environment/",
        "/legend/",
    ]:
        phone.goto(demo.url + path)
        wide = phone.evaluate("document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth")
        assert wide <= 0, f"{path} is {wide} px too wide"
        assert phone.evaluate(SMALL) == [], path
