"""Pages have no serious finding of axe-core, in light and dark: names, roles, contrast, and links that are seen."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.commands import ROOT
from tests.running import until

pytestmark = pytest.mark.browser

AXE = ROOT / "tools" / "node_modules" / "axe-core" / "axe.min.js"
needs_axe = pytest.mark.skipif(not AXE.exists(), reason="npm has not installed axe-core")
PROJECT = "reading"
"""A project of its own: the pages show the same whatever other tests wrote before."""
PAGES = (
    *("/", "/queue/", "/episodes/", "/runs/", "/runs/?launch=1&recipe=pr428", "/reviews/", "/reviews/mentions/"),
    *("/reviews/labels/", "/reviews/add/?matching=%3F", "/episodes/?sort=-duration&columns=ended,run,policy"),
    *("/reviews/agreement/", "/reviews/court/", "/curriculum/", "/exports/", "/imports/", "/connect/", "/members/"),
    *("/api-tokens/", "/models/", "/environment/", "/legend/", "/routing/", "/metrics/", "/notifications/"),
    *("/projects/", "/audit/", "/my-answers/", "/campaigns/", "/retention/"),
)
BOTH = ("/", "/queue/", "/episodes/", "/runs/", "/reviews/", "/curriculum/")
"""Pages that each run of the tests reads in dark and on a phone, too. Colors are variables of all pages."""
SERIOUS = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations
    .filter((found) => ["serious", "critical"].includes(found.impact))
    .map((found) => `${found.id}: ${found.nodes.map((node) => node.html.slice(0, 200)).join(" | ")}`)"""
COLORS = SERIOUS.replace("{", '{runOnly: ["color-contrast", "link-in-text-block"], ', 1)
"""The rules that read colors, for dark: the rest of a page is the same in both."""
SMALL = """async () => (await axe.run(document, {runOnly: ["link-name", "button-name",
    "heading-order", "link-in-text-block", "label-content-name-mismatch"], resultTypes: ["violations"]})).violations
    .map((found) => `${found.id}: ${found.nodes.map((node) => node.html.slice(0, 200)).join(" | ")}`)"""
"""Names, headings and links by color alone, also of what a phone hides."""
TOOL = {
    "name": "assign_ticket",
    "description": "Assign a ticket to an agent",
    "input_schema": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
}
RESULT = [{"id": row, "subject": "a long line of a result " * 9} for row in range(40)]
"""Higher than its frame, so that it scrolls."""
PLAN = {
    "name": "Two tasks",
    "tasks": {"limit": 2},
    "arms": [{"name": "wrong", "policy": "script:negative"}, {"name": "right", "policy": "script:oracle"}],
}


def call(seq, **more):
    return {"seq": seq, "kind": "tool_call", "name": "assign_ticket", "arguments": {"id": seq, "note": RESULT}, **more}


def sent(client, path, body):
    """What the API answers to a body that it takes."""
    answer = client.post(path, json=body)
    assert answer.is_success, answer.text
    return answer.json()


def played(loop, key, count):
    """An ended episode: a thought, an error and so many calls."""
    start = {"key": key, "task": "Assign ticket 7.", "scenario": "desk_1", "task_idx": 0, "tools": [TOOL]}
    episode = sent(loop, "/episodes", start)["id"]
    diff = {"tickets": {"changed": [{"key": 7, "before": {"agent": None}, "after": {"agent": "Ann"}}]}}
    thought = {"seq": 1, "kind": "message", "role": "assistant", "content": "I look first."}
    calls = [call(seq, result=RESULT, state_diff=diff) for seq in range(3, count + 3)]
    sent(loop, f"/episodes/{episode}/steps", {"steps": [thought, call(2, error="no such ticket"), *calls]})
    outcome = {"reward_type": "complete", "reward": 1.0}
    sent(loop, f"/episodes/{episode}/finish", {"stop_reason": "done", "outcome": outcome})
    return episode


@pytest.fixture(scope="module")
def written(house):
    """Addresses of episodes with few and with many steps, of both beside each other, and of a run that has ended."""
    house.manage("createproject", PROJECT)
    with house.http(house.token("agent", PROJECT)) as loop:
        episodes = [played(loop, "few", 4), played(loop, "many", 30)]
    with house.http(house.token("launch", PROJECT)) as launcher:
        run = sent(launcher, "/runs", {"name": PLAN["name"], "plan": PLAN})["id"]
    with house.http(house.token("review", PROJECT)) as reader:
        ended = {"state": "finished", "run": run}
        until(lambda: len(reader.get("/episodes", params=ended).json()["items"]) == 4, 90)
        forked, plain = [one["id"] for one in reader.get("/episodes", params=ended).json()["items"]][:2]
    with house.http(house.token("launch", PROJECT)) as launcher:
        steps = launcher.get(f"/episodes/{forked}/steps").json()["steps"]
        step = next(one["seq"] for one in steps if one["kind"] == "tool_call")
        fork = sent(launcher, f"/episodes/{forked}/fork", {"step": step, "tries": 2})["id"]
        tree = f"/episodes/{forked}/tree"
        until(lambda: sum(one["outcome"] is not None for one in launcher.get(tree).json()["episodes"]) == 5, 90)
        change = {"change": {"words": "Mind the order."}, "at": "times", "query": "?outcome=others", "tries": 1}
        campaign = sent(launcher, "/campaigns", change)["id"]
        until(lambda: launcher.get(f"/campaigns/{campaign}").json()["state"] == "ended", 120)
    forks = [
        f"/campaigns/{campaign}/",
        f"/episodes/{forked}/fork?step={step}",
        f"/forks/{fork}/",
        tree,
        f"/episodes/{plain}/tree",
    ]
    both = "&".join(f"episode={episode}" for episode in episodes)
    paths = [f"/episodes/{episode}/{view}" for episode in episodes for view in ("", "replay/")]
    return [*paths, *forks, f"/episodes/{forked}/replay/", f"/episodes/compare/?{both}", f"/runs/{run}/"]


def asked(house, key):
    """The address of an ask that waits, with long context."""
    with house.http(house.token("agent", PROJECT)) as loop:
        episode = sent(loop, "/episodes", {"key": key, "task": "Ask.", "tools": [TOOL], "expert": "plain"})["id"]
        sent(loop, f"/episodes/{episode}/steps", {"steps": [call(1, result=RESULT)]})
        ask = {"key": key, "episode": episode, "seq": 2, "question": "To whom?", "context": "so far " * 500}
        return f"/asks/{sent(loop, '/asks', ask)['id']}/"


def opened(page, house, path):
    """Open a page with all that it folds, and axe in it."""
    assert page.goto(house.url + path).status == 200, path
    expect(page.locator("h1")).not_to_have_count(0)
    page.eval_on_selector_all("details", "all => all.forEach((one) => { one.open = true; })")
    page.evaluate(AXE.read_text(encoding="utf-8"))


def found_otherwise(page, path):
    """What axe finds of the open page in dark, and of what a phone hides."""
    page.emulate_media(color_scheme="dark")
    found = [f"{path} in dark {line}" for line in page.evaluate(COLORS)]
    page.set_viewport_size({"width": 390, "height": 844})
    found += [f"{path} at 390 px {line}" for line in page.evaluate(SMALL)]
    page.set_viewport_size({"width": 1440, "height": 900})
    page.emulate_media(color_scheme="light")
    return found


@needs_axe
def test_pages_have_no_serious_axe_finding(house, person, written):
    page = person(house.link("lea", "admin", PROJECT), color_scheme="light")
    found, first = [], asked(house, "read")
    for path in (first, *PAGES, *written):
        opened(page, house, path)
        found += [f"{path} {line}" for line in page.evaluate(SERIOUS)]
        if path in (first, *BOTH, *written[:1]):
            found += found_otherwise(page, path)
    assert not found, "\n".join(found)


@needs_axe
@pytest.mark.long
def test_dark_and_narrow_pages_have_no_axe_finding(house, person, written):
    page = person(house.link("lea", "admin", PROJECT), color_scheme="light")
    found = []
    for path in (asked(house, "read again"), *PAGES, *written):
        opened(page, house, path)
        found += found_otherwise(page, path)
    assert not found, "\n".join(found)
