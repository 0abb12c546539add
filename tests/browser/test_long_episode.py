"""An episode of ten thousand steps in a real browser: only what is near the view is on the page, and all of it can be
reached; who follows sees the newest, who reads elsewhere is left there and told."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import expect

from tests.browser.long_episode import READ, has_read, in_view, long_episode, seqs
from tests.examples import some_of
from tests.running import until

pytestmark = pytest.mark.browser
COUNT = 10_000


@pytest.fixture(scope="module")
def running(desk):
    return desk.with_project("long")


@pytest.fixture(scope="module")
def long(running):
    return long_episode(running, COUNT, "long")


@pytest.fixture
def reader(running, person):
    return person(running.link("vera", "viewer"))


@pytest.fixture
def agent(running):
    with running.http(running.token("agent")) as client:
        yield client


def append(agent, episode, first, count):
    steps = [
        {"seq": first + n, "kind": "tool_call", "name": "look", "arguments": {}, "result": "x"} for n in range(count)
    ]
    assert agent.post(f"/episodes/{episode}/steps", json={"steps": steps}).status_code == 200


def test_both_ends_are_reached_by_keys_and_the_page_stays_small(running, long, reader):
    reader.goto(f"{running.url}/episodes/{long}/")
    until(lambda: in_view(reader, COUNT), 60)
    sizes = [len(seqs(reader))]
    tall = reader.evaluate("document.querySelector('[data-scroll]').scrollHeight")
    assert tall > COUNT * 20  # the scrollbar is true to length
    reader.keyboard.press("Home")
    until(lambda: in_view(reader, 1), 60)
    sizes.append(len(seqs(reader)))
    reader.keyboard.press("j")
    expect(reader.locator("#step-2[aria-current=step]")).to_be_visible()
    reader.keyboard.press("End")
    until(lambda: in_view(reader, COUNT), 60)
    reader.keyboard.press("k")
    reader.keyboard.press("k")
    expect(reader.locator(f"#step-{COUNT - 1}[aria-current=step]")).to_be_visible()
    reader.locator("[data-scroll]").hover()
    for _ in range(40):
        reader.mouse.wheel(0, -3000)
        sizes.append(len(seqs(reader)))
    reader.keyboard.press("End")
    until(lambda: in_view(reader, COUNT), 60)
    assert max(sizes) <= 200
    assert reader.evaluate("document.querySelectorAll('*').length") < 8000


@pytest.mark.parametrize("address", some_of(["#step-4321", "?step=4321", "replay/?step=4321"]))
def test_an_address_names_a_step_that_is_brought_into_view(running, long, reader, address):
    reader.goto(f"{running.url}/episodes/{long}/{address}")
    expect(reader.locator("#step-4321[aria-current=step]")).to_be_visible()
    until(lambda: in_view(reader, 4321), 60)
    shown = seqs(reader)
    assert shown == list(range(shown[0], shown[-1] + 1)) and len(shown) <= 200


@pytest.mark.parametrize("address", ["#'\"]>,%E0%A4%A", "#", "?step=-1#step-x"])
def test_an_odd_address_names_no_step_and_breaks_nothing(running, long, reader, address):
    reader.goto(f"{running.url}/episodes/{long}/{address}")
    until(lambda: in_view(reader, COUNT), 60)
    expect(reader.locator("#connection-words")).to_have_text("Live")
    expect(reader.locator("#connection-words")).to_have_attribute("title", f"Event {COUNT}")


def test_a_text_is_found_in_steps_that_are_not_on_the_page(running, long, reader):
    reader.goto(f"{running.url}/episodes/{long}/")
    reader.keyboard.press("/")
    reader.keyboard.type("thought 4200 ")
    reader.keyboard.press("Enter")
    expect(reader.locator("#step-4200[aria-current=step]")).to_be_visible()
    expect(reader.locator("[data-found]")).to_have_text("1 of 1")


def test_replay_of_a_long_episode_moves_by_keys_and_slider(running, long, reader):
    reader.goto(f"{running.url}/episodes/{long}/replay/?step=9000")
    reader.keyboard.press("Shift+ArrowRight")
    reader.wait_for_url(re.compile(r"step=9005$"))
    reader.keyboard.press("End")
    reader.wait_for_url(re.compile(rf"step={COUNT}$"))
    until(lambda: in_view(reader, COUNT), 60)
    reader.locator("[data-slider]").fill("77")
    until(lambda: in_view(reader, 77), 60)
    assert reader.locator(".scrub a").count() <= 61


@pytest.mark.long
def test_far_jumps_need_no_fetch_or_say_that_they_wait(running, long, reader):
    reader.add_init_script(READ)
    reader.goto(f"{running.url}/episodes/{long}/replay/?step=5000")
    has_read(reader, "again=", str(COUNT))
    until(lambda: in_view(reader, 5000), 60)
    reader.route("**/steps.html*", lambda route: None)  # no answer comes
    reader.keyboard.press("End")
    expect(reader.locator(f"#step-{COUNT}[aria-current=step]")).to_be_visible()
    slider = reader.locator("[data-slider]")
    slider.evaluate("one => { one.value = 8000; one.dispatchEvent(new Event('input', { bubbles: true })); }")
    expect(reader.locator("li.blank[aria-current=step]")).to_have_text("Step 8000 is loading.")
    reader.unroute("**/steps.html*")  # which lets them go on
    until(lambda: in_view(reader, 8000), 60)


def test_jump_shows_its_step_before_all_else_is_drawn(running, long, reader):
    reader.add_init_script(READ)
    reader.goto(f"{running.url}/episodes/{long}/replay/?step=5000")
    has_read(reader, "again=", str(COUNT))
    until(lambda: in_view(reader, 5000), 60)
    frames = reader.evaluate(
        """() => new Promise((done) => {
          const frames = [];
          const look = () => {
            const shown = document.querySelector("li.step[aria-current]:not(.blank)")?.dataset.seq;
            const place = document.querySelector(".scrub [aria-current]").dataset.seq;
            frames.push([shown, place, document.querySelectorAll("li.step[data-seq]").length]);
            if (frames.length < 40) requestAnimationFrame(look);
            else done(frames);
          };
          document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "End", bubbles: true }));
          look();
        })"""
    )
    first = next(frame for frame in frames if frame[0] == str(COUNT))
    assert first[1] == "5000"  # the places of the scrubber are drawn later
    assert frames[-1][:2] == [str(COUNT), str(COUNT)] and first[2] < frames[-1][2]
    assert frames[frames.index(first) + 1][1] == "5000"  # which it was when the step was shown


def test_a_change_of_more_than_eight_lines_opens_its_rest(running, long, reader):
    reader.goto(f"{running.url}/episodes/{long}/?step=5005")
    reader.goto(f"{running.url}/episodes/{long}/?step=5010")
    step = reader.locator("#step-5010")
    expect(step.locator("summary", has_text="12 more lines")).to_be_visible()
    assert step.locator(".diff").first.locator("del").count() == 8
    step.locator("summary", has_text="12 more lines").click()
    expect(step.locator("details .diff del")).to_have_count(12)
    expect(step).to_contain_text("tickets 19")


def test_following_page_shows_newest_and_others_get_a_count(running, agent, reader):
    episode = agent.post("/episodes", json={"key": "follow", "task": "be followed"}).json()["id"]
    append(agent, episode, 1, 200)
    reader.goto(f"{running.url}/episodes/{episode}/")
    until(lambda: in_view(reader, 200), 60)
    expect(reader.locator("[data-follow]")).to_contain_text("Following")
    append(agent, episode, 201, 5)
    until(lambda: in_view(reader, 205), 60)
    reader.locator("[data-scroll]").hover()
    reader.mouse.wheel(0, -2500)
    expect(reader.locator("[data-follow]")).to_have_text(re.compile("^Follow f"))
    read = "new Promise(done => setTimeout(() => done(document.querySelector('[data-scroll]').scrollTop), 300))"
    top = until(lambda: (at := reader.evaluate(read)) == reader.evaluate(read) and at, 60)  # the wheel has come to rest
    append(agent, episode, 206, 12)
    expect(reader.locator("[data-follow]")).to_contain_text("12 new below")
    assert reader.evaluate("document.querySelector('[data-scroll]').scrollTop") == top
    reader.locator("[data-follow]").click()
    until(lambda: in_view(reader, 217), 60)
    expect(reader.locator("[data-follow]")).to_contain_text("Following")


def test_a_large_result_is_folded_cut_and_opens_whole(running, agent, reader):
    episode = agent.post("/episodes", json={"key": "large", "task": "be large"}).json()["id"]
    rows = {"blob": "x" * 300_000, "end": "the very end"}
    step = {"seq": 1, "kind": "tool_call", "name": "dump", "arguments": {}, "result": rows}
    assert agent.post(f"/episodes/{episode}/steps", json={"steps": [step]}).status_code == 200
    reader.goto(f"{running.url}/episodes/{episode}/")
    card = reader.locator("#step-1")
    expect(card).to_contain_text("300.")
    assert len(card.inner_html()) < 40_000
    card.get_by_text("Open raw").first.click()
    expect(reader.locator("body")).to_contain_text("the very end")


def test_line_of_runs_counts_an_end_before_the_slow_look(running, agent, person):
    """The page's clock stands still between ticks, so that its look every 30 s never comes."""
    run = agent.post("/runs", json={"name": "counted", "key": "counted"}).json()["id"]
    ids = [agent.post("/episodes", json={"key": f"c{n}", "task": "t", "run": run}).json()["id"] for n in range(2)]
    page = person(running.link("nora", "viewer"))
    page.clock.install()
    page.goto(running.url)
    line = page.locator("[data-runs]")
    expect(line).to_contain_text("counted, 0 done of 2")
    expect(page.locator("#connection-words")).to_have_text("Live")
    assert agent.post(f"/episodes/{ids[0]}/finish", json={"stop_reason": "done"}).is_success
    for _ in range(20):
        page.clock.run_for(1000)
        if "1 done of 2" in line.inner_text():
            break
        time.sleep(0.3)
    expect(line).to_contain_text("counted, 1 done of 2", timeout=100)


@pytest.mark.long
def test_sixty_episodes_on_the_wall_change_in_place(running, agent, person):
    plan = {"task": "t", "scenario": "wall", "expert": "plain"}
    pks = [agent.post("/episodes", json={**plan, "key": f"w{n}", "task_idx": n}).json()["id"] for n in range(60)]
    owner = person(running.link("owner", "admin"))
    owner.goto(running.url + "/")
    fetched = []
    owner.on("request", lambda request: fetched.append(request.url) if request.resource_type == "document" else None)
    row = owner.locator(f"tr[data-episode='{pks[0]}']")
    row.scroll_into_view_if_needed()
    owner.evaluate("pk => { document.querySelector(`tr[data-episode='${pk}']`).marked = true; }", pks[0])
    for pk in pks:
        append(agent, pk, 1, 3)
    expect(row.locator("[data-cell=count]")).to_have_text("3")
    expect(row.locator("[data-cell=action]")).to_have_text("look")
    expect(owner.locator("#connection-words")).to_have_attribute("title", re.compile(r"^Last event \d\d:\d\d:\d\d$"))
    expect(row.locator(".strip use")).to_have_count(4)
    assert owner.evaluate("pk => document.querySelector(`tr[data-episode='${pk}']`).marked", pks[0])
    assert fetched == []
    asked = pks[-1]
    agent.post("/asks", json={"key": "w", "episode": asked, "seq": 4, "question": "Which?", "deadline_s": 60})
    first = owner.locator("[data-wall] tr[data-episode]").first
    expect(first).to_have_attribute("data-episode", asked)
    expect(first).to_contain_text("Waiting")
    agent.post(f"/episodes/{pks[1]}/finish", json={"stop_reason": "done"})
    expect(owner.locator(f"tr[data-episode='{pks[1]}']")).to_have_count(0)
    agent.post("/episodes", json={"key": "late", "task": "t", "scenario": "late", "task_idx": 1})
    expect(owner.locator("[data-wall]")).to_contain_text("late / 1")
