"""The speed at which stored episodes are judged again by a repaired verifier, each in its restored world.

Runs a few episodes of a task, copies them with their worlds and steps, repairs the verifier, and has all of them judged
by a worker (`POST /verifiers/reverify`). Prints one JSON object a line: name, value, unit, limit, ratio, conditions
with the aim. The limit is a bare reset, the same calls and `verify` in unrecorded sessions, as many at a time.

Run as `python bench/errata.py [EPISODES]`: 300 by default, 10,000 for the aim itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from awmenv.client import EnvironmentClient  # noqa: E402
from tests.running import Product, product, until  # noqa: E402

SCENARIO, TASK, AIM_S, AIMED = "helpdesk_1", 0, 600.0, 10_000
PATIENCE_S = 3600
FIRST = 4
PLAY = f"""
from people.access import system_actor
from runs.launch import launching

policy = launching.policy_named("script:oracle")
start = launching.LaunchRequest("{SCENARIO}", {TASK}, launching.task_text("{SCENARIO}", {TASK}), policy)
launching.launch(system_actor("demo"), "to judge again", [start] * {FIRST})
"""
ENDED = """
from episodes.models import VerifierOutcome
print("MEASURED", VerifierOutcome.objects.filter(episode__run__name="to judge again").count())
"""
COPY = """
import json
from awmclient.asking.gates import reached_world
from episodes.models import Episode, Step, VerifierOutcome
from episodes.visible.trajectory import steps_of
from people.models import new_id

first = list(Episode.objects.filter(run__name="to judge again").order_by("pk"))
steps = {{one.pk: list(Step.objects.filter(episode=one)) for one in first}}
found = {{one.pk: one.outcomes.get() for one in first}}
for begun in range(len(first), {episodes}, 500):
    rows, more, outcomes = [], [], []
    for number in range(begun, min(begun + 500, {episodes})):
        of = first[number % len(first)]
        one = Episode.objects.get(pk=of.pk)
        one.pk, one.key = new_id(), f"copy-{{number}}"
        rows.append(one)
        for step in steps[of.pk]:
            more.append(Step(episode=one, seq=step.seq, kind=step.kind, body=step.body, cut=step.cut, at=step.at))
        outcomes.append(VerifierOutcome(episode=one, source="verifier", reward_type=found[of.pk].reward_type, reward=1))
    Episode.objects.bulk_create(rows)
    Step.objects.bulk_create(more, batch_size=2000)
    VerifierOutcome.objects.bulk_create(outcomes)
calls = [[one["name"], one.get("arguments") or {{}}] for one in steps_of(first[0]) if reached_world(one)]
print("MEASURED", json.dumps(calls))
"""
PASS = """
import json
from episodes.models import Rejudging
from episodes.stored.repairs import counts_of

one = Rejudging.objects.order_by("-created_at").first()
took = (one.ended_at - one.created_at).total_seconds()
print("MEASURED", json.dumps({"took": took, "problem": one.problem, **counts_of([one])[one.pk]}))
"""
REPAIRED = """
def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    import sqlite3
    with sqlite3.connect(f"file:{final_db_path}?mode=ro", uri=True) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = sum(len(database.execute(f'SELECT * FROM "{name}"').fetchall()) for name in tables)
    return {"result": "others" if rows else "complete"}
"""


def report(name: str, value: float, unit: str, limit: float | None, **conditions: object) -> None:
    line = {"name": f"errata.{name}", "value": round(value, 3), "unit": unit, "limit": limit and round(limit, 3)}
    ratio = round(value / limit, 3) if limit else None
    conditions |= {"load": round(os.getloadavg()[0], 1), "cores": os.cpu_count()}
    print(json.dumps({**line, "ratio": ratio, "conditions": conditions}), flush=True)


def evaluate(web: Product, code: str) -> Any:
    return json.loads(web.manage("shell", "-c", code).split("MEASURED", 1)[1])


async def bare(url: str, calls: list[Any], count: int) -> float:
    """Return sessions a second that reset, make the calls and verify, without a record."""
    room = asyncio.Semaphore(2 * (os.cpu_count() or 1))

    async def session() -> None:
        async with room, EnvironmentClient(url) as env:
            await env.reset(scenario=SCENARIO, task_idx=TASK)
            for name, arguments in calls:
                await env.call_tool(name, arguments)
            await env.verify()

    began = time.perf_counter()
    await asyncio.gather(*(session() for _ in range(count)))
    return count / (time.perf_counter() - began)


def main(episodes: int) -> None:
    with product(AWMWEB_DEMO="0") as web:
        web.manage("shell", "-c", PLAY)
        until(lambda: evaluate(web, ENDED) == FIRST, 300, 1)
        calls = evaluate(web, COPY.format(episodes=episodes))
        url = f"http://127.0.0.1:{web.environment['AWMENV_PORT']}"
        limit = asyncio.run(bare(url, calls, min(episodes, 200)))
        body = {"scenario": SCENARIO, "task_idx": TASK, "verifier": REPAIRED, "reason": "For the benchmark."}
        with web.http(web.token("launch")) as loop:
            one = loop.post("/verifiers/reverify", json=body).raise_for_status().json()["id"]
            until(lambda: loop.get(f"/verifiers/reverify/{one}").json()["state"] != "running", PATIENCE_S, 2)
        found = evaluate(web, PASS)
        assert (found["changed"], found["problem"]) == (episodes, ""), found
        speed = episodes / found["took"]
        about = {"episodes": episodes, "calls": len(calls), "scenario": SCENARIO}
        report("judged", speed, "episodes/s", limit, aim=round(AIMED / AIM_S, 1), limit_is="bare sessions/s", **about)
        report("ten_thousand", AIMED / speed, "s", None, aim=AIM_S, measured=episodes == AIMED, **about)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
