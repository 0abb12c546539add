"""The stream under load: durable ingest, delivery to watchers, fan-out, idle sockets; limits from the same run.

Starts a product of its own on loopback in a temporary folder, and stops it. Run as `python bench/streaming.py [row]`;
one JSON object a line. Writers are in this process and watchers in two more. Each line has the processor time of each
side and of the rest of the machine, since all share the same cores.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from loading import PLAIN_FRAME_BYTES, Caller, batch

from awmweb.embedded import urls
from tests.running import ROOT, Product, free_ports, product

SECONDS = float(os.environ.get("BENCH_SECONDS", "5"))
CROWDS = 2
EVERY_S = 0.02
WARM = 20
WAL_BYTES = 16 * 1024 * 1024
BATCHES_AIM = "12,000 events/s and 0.10 of COPY"
FAST_SYNCS = 3000
"""A disk that syncs more often than this is measured again while another process keeps it busy."""
LOADING = str(Path(__file__).with_name("loading.py"))


def row(name: str, value: float, unit: str, limit: float | None, **conditions: object) -> None:
    """Print one measured line. `ratio` is value to limit, whichever direction is good."""
    ratio = round(value / limit, 3) if limit else None
    line = {"name": name, "value": round(value, 1), "unit": unit, "limit": limit and round(limit, 1), "ratio": ratio}
    print(json.dumps({**line, "conditions": conditions}), flush=True)


def syncs_per_second(folder: Path) -> float:
    """Count syncs one after the other, as PostgreSQL's own pg_test_fsync does.

    8 kB into an existing file of 16 MB, then fdatasync. A growing file would sync its length, too, which the
    write-ahead log avoids.
    """
    path, page = folder / "sync-probe", b"x" * 8192
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        os.write(file, bytes(WAL_BYTES))
        os.fsync(file)
        count, end = 0, time.perf_counter() + 1.0
        while time.perf_counter() < end:
            os.pwrite(file, page, count * len(page) % WAL_BYTES)
            os.fdatasync(file)
            count += 1
        return float(count)
    finally:
        os.close(file)
        path.unlink()


def copied_rows_per_second(database: str) -> float:
    """Return the rate of COPY with 5,000 rows of the same size, into a table with the same unique pair."""
    body = json.dumps({"seq": 1, "kind": "tool_call", "result": "x" * 460})
    with psycopg.connect(database, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE bench_copy (episode text, seq int, body text, UNIQUE (episode, seq))")
        try:
            done, began = 0, time.perf_counter()
            while time.perf_counter() - began < 2.0:
                text = "".join(f"one\t{seq}\t{body}\n" for seq in range(done, done + 5000))
                with cursor.copy("COPY bench_copy FROM STDIN") as copy:
                    copy.write(text)
                done += 5000
            return done / (time.perf_counter() - began)
        finally:
            cursor.execute("DROP TABLE bench_copy")


class Crowd:
    """Watchers of one episode, spread over processes of their own."""

    def __init__(self) -> None:
        self.processes = [
            subprocess.Popen(
                [sys.executable, LOADING, "watch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for _ in range(CROWDS)
        ]

    async def tell(self, do: str, **what: object) -> list[dict[str, Any]]:
        """Run a command in all of them concurrently."""
        return await asyncio.gather(*(asyncio.to_thread(_ask, one, {"do": do, **what}) for one in self.processes))

    async def open(self, port: int, path: str, token: str, sockets: int, packed: bool) -> None:
        share = sockets // CROWDS
        await self.tell("open", port=port, path=path, token=token, sockets=share, packed=packed)

    async def report(self, last: int, seconds: float, ordered: bool = True) -> dict[str, Any]:
        """Return the combined report of all of them."""
        parts = await self.tell("report", last=last, seconds=seconds, ordered=ordered)
        summed = ("sockets", "whole", "frames", "frames_of_steps", "bytes", "cpu")
        return {
            **{name: sum(part[name] for part in parts) for name in summed},
            "seconds": max(part["seconds"] for part in parts),
            "delays": [delay for part in parts for delay in part["delays"]],
        }

    def end(self) -> None:
        for one in self.processes:
            assert one.stdin is not None
            one.stdin.close()
            one.wait(10)


def _ask(process: subprocess.Popen[str], request: dict[str, object]) -> dict[str, Any]:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    answer: dict[str, Any] = json.loads(process.stdout.readline())
    return answer


async def raw_frames(sockets: int) -> tuple[float, float]:
    """Count frames of 0.43 KB that one event loop writes to sockets without ASGI each second.

    Read by the same watchers; also returns the KB of one such socket in its process.
    """
    crowd = Crowd()
    with subprocess.Popen(
        [sys.executable, LOADING, "raw", str(sockets), "4"], stdout=subprocess.PIPE, text=True
    ) as raw:
        assert raw.stdout is not None
        port = int(raw.stdout.readline())
        before = psutil.Process(raw.pid).memory_info().rss
        await crowd.open(port, "/", "", sockets, packed=False)
        size = (psutil.Process(raw.pid).memory_info().rss - before) / 1024 / sockets
        await asyncio.sleep(1.0)  # until buffers are full and what is written is what is read
        await crowd.tell("restart")
        await asyncio.sleep(2.0)
        seen = await crowd.report(0, 0)
    crowd.end()
    return float(seen["bytes"] / PLAIN_FRAME_BYTES / seen["seconds"]), size


@contextlib.asynccontextmanager
async def door(web: WebUnderLoad) -> AsyncIterator[int]:
    """Provide the port of a server like the product's that commits nothing (`door/ceiling.py`), in a process of its
    own."""
    [port] = free_ports(1)
    command = [
        "-m",
        "uvicorn",
        "ceiling:application",
        "--app-dir",
        str(Path(LOADING).with_name("door")),
        "--port",
        str(port),
    ]
    quiet = ["--no-access-log", "--lifespan", "off", "--log-level", "error"]
    with subprocess.Popen([sys.executable, *command, *quiet], cwd=ROOT, env=web.product.environment) as server:
        try:
            while not _listens(port):
                await asyncio.sleep(0.1)
            yield port
        finally:
            server.terminate()


def _listens(port: int) -> bool:
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


async def requests_that_commit_nothing(web: WebUnderLoad, clients: int) -> float:
    """Return how many requests of single events 64 clients complete each second without a commit."""
    async with door(web) as port:
        callers = [await Caller.connect(port, web.token, "/") for _ in range(clients)]
        await _answered(callers, 0.5)
        answered = await _answered(callers, 2.0)
        for caller in callers:
            caller.close()
    return answered


async def _answered(callers: list[Caller], seconds: float) -> float:
    began, counts = time.perf_counter(), [0] * len(callers)

    async def call(number: int) -> None:
        while (now := time.perf_counter()) < began + seconds:
            await callers[number].send(batch(counts[number] + 1, [now]))
            counts[number] += 1

    await asyncio.gather(*(call(number) for number in range(len(callers))))
    return sum(counts) / (time.perf_counter() - began)


@contextlib.contextmanager
def busy_disk(folder: Path) -> Iterator[list[int]]:
    """Write to the same disk from another process; afterwards the list has the MB that it wrote."""
    written: list[int] = []
    with subprocess.Popen(
        [sys.executable, LOADING, "disk", str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as neighbour:
        time.sleep(0.5)
        try:
            yield written
        finally:
            said, _ = neighbour.communicate()
            written.append(int(said))


class WebUnderLoad:
    """The running product, and the load's access to it."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self.port = int(product.url.rpartition(":")[2])
        self.database = urls(product.var).database
        self.token = product.token("agent")
        self.http = product.http(self.token)
        self.web = product.children()["web"]

    def episode(self, name: str) -> str:
        answer = self.http.post("/episodes", json={"key": f"{name}-{time.time_ns()}", "task": "bench"})
        return str(answer.raise_for_status().json()["id"])

    def stored(self, episodes: list[str]) -> int:
        with psycopg.connect(self.database) as connection:
            query = "SELECT count(*) FROM episodes_step WHERE episode_id = ANY(%s)"
            found = connection.execute(query, [episodes]).fetchone()
            return int(found[0]) if found else 0

    def syncs(self) -> int:
        """Return how often the database has synced its log, by its own count."""
        with psycopg.connect(self.database) as connection:
            found = connection.execute("SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal'").fetchone()
            return int(found[0]) if found else 0

    async def settle(self, episode: str, seq: int) -> None:
        """Wait for counts, which a backend reports at the end of a transaction and at most once a second."""
        await asyncio.sleep(1.1)
        caller = await self.caller(episode)
        await caller.send(batch(seq, [0.0]))
        caller.close()

    async def caller(self, episode: str) -> Caller:
        return await Caller.connect(self.port, self.token, f"/api/v1/episodes/{episode}/steps")

    async def watch(self, crowd: Crowd, episode: str, sockets: int, packed: bool) -> None:
        await crowd.open(self.port, f"/ws/episodes/{episode}", self.token, sockets, packed)

    def resident_kb(self) -> float:
        return psutil.Process(self.web).memory_info().rss / 1024


class Clock:
    """Processor seconds since its creation: the product's parts, this process, and all others of the machine."""

    def __init__(self, web: WebUnderLoad) -> None:
        self.web, self.began, self.before = web, time.perf_counter(), self._now(web)

    def _now(self, web: WebUnderLoad) -> dict[str, float]:
        used = {"web": 0.0, "postgres": 0.0, "valkey": 0.0, "writers": sum(os.times()[:2])}
        for process, name in web.product.processes().items():
            with contextlib.suppress(psutil.NoSuchProcess, KeyError):
                times = process.cpu_times()
                used[name] += times.user + times.system
        whole = psutil.cpu_times()
        return {**used, "machine": sum(whole) - whole.idle - whole.iowait - whole.guest - whole.guest_nice}

    def read(self, watchers: float = 0.0) -> dict[str, object]:
        used = {name: after - self.before[name] for name, after in self._now(self.web).items()}
        clients = {"writers": used.pop("writers"), "watchers": watchers}
        others = used.pop("machine") - sum(used.values()) - sum(clients.values())
        return {
            "server_cpu_s": {name: round(value, 1) for name, value in used.items()},
            "clients_cpu_s": {name: round(value, 1) for name, value in clients.items()},
            "others_cpu_s": round(max(0.0, others), 1),
            "seconds": round(time.perf_counter() - self.began, 1),
            "load": round(os.getloadavg()[0], 1),
        }


async def ingest(
    web: WebUnderLoad, name: str, clients: int, size: int, limit: Callable[[], float], **conditions: object
) -> tuple[float, float]:
    """Run a closed loop: each client sends its next batch when the one before is durable.

    The first second is not counted: connections are opened and tables grow from nothing. The limit is measured before
    and after, since disks and neighbors change from one second to the next; it is the mean of both. Returns the rate
    and the limit.
    """
    await _ingest(web, name, clients, size, 1.0)
    before = limit()
    figures, rate = await _ingest(web, name, clients, size, SECONDS)
    probes = [round(before), round(limit())]
    row(
        name, rate, "events/s", statistics.mean(probes),
        clients=clients, batch=size, probes=probes, **figures, **conditions,
    )  # fmt: skip
    return rate, statistics.mean(probes)


async def _ingest(
    web: WebUnderLoad, name: str, clients: int, size: int, seconds: float
) -> tuple[dict[str, object], float]:
    episodes = [web.episode(name) for _ in range(clients)]
    callers = [await web.caller(episode) for episode in episodes]
    acknowledged, waits, marker = [0] * clients, [], web.episode("marker")
    await web.settle(marker, 1)
    syncs, clock, began = web.syncs(), Clock(web), time.perf_counter()

    async def write(number: int) -> None:
        while time.perf_counter() - began < seconds:
            sent = time.perf_counter()
            await callers[number].send(batch(acknowledged[number] + 1, [sent] * size))
            acknowledged[number] += size
            waits.append(time.perf_counter() - sent)

    await asyncio.gather(*(write(number) for number in range(clients)))
    seconds = time.perf_counter() - began
    used = clock.read()
    for caller in callers:
        caller.close()
    await web.settle(marker, 2)
    counted = {"acknowledged": sum(acknowledged), "stored": web.stored(episodes)}
    figures = {**counted, "events_per_sync": round(sum(acknowledged) / (web.syncs() - syncs), 1)}
    return {**figures, **percentiles(waits), **used}, sum(acknowledged) / seconds


async def single_events(web: WebUnderLoad, ceiling: float) -> None:
    """Have 64 clients append one event at a time.

    Repeated beside a busy disk if the disk is faster than requests can be, since then the sharing of syncs is not
    visible. The ceiling shows what limits.
    """

    def syncing() -> float:
        return syncs_per_second(web.product.var)

    figures = {"ceiling_requests_per_s": round(ceiling), "aim": "3 x the syncs, where that is below the ceiling"}
    _, syncs = await ingest(web, "ingest_single_events", 64, 1, syncing, **figures)
    if syncs > FAST_SYNCS:
        with busy_disk(web.product.var) as written:
            figures["aim"] = "3 x the syncs"
            await ingest(web, "ingest_single_events_busy_disk", 64, 1, syncing, **figures)
        row("busy_disk", written[0], "MB written by the neighbour", None, aim="nothing: says what the neighbour did")


def percentiles(seconds: list[float]) -> dict[str, float]:
    if len(seconds) < 2:
        return {}
    cut = statistics.quantiles(seconds, n=100)
    return {"p50_ms": round(cut[49] * 1000, 1), "p95_ms": round(cut[94] * 1000, 1), "p99_ms": round(cut[98] * 1000, 1)}


async def offer(caller: Caller, first: int, rate: float, seconds: float) -> int:
    """Send events at a fixed rate, whatever happens; events since the last response form the next batch.

    The time in an event is when it was due, so waiting counts. Returns the number of the last step.
    """
    began, sent = time.perf_counter(), 0
    while (now := time.perf_counter()) < began + seconds:
        due = min(int((now - began) * rate), sent + 1000)
        if due > sent:
            times = [began + number / rate for number in range(sent, due)]
            await caller.send(batch(first + sent, times))
            sent = due
        await asyncio.sleep(max(1 / rate, EVERY_S - (time.perf_counter() - now)))
    return first + sent - 1


async def stream(
    web: WebUnderLoad, name: str, sockets: int, rate: float, syncs: float, aim: float | None, packed: bool = True
) -> None:
    """Send durable events of one episode to sockets that all watch it."""
    episode, crowd = web.episode(name), Crowd()
    await web.watch(crowd, episode, sockets, packed)
    caller = await web.caller(episode)
    for number in range(WARM):
        await caller.send(batch(number + 1, [0.0]))
    await asyncio.sleep(0.5)
    await crowd.tell("restart")
    clock = Clock(web)
    last = await offer(caller, WARM + 1, rate, SECONDS)
    seen = await crowd.report(last, 20)
    used = clock.read(seen["cpu"])
    caller.close()
    crowd.end()
    sent, found = last - WARM, percentiles(seen["delays"])
    row(
        name, found["p95_ms"], "ms p95 to the client", EVERY_S * 1000 + 1000 / syncs,
        aim=aim, sockets=seen["sockets"], offered_per_s=rate, compressed=packed, sent=sent,
        delivered=sent * seen["whole"], expected=sent * seen["sockets"], every_event=seen["whole"] == seen["sockets"],
        frames=seen["frames"], mb_on_the_line=round(seen["bytes"] / 1e6), **found, **used,
        limit_is="the time in which events collect at the writer, and one sync",
    )  # fmt: skip


async def fan_out(web: WebUnderLoad, sockets: int, raw: float) -> None:
    """Send one step at a time to many sockets: frames of about 0.43 KB, as many as the hub sends."""
    episode, crowd = web.episode("fan-out"), Crowd()
    await web.watch(crowd, episode, sockets, packed=False)
    caller = await web.caller(episode)
    await asyncio.sleep(0.5)
    await crowd.tell("restart")
    clock, began, sent = Clock(web), time.perf_counter(), 0
    while time.perf_counter() - began < SECONDS:
        sent += 1
        await caller.send(batch(sent, [time.perf_counter()]))
    seconds = time.perf_counter() - began
    seen = await crowd.report(sent, 20)
    used = clock.read(seen["cpu"])
    caller.close()
    crowd.end()
    row(
        "fan_out", seen["frames"] / seconds, "frames/s", raw,
        aim="0.20 of the limit", sockets=seen["sockets"], events=sent, delivered=sent * seen["whole"],
        expected=sent * seen["sockets"], frames_of_steps_per_s=round(seen["frames_of_steps"] / seconds),
        **percentiles(seen["delays"]), **used,
    )  # fmt: skip


async def idle(web: WebUnderLoad, sockets: int, bare: float) -> None:
    episode, crowd = web.episode("idle"), Crowd()
    await asyncio.sleep(1)
    before, began = web.resident_kb(), time.perf_counter()
    await web.watch(crowd, episode, sockets, packed=True)
    seconds = time.perf_counter() - began
    await asyncio.sleep(1)
    value = (web.resident_kb() - before) / sockets
    clock = Clock(web)
    await asyncio.sleep(SECONDS)
    used = clock.read()
    crowd.end()
    row(
        "idle_socket", value, "KB resident", bare,
        aim=30, sockets=sockets, connects_per_s=round(sockets / seconds), **used,
        limit_is="a socket of the event loop without ASGI",
    )  # fmt: skip


async def measure(web: WebUnderLoad) -> None:
    syncs = syncs_per_second(web.product.var)
    copied = copied_rows_per_second(web.database)
    raw, bare = await raw_frames(1000)
    ceiling = await requests_that_commit_nothing(web, 64)
    probed = {
        "fdatasync_per_s": round(syncs),
        "copy_rows_per_s": round(copied),
        "raw_frames_per_s": round(raw),
        "requests_per_s_that_commit_nothing": round(ceiling),
    }
    row("limits", raw, "raw frames/s", None, aim="nothing: the limits of this run", **probed)
    wanted = set(sys.argv[1:])

    def copying() -> float:
        return copied_rows_per_second(web.database)

    steps: list[tuple[str, Callable[[], Awaitable[Any]]]] = [
        ("idle", lambda: idle(web, 2000, bare)),
        ("ingest", lambda: ingest(web, "ingest_batches_of_40", 32, 40, copying, aim=BATCHES_AIM)),
        ("single", lambda: single_events(web, ceiling)),
        ("stream200", lambda: stream(web, "stream_200_sockets", 200, 2000, syncs, 75)),
        ("stream1000", lambda: stream(web, "stream_1000_sockets", 1000, 2000, syncs, 150)),
        (
            "plain1000",
            lambda: stream(web, "stream_1000_sockets_uncompressed", 1000, 2000, syncs, None, packed=False),
        ),
        ("fanout", lambda: fan_out(web, 1000, raw)),
    ]
    for name, step in steps:
        if not wanted or name in wanted:
            await step()


def main() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with product() as web:
        uvloop.run(measure(WebUnderLoad(web)))


if __name__ == "__main__":
    main()
