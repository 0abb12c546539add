"""How cost grows: with processes until the cores end, and with rows for each page.

*processes*: ingest, watchers, asks, rollouts and an export on clusters of one and of two web processes and rollouts
workers (`machines/cluster.py`); the limit of the second is the first, so `ratio` is what twice the processes bring.
The load runs on the same cores; `cpu` has the processor seconds of the measured processes for each unit.
*shares*: the first three with the web processes alone doubled, each held to a fifth of a core, so that the cores do not
end first. Needs root, for control groups.
*rows*: pages and calls on 10 thousand to BENCH_ROWS episodes (1 million; 3 million take 12 GB, 10 million 40), filled
by SQL (`filling.py`): milliseconds of web process and database for each, because other work on the machine does not
change these; the limit is the same page on the first of these. Run as `python bench/cluster.py [processes] [shares]
[rows]`; one JSON object a line. Without arguments, as in `make bench`, it leaves out `shares`, and `rows` ends at 100
thousand.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "bench"))

from awmweb.embedded import urls  # noqa: E402
from bench import filling  # noqa: E402
from bench.loading import Caller, batch  # noqa: E402
from bench.machines.cluster import Cluster, Missing, cluster  # noqa: E402
from bench.streaming import CROWDS, Crowd, _ask  # noqa: E402
from tests.running import Product, product, until  # noqa: E402

SECONDS = float(os.environ.get("BENCH_SECONDS", "5"))
WRITERS, STEPS = 16, 20
SOCKETS, EVENTS = 200, 2000
DESKS = 6
SHARE = 0.2
SIZES = (10_000, 100_000, 1_000_000, 3_000_000, 10_000_000)
ROWS = int(os.environ.get("BENCH_ROWS", "1000000"))
LOOKS = 7
SETTLED_S = 5
BOUND_MS = 300


def row(name: str, value: float, unit: str, limit: float | None, **conditions: object) -> None:
    """Print one measured line; `limit` is what it is compared with."""
    line = {"name": f"cluster.{name}", "value": round(value, 2), "unit": unit, "limit": limit and round(limit, 2)}
    about = {**conditions, "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    ratio = round(value / limit, 3) if limit else None
    print(json.dumps({**line, "ratio": ratio, "conditions": about}), flush=True)


def cpu_s(here: Cluster, kind: str) -> float:
    """Return the processor seconds of all processes of this kind so far, with their children."""
    found = 0.0
    for name, part in here.parts.items():
        if name.split()[0] == kind and part.child is not None:
            top = psutil.Process(part.child.process.pid)
            found += sum(sum(one.cpu_times()[:2]) for one in (top, *top.children(recursive=True)))
    return found


def measured(here: Cluster, kind: str, work: Callable[[], float]) -> tuple[float, float]:
    """Return units per second of `work`, which returns its units, and processor seconds for 1,000 of them."""
    began, cpu = time.perf_counter(), cpu_s(here, kind)
    units = work()
    seconds = time.perf_counter() - began
    return units / seconds, (cpu_s(here, kind) - cpu) / units * 1000


def _episode(http: httpx.Client, key: str) -> str:
    return str(http.post("/episodes", json={"key": key, "task": "t"}).raise_for_status().json()["id"])


def ingest(here: Cluster, token: str, writers: int = WRITERS) -> float:
    """Append batches of 20 steps over kept-alive connections through nginx."""
    with here.http(token) as http:
        episodes = [_episode(http, f"ingest-{time.time_ns()}-{number}") for number in range(writers)]

    async def write() -> int:
        end = time.perf_counter() + SECONDS
        callers = [
            await Caller.connect(here.ports["nginx"], token, f"/api/v1/episodes/{one}/steps") for one in episodes
        ]

        async def append(caller: Caller) -> int:
            seq = 1
            while time.perf_counter() < end:
                await caller.send(batch(seq, [0.0] * STEPS))
                seq += STEPS
            caller.close()
            return seq - 1

        return sum(await asyncio.gather(*map(append, callers)))

    return asyncio.run(write())


def watchers(here: Cluster, token: str, sockets: int = SOCKETS) -> float:
    """Deliver 2,000 events to sockets, half of them at each of two web processes; return the events delivered."""
    with here.http(token) as http:
        episode = _episode(http, f"watched-{time.time_ns()}")
    crowd, path = Crowd(), f"/ws/episodes/{episode}?since=0"
    webs = [port for name, port in here.ports.items() if name.startswith("web")]

    async def watch() -> float:
        # each crowd at one web process: sockets of different ones get the same steps in other frames
        said = {"do": "open", "path": path, "token": token, "sockets": sockets // CROWDS, "packed": True}
        places = [(one, {**said, "port": webs[n % len(webs)]}) for n, one in enumerate(crowd.processes)]
        await asyncio.gather(*(asyncio.to_thread(_ask, *place) for place in places))
        await crowd.tell("restart")
        caller = await Caller.connect(here.ports["nginx"], token, f"/api/v1/episodes/{episode}/steps")
        for seq in range(1, EVENTS, STEPS):
            await caller.send(batch(seq, [0.0] * STEPS))
        caller.close()
        report = await crowd.report(EVENTS, 60, ordered=len(webs) == 1)
        return float(report["whole"] * EVENTS)

    try:
        return asyncio.run(watch())
    finally:
        crowd.end()


def asks(here: Cluster, agent: str, expert: str, desks: int = DESKS) -> float:
    """Open, claim, answer and read asks one after the other, by some desks at a time; return how many."""
    end = time.perf_counter() + SECONDS

    def desk(number: int) -> int:
        done = 0
        with here.http(agent) as loop, here.http(expert) as person:
            start = {"key": f"desk-{time.time_ns()}-{number}", "task": "t", "expert": "plain"}
            episode = loop.post("/episodes", json=start).raise_for_status().json()["id"]
            while time.perf_counter() < end:
                said = {"key": f"q{done}", "episode": episode, "seq": done + 1, "question": f"{episode} {done}?"}
                ask = loop.post("/asks", json=said).raise_for_status().json()["id"]
                lease = person.post(f"/asks/{ask}/claim", json={}).raise_for_status().json()
                body = {"lease_token": lease["lease_token"], "text": "Yes.", "nonce": f"{ask}"}
                person.post(f"/assignments/{lease['assignment']}/answer", json=body).raise_for_status()
                loop.post(f"/asks/{ask}/consumed", json={}).raise_for_status()
                done += 1
        return done

    with ThreadPoolExecutor(desks) as threads:
        return sum(threads.map(desk, range(desks)))


def rollouts(here: Cluster, launch: str) -> float:
    """Run the oracle scripts of the starter pack; return the episodes that ended."""
    plan = {"name": "rolled", "arms": [{"name": "off", "expert": "off"}], "policy": "script:oracle", "parallel": 16}
    with here.http(launch) as http:
        made = http.post("/runs", json={"name": "rolled", "key": f"rolled-{time.time_ns()}", "plan": plan})
        run = made.raise_for_status().json()["id"]

        def ended() -> int:
            items = http.get("/episodes", params={"run": run, "limit": 200}).raise_for_status().json()["items"]
            states = {one["state"] for one in items}
            return len(items) if states and not states & {"queued", "running", "waiting", "parked", "planned"} else 0

        return float(until(ended, 300, 0.25))


def export(here: Cluster, token: str) -> float:
    """Build a dataset of all episodes into the store; return how many were looked at."""
    with here.http(token) as http:
        made = http.post("/exports", json={"format": "raw"}).raise_for_status().json()

        def built() -> dict | None:
            said = http.get(f"/exports/{made['id']}").raise_for_status().json()
            return said if said["state"] in ("done", "failed") else None

        said = until(built, 300, 0.1)
        if said["state"] != "done":
            raise RuntimeError(f"the export failed: {said}")
        return float(said["episodes"])


def processes() -> None:
    """Measure the same work on one and on two of each process."""
    before: dict[str, float] = {}
    for number in (1, 2):
        processes_of(number, before)


def shares() -> None:
    """Measure the same work at one and at two web processes, each of which may use `SHARE` of a core."""
    before: dict[str, float] = {}
    for number in (1, 2):
        with cluster(webs=number, rollouts=1, environments=1) as here, _limited(here, SHARE):
            agent, expert = here.token("agent"), here.token("expert")
            # as many for each: fewer at a process would be served in smaller transactions and frames
            works = {
                "ingest": partial(ingest, here, agent, WRITERS * number),
                "watchers": partial(watchers, here, agent, SOCKETS * number),
                "asks": partial(asks, here, agent, expert, DESKS * number),
            }
            for name, work in works.items():
                work()
                found = [measured(here, "web", work)[0] for _ in range(3)]
                rate, about = statistics.median(found), {"webs": number, "share": SHARE}
                row(f"shares.{name}", rate, "a second", before.get(name), **about, all=[round(one, 1) for one in found])
                before.setdefault(name, rate)


@contextmanager
def _limited(here: Cluster, share: float) -> Iterator[None]:
    """Let each web process have no more than a share of a core: the kernel holds it back as a smaller core would."""
    first = Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").exists()  # version 1 of control groups
    root = Path("/sys/fs/cgroup", "cpu" if first else "")
    made: list[Path] = []
    try:
        for name, part in here.parts.items():
            if name.split()[0] == "web" and part.child is not None:
                made.append(root / f"awmweb-bench-{os.getpid()}-{len(made)}")
                made[-1].mkdir()
                quota, file = f"{share * 100_000:.0f}", "cpu.cfs_quota_us" if first else "cpu.max"
                (made[-1] / file).write_text(quota if first else f"{quota} 100000")
                (made[-1] / "cgroup.procs").write_text(str(part.child.process.pid))
        yield
    finally:
        for group in made:
            for pid in (group / "cgroup.procs").read_text().split():
                (root / "cgroup.procs").write_text(pid)
            group.rmdir()


def processes_of(number: int, before: dict[str, float]) -> None:
    """Do each work once to warm up and three times more, and take the medians."""
    with cluster(webs=number, rollouts=number, environments=number, AWMWEB_EXPORT_PROCESSES=str(number)) as here:
        agent, expert, launch = here.token("agent"), here.token("expert"), here.token("launch")
        works: dict[str, tuple[str, str, Callable[[], float]]] = {
            "ingest": ("web", "events/s", partial(ingest, here, agent)),
            "watchers": ("web", "delivered events/s", partial(watchers, here, agent)),
            "asks": ("web", "cycles/s", partial(asks, here, agent, expert)),
            "rollouts": ("rollouts", "episodes/s", partial(rollouts, here, launch)),
            "export": ("worker", "episodes/s", partial(export, here, here.token("export"))),
        }
        for name, (kind, unit, work) in works.items():
            work()
            found = [measured(here, kind, work) for _ in range(3)]
            rate, cpu = statistics.median(one[0] for one in found), statistics.median(one[1] for one in found)
            about = {"processes": number, "cpu_s_of_1000": round(cpu, 3), "of": kind}
            row(name, rate, unit, before.get(name), **about, all=[round(one[0], 1) for one in found])
            before.setdefault(name, rate)


def pages(size: int) -> dict[str, list[str]]:
    """Return addresses of each kind of page. The server keeps no answer of those that are there twice."""
    rare = [f'"{filling.RARE.format(1 + number * (size // (LOOKS + 1)))}"' for number in range(1, LOOKS + 1)]
    some = [number * size // (LOOKS + 1) for number in range(1, LOOKS + 1)]
    words = " ".join(filling.sentences()[:200]).split()
    arms = ("off", "plain", "informed", "model", "off", "plain", "informed")
    return {
        "home": ["/"] * LOOKS,
        "queue": ["/queue/"] * LOOKS,
        "episodes": ["/episodes/"] * LOOKS,
        "episodes by a filter that all pass": [f"/episodes/?length=1-{100 + number}" for number in range(LOOKS)],
        "episodes by a filter that none passes": [f"/episodes/?length={50 + number}-" for number in range(LOOKS)],
        "episodes by scenario": [f"/episodes/?scenario=scenario_{number % filling.SCENARIOS}" for number in some],
        "episodes by state": ["/episodes/?state=failed"] * LOOKS,
        "episodes by state and arm": [f"/episodes/?state=failed&arm={arm}" for arm in arms],
        "search, a rare phrase": [f"/episodes/?q={one}" for one in rare],
        "search, a word": [f"/episodes/?q={words[number * 37]}" for number in range(LOOKS)],
        "search, half of all": [f"/episodes/?q={filling.COMMON}"] * LOOKS,
        "runs": ["/runs/"] * LOOKS,
        "run of one episode": ["/runs/{seed}/"] * LOOKS,
        "run of 1/40 of all": [f"/runs/run-{1 + number}/" for number in range(LOOKS)],
        "episode": [f"/episodes/{filling.crowd(number)}/" for number in some],
        "metrics": ["/metrics/"] * LOOKS,
        "API list": ["/api/v1/episodes?limit=50"] * LOOKS,
        "API list by run": [f"/api/v1/episodes?limit=50&run=run-{1 + number}" for number in range(LOOKS)],
    }


def _seed(web: Product) -> tuple[str, str]:
    """Make one ended episode in a run, the template of all others; return both."""
    with web.http(web.token("agent")) as http:
        run = http.post("/runs", json={"name": "seed", "key": "seed"}).raise_for_status().json()["id"]
        start = {"key": "seed", "task": "seed", "run": run}
        one = http.post("/episodes", json=start).raise_for_status().json()["id"]
        said = {"seq": 1, "kind": "message", "role": "assistant", "content": "seed"}
        http.post(f"/episodes/{one}/steps", json={"steps": [said]}).raise_for_status()
        end = {"stop_reason": "done", "outcome": {"reward_type": "complete", "reward": 1.0}}
        http.post(f"/episodes/{one}/finish", json=end).raise_for_status()
        until(lambda: "seed" in http.get("/episodes", params={"q": "seed", "error": "none"}).text, 60)
    return one, run


def rows(most: int) -> None:
    """Fill in steps of ten, and request each page between."""
    first: dict[str, float] = {}
    with product(AWMWEB_HEARTBEAT_S="3600") as web, httpx.Client(base_url=web.url, follow_redirects=True) as browser:
        browser.timeout = httpx.Timeout(120)
        template, run = _seed(web)
        browser.get(web.link("edo", "admin"))
        filled = 0
        for size in sorted({most, *(size for size in SIZES if size < most)}):
            began = time.perf_counter()
            with _without_beat(web):
                megabytes = filling.fill(urls(web.var).database, template, size, 1, first=filled + 1, most=most)
            took, filled = time.perf_counter() - began, size
            row("rows.filled", took, "s", None, episodes=size, database_mb=megabytes)
            _settle(web)
            for kind, addresses in pages(size).items():
                wanted = [address.format(seed=run) for address in addresses]
                browser.get(wanted[0])
                cpu, answers = _cpu_s(web), [_timed(browser, address) for address in wanted]
                value = (_cpu_s(web) - cpu) / len(wanted) * 1000
                times, statuses = [ms for ms, _ in answers], sorted({status for _, status in answers})
                about = {"episodes": size, "median_ms": round(statistics.median(times), 1), "statuses": statuses}
                row(f"rows.{kind}", value, "ms of processor", first.get(kind), **about, worst_ms=round(max(times), 1))
                first.setdefault(kind, value)


@contextmanager
def _without_beat(web: Product) -> Iterator[None]:
    """Stop the clock of periodic tasks: without the indexes, which a fill takes away, each would read whole tables."""
    beat = web.children()["beat"]
    os.kill(beat, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(beat, signal.SIGCONT)


def _settle(web: Product) -> None:
    """Wait until checkpoint and vacuum of what was filled are over: their work would be counted with the pages'."""

    def is_quiet() -> bool:
        before = _cpu_s(web)
        time.sleep(SETTLED_S)
        return _cpu_s(web) - before < SETTLED_S / 50

    until(is_quiet, 300)


def _cpu_s(web: Product) -> float:
    """Return the processor seconds of web process and database so far."""
    parts = web.processes().items()
    return sum(sum(one.cpu_times()[:2]) for one, part in parts if part in ("web", "postgres") and one.is_running())


def _timed(browser: httpx.Client, address: str) -> tuple[float, int]:
    began = time.perf_counter()
    status = browser.get(address).status_code
    return (time.perf_counter() - began) * 1000, status


def main() -> None:
    chosen = sys.argv[1:] or ["processes", "rows"]
    for name, work in (("processes", processes), ("shares", shares)):
        if name in chosen:
            try:
                work()
            except Missing as missing:
                print(f"bench/cluster.py leaves out {name}: {missing}", file=sys.stderr)
    if "rows" in chosen:
        rows(ROWS if sys.argv[1:] else min(ROWS, 100_000))


if __name__ == "__main__":
    main()
