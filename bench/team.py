"""A team at work: how long a sign-in by a provider takes, and an answer beside a busy record.

*sign_in*: from the sign-in page over the provider, here on loopback, to the page of the queue. The limit is the sum of
the two pages alone, for someone who is signed in.
*answers*: 20 people claim, write for five seconds and answer, while 500 asks have a loop that waits for each, and other
loops append 2,000 steps a second. The limit is one committing call of the same API without that load.
Run as `python bench/team.py`.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import random
import sys
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.asks import commit_once, p95, start
from bench.desk import WAIT_S, _loop, open_one, wait_all
from bench.loading import WORDS, Caller, batch
from tests.provider import provider, sign_in
from tests.running import product

PEOPLE, WAITING, EVENTS_S = 20, 500, 2000
WRITES_S, SECONDS = 5.0, 60
WRITERS, STEPS = 8, 20
SIGN_INS = 15
QUEUE = "/projects/demo/queue/"


def line(name: str, value: float, unit: str, limit: float, **conditions: object) -> None:
    figures = {"name": f"team.{name}", "value": round(value, 1), "unit": unit, "limit": round(limit, 1)}
    about = {**conditions, "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    print(json.dumps({**figures, "ratio": round(value / limit, 2), "conditions": about}), flush=True)


def sign_ins() -> None:
    with provider() as there, product(**there.settings) as web:
        took, limits = [], []
        for number in range(SIGN_INS):
            there.says(f"p{number}", name=f"Person {number}", preferred_username=f"p{number}", groups=["lab-experts"])
            times = [time.perf_counter()]
            with httpx.Client(base_url=web.url, follow_redirects=True, timeout=40) as browser:
                browser.get(f"/login?next={QUEUE}").raise_for_status()
                times.append(time.perf_counter())
                sign_in(browser, f"p{number}", path=f"/login/provider?next={QUEUE}").raise_for_status()
                times.append(time.perf_counter())
                browser.get(QUEUE).raise_for_status()
                times.append(time.perf_counter())
            login, there_and_back, queue = ((after - at) * 1000 for at, after in pairwise(times))
            took.append(login + there_and_back)
            limits.append(login + queue)
        line("sign_in_to_queue", p95(took), "ms p95", median(limits), aim_ms=1000, sign_ins=SIGN_INS,
             median_ms=round(median(took)), limit_is="both pages alone, median")  # fmt: skip


def append(url: str, token: str, episodes: list[str], stop: Any) -> None:
    """Append `EVENTS_S` steps a second to these episodes until `stop` is set."""
    asyncio.run(_append(int(url.rpartition(":")[2]), token, episodes, stop))


async def _append(port: int, token: str, episodes: list[str], stop: Any) -> None:
    async def to(episode: str) -> None:
        caller = await Caller.connect(port, token, f"/api/v1/episodes/{episode}/steps")
        began, sent = time.perf_counter(), 0
        while not stop.is_set():
            await caller.send(batch(sent + 1, [0.0] * STEPS))
            sent += STEPS
            await asyncio.sleep(began + sent * len(episodes) / EVENTS_S - time.perf_counter())
        caller.close()

    await asyncio.gather(*map(to, episodes))


async def work(url: str, people: list[str], asks: list[str]) -> list[float]:
    """Return milliseconds of each answer, from its request to its response."""
    end = time.perf_counter() + SECONDS

    async def person(number: int, token: str) -> list[float]:
        took = []
        await asyncio.sleep(WRITES_S * number / PEOPLE)
        async with _loop(url, token) as http:
            while time.perf_counter() < end:
                ask = asks.pop()
                lease = (await http.post(f"/asks/{ask}/claim", json={})).raise_for_status().json()
                await asyncio.sleep(WRITES_S)
                body = {"lease_token": lease["lease_token"], "text": "Take the older one.", "nonce": ask}
                began = time.perf_counter()
                answer = await http.post(f"/assignments/{lease['assignment']}/answer", json=body)
                if answer.is_error:
                    raise RuntimeError(answer.text)
                took.append((time.perf_counter() - began) * 1000)
        return took

    said = await asyncio.gather(*(person(number, token) for number, token in enumerate(people)))
    return [one for some in said for one in some]


def answers() -> None:
    context = multiprocessing.get_context("spawn")
    with product(AWMWEB_HEARTBEAT_S="3600") as web:  # loops of asks that are answered later say nothing meanwhile
        agent = web.token("agent")
        people = [web.token("expert") for _ in range(PEOPLE)]
        with web.http(agent) as http:
            limit = p95(commit_once(http, start(http, "limit")))
            waiting = [open_one(http, f"waits-{number}", 3600) for number in range(WAITING)]
            asks = [
                open_one(http, f"asked-{number}", 3600) for number in range(int(PEOPLE * SECONDS / WRITES_S) + PEOPLE)
            ]
            busy = [start(http, f"busy-{number}") for number in range(WRITERS)]
            stop = context.Event()
            beside = [
                context.Process(target=wait_all, args=(web.url, agent, waiting, stop)),
                context.Process(target=append, args=(web.url, agent, busy, stop)),
            ]
            for one in beside:
                one.start()
            time.sleep(WAIT_S)  # each loop begins at a moment of its own within this time
            before, began = steps_of(http, busy), time.perf_counter()
            took = asyncio.run(work(web.url, people, asks))
            rate = (steps_of(http, busy) - before) / (time.perf_counter() - began)
            stop.set()
            for one in beside:
                one.join(40)
        line(
            "answer", p95(took), "ms p95", limit, aim_ms=100, limit_is="one committing call without load",
            answers=len(took), people=PEOPLE, waiting_asks=WAITING, events_per_s=round(rate),
            median_ms=round(median(took)),
        )  # fmt: skip


def words_of(number: int) -> str:
    """Return words that no other ask has: asks with equal words share one answer."""
    return " ".join(random.Random(number).sample(WORDS.split(), 8)) + f" {number}"  # noqa: S311


def steps_of(http: httpx.Client, episodes: list[str]) -> int:
    return sum(http.get(f"/episodes/{one}").raise_for_status().json()["last_seq"] for one in episodes)


if __name__ == "__main__":
    sign_ins()
    answers()
