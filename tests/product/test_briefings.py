"""Arms with a briefing in the running product: a model distills it over HTTP, agents read it in a real environment, the
run compares, and an export holds what was read."""

from __future__ import annotations

import json

import pytest

from awmclient.words.conversation import BRIEFED, messages
from tests.running import until

TASKS = ["helpdesk_1/0", "helpdesk_1/1"]
WORDS = "Read the ticket before you change it."


def reply(body):
    """The expert distills; the agent, which gets tools, says that it is done."""
    return "Done." if "tools" in body else json.dumps({"briefing": WORDS})


@pytest.fixture(scope="module")
def world(own_models):
    running, server = own_models
    server.reply, server.key = reply, ""
    server.bodies.clear()
    return running.with_project("briefed"), server


def run(http, **plan):
    made = http.post("/runs", json={"name": "trial", "plan": {"tasks": TASKS, "policy": "script:oracle", **plan}})
    assert made.status_code == 201, made.text
    pk = made.json()["id"]
    until(lambda: _is_over(http, pk), 240, every=0.5)
    return pk


def _is_over(http, pk):
    arms = http.get(f"/runs/{pk}/comparison").json()["arms"]
    return all(arm["ended"] == arm["planned"] for arm in arms)


def episodes(http, pk, arm):
    return http.get("/episodes", params={"run": pk, "arm": arm}).json()["items"]


def steps(http, episode):
    return http.get(f"/episodes/{episode['id']}/steps").json()["steps"]


def test_distilled_briefing_from_run_to_export(world, tmp_path):
    running, server = world
    http = running.http(running.token("launch"))
    run(http, arms=[{"name": "first"}])
    arms = [{"name": "baseline"}, {"name": "distilled", "briefing": "model"}]
    pk = run(http, arms=arms, seeds=2)
    assert len(server.bodies) == len(TASKS), "once for a task, whatever its seeds"
    told = episodes(http, pk, "distilled")
    assert len(told) == 4
    for episode in told:
        kinds = [step["kind"] for step in steps(http, episode)[:3]]
        assert kinds == ["message", "message", "briefing"]
        briefing = steps(http, episode)[2]
        assert (briefing["text"], briefing["author"], briefing["privilege"]) == (WORDS, "expert", "blind")
    assert not [
        step for one in episodes(http, pk, "baseline") for step in steps(http, one) if step["kind"] == "briefing"
    ]
    for advice, is_told in (("keep", True), ("distil", False)):
        file = tmp_path / f"{advice}.jsonl"
        (tmp_path / "recipe.yaml").write_text(f"format: sft\nfilter: {{arm: [distilled]}}\nadvice: {advice}\n")
        running.manage(
            "export", "--project", running.project, "--recipe", str(tmp_path / "recipe.yaml"), "--output", str(file)
        )
        rows = [json.loads(line) for path in file.rglob("*.jsonl") for line in path.read_text().splitlines()]
        rows = rows or [json.loads(line) for line in file.read_text().splitlines()]
        rows = [row for row in rows if "messages" in row]
        assert rows and all((BRIEFED in json.dumps(row)) is is_told for row in rows)
        for row in rows:
            places = [at for at, one in enumerate(row["messages"]) if one["content"].startswith(BRIEFED)]
            assert [row["loss"][at] for at in places] == [0] * is_told and row["condition"] == "briefed"


@pytest.mark.long
def test_model_agent_reads_the_briefing_as_it_is_recorded(world):
    running, server = world
    http = running.http(running.token("launch"))
    said = {"scenario": "helpdesk_1", "task_idx": 0, "text": 'Ünlike "this" \\ line\nand that.'}
    assert http.post("/briefings", json=said).status_code == 201
    server.bodies.clear()
    pk = run(http, arms=[{"name": "briefed", "briefing": "human"}], policy="model", tasks=TASKS[:1])
    (episode,) = episodes(http, pk, "briefed")
    heard = next(body["messages"] for body in server.bodies if "tools" in body)
    assert messages(steps(http, episode))[: len(heard)] == heard
    assert heard[2] == {"role": "user", "content": f"{BRIEFED}\n\n{said['text']}"}
