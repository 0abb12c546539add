"""The live page after something went wrong: a dead web process, a network that is away, a frame that got lost. Every
step is there afterwards without a reload, and the page says meanwhile how old it is."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.long_episode import READ, has_read, in_view, seqs
from tests.running import until

pytestmark = pytest.mark.browser

WRITE = """
from awmclient.schema import STEP
from episodes.record import recording
from episodes.models import Episode
from people import access
one = Episode.objects.get(pk="{pk}")
body = {{"kind": "tool_call", "name": "{name}", "arguments": {{}}, "result": "x"}}
recording.append_steps(
    access.system(one.project), one.pk, [STEP.validate_python({{**body, "seq": n}}) for n in range({first}, {last} + 1)]
)
"""


@pytest.fixture(scope="module")
def running(desk):
    return desk.with_project("catching-up")


@pytest.fixture
def agent(running):
    with running.http(running.token("agent")) as client:
        yield client


@pytest.fixture
def episode(agent, request):
    pk = agent.post("/episodes", json={"key": request.node.name, "task": "lose nothing", "expert": "plain"}).json()[
        "id"
    ]
    append(agent, pk, 1, 20)
    return pk


@pytest.fixture
def watcher(running, person, episode):
    page = person(running.link("vera", "viewer"))
    page.goto(f"{running.url}/episodes/{episode}/")
    until(lambda: in_view(page, 20), 60)
    expect(page.locator("#connection-words")).to_have_text("Live")
    return page


@pytest.fixture
def deaf(running, person, episode):
    """The live page of somebody whose sockets drop every frame while `window.deaf` is true."""
    page = person(running.link("vera", "viewer"))
    page.add_init_script(
        """const real = WebSocket;
        window.WebSocket = class extends real {
          set onmessage(f) { super.onmessage = (m) => { if (!window.deaf) f(m); }; }
          get onmessage() { return super.onmessage; }
        };"""
    )
    page.goto(f"{running.url}/episodes/{episode}/")
    until(lambda: in_view(page, 20), 60)
    return page


def append(agent, pk, first, count, name="look"):
    steps = [
        {"seq": first + n, "kind": "tool_call", "name": name, "arguments": {}, "result": "x"} for n in range(count)
    ]
    assert agent.post(f"/episodes/{pk}/steps", json={"steps": steps}).status_code == 200


def test_steps_written_during_web_downtime_appear_later(running, episode, watcher):
    watcher.evaluate("window.sameDocument = true")
    running.kill("web")
    running.manage("shell", "-c", WRITE.format(pk=episode, name="meanwhile", first=21, last=60))
    until(running.healthy, 60)
    until(lambda: in_view(watcher, 60), 60)
    shown = seqs(watcher)
    assert shown == list(range(shown[0], 61))
    assert watcher.evaluate("window.sameDocument") is True


def test_a_lost_network_is_said_with_the_age_and_made_good(running, agent, episode, watcher):
    banner = watcher.locator("#connection")
    watcher.context.set_offline(True)
    watcher.evaluate("window.dispatchEvent(new Event('offline'))")
    running.kill("web")  # an open socket outlives the browser's offline mode
    expect(banner).to_contain_text(re.compile(r"Reconnecting, last update \d+ s ago"))
    expect(banner).to_be_visible()
    expect(banner).to_contain_text("Showing step 20")
    expect(watcher.locator("#connection-words")).to_have_text("Reconnecting")
    until(running.healthy, 60)
    append(agent, episode, 21, 30, "away")
    watcher.context.set_offline(False)
    until(lambda: in_view(watcher, 50), 60)
    expect(banner).to_contain_text("30 new steps, all steps loaded")
    expect(banner).to_be_hidden()


def test_silent_network_loss_shows_a_banner(episode, watcher):
    """Open sockets outlive the browser's offline mode, as they outlive a network that swallows everything."""
    banner = watcher.locator("#connection")
    watcher.context.set_offline(True)
    expect(banner).to_be_visible()
    expect(banner).to_contain_text(re.compile(r"Reconnecting, last update \d+ s ago. Showing step 20"))
    expect(watcher.locator("#connection-words")).to_have_text("Reconnecting")
    watcher.context.set_offline(False)
    expect(banner).to_contain_text("0 new steps, all steps loaded")
    expect(watcher.locator("#connection-words")).to_have_text("Live")


LINES = r"""
const real = WebSocket;
window.lines = { at: {}, closed: new Set() };
window.WebSocket = class extends real {
  constructor(url) {
    const name = new URL(url).pathname.split("/ws/")[1].split("/")[0];
    super(window.lines.closed.has(name) ? String(url).replace(/\/ws\/.*/, "/ws/nowhere") : url);
    window.lines.at[name] = this;
  }
};
window.cut = (name) => {
  window.lines.closed.add(name);
  window.lines.at[name].close();
};
window.addEventListener("DOMContentLoaded", () => {
  const banner = document.getElementById("connection");
  new MutationObserver(() => { window.hides += banner.hidden; }).observe(banner, { attributeFilter: ["hidden"] });
});
"""


def test_second_lost_connection_joins_the_same_outage(running, agent, episode, person):
    """As after a dead network: the bell's socket heard of it at once, that of the episode only when it was over."""
    page = person(running.link("vera", "viewer"))
    page.add_init_script(LINES)
    page.goto(f"{running.url}/episodes/{episode}/")
    until(lambda: in_view(page, 20), 60)
    banner = page.locator("#connection")
    page.evaluate("window.cut('queue')")
    expect(banner).to_be_visible()  # an outage that ends before is not said
    expect(banner).to_contain_text(re.compile(r"Reconnecting, last update \d+ s ago"))
    page.evaluate("window.hides = 0; window.cut('episodes')")
    append(agent, episode, 21, 30, "away")
    page.evaluate("window.lines.closed.delete('queue'); document.querySelector('[data-act=reconnect]').click()")
    until(lambda: page.evaluate("window.lines.at.queue.readyState") == 1, 60)
    expect(page.locator("#connection-words")).to_have_text("Reconnecting")
    page.evaluate("window.lines.closed.clear(); document.querySelector('[data-act=reconnect]').click()")
    expect(banner).to_contain_text("30 new steps, all steps loaded")
    assert page.evaluate("window.hides") == 0
    expect(banner).to_be_hidden()


def test_a_follower_on_a_phone_sees_that_the_line_is_lost(running, episode, person):
    page = person(running.link("vera", "viewer"))
    page.set_viewport_size({"width": 390, "height": 800})
    page.add_init_script(LINES)
    page.goto(f"{running.url}/episodes/{episode}/")
    until(lambda: in_view(page, 20), 60)
    page.evaluate("window.cut('queue')")
    expect(page.locator("#connection")).to_be_in_viewport(ratio=1)
    expect(page.get_by_role("button", name="Try now")).to_be_in_viewport(ratio=1)


def test_reconnect_counts_fetched_steps_and_revoked_stays(running, episode, person):
    page = person(running.link("vera", "viewer"))
    page.add_init_script(LINES + READ)
    page.goto(f"{running.url}/episodes/{episode}/")
    until(lambda: in_view(page, 20), 60)
    banner, back = page.locator("#connection"), re.compile(r"steps\.html\?since=20&limit=0")
    reopen = "window.lines.closed.clear(); document.querySelector('[data-act=reconnect]').click()"
    page.route(back, lambda route: route.fulfill(status=503))
    page.evaluate("window.cut('queue')")
    expect(banner).to_be_visible()
    page.evaluate(reopen)
    expect(banner).to_contain_text("load when the server responds")
    page.unroute(back)

    held = []
    page.route(back, lambda route: held.append(route))
    page.evaluate("window.cut('queue')")
    expect(banner).to_contain_text(re.compile(r"last update \d+ s ago"))
    page.evaluate(reopen)
    until(lambda: page.evaluate("window.lines.at.queue.readyState") == 1 and held, 60)
    page.evaluate("window.lines.at.episodes.onclose({ code: 4403 })")
    expect(banner).to_contain_text("You are no longer a member of this project")
    for one in held:
        one.continue_()
    has_read(page, "since=20", "limit=0")  # which is to change nothing
    expect(banner).to_contain_text("You are no longer a member of this project")


def test_following_page_stays_at_the_end_while_the_pane_grows(running, agent, episode, deaf):
    """The banner of a lost line goes, and so the pane grows, at the very time when the missed steps are fetched."""
    held, following_at = [], deaf.evaluate("performance.now()")
    deaf.route(re.compile(r"steps\.html\?since=20&limit=30"), lambda route: held.append(route))
    deaf.evaluate("window.deaf = true")
    append(agent, episode, 21, 30, "away")
    deaf.evaluate("window.dispatchEvent(new Event('online'))")
    until(lambda: deaf.evaluate("1") and held, 60)
    # a movement right after the page began to follow is taken for the end of an earlier one
    deaf.wait_for_function("at => performance.now() > at + 400", arg=following_at)
    size = deaf.viewport_size
    deaf.set_viewport_size({**size, "height": size["height"] + 60})
    deaf.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    held[0].continue_()
    until(lambda: in_view(deaf, 50), 60)
    expect(deaf.locator("[data-follow]")).to_have_attribute("aria-pressed", "true")


def test_an_answer_whose_frame_was_lost_is_fetched_again(running, agent, episode, deaf):
    """The frame of an answer is dropped in the browser; the slow look-up asks for the waiting step once more."""
    ask = agent.post("/asks", json={"key": "q", "episode": episode, "seq": 21, "question": "Left or right?"}).json()[
        "id"
    ]
    append(agent, episode, 22, 40)
    expect(deaf.locator("#step-61")).to_be_visible()
    deaf.evaluate("window.deaf = true")
    with running.http(running.token("expert")) as expert:
        lease = expert.post(f"/asks/{ask}/claim").json()
        body = {"lease_token": lease["lease_token"], "text": "Left, always left.", "nonce": "n"}
        assert expert.post(f"/assignments/{lease['assignment']}/answer", json=body).status_code == 200
    append(agent, episode, 62, 3)
    until(lambda: in_view(deaf, 64), 60)
    deaf.goto(deaf.url + "#step-21")
    expect(deaf.locator("#step-21")).to_contain_text("Left, always left.")


def test_a_tab_that_comes_back_catches_up_at_once(running, agent, episode, watcher):
    """Frames are dropped as by a machine that slept; what wakes the page is the tab becoming visible."""
    watcher.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    with watcher.expect_request(re.compile(r"steps\.html\?since=20&limit=0")):
        watcher.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def test_the_header_counts_asks_without_a_reload(running, agent, episode, watcher):
    before = int(watcher.locator("#bell").get_attribute("data-open"))
    agent.post("/asks", json={"key": "bell", "episode": episode, "seq": 21, "question": "Up?", "deadline_s": 60})
    expect(watcher.locator("#bell")).to_have_attribute("data-open", str(before + 1))
    expect(watcher.locator("#bell")).to_contain_text(re.compile(r"[01]:\d\d"))
