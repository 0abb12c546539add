"""The cost of durable episodes: recording a world, restoring it, certificates, and 10,000 parked episodes.

Prints one JSON object a line: name, value, unit, limit, ratio, conditions with the aim. Limits, from the same run: for
a restore the same calls in a session that is not recorded, with its reset; for marks the same calls without them; for
certificates those calls per second. Parked episodes have aims only: the size of 10,000, and the delay until 500
answered ones continue; and 500 gated calls that wait for their approvals. Run as `python bench/durable.py`, with
`parked` or `gated` for one part; `gated 20` waits with 20.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from awmenv.client import EnvironmentClient  # noqa: E402
from awmenv.repeated import Made  # noqa: E402
from tests.running import Product, product, until  # noqa: E402

READ = ("get_ticket", {"ticket_id": 1025})
WRITE = ("add_comment", {"ticket_id": 1025, "body": "Seen.", "is_public": False})
CALLS = [*[READ] * 4, WRITE] * 20
ROUNDS, PARKED, ANSWERED = 7, 10_000, 500
WRITING = [("repairshop_1", 4), ("library_1", 4)]  # their demos write before they ask
BEATS_S = 25  # a live episode sends a heartbeat each 20 s
SIZE = """
from django.db import connection
with connection.cursor() as cursor:
    cursor.execute("select sum(pg_total_relation_size(c.oid)) from pg_class c where relname in "
                   "('episodes_episode', 'episodes_step', 'episodes_episodeevent', 'experts_ask', "
                   "'experts_assignment')")
    print("MEASURED", int(cursor.fetchone()[0]))
"""
PARK = """
from awmclient.schema import AskOpen, EpisodeStart, StepBatch
from episodes.record import ending, recording
from experts.record import opening, queue
from people.access import system_actor

actor = system_actor("demo")
said = {"kind": "tool_call", "name": "get_ticket", "arguments": {"ticket_id": 1025}, "result": "x" * 500}
batch = StepBatch.model_validate({"steps": [{"seq": n, **said} for n in range(1, 6)]}).steps
for n in range(%d, %d):
    start = EpisodeStart(key=f"parked-{n}", task="t" * 200, expert="plain")
    episode, _ = recording.start_episode(actor, start, origin="builtin")
    recording.append_steps(actor, episode.pk, batch)
    ask = opening.open_ask(actor, AskOpen(key="q", episode=episode.pk, seq=6, question="Which?", deadline_s=2592000))[0]
    recording.park(episode.pk)
"""
SWEEP = """
import json, time
from datetime import timedelta
from django.utils import timezone
from episodes.record import recording
from episodes.models import Episode
from experts.record import closing

times = []
for _ in range(5):
    began = time.perf_counter()
    closing.close_due()
    ending.lose_silent(timezone.now() + timedelta(days=2))
    times.append(time.perf_counter() - began)
parked = Episode.objects.filter(state="parked").count()
print("MEASURED", json.dumps({"sweep": sorted(times)[2], "parked": parked}))
"""
PLAY = """
from people.access import system_actor
from runs.launch import launching

scenario, task_idx, name, count, script, more = "%s", %d, "%s", %d, "%s", %s
policy = launching.policy_named(f"script:{script}") | {"ask_deadline_s": 2592000} | more
start = launching.LaunchRequest(scenario, task_idx, launching.task_text(scenario, task_idx), policy, expert="plain")
launching.launch(system_actor("demo"), name, [start] * count)
"""
COSTS = """
import json
from celery import current_app
from django.db.models import Max
from episodes.models import Episode

asking = Episode.objects.filter(run__name="%s")
states = {state: asking.filter(state=state).count() for state in ("parked", "finished", "failed")}
active = current_app.control.inspect(timeout=5).active() or {}
threads = sum(len(tasks) for name, tasks in active.items() if name.startswith("rollouts"))
beat = Episode.objects.filter(state="parked").aggregate(at=Max("heartbeat_at"))["at"]
print("MEASURED", json.dumps({"states": states, "threads": threads, "beat": str(beat)}))
"""
ANSWER = """
import json, time
from experts.record import advising, queue
from experts.models import Ask
from people import access
from people.record import members
from people.models import Project, new_id

edo = access.person(members.ensure_member(Project.objects.get(slug="demo"), "edo", "expert"))
began = time.time()
for pk in Ask.objects.open().filter(episode__run__name="answered").values_list("pk", flat=True):
    lease = queue.claim(edo, pk)
    advising.answer(edo, lease.assignment_id, lease.lease_token, "Priya.", new_id(), [])
print("MEASURED", json.dumps([began, time.time()]))
"""
APPROVE = """
import json, time
from experts.record import batch
from experts.models import Ask
from people import access
from people.record import members
from people.models import Project

edo = access.person(members.ensure_member(Project.objects.get(slug="demo"), "edo", "expert"))
began = time.time()
waiting = list(Ask.objects.open().filter(episode__run__name="gated").order_by("pk").values_list("pk", flat=True))
refused = []
for first in range(0, len(waiting), batch.TOGETHER_MAX):
    some = waiting[first : first + batch.TOGETHER_MAX]
    refused += [why for why in batch.decide(edo, some, "approve", "", f"bench {first}").values() if why]
assert waiting and not refused, refused[:3]
print("MEASURED", json.dumps([began, time.time()]))
"""
ON = """
import json, time
from episodes.models import Episode, VerifierOutcome
from experts.models import Ask

passed = VerifierOutcome.objects.filter(episode__run__name="%s", reward=1)
give_up = time.monotonic() + 900
while (complete := passed.count()) < %d and time.monotonic() < give_up:
    time.sleep(2)
waited, last = [], 0.0
for one in Episode.objects.filter(run__name="%s", attempt__gte=2):
    ask = one.steps.filter(kind="ask").order_by("-seq").first()
    on = one.steps.filter(seq=ask.seq + 1).values_list("at", flat=True).first()
    back = Ask.objects.get(episode=one).closed_at
    if on is not None:
        waited.append((on - back).total_seconds())
        last = max(last, on.timestamp())
print("MEASURED", json.dumps({"waited": waited, "last": last, "complete": complete}))
"""


def report(name: str, value: float, unit: str, limit: float | None, **conditions: object) -> None:
    ratio = round(value / limit, 3) if limit else None
    line = {"name": f"durable.{name}", "value": round(value, 4), "unit": unit, "limit": limit and round(limit, 4)}
    print(json.dumps({**line, "ratio": ratio, "conditions": conditions}), flush=True)


def p95(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]


async def play_task(url: str, *, world: bool) -> tuple[float, list[float], list[float], Any, list[Made]]:
    """Return seconds of reset and calls together, milliseconds of each read and of each write, and the record."""
    reads: list[float] = []
    writes: list[float] = []
    made = []
    async with EnvironmentClient(url) as env:
        began = time.perf_counter()
        await env.reset(scenario="helpdesk_1", task_idx=1, state_diff=True, world=world)
        for name, arguments in CALLS:
            at = time.perf_counter()
            found = await env.call_tool(name, arguments)
            (reads if name == READ[0] else writes).append((time.perf_counter() - at) * 1000)
            made.append(Made(name, arguments, mark=found.metadata.get("mark")))
        return time.perf_counter() - began, reads, writes, env.world, made


async def replay_task(url: str, world: Any, made: list[Made]) -> float:
    async with EnvironmentClient(url) as env:
        await env.reset(scenario="helpdesk_1", task_idx=1, state_diff=True)
        began = time.perf_counter()
        await env.replay(made, world)
        assert env.restored.grade == "exact"
        return time.perf_counter() - began


async def worlds(url: str) -> None:
    await play_task(url, world=True)
    bare, marked, restores = [], [], []
    for _ in range(ROUNDS):  # in turn, so that what else the machine does falls on all alike
        bare.append(await play_task(url, world=False))
        marked.append(await play_task(url, world=True))
        restores.append(await replay_task(url, *marked[-1][3:]))
    about = {"calls": "80 reads, 20 writes", "rounds": ROUNDS, "sessions": 1}
    limit = statistics.median(one[0] for one in bare)
    restore = statistics.median(restores)
    report("restore_median", restore, "s", limit, aim=0.2, aim_ratio=1.5, limit_is="the same calls bare", **about)
    for name, place, aim in (("read", 1, "5 % of p95"), ("write", 2, "0.5 ms of the median")):
        with_marks, without = ([ms for one in rounds for ms in one[place]] for rounds in (marked, bare))
        of = p95 if name == "read" else statistics.median
        report(f"marked_{name}", of(with_marks), "ms", of(without), aim_more=aim, limit_is="without marks", **about)
    aim = "300 calls/s a core"
    report("certificates", len(CALLS) / restore, "calls/s", len(CALLS) / limit, aim=aim, **about)


def environment() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    run_dir = Path(tempfile.mkdtemp(prefix="bench-durable-"))
    run_dir.chmod(0o711)
    command = [sys.executable, "-m", "awmenv.server", "--packs", str(ROOT / "packs" / "starter"), "--port", str(port)]
    process = subprocess.Popen(command, cwd=ROOT, env={"PATH": "/usr/bin:/bin", "AWMENV_RUN_DIR": str(run_dir)})
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5)  # noqa: S310
                break
            except OSError:
                time.sleep(0.1)
        asyncio.run(worlds(f"http://127.0.0.1:{port}"))
    finally:
        process.terminate()
        process.wait(20)
        shutil.rmtree(run_dir, ignore_errors=True)


def evaluate(web: Product, code: str) -> Any:
    return json.loads(web.manage("shell", "-c", code).split("MEASURED", 1)[1])


def play(web: Product, scenario: str, task: int, name: str, count: int, script: str = "demo", **more: object) -> None:
    web.manage("shell", "-c", PLAY % (scenario, task, name, count, script, more))


def gated(count: int) -> None:
    """Park episodes whose next call waits for an approval, approve all of them, and wait until each has ended."""
    with product(AWMWEB_DEMO="0", AWMWEB_PARK_AFTER_S="1") as web:
        play(web, "helpdesk_1", 1, "gated", count, "oracle", approve=["assign_ticket"])
        until(lambda: evaluate(web, COSTS % "gated")["states"]["parked"] == count, 1800, 5)
        costs = evaluate(web, COSTS % "gated")
        sessions = httpx.get(f"http://127.0.0.1:{web.environment['AWMENV_PORT']}/stats", timeout=30).json()["sessions"]
        began, ended = evaluate(web, APPROVE)
        until(lambda: evaluate(web, COSTS % "gated")["states"]["finished"] == count, 1800, 2)
        found = evaluate(web, ON % ("gated", count, "gated"))
        assert len(found["waited"]) == found["complete"] == count, found["complete"]
        about = {"gated": count, "approving_s": round(ended - began, 1), "threads_parked": costs["threads"]}
        about |= {"sessions_parked": sessions, "complete": count, "cores": os.cpu_count()}
        about |= {"load": round(os.getloadavg()[0], 1)}
        aim = 30 * count / ANSWERED
        report("gated_all_on", found["last"] - ended, "s", aim, since="the last approval", limit_is="aim", **about)
        report("gated_resume_p95", p95(found["waited"]), "s", None, since="its approval", **about)


def parked() -> None:
    """Run and park episodes, add many more as rows, measure their cost, then answer the ones that were run."""
    with product(AWMWEB_DEMO="0", AWMWEB_PARK_AFTER_S="1") as web:
        snapshots(web)
        play(web, "helpdesk_1", 1, "answered", ANSWERED)
        until(lambda: evaluate(web, COSTS % "answered")["states"]["parked"] == ANSWERED, 1800, 5)
        before = evaluate(web, SIZE)
        for first in range(0, PARKED, 1000):
            web.manage("shell", "-c", PARK % (first, first + 1000))
        rows = (evaluate(web, SIZE) - before) / PARKED
        costs = evaluate(web, COSTS % "answered")
        sessions = httpx.get(f"http://127.0.0.1:{web.environment['AWMENV_PORT']}/stats", timeout=30).json()["sessions"]
        time.sleep(BEATS_S)
        beats = int(evaluate(web, COSTS % "answered")["beat"] != costs["beat"])
        swept = evaluate(web, SWEEP)
        about = {"parked": swept["parked"], "load": round(os.getloadavg()[0], 1), "cores": os.cpu_count()}
        idle = {"threads": costs["threads"], "sessions": sessions, "heartbeats": beats}
        report("parked_rows", rows / 1024, "KiB each", None, aim=8, steps_each=6, **idle, **about)
        report("parked_sweep", swept["sweep"], "s", None, aim=1, **about)
        answered(web)


def snapshots(web: Product) -> None:
    """Park episodes that have written before they ask, and measure the stored snapshots."""
    for scenario, task in WRITING:
        play(web, scenario, task, "written", 1)
    kept = web.var / "cache" / "worlds"
    until(lambda: len(list(kept.glob("[0-9a-f]*"))) == len(WRITING), 300, 1)
    sizes = [file.stat().st_size / 1024 for file in kept.glob("[0-9a-f]*")]
    report("parked_snapshot", max(sizes), "KiB each", None, aim=64, least=round(min(sizes), 1), scenarios=len(WRITING))


def answered(web: Product) -> None:
    """Answer all parked episodes one after another as fast as possible, and wait until each has ended.

    The steps have the times, so the bench itself needs only one process that polls now and then.
    """
    began, ended = evaluate(web, ANSWER)
    found = evaluate(web, ON % ("answered", ANSWERED, "answered"))
    assert len(found["waited"]) == found["complete"] == ANSWERED, found["complete"]
    about = {"answered": ANSWERED, "answering_s": round(ended - began, 1), "threads": 16, "behind": PARKED}
    about |= {"complete": ANSWERED, "load": round(os.getloadavg()[0], 1), "cores": os.cpu_count()}
    report("answered_all_on", found["last"] - ended, "s", None, aim=30, since="the last answer", **about)
    report("answered_all_on_first", found["last"] - began, "s", None, since="the first answer", **about)
    report("answered_resume_p95", p95(found["waited"]), "s", None, since="its answer", **about)


if __name__ == "__main__":
    part, *rest = [*sys.argv[1:], ""]
    if part == "gated":
        gated(int(rest[0] or ANSWERED))
    else:
        if part != "parked":
            environment()
        parked()
        gated(ANSWERED)
