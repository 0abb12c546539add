"""The environment server's promises, measured over /ws with the starter pack, beside the limits of the same run.

Prints one JSON object a line: name, value, unit, limit, ratio, conditions. The limits are a bare fork with a database
copy (for resets) and the same app called as ASGI in this process (for tool calls). `--sessions N` sets how many live
sessions are held (default 100).
"""

import argparse
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
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from awmenv.client import EnvironmentClient  # noqa: E402
from awmenv.packs import load_pack  # noqa: E402

PACK = ROOT / "packs" / "starter"


def report(name: str, value: float, unit: str, limit: float | None = None) -> None:
    line = {
        "name": f"environment.{name}",
        "value": round(value, 2),
        "unit": unit,
        "limit": None if limit is None else round(limit, 2),
        "ratio": None if not limit else round(value / limit, 2),
        "conditions": f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, strict tier, starter pack",
    }
    print(json.dumps(line), flush=True)


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def timed(action: Callable[[], Awaitable[Any]]) -> float:
    started = time.perf_counter()
    await action()
    return (time.perf_counter() - started) * 1000


class Script:
    """A reading and a writing call of one scenario, taken from its oracle scripts."""

    def __init__(self) -> None:
        self.pack = load_pack(PACK)
        self.scenario = next(iter(self.pack.scenarios))
        calls = [
            turn["call"]
            for task in range(self.pack.scenario(self.scenario).task_count)
            for turn in self.pack.scripts(self.scenario, task).get("oracle", [])
            if "call" in turn
        ]
        self.read = next(call for call in calls if call["name"].startswith(("list", "search", "get")))
        self.write = next(call for call in calls if call["name"].startswith(("add", "create", "update", "set")))


def start(port: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "awmenv.server", "--packs", str(PACK), "--port", str(port)]
    env = {**os.environ, "AWMENV_MAX_SESSIONS": "5000"}
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(400):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1).close()
            return process
        except OSError:
            time.sleep(0.05)
    raise SystemExit("the environment server did not start")


def fork_limit() -> float:
    """Milliseconds for a bare fork that ends at once, and a copy of a database of the usual size."""
    times = []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "a"
        source.write_bytes(b"x" * 200_000)
        for number in range(50):
            started = time.perf_counter()
            shutil.copyfile(source, Path(folder) / f"b{number}")
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            os.waitpid(pid, 0)
            times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)


LIMIT = """
import asyncio, json, os, sys, tempfile, time
sys.path.insert(0, {root!r})
from awmenv.packs import load_pack
from awmenv.server import database, host, tools
os.chdir(tempfile.mkdtemp())
host.preload_libraries()
pack = load_pack({pack!r})
database.build(database.FILE, pack.statements({scenario!r}))
app = host.App(host._run_code(pack.app_code({scenario!r})))
loop = asyncio.new_event_loop()
call = json.loads({call!r})
times = []
for _ in range(200):
    started = time.perf_counter()
    loop.run_until_complete(host._exchange(app.asgi, tools.request(app.operations[call["name"]], call["arguments"])))
    times.append((time.perf_counter() - started) * 1000)
print(sorted(times)[100], sorted(times)[190])
"""


def asgi_limit(script: Script) -> tuple[float, float]:
    """Median and p95 of the same reading call, as ASGI in one process without any wall or wire."""
    code = LIMIT.format(root=str(ROOT), pack=str(PACK), scenario=script.scenario, call=json.dumps(script.read))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    median, p95 = done.stdout.split()
    return float(median), float(p95)


async def episodes(url: str, script: Script) -> None:
    fork_ms = fork_limit()
    asgi_median, asgi_p95 = asgi_limit(script)
    async with EnvironmentClient(url) as env:
        first = await timed(lambda: env.reset(scenario=script.scenario, task_idx=0))
        report("reset_first_use", first, "ms")
        resets = [await timed(lambda: env.reset(scenario=script.scenario, task_idx=0)) for _ in range(40)]
        report("reset_warm_median", statistics.median(resets), "ms", fork_ms)
        report("reset_warm_p95", percentile(resets, 0.95), "ms", fork_ms)
        reads = [await timed(lambda: env.call_tool(script.read["name"], script.read["arguments"])) for _ in range(200)]
        report("call_read_median", statistics.median(reads), "ms", asgi_median)
        report("call_read_p95", percentile(reads, 0.95), "ms", asgi_p95)
        writes = [
            await timed(lambda: env.call_tool(script.write["name"], script.write["arguments"])) for _ in range(60)
        ]
        report("call_write_median", statistics.median(writes), "ms", asgi_median)
    verifies = []
    for _ in range(20):
        async with EnvironmentClient(url) as env:
            await env.reset(scenario=script.scenario, task_idx=0)
            verifies.append(await timed(env.verify))
    report("verify_code_median", statistics.median(verifies), "ms", fork_ms)
    report("verify_code_p95", percentile(verifies, 0.95), "ms", fork_ms)


async def throughput(url: str, script: Script, sessions: int = 8, steps: int = 100) -> None:
    limit = 1000 * (os.cpu_count() or 1) / asgi_limit(script)[0]  # every core does nothing but the app's own work

    async def play(env: EnvironmentClient) -> None:
        for number in range(steps):
            call = script.write if number % 5 == 0 else script.read
            await env.call_tool(call["name"], call["arguments"])

    clients = await opened(url, script, sessions)
    started = time.perf_counter()
    await asyncio.gather(*(play(client) for client in clients))
    report("throughput_8_sessions", sessions * steps / (time.perf_counter() - started), "steps/s", limit)
    for client in clients:
        await client.close()


async def opened(url: str, script: Script, count: int) -> list[EnvironmentClient]:
    clients = [EnvironmentClient(url) for _ in range(count)]
    for client in clients:
        await client.open()
        await client.reset(scenario=script.scenario, task_idx=0)
    return clients


def family_pss(pid: int) -> int:
    """KiB of a process and all below it, shared pages counted once."""
    total, waiting = 0, [pid]
    while waiting:
        one = waiting.pop()
        try:
            text = Path(f"/proc/{one}/smaps_rollup").read_text()
            total += next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
            for task in Path(f"/proc/{one}/task").iterdir():
                waiting += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            continue
    return total


async def holding(url: str, script: Script, pid: int, count: int) -> None:
    """Many live sessions, each of which has answered a call."""
    empty = family_pss(pid)
    clients = await opened(url, script, count)
    answers = await asyncio.gather(*(c.call_tool(script.read["name"], script.read["arguments"]) for c in clients))
    report("sessions_answering", sum(answer.ok for answer in answers), "sessions", count)
    report("memory_per_session", (family_pss(pid) - empty) / 1024 / count, "MB PSS")
    for client in clients:
        await client.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=100)
    options = parser.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script, url = Script(), f"http://127.0.0.1:{port}"
    process = start(port)
    try:
        report("idle_memory", family_pss(process.pid) / 1024, "MB PSS")
        asyncio.run(episodes(url, script))
        asyncio.run(throughput(url, script))
        asyncio.run(holding(url, script, process.pid, options.sessions))
    finally:
        process.terminate()
        process.wait(20)


if __name__ == "__main__":
    main()
