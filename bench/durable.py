"""What durable episodes cost: recording a world, restoring it, certificates, and 10,000 parked episodes.

Prints one JSON object a line: name, value, unit, limit, ratio, conditions with the aim. Limits, from the same run: for
a restore the same calls in a session that is not recorded, with its reset; for marks the same calls without them; for
certificates those calls per second; for parked episodes the bare rows. Run as `python bench/durable.py`.
"""

from __future__ import annotations

import asyncio
import json
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

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from awmenv.client import EnvironmentClient, Made  # noqa: E402
from tests.running import product  # noqa: E402

READ = ("get_ticket", {"ticket_id": 1025})
WRITE = ("add_comment", {"ticket_id": 1025, "body": "Seen.", "is_public": False})
CALLS = [*[READ] * 4, WRITE] * 20
ROUNDS, PARKED = 7, 10_000
PARK = """
import json, time
from django.db import connection
from django.utils import timezone
from datetime import timedelta
from episodes import recording
from episodes.models import Episode
from experts import closing
from experts.models import Ask, Assignment
from people.members import house_actor

def size():
    with connection.cursor() as cursor:
        cursor.execute("select sum(pg_total_relation_size(c.oid)) from pg_class c where relname in "
                       "('episodes_episode', 'episodes_step', 'episodes_episodeevent', 'experts_ask', "
                       "'experts_assignment')")
        return int(cursor.fetchone()[0])

from awmclient.schema import AskOpen, EpisodeStart, StepBatch
from experts import queue
actor, now = house_actor("demo"), timezone.now()
before = size()
said = {"kind": "tool_call", "name": "get_ticket", "arguments": {"ticket_id": 1025}, "result": "x" * 500}
batch = StepBatch.model_validate({"steps": [{"seq": n, **said} for n in range(1, 6)]}).steps
for n in range(%d):
    start = EpisodeStart(key=f"parked-{n}", task="t" * 200, expert="plain")
    episode, _ = recording.start_episode(actor, start, origin="builtin")
    recording.append_steps(actor, episode.pk, batch)
    ask = queue.open_ask(actor, AskOpen(key="q", episode=episode.pk, seq=6, question="Which?", deadline_s=2592000))[0]
    recording.park(episode.pk)
rows = (size() - before) / %d
times = []
for _ in range(5):
    began = time.perf_counter()
    closing.close_due()
    recording.lose_silent(timezone.now() + timedelta(days=2))
    times.append(time.perf_counter() - began)
parked = Episode.objects.filter(state="parked").count()
print("MEASURED", json.dumps({"rows": rows, "sweep": sorted(times)[2], "parked": parked}))
"""


def report(name: str, value: float, unit: str, limit: float | None, **conditions: object) -> None:
    ratio = round(value / limit, 3) if limit else None
    line = {"name": f"durable.{name}", "value": round(value, 4), "unit": unit, "limit": limit and round(limit, 4)}
    print(json.dumps({**line, "ratio": ratio, "conditions": conditions}), flush=True)


def p95(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]


async def played(url: str, *, world: bool) -> tuple[float, list[float], list[float], Any, list[Made]]:
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


async def replayed(url: str, world: Any, made: list[Made]) -> float:
    async with EnvironmentClient(url) as env:
        await env.reset(scenario="helpdesk_1", task_idx=1, state_diff=True)
        began = time.perf_counter()
        await env.replay(made, world)
        assert env.restored.grade == "exact"
        return time.perf_counter() - began


async def worlds(url: str) -> None:
    await played(url, world=True)
    bare, marked, restores = [], [], []
    for _ in range(ROUNDS):  # in turn, so that what else the machine does falls on all alike
        bare.append(await played(url, world=False))
        marked.append(await played(url, world=True))
        restores.append(await replayed(url, *marked[-1][3:]))
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


def parked() -> None:
    with product(AWMWEB_DEMO="0") as house:
        told = house.manage("shell", "-c", PARK % (PARKED, PARKED))
        found = json.loads(told.split("MEASURED", 1)[1])
    about = {"parked": found["parked"], "steps_each": 6, "threads": 0, "sessions": 0, "heartbeats": 0}
    report("parked_rows", found["rows"] / 1024, "KiB each", None, aim=8, **about)
    report("parked_sweep", found["sweep"], "s", None, aim=1, **about)


if __name__ == "__main__":
    environment()
    parked()
