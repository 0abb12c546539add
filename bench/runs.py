"""Planned runs: how fast their episodes are run, launched, shown and compared. One JSON object a line.

The limit of 100 scripted episodes over 8 slots is the environment server alone: the same tasks and calls, with resets
and outcomes, by eight bare clients of the same server in the same run. The limit of a launch is a copy of the rows that
it wrote, that of the page an empty one. Other work on the machine slows a value and its limit: read the ratio, the
processor time of the product (`cpu_s`, `cpu_ms`) and the load with it. Run as `python bench/runs.py`; starts a product
of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import psycopg

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from awmenv.client import EnvironmentClient  # noqa: E402
from awmenv.packs import load_pack  # noqa: E402
from awmweb.embedded import urls  # noqa: E402
from runs.statistics.compare import Try, contrasts  # noqa: E402
from tests.running import Product, product, until  # noqa: E402

EPISODES, SLOTS, SEEDS = 100, 8, 5
ROUNDS, LOOKS = 3, 9
LAUNCHED, PAIRED = 10_000, 1000
AIMS = {"episodes": 0.7, "launch": 10, "page": 300, "statistics": 2}
LAST = """
SELECT extract(epoch FROM max(found.at))::float8 FROM episodes_verifieroutcome found
  JOIN episodes_episode episode ON episode.id = found.episode_id WHERE episode.run_id = %s
"""
ENDED = """
SELECT state, (SELECT count(*) FROM episodes_verifieroutcome found
                 JOIN episodes_episode episode ON episode.id = found.episode_id WHERE episode.run_id = plan.run_id)
  FROM runs_plan plan WHERE run_id = %s
"""
LAUNCH = """
import json, time
from django.db import connection
from people.access import system_actor
from runs.launch import planning, selecting
from runs.plan.plans import plan_of
arms = [{"name": f"arm {n}", "expert": "plain" if n else "off"} for n in range(5)]
plan = {"name": "launched", "arms": arms, "seeds": 1, "policy": "script:oracle", "start": False}
tasks = len(selecting.tasks_of(system_actor("demo"), plan_of(plan)))
plan["seeds"] = -(-%d // (tasks * len(arms)))
began, cpu = time.perf_counter(), time.process_time()
made, _ = planning.launch(system_actor("demo"), plan_of(plan))
took, cpu = time.perf_counter() - began, time.process_time() - cpu
with connection.cursor() as cursor:
    began = time.perf_counter()
    for table, where in (
        ("episodes_episode", "run_id = %%s"),
        ("runs_plannedtry", "plan_id = %%s"),
        ("episodes_episodeevent", "episode_id in (select id from episodes_episode where run_id = %%s)"),
    ):
        cursor.execute(f"create temp table copied_{table} (like {table} including indexes)")
        cursor.execute(f"insert into copied_{table} select * from {table} where {where}", [made.pk])
    copied = time.perf_counter() - began
found = {"run": made.pk, "seconds": took, "copied": copied, "cpu": cpu, "episodes": made.tries.count()}
print("MEASURED", json.dumps(found))
"""
FILL = """
import json, random
from django.utils import timezone
from episodes.models import Episode, VerifierOutcome
from runs.models import Plan
dice = random.Random(1)
ids = list(Plan.objects.get(pk="%s").tries.values_list("episode_id", flat=True))
Episode.objects.filter(pk__in=ids).update(state="finished", stop_reason="done", ended_at=timezone.now())
VerifierOutcome.objects.bulk_create((
    VerifierOutcome(episode_id=pk, source="verifier", reward_type=dice.choice(["complete", "others"]), reward=0.5)
    for pk in ids
), batch_size=2000)
Plan.objects.filter(pk="%s").update(state="finished", ended_at=timezone.now())
"""


def report(name: str, value: float, unit: str, limit: float | None, **conditions: object) -> None:
    ratio = round(value / limit, 3) if limit else None
    line = {"name": f"runs.{name}", "value": round(value, 3), "unit": unit, "limit": limit and round(limit, 3)}
    about = {"aim": AIMS[name], **conditions, "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    print(json.dumps({**line, "ratio": ratio, "conditions": about}), flush=True)


def scripts() -> dict[tuple[str, int], list[dict[str, Any]]]:
    """Return the scripts of the first tasks, as many as the run has episodes."""
    pack = load_pack(ROOT / "packs" / "starter")
    found = {
        (scenario, idx): pack.scripts(scenario, idx)["oracle"]
        for scenario in sorted(pack.scenarios)
        for idx in range(len(pack.tasks(scenario)))
        if "oracle" in pack.scripts(scenario, idx)
    }
    return dict(list(found.items())[: EPISODES // SEEDS])


async def alone(url: str, tasks: dict[tuple[str, int], list[dict[str, Any]]]) -> float:
    """Return episodes a second of bare clients: reset, tools, calls, outcome."""
    waiting = [one for one in tasks.items() for _ in range(SEEDS)]

    async def slot() -> None:
        while waiting:
            (scenario, idx), turns = waiting.pop()
            async with EnvironmentClient(url, restore=True) as env:
                await env.reset(scenario=scenario, task_idx=idx, state_diff=True)
                await env.list_tools()
                answer = None
                for turn in turns:
                    if "call" in turn:
                        await env.call_tool(turn["call"]["name"], turn["call"].get("arguments") or {})
                    answer = turn.get("answer", answer)
                await env.verify(final_answer=answer, mode="code")

    began = time.perf_counter()
    await asyncio.gather(*(slot() for _ in range(SLOTS)))
    return EPISODES / (time.perf_counter() - began)


def planned(web: Product, launcher: httpx.Client, tasks: dict[tuple[str, int], Any], number: int) -> float:
    """Return episodes a second of a planned run, from the launch to the last outcome.

    The times are read from the database, and only the state of the run is polled: loading the comparison would take
    time from what is measured.
    """
    plan = {
        "tasks": [f"{scenario}/{idx}" for scenario, idx in tasks],
        "arms": [{"name": "oracle"}],
        "seeds": SEEDS,
        "policy": "script:oracle",
        "parallel": SLOTS,
    }
    began = time.time()
    run = launcher.post("/runs", json={"name": f"round {number}", "plan": plan}).raise_for_status().json()["id"]

    with psycopg.connect(urls(web.var).database, autocommit=True) as connection:
        until(lambda: connection.execute(ENDED, [run]).fetchone() == ("finished", EPISODES), 600, every=0.5)
        [ended] = connection.execute(LAST, [run]).fetchone() or [None]
    [arm] = launcher.get(f"/runs/{run}/comparison").raise_for_status().json()["arms"]
    assert not arm["excluded"] and arm["complete"] + arm["others"] == EPISODES, arm
    return EPISODES / (ended - began)


def episodes(web: Product) -> None:
    tasks = scripts()
    url = f"http://127.0.0.1:{web.environment['AWMENV_PORT']}"
    with web.http(web.token("launch")) as launcher:
        asyncio.run(alone(url, tasks))  # every scenario's databases and apps are loaded then
        rounds, used, bare, bare_used = [], [], [], []
        for number in range(ROUNDS):  # in turn, so that what else the machine does falls on both alike
            before = spent(web)
            rounds.append(planned(web, launcher, tasks, number))
            used.append(spent(web) - before)
            before = spent(web)
            bare.append(asyncio.run(alone(url, tasks)))
            bare_used.append(spent(web) - before)
    value, limit = statistics.median(rounds), statistics.median(bare)
    about = {
        "episodes": EPISODES,
        "slots": SLOTS,
        "rounds": ROUNDS,
        "cpu_s": round(statistics.median(used), 1),
        "limit_cpu_s": round(statistics.median(bare_used), 1),
        "limit_is": "bare clients, same calls",
    }
    report("episodes", value, "episodes/s", limit, aim_is="ratio", **about)


def launching(web: Product) -> str:
    found = json.loads(web.manage("shell", "-c", LAUNCH % LAUNCHED).split("MEASURED", 1)[1])
    about = {
        "episodes": found["episodes"],
        "python_cpu_s": round(found["cpu"], 1),
        "limit_is": "copying the rows",
    }
    report("launch", found["seconds"], "s", found["copied"], **about)
    return str(found["run"])


def page(web: Product, run: str) -> None:
    web.manage("shell", "-c", FILL % (run, run))
    with httpx.Client(follow_redirects=True, timeout=60, base_url=web.url) as person:
        person.get(web.link("ada", "admin")).raise_for_status()

        def look(path: str) -> float:
            began = time.perf_counter()
            person.get(path).raise_for_status()
            return (time.perf_counter() - began) * 1000

        look(f"/runs/{run}/")
        before = spent(web, "web", "postgres")
        shown = [look(f"/runs/{run}/") for _ in range(LOOKS)]
        cpu_ms = round((spent(web, "web", "postgres") - before) / LOOKS * 1000)
        listed = [look("/health") for _ in range(LOOKS)]
    about = {"episodes": LAUNCHED, "cpu_ms": cpu_ms, "slowest": round(max(shown)), "limit_is": "a page without content"}
    report("page", statistics.median(shown), "ms", statistics.median(listed), **about)


def spent(web: Product, *parts: str) -> float:
    """Return seconds of processor time of the product, or of these parts, without other processes."""
    used = [one.cpu_times() for one, part in web.processes().items() if not parts or part in parts]
    return sum(one.user + one.system for one in used)


def compared() -> None:
    def pairs(seeds: int) -> list[Try]:
        return [
            Try(f"s{n % 50}/{n}", f"s{n % 50}", arm, seed, n, complete=(n * 7 + seed * 3 + len(arm)) % 5 < 2)
            for n in range(PAIRED)
            for seed in range(seeds)
            for arm in ("baseline", "expert")
        ]

    for seeds in (1, 4):
        given, times = pairs(seeds), []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            contrasts(given, ("baseline", "expert"), "baseline")
            times.append(time.perf_counter() - began)
        report("statistics", statistics.median(times), "s", None, tasks=PAIRED, seeds=seeds)


def main() -> None:
    compared()
    with product(AWMWEB_DEMO="0") as web:
        page(web, launching(web))
        episodes(web)


if __name__ == "__main__":
    main()
