"""The environment server's targets, measured over /ws with the starter pack, beside the limits of the same run.

Prints one JSON object a line: name, value, unit, limit, ratio, conditions with the aim. Limits: for resets and
verifiers a bare fork with a copy of a database; for tool calls the same app called as ASGI in process; for throughput
that app in one concurrent process per core; for memory the use of a bare fork of the loaded app after the same call.
`--sessions N` sets the number of live sessions (default 1000; fewer if the memory is short, which is printed).

Last come the neighbors: for each kind of hostile client (`bench/worlds/neighbor.py`) the milliseconds by which the 95th
percentile of another session's reading call is worse beside it than beside the same processor time used elsewhere.
`--only-neighbors [KIND ...]` measures nothing else. The kind `strangers` are servers: plain OpenEnv servers of others
that break the protocol run beside a calm session, in one process (`bench/worlds/strangers.py`).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import resource
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
from awmenv.errors import AwmenvError  # noqa: E402
from awmenv.packs import load_pack  # noqa: E402
from awmenv.plain import PlainClient  # noqa: E402
from bench.worlds import beside, strangers  # noqa: E402
from bench.worlds.neighbor import KINDS, write_pack  # noqa: E402
from bench.worlds.player import Player, call_frame, frame  # noqa: E402

PACK = ROOT / "packs" / "starter"
CORES = os.cpu_count() or 1
CONCURRENT = 16
MB_EACH = 16  # what we want to be free for a session before we open it
AIMS = {
    "reset_warm_median": 15, "reset_warm_p95": 50, "reset_first_use": 1000, "call_read_p95": 5,
    "verify_code_median": 15, "verify_code_p95": 60, "throughput_8_sessions": 800, "sessions_answering": 1000,
    "memory_per_session": 10, "memory_of_the_largest_session": 30, "processes_left": 0, "verify_beside_hanging": 1500,
}  # fmt: skip
BESIDE_MS = 20
STRANGERS = "strangers"
"""The kind of neighbors that are servers: plain ones of others that break their word."""
tier = "?"


def report(name: str, value: float, unit: str, limit: float | None = None, **conditions: object) -> None:
    aim = {"aim": BESIDE_MS if name.startswith("beside_") else AIMS[name]} if name in AIMS or "beside_" in name else {}
    line = {
        "name": f"environment.{name}",
        "value": round(value, 2),
        "unit": unit,
        "limit": None if limit is None else round(limit, 2),
        "ratio": None if not limit else round(value / limit, 2),
        "conditions": {**aim, **conditions, "cores": CORES, "load": round(os.getloadavg()[0], 1), "tier": tier},
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
    """The calls of one scenario's oracles; a read, and a write that changes the database every time."""

    def __init__(self, scenario: str) -> None:
        pack = load_pack(PACK)
        self.scenario = scenario
        tasks = range(pack.scenario(scenario).task_count)
        self.oracles = [
            [turn["call"] for turn in pack.scripts(scenario, task).get("oracle", []) if "call" in turn]
            for task in tasks
        ]
        self.read = next(call for call in self._calls() if call["name"].startswith(("list", "search", "get")))
        self.write = self.read

    def _calls(self) -> list[dict[str, Any]]:
        return list(itertools.chain.from_iterable(self.oracles))

    async def find_write(self, url: str) -> None:
        async with EnvironmentClient(url) as env:
            await env.reset(scenario=self.scenario, task_idx=0, state_diff=True)
            for call in self._calls():
                await env.call_tool(call["name"], call["arguments"])
                if (await env.call_tool(call["name"], call["arguments"])).state_diff:
                    self.write = call
                    return
        raise SystemExit(f"no oracle of {self.scenario} has a call that writes twice")

    def reset_frame(self) -> bytes:
        return frame("reset", scenario=self.scenario, task_idx=0)


def start(port: int, sessions: int, hostile: Path) -> subprocess.Popen[bytes]:
    packs = ["--packs", str(PACK), "--packs", str(hostile)]
    command = [sys.executable, "-m", "awmenv.server", *packs, "--port", str(port)]
    env = {**os.environ, "AWMENV_MAX_SESSIONS": str(sessions + 100)}
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(2400):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1) as answer:
                globals()["tier"] = json.loads(answer.read())["tier"]
            return process
        except OSError:
            time.sleep(0.05)
    raise SystemExit("the environment server did not start")


def fork_limit() -> float:
    """Return milliseconds for a bare fork that ends immediately, and a copy of a database of the usual size."""
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


IN_PROCESS = """
import asyncio, json, os, sys, tempfile, time
sys.path.insert(0, {root!r})
from pathlib import Path
from awmenv.packs import load_pack
from awmenv.server import database
from awmenv.server.world import host, seeding, tools
os.chdir(tempfile.mkdtemp())
host.preload_libraries()
pack = load_pack({pack!r})
seeding.build(database.FILE, pack.statements({scenario!r}))
app = host.App(host._run_code(pack.app_code({scenario!r})))
read, write = json.loads({calls!r})
loop = asyncio.new_event_loop()

def play(call):
    request = tools.request(app.operations[call["name"]], call["arguments"])
    started = time.perf_counter()
    loop.run_until_complete(host._exchange(app.asgi, request))
    return (time.perf_counter() - started) * 1000

reads = sorted(play(read) for _ in range(300))
host.close_database()
pid = os.fork()
if pid == 0:
    loop = asyncio.new_event_loop()
    play(read)
    text = Path("/proc/self/smaps_rollup").read_text()
    print(next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Private_Dirty:")), flush=True)
    os._exit(0)
os.waitpid(pid, 0)
print(reads[150], reads[285], flush=True)
sys.stdin.readline()
started, steps = time.perf_counter(), 0
while time.perf_counter() - started < 1.5:
    play(write if steps % 5 == 0 else read)
    steps += 1
print(steps / (time.perf_counter() - started))
"""


class Limits:
    """The same app without sandbox or wire: one process alone, and then one per core."""

    def __init__(self, script: Script) -> None:
        calls = json.dumps([script.read, script.write])
        code = IN_PROCESS.format(root=str(ROOT), pack=str(PACK), scenario=script.scenario, calls=calls)
        self.fork_ms = fork_limit()
        first, *others = [self._ready(code) for _ in range(CORES)]
        self.fork_mb, self.read_ms, self.read_p95_ms = first[1]
        processes = [first[0], *(other[0] for other in others)]
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        self.steps_per_s = sum(float(process.communicate()[0]) for process in processes)

    @staticmethod
    def _ready(code: str) -> tuple[subprocess.Popen[str], list[float]]:
        process = subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True)
        assert process.stdout is not None
        memory, times = process.stdout.readline(), process.stdout.readline()
        return process, [int(memory) / 1024, *map(float, times.split())]


async def latencies(url: str, script: Script, limits: Limits) -> None:
    async with EnvironmentClient(url) as env:
        await env.reset(scenario=script.scenario, task_idx=0)
        resets = [await timed(lambda: env.reset(scenario=script.scenario, task_idx=0)) for _ in range(40)]
        report("reset_warm_median", statistics.median(resets), "ms", limits.fork_ms)
        report("reset_warm_p95", percentile(resets, 0.95), "ms", limits.fork_ms)
        for kind, call, count in (("read", script.read, 200), ("write", script.write, 60)):
            arguments = call["arguments"]
            times = [await timed(lambda: env.call_tool(call["name"], arguments)) for _ in range(count)]  # noqa: B023
            report(f"call_{kind}_median", statistics.median(times), "ms", limits.read_ms)
            report(f"call_{kind}_p95", percentile(times, 0.95), "ms", limits.read_p95_ms)
    verifies = []
    for _ in range(20):
        async with EnvironmentClient(url) as env:
            await env.reset(scenario=script.scenario, task_idx=0)
            verifies.append(await timed(env.verify))
    report("verify_code_median", statistics.median(verifies), "ms", limits.fork_ms)
    report("verify_code_p95", percentile(verifies, 0.95), "ms", limits.fork_ms)


async def throughput(port: int, script: Script, limits: Limits, pid: int, sessions: int = 8, steps: int = 100) -> None:
    """Measure three times eight fresh sessions; the middle one counts."""
    read, write = call_frame(script.read), call_frame(script.write)

    async def play(player: Player) -> None:
        for number in range(steps):
            await player.ask(write if number % 5 == 0 else read)

    rounds = []
    for _ in range(3):
        players = await opened(port, [script], sessions)
        before, started = cpu(pid), time.perf_counter()
        await asyncio.gather(*(play(player) for player in players))
        rate = sessions * steps / (time.perf_counter() - started)
        after = cpu(pid)
        rounds.append((rate, {name: round((after[name] - before[name]) / sessions / steps, 2) for name in after}))
        for player in players:
            player.transport.close()
    rate, spent = sorted(rounds, key=lambda one: one[0])[1]
    report("throughput_8_sessions", rate, "steps/s", limits.steps_per_s, writes="20 %", cpu_ms_per_step=spent)


def cpu(pid: int) -> dict[str, float]:
    """Return CPU milliseconds so far of the server's process, of its descendants, and of this client."""
    tick = 1000 / os.sysconf("SC_CLK_TCK")

    def used(one: int) -> float:
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) * tick

    below = sum(used(one) for one in family(pid) if one != pid)
    return {"server": used(pid), "sessions": below, "client": time.process_time() * 1000}


async def opened(port: int, scripts: list[Script], count: int) -> list[Player]:
    """Return live sessions of all scenarios in turn, opened some at a time."""
    turn = asyncio.Semaphore(CONCURRENT)

    async def connect(script: Script) -> Player:
        async with turn:
            player = await Player.connect(port)
            answer = await player.ask(script.reset_frame())
            if b'"reset_ok"' not in answer:
                raise SystemExit(f"a reset failed: {answer[:300]!r}")
            return player

    return await asyncio.gather(
        *(connect(script) for script, _ in zip(itertools.cycle(scripts), range(count), strict=False))
    )


def family(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    found = [pid]
    for one in found:
        try:
            for task in Path(f"/proc/{one}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            continue
    return found


def pss(pid: int) -> int:
    """Return the KiB of one process, shared pages divided among those who share them."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return 0


async def holding(port: int, scripts: list[Script], limits: Limits, pid: int, wanted: int) -> None:
    """Hold many live sessions of all scenarios: each makes a call, then some continue, then all are closed."""
    for player in await opened(port, scripts, len(scripts)):  # every scenario is loaded now
        player.transport.close()
    await settled(pid, 3 + len(scripts))
    count = min(wanted, free_mb() // MB_EACH)
    resting = set(family(pid))
    empty = sum(map(pss, resting))
    started = time.perf_counter()
    players = await opened(port, scripts, count)
    opening = time.perf_counter() - started
    reads = [call_frame(script.read) for script, _ in zip(itertools.cycle(scripts), players, strict=False)]
    answers: list[bytes] = []

    async def answer() -> None:
        asked = (player.ask(read) for player, read in zip(players, reads, strict=True))
        answers.extend(await asyncio.gather(*asked))

    answering = await timed(answer)
    good = sum(b'"tool_call_ok"' in one for one in answers)
    report(
        "sessions_answering", good, "sessions", wanted, opened_in_s=round(opening, 1), answered_in_ms=round(answering)
    )
    held = sum(map(pss, family(pid)))
    report("memory_per_session", (held - empty) / 1024 / count, "MB PSS", limits.fork_mb, sessions=count)
    await asyncio.gather(*(play_on(player, script) for player, script in zip(players[:40], itertools.cycle(scripts))))
    largest = max(pss(one) for one in set(family(pid)) - resting)
    report(
        "memory_of_the_largest_session", largest / 1024, "MB PSS", limits.fork_mb, sessions=count, played="an oracle"
    )
    started = time.perf_counter()
    for player in players:
        player.transport.close()
    await settled(pid, len(resting))
    left = len(set(family(pid)) - resting)
    report("processes_left", left, "processes", None, closed_in_s=round(time.perf_counter() - started, 1))


async def play_on(player: Player, script: Script) -> None:
    for call in max(script.oracles, key=len):
        await player.ask(call_frame(call))


async def settled(pid: int, processes: int) -> None:
    """Wait until no processes are left but the expected ones."""
    ends = time.monotonic() + 30
    while len(family(pid)) > processes and time.monotonic() < ends:
        await asyncio.sleep(0.05)


def free_mb() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) // 1024


async def neighbors(url: str, port: int, script: Script, pid: int, kinds: list[str]) -> None:
    """Measure the cost of each kind of neighbor to a session of another scenario, and a calm one as the error."""
    player = (await opened(port, [script], 1))[0]
    read = call_frame(script.read)
    for kind in kinds:
        waits = await beside.measured(port, kind, lambda: player.ask(read), lambda: set(family(pid)) - {pid})
        times = {
            f"{name}_p95": round(statistics.median(getattr(waits, name)), 1) for name in ("alone", "control", "beside")
        }
        cores = round(statistics.mean(waits.cores), 2)
        report(f"beside_{kind}", waits.worse, "ms", None, **times, its_cores=cores, its_acts=waits.acts)
    if "hanging_verifiers" in kinds:
        await verify_beside_hanging(url, port, script)


async def verify_beside_hanging(url: str, port: int, script: Script) -> None:
    times = []
    with beside.neighboring("hanging_verifiers", port):
        for _ in range(10):
            async with EnvironmentClient(url) as env:
                await env.reset(scenario=script.scenario, task_idx=0)
                times.append(await timed(env.verify))
    report("verify_beside_hanging", max(times), "ms", statistics.median(times), hanging=8)


async def beside_strangers(url: str, script: Script, rounds: int = 8) -> None:
    """Play plain servers that break their word, each kind at the same time, in the process of a calm neighbor's client.

    Every episode must end with its fault, and send nothing again. The calm neighbor is on our server.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(ROOT / "bench" / "worlds" / "strangers.py"), str(port)])
    try:
        async with EnvironmentClient(url) as env:
            await env.reset(scenario=script.scenario, task_idx=0)
            read = script.read

            async def waits(until: Callable[[], bool]) -> float:
                found = []
                while not until():
                    found.append(await timed(lambda: env.call_tool(read["name"], read["arguments"])))
                return percentile(found, 0.95)

            end = time.perf_counter() + 5
            alone = await waits(lambda: time.perf_counter() > end)
            await answering(port)
            ended = asyncio.gather(*(broken_word(port, kind, rounds) for kind in strangers.KINDS))
            beside_them = await waits(ended.done)
            wrong = [words for of_kind in await ended for words in of_kind]
            async with PlainClient(f"http://127.0.0.1:{port}/counts") as counting:
                frames = await counting.step({})
    finally:
        process.terminate()
        process.wait(20)
    most = max(count for kind, count in frames.items() if kind != "counts") / rounds
    times = {"alone_p95": round(alone, 1), "beside_p95": round(beside_them, 1)}
    report("beside_strangers", beside_them - alone, "ms", None, **times, kinds=len(strangers.KINDS), rounds=rounds)
    report("stranger_frames_an_episode", most, "frames", 4, without_their_fault=wrong[:5])
    if wrong:
        raise SystemExit(f"episodes without their fault: {wrong[:5]}")


async def answering(port: int) -> None:
    for _ in range(200):
        with contextlib.suppress(AwmenvError):
            async with PlainClient(f"http://127.0.0.1:{port}/up"):
                return
        await asyncio.sleep(0.05)
    raise SystemExit("the server of strangers did not start")


async def broken_word(port: int, kind: str, rounds: int) -> list[str]:
    """Play episodes on a server of this kind; return what ended otherwise than with its fault."""
    wrong = []
    for _ in range(rounds):
        try:
            patience_s = 1 if kind == "endless_reset" else 60
            client = PlainClient(f"http://127.0.0.1:{port}/{kind}", timeout_s=patience_s, schema=strangers.schema(kind))
            async with client:
                await client.list_tools()
                await client.begin({"seed": 0})
                await client.call_tool("look", {})
            wrong.append(f"{kind}: no fault")
        except AwmenvError as fault:
            if strangers.KINDS[kind] not in str(fault) or len(str(fault)) > 400:
                wrong.append(f"{kind}: {str(fault)[:100]}")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--only-neighbors", nargs="*", metavar="KIND")
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    scripts = [Script(scenario) for scenario in load_pack(PACK).scenarios]
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder:
        process = start(port, options.sessions, write_pack(Path(folder)))
        try:
            if options.only_neighbors is None:
                asyncio.run(measure(url, port, scripts, process.pid, options.sessions))
            kinds = options.only_neighbors or [*KINDS, STRANGERS]
            own = [kind for kind in kinds if kind != STRANGERS]
            asyncio.run(neighbors(url, port, scripts[0], process.pid, own))
            if STRANGERS in kinds:
                asyncio.run(beside_strangers(url, scripts[0]))
        finally:
            process.terminate()
            process.wait(20)


async def measure(url: str, port: int, scripts: list[Script], pid: int, sessions: int) -> None:
    report("idle_memory", sum(map(pss, family(pid))) / 1024, "MB PSS")
    script = scripts[0]
    async with EnvironmentClient(url) as env:
        first = await timed(lambda: env.reset(scenario=script.scenario, task_idx=0))
    await script.find_write(url)
    limits = await asyncio.to_thread(Limits, script)
    report("reset_first_use", first, "ms", limits.fork_ms)
    await latencies(url, script, limits)
    await throughput(port, script, limits, pid)
    await holding(port, scripts, limits, pid, sessions)


if __name__ == "__main__":
    main()
