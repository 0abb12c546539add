"""A trainer's waits: rollouts a second, a batch of rollouts of which some ask people, and the tasks of its next step.

Prints one JSON object a line: name, value, unit, limit, ratio, conditions with the aim. 128 rollouts (16 tasks of 8) of
a scripted policy run on the environment server, 20 of them ask once, and a simulated desk answers each after a time of
its own (log-normal, median 15 s). The limit of their total time is the rollout with the longest answer, alone. The
limit of the call for the next tasks among 10,000 is one call of the same API that commits once.

Rollouts a second are those of a scripted policy with four calls and a verified answer, 64 together, over one connection
and recorded as whole episodes. Their limit is one process that copies the database, makes the same calls and runs the
same verifier without server, sandbox, loop and recording. Run as `python bench/training.py`.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from awmclient.choosing.scripted import ScriptedPolicy  # noqa: E402
from awmclient.client import HttpDashboard  # noqa: E402
from awmclient.client.collecting import CollectingDashboard  # noqa: E402
from awmclient.loop.rollout import rollout  # noqa: E402
from awmenv.batches import EnvironmentBatch  # noqa: E402
from awmenv.client import EnvironmentClient  # noqa: E402
from tests.running import Product, product  # noqa: E402

TASKS, GROUP, ASKS, MEDIAN_S, SIGMA = 16, 8, 20, 15.0, 0.5
KNOWN, CALLS, WARM = 10_000, 60, 5
READS = [{"call": {"name": "get_ticket", "arguments": {"ticket_id": 1025}}}] * 6
ANSWER = {"answer": "I looked."}
CALLS_EACH, ROLLOUTS, TOGETHER = 4, 600, 64


def report(name: str, value: float, unit: str, limit: float | None, **conditions: object) -> None:
    conditions |= {"load": round(os.getloadavg()[0], 1), "cores": os.cpu_count()}
    ratio = round(value / limit, 3) if limit else None
    line = {"name": f"training.{name}", "value": round(value, 3), "unit": unit, "limit": limit and round(limit, 3)}
    print(json.dumps({**line, "ratio": ratio, "conditions": conditions}), flush=True)


IN_PROCESS = """
import asyncio, os, shutil, sys, tempfile, time
sys.path.insert(0, {root!r})
from awmenv.packs import load_pack
from awmenv.server import database
from awmenv.server.verify import runner
from awmenv.server.world import host, seeding, tools
os.chdir(tempfile.mkdtemp())
host.preload_libraries()
pack = load_pack({pack!r})
seeding.build("start.db", pack.statements("helpdesk_1"))
shutil.copyfile("start.db", database.FILE)
app = host.App(host._run_code(pack.app_code("helpdesk_1")))
loop, verifier = asyncio.new_event_loop(), pack.verifier("helpdesk_1", 1, "code").code
paths = [os.path.abspath("start.db"), os.path.abspath(database.FILE)]

def play():
    host.close_database()
    shutil.copyfile("start.db", database.FILE)
    for _ in range({calls}):
        request = tools.request(app.operations["get_ticket"], {{"ticket_id": 1025}})
        loop.run_until_complete(host._exchange(app.asgi, request))
    runner._work({{"work": "code", "code": verifier, "paths": paths, "answer": "I looked."}})

play()
began, count = time.perf_counter(), 0
while time.perf_counter() - began < 3:
    play()
    count += 1
print(count / (time.perf_counter() - began))
"""


def in_process(calls: int) -> float:
    """Return the rollouts a second of one process that does nothing else."""
    code = IN_PROCESS.format(root=str(ROOT), pack=str(ROOT / "packs" / "starter"), calls=calls)
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(found.stdout)


async def pace(web: Product) -> None:
    """Play many short rollouts together."""
    limit = in_process(CALLS_EACH)
    script = [READS[0]] * CALLS_EACH + [ANSWER]
    url = f"http://127.0.0.1:{web.environment['AWMENV_PORT']}"
    place, room = {"scenario": "helpdesk_1", "task_idx": 1}, asyncio.Semaphore(TOGETHER)

    async def verdict(world: EnvironmentClient, answer: str | None) -> None:
        await world.verify(answer)

    async def play_short() -> None:
        async with room, shared.client() as world:
            about = {"expert": "off", "on_end": verdict, "verify": True, "stall_after": 0}
            done = await rollout(ScriptedPolicy(script), world, dash, task="bench", **place, **about)
        assert done.stop_reason == "done", done

    async with HttpDashboard(web.url, web.token("agent")) as http, EnvironmentBatch(url) as shared:
        dash = CollectingDashboard(http)
        await play_short()
        before, began = time.process_time(), time.monotonic()
        await asyncio.gather(*(play_short() for _ in range(ROLLOUTS)))
        rate = ROLLOUTS / (time.monotonic() - began)
        own_ms = 1000 * (time.process_time() - before) / ROLLOUTS
    sizes = {"rollouts": ROLLOUTS, "together": TOGETHER, "calls": CALLS_EACH, "loop_ms": round(own_ms, 1)}
    report("rollouts", rate, "rollouts/s", limit, aim="60, and 0.6 of one bare process", **sizes)


class Desk(threading.Thread):
    """A simulated desk that answers each ask after the seconds in its question."""

    def __init__(self, web: Product) -> None:
        super().__init__(daemon=True)
        self._http, self._due = web.http(web.token("expert")), dict[str, float]()
        self.through = threading.Event()

    def run(self) -> None:
        answered = set[str]()
        while not self.through.wait(0.1):
            for ask in self._http.get("/asks", params={"status": "open"}).raise_for_status().json()["asks"]:
                found = re.search(r"after ([\d.]+) s", ask["question"])
                assert found is not None
                due = self._due.setdefault(ask["id"], time.monotonic() + float(found[1]))
                if ask["id"] not in answered and time.monotonic() >= due:
                    self._answer(ask["id"])
                    answered.add(ask["id"])

    def _answer(self, ask: str) -> None:
        lease = self._http.post(f"/asks/{ask}/claim", json={}).raise_for_status().json()
        said = {"lease_token": lease["lease_token"], "text": "The oldest.", "nonce": ask}
        self._http.post(f"/assignments/{lease['assignment']}/answer", json=said).raise_for_status()


async def play_task(web: Product, dash: HttpDashboard, wait_s: float, **about: Any) -> float:
    """Return the seconds of one rollout, which asks in the middle if its expert takes `wait_s`."""
    question = {"question": f"Which of them, after {wait_s:.2f} s?"}
    asking = [{"ask": question, "advised": [*READS[3:], ANSWER], "unadvised": [*READS[3:], ANSWER]}]
    script = [*READS[:3], *asking] if wait_s else [*READS, ANSWER]
    url = f"http://127.0.0.1:{web.environment['AWMENV_PORT']}"

    async def verdict(world: EnvironmentClient, answer: str | None) -> None:
        await world.verify(answer)

    began = time.monotonic()
    async with EnvironmentClient(url) as world:
        place = {"scenario": "helpdesk_1", "task_idx": 1}
        await world.reset(**place)
        limits = {"stall_after": 0, "ask_deadline_s": 600}
        about |= {"expert": "plain" if wait_s else "off", "on_end": verdict, "verify": True}
        done = await rollout(ScriptedPolicy(script), world, dash, task="bench", **limits, **place, **about)
    assert done.stop_reason == "done" and done.asks == bool(wait_s), done
    return time.monotonic() - began


async def batch(web: Product) -> None:
    """Run all rollouts together, and the slowest one alone."""
    chance = random.Random(4)
    waits = [round(chance.lognormvariate(0, SIGMA) * MEDIAN_S, 2) for _ in range(ASKS)]
    all_waits = [*waits, *[0.0] * (TASKS * GROUP - ASKS)]
    chance.shuffle(all_waits)
    token = web.token("agent")
    async with HttpDashboard(web.url, token) as dash:
        run = await dash.start_run("bench")
        await play_task(web, dash, 0.0, run=run)  # the first play of a scenario builds it
        alone = await play_task(web, dash, max(waits), run=run)
        began = time.monotonic()
        took = await asyncio.gather(
            *(
                play_task(web, dash, wait, run=run, group_key=f"g{at // GROUP}", training_step=1)
                for at, wait in enumerate(all_waits)
            )
        )
        total_s = time.monotonic() - began
    sizes = {"rollouts": len(all_waits), "asks": ASKS, "longest_answer_s": max(waits), "median_answer_s": MEDIAN_S}
    report("batch_wall", total_s, "s", alone, aim="1.2 of the slowest rollout alone", **sizes)
    own = max(seconds - wait for seconds, wait in zip(took, all_waits, strict=True) if wait)
    solo = max(seconds for seconds, wait in zip(took, all_waits, strict=True) if not wait)
    aim = "rollouts that ask take no longer than the others, their own answer aside"
    report("batch_asking_without_own_wait", own, "s", solo, aim=aim, **sizes)


def next_tasks(web: Product) -> None:
    """Draw from 10,000 tasks again and again; the limit is a call that commits once."""
    plan = {"train": [[f"bulk_{at // 10}", at % 10] for at in range(KNOWN)], "val": [["bulk_held", 0]]}
    file = web.var / "bulk.json"
    file.write_text(json.dumps(plan))
    web.manage("build_split", "--read", str(file), "--name", "bulk")
    with web.http(web.token("agent")) as http:
        run = http.post("/runs", json={"name": "curriculum"}).raise_for_status().json()["id"]
        began = {"key": "c", "task": "bench"}
        episode = http.post("/episodes", json=began).raise_for_status().json()["id"]
        ask = {"n": 16, "run": run}
        first = timed(lambda: http.get("/curriculum/next", params={**ask, "seed": 0}))
        drawn = [timed(lambda at=at: http.get("/curriculum/next", params={**ask, "seed": at})) for at in range(CALLS)]
        beats = [timed(lambda: http.post(f"/episodes/{episode}/heartbeat")) for _ in range(CALLS)]
    p95 = [sorted(some[WARM:])[int((CALLS - WARM) * 0.95)] for some in (drawn, beats)]
    more = {"beside": "a heartbeat", "tasks": KNOWN, "first_ms": round(first, 1)}
    report("next_tasks", p95[0], "ms p95", p95[1], aim=50, **more)


def timed(call: Any) -> float:
    began = time.perf_counter()
    answer: httpx.Response = call()
    answer.raise_for_status()
    return (time.perf_counter() - began) * 1000


def main() -> None:
    with product() as web:
        asyncio.run(pace(web))
        desk = Desk(web)
        desk.start()
        asyncio.run(batch(web))
        desk.through.set()
        next_tasks(web)


if __name__ == "__main__":
    main()
