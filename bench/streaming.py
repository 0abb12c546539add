"""The stream under load: durable ingest, delivery to watchers, fan-out, idle sockets; limits probed in the same run.

Starts a product of its own on loopback in a temporary folder, and stops it. Run as `python bench/streaming.py [row]`;
one JSON object a line. Everything that loads or watches lives in this one process, so on two cores it takes its share
of what it measures.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
import psycopg
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from loading import Caller, Watcher, batch, delivered, read_frames

from awmweb.embedded import urls
from tests.running import Product, product

SECONDS = float(os.environ.get("BENCH_SECONDS", "5"))
COALESCE_MS = 20
FILLER = "x" * 240
RAW_BYTES = 436


def row(name: str, value: float, unit: str, limit: float | None, **conditions: object) -> None:
    """One measured line. `ratio` is value to limit, whichever direction is good."""
    ratio = round(value / limit, 3) if limit else None
    line = {"name": name, "value": round(value, 1), "unit": unit, "limit": limit and round(limit, 1), "ratio": ratio}
    print(json.dumps({**line, "conditions": conditions}), flush=True)


def syncs_per_second(folder: Path) -> float:
    """4 KiB and fdatasync, one after the other."""
    file = folder / "sync-probe"
    with file.open("wb") as out:
        count, end = 0, time.perf_counter() + 1.0
        while time.perf_counter() < end:
            out.write(b"x" * 4096)
            out.flush()
            os.fdatasync(out.fileno())
            count += 1
    file.unlink()
    return float(count)


def copied_rows_per_second(database: str) -> float:
    """COPY of 5,000 rows of the size of ours at a time, into a table with the same unique pair."""
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


async def raw_frames_per_second(sockets: int) -> float:
    """Frames of 0.43 KB that one event loop writes to sockets without ASGI, counted where they arrive."""
    command = [sys.executable, str(Path(__file__).with_name("loading.py")), str(sockets), "2.5"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        watchers = [await Watcher.connect("127.0.0.1", port, "/", "") for _ in range(sockets)]
        await asyncio.sleep(0.5)  # until buffers are full and what is written is what is read
        before, began = sum(watcher.bytes for watcher in watchers), time.perf_counter()
        await asyncio.sleep(1.5)
        read, seconds = sum(watcher.bytes for watcher in watchers) - before, time.perf_counter() - began
        await asyncio.to_thread(server.wait)
    return read / RAW_BYTES / seconds


class House:
    """The running product, and what the load needs of it."""

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

    async def caller(self, episode: str) -> Caller:
        return await Caller.connect(self.port, self.token, f"/api/v1/episodes/{episode}/steps")

    async def watch(self, episode: str, count: int) -> list[Watcher]:
        found: list[Watcher] = []
        while len(found) < count:
            path = f"/ws/episodes/{episode}"
            wanted = min(50, count - len(found))
            found += await asyncio.gather(
                *(Watcher.connect("127.0.0.1", self.port, path, self.token, not found) for _ in range(wanted))
            )
        await until(lambda: all(watcher.frames for watcher in found), 60)
        return found

    def cpu(self) -> dict[str, float]:
        """Seconds of processor used so far by the web process, the database and this one."""
        used: dict[str, float] = {"bench": sum(os.times()[:2])}
        for process, name in self.product.processes().items():
            if name in ("web", "postgres", "valkey"):
                times = process.cpu_times()
                used[name] = used.get(name, 0.0) + times.user + times.system
        return used

    def resident_kb(self) -> float:
        return psutil.Process(self.web).memory_info().rss / 1024


async def until(what: Callable[[], bool], seconds: float) -> bool:
    end = time.perf_counter() + seconds
    while not what() and time.perf_counter() < end:
        await asyncio.sleep(0.02)
    return what()


async def ingest(house: House, name: str, clients: int, size: int, limit: float, **conditions: object) -> None:
    """A closed loop: each client sends its next batch when the one before is durable. The first second is not counted:
    connections are opened and tables grow from nothing."""
    await _ingest(house, name, clients, size, 1.0)
    figures, rate = await _ingest(house, name, clients, size, SECONDS)
    row(name, rate, "events/s", limit, clients=clients, batch=size, **figures, **conditions)


async def _ingest(house: House, name: str, clients: int, size: int, seconds: float) -> tuple[dict[str, object], float]:
    episodes = [house.episode(name) for _ in range(clients)]
    callers = [await house.caller(episode) for episode in episodes]
    acknowledged, waits = [0] * clients, []
    before = house.cpu()
    began = time.perf_counter()

    async def write(number: int) -> None:
        while time.perf_counter() - began < seconds:
            sent = time.perf_counter()
            await callers[number].send(batch(acknowledged[number] + 1, [sent] * size, FILLER))
            acknowledged[number] += size
            waits.append(time.perf_counter() - sent)

    await asyncio.gather(*(write(number) for number in range(clients)))
    seconds = time.perf_counter() - began
    used = {name: round(after - before[name], 1) for name, after in house.cpu().items()}
    for caller in callers:
        caller.close()
    figures = {"acknowledged": sum(acknowledged), "stored": house.stored(episodes), **percentiles(waits)}
    return {**figures, "cpu_s": used, "load": round(os.getloadavg()[0], 1)}, sum(acknowledged) / seconds


def percentiles(seconds: list[float]) -> dict[str, float]:
    if len(seconds) < 2:
        return {}
    cut = statistics.quantiles(seconds, n=100)
    return {"p50_ms": round(cut[49] * 1000, 1), "p95_ms": round(cut[94] * 1000, 1), "p99_ms": round(cut[98] * 1000, 1)}


async def offer(caller: Caller, rate: float, seconds: float) -> int:
    """Events come at a fixed rate, whatever happens; what has come since the last answer goes as the next batch. The
    time in an event is when it was due, so waiting counts."""
    began, sent = time.perf_counter(), 0
    while (now := time.perf_counter()) < began + seconds:
        due = min(int((now - began) * rate), sent + 1000)
        if due == sent:
            await asyncio.sleep(1 / rate)
            continue
        times = [began + number / rate for number in range(sent, due)]
        await caller.send(batch(sent + 1, times, FILLER))
        sent = due
        await asyncio.sleep(max(0.0, COALESCE_MS / 1000 - (time.perf_counter() - now)))
    return sent


async def stream(house: House, name: str, sockets: int, rate: float, syncs: float, aim: float) -> None:
    """Durable events of one episode to sockets that all watch it."""
    episode = house.episode(name)
    watchers = await house.watch(episode, sockets)
    caller = await house.caller(episode)
    await offer_quietly(caller)
    before = house.cpu()
    sent = WARM + await offer_from(caller, rate, SECONDS)
    whole = await until(lambda: all(watcher.last == sent for watcher in watchers), 20)
    used = {name: round(after - before[name], 1) for name, after in house.cpu().items()}
    frames = read_frames(watchers[0])
    seen = [delivered(watcher, frames) for watcher in watchers]
    for one in [*watchers, caller]:
        one.close()
    found = percentiles([delay for _, delays in seen for delay in delays])
    row(
        name, found["p95_ms"], "ms p95 to the client", COALESCE_MS + 1000 / syncs,
        aim_ms=aim, sockets=sockets, offered_per_s=rate, sent=sent - WARM,
        delivered=sum(count for count, _ in seen), expected=sent * sockets, every_event=whole,
        frames=sum(watcher.frames for watcher in watchers),
        mb_delivered=round(sum(watcher.bytes for watcher in watchers) / 1e6),
        cpu_s=used, load=round(os.getloadavg()[0], 1), **found,
        limit_is="the hub's coalescing time and one sync",
    )  # fmt: skip


WARM = 20


async def offer_quietly(caller: Caller) -> None:
    """The first batches, which nobody measures: caches fill, connections open."""
    for number in range(WARM):
        await caller.send(batch(number + 1, [0.0], FILLER))


async def offer_from(caller: Caller, rate: float, seconds: float) -> int:
    caller.offset = WARM
    return await offer(caller, rate, seconds)


async def fan_out(house: House, sockets: int, raw: float) -> None:
    """One step at a time to many sockets: frames of about 0.43 KB, as many as the hub sends."""
    episode = house.episode("fan-out")
    watchers = await house.watch(episode, sockets)
    caller = await house.caller(episode)
    before, began = sum(watcher.frames for watcher in watchers), time.perf_counter()
    sent = 0
    while time.perf_counter() - began < SECONDS:
        await caller.send(batch(sent + 1, [0.0], FILLER))
        sent += 1
    await until(lambda: all(watcher.last == sent for watcher in watchers), 20)
    seconds = time.perf_counter() - began
    frames = sum(watcher.frames for watcher in watchers) - before
    known = read_frames(watchers[0])
    count = sum(delivered(watcher, known)[0] for watcher in watchers)
    for one in [*watchers, caller]:
        one.close()
    row(
        "fan_out", frames / seconds, "frames/s", raw, aim_ratio=0.20, sockets=sockets, events=sent,
        delivered=count, expected=sent * sockets, event_deliveries_per_s=round(count / seconds),
    )  # fmt: skip


async def idle(house: House, sockets: int) -> None:
    episode = house.episode("idle")
    await asyncio.sleep(1)
    before, began = house.resident_kb(), time.perf_counter()
    watchers = await house.watch(episode, sockets)
    seconds = time.perf_counter() - began
    await asyncio.sleep(1)
    value = (house.resident_kb() - before) / sockets
    for watcher in watchers:
        watcher.close()
    row(
        "idle_socket", value, "KB resident", None,
        aim_kb=30, sockets=sockets, connects_per_s=round(sockets / seconds),
    )  # fmt: skip


async def measure(house: House) -> None:
    syncs = syncs_per_second(house.product.var)
    copied = copied_rows_per_second(house.database)
    raw = await raw_frames_per_second(1000)
    probed = {"fdatasync_per_s": round(syncs), "copy_rows_per_s": round(copied), "raw_frames_per_s": round(raw)}
    row("limits", raw, "raw frames/s", None, **probed)
    wanted = set(sys.argv[1:])
    steps: list[tuple[str, Callable[[], Awaitable[Any]]]] = [
        ("idle", lambda: idle(house, 2000)),
        ("ingest", lambda: ingest(house, "ingest_batches_of_40", 32, 40, copied, aim_per_s=12_000, aim_ratio=0.10)),
        ("single", lambda: ingest(house, "ingest_single_events", 64, 1, syncs, aim_ratio=3)),
        ("stream200", lambda: stream(house, "stream_200_sockets", 200, 2000, syncs, 75)),
        ("stream1000", lambda: stream(house, "stream_1000_sockets", 1000, 2000, syncs, 150)),
        ("fanout", lambda: fan_out(house, 1000, raw)),
    ]
    for name, step in steps:
        if not wanted or name in wanted:
            await step()


def main() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with product() as house:
        uvloop.run(measure(House(house)))


if __name__ == "__main__":
    main()
