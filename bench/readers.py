"""The cost of 40 greedy readers with one agent token to another project: page times, and memory of the web process.

The readers request pages of an episode of 1 MB steps over and over, each in a connection of its own, and discard the
responses. Run as `python bench/readers.py`; starts and stops a product of its own in a temporary folder.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.running import Product, product

READERS, STEPS, STEP_BYTES = 40, 34, 1_000_000
SECONDS, WARM_UP = 15.0, 3.0
AIM_MS, AIM_MB = 500, 400


class Reader(threading.Thread):
    """One connection that requests a page again after each response, or after a requested pause."""

    def __init__(self, web: Product, token: str, episode: str, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.web, self.token, self.path, self.stop = web, token, f"/episodes/{episode}/steps?limit=2000", stop
        self.said: Counter[str] = Counter()

    def run(self) -> None:
        with self.web.http(self.token) as http:
            while not self.stop.is_set():
                try:
                    with http.stream("GET", self.path) as answer:
                        for _ in answer.iter_raw():
                            if self.stop.is_set():
                                return
                except httpx.TransportError as error:
                    self.said[type(error).__name__] += 1
                    continue
                self.said[str(answer.status_code)] += 1
                self.stop.wait(float(answer.headers.get("Retry-After", 0)))


class Peak(threading.Thread):
    """The peak memory of a process, and whether it ended."""

    def __init__(self, process: psutil.Process) -> None:
        super().__init__(daemon=True)
        self.process, self.stop, self.most, self.ended = process, threading.Event(), 0, False

    def run(self) -> None:
        while not self.stop.wait(0.05):
            try:
                self.most = max(self.most, self.process.memory_info().rss)
            except psutil.NoSuchProcess:
                self.ended = True
                return


def filled(web: Product, token: str) -> str:
    """Return an episode of large steps."""
    with web.http(token) as http:
        episode = str(http.post("/episodes", json={"key": "big", "task": "read me"}).raise_for_status().json()["id"])
        for seq in range(1, STEPS + 1):
            step = {"seq": seq, "kind": "note", "content": "z" * STEP_BYTES}
            http.post(f"/episodes/{episode}/steps", json={"steps": [step]}).raise_for_status()
    return episode


def looked(browser: httpx.Client, seconds: float) -> list[float]:
    """Return milliseconds of each load of another project's home page."""
    took, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.monotonic()
        with contextlib.suppress(httpx.TransportError):  # the time waited for it counts
            browser.get("/").raise_for_status()
        took.append((time.monotonic() - began) * 1000)
        time.sleep(0.1)
    return took


def figures(took: list[float]) -> dict[str, float]:
    return {
        "loads": len(took),
        "median_ms": round(statistics.median(took), 1),
        "p95_ms": round(statistics.quantiles(took, n=20)[-1], 1),
        "max_ms": round(max(took), 1),
    }


def measure() -> dict[str, Any]:
    with product(AWMWEB_DEMO="0") as web:
        web.manage("shell", "-c", "from people.record.members import ensure_project; ensure_project('elsewhere')")
        token, stop = web.token("agent"), threading.Event()
        episode = filled(web, token)
        with httpx.Client(base_url=web.url, follow_redirects=True, timeout=20) as browser:
            browser.get(web.link("max", "admin", "elsewhere")).raise_for_status()
            process = psutil.Process(web.children()["web"])
            looked(browser, WARM_UP)
            before, alone = process.memory_info().rss, looked(browser, SECONDS / 3)
            readers = [Reader(web, token, episode, stop) for _ in range(READERS)]
            peak = Peak(process)
            peak.start()
            for reader in readers:
                reader.start()
            beside = looked(browser, SECONDS)
            stop.set()
            peak.stop.set()
        answers = sum((reader.said for reader in readers), Counter[str]())
    return {
        "name": "page_beside_readers",
        "value": figures(beside)["p95_ms"],
        "unit": "ms",
        "limit": AIM_MS,
        "ratio": round(figures(beside)["p95_ms"] / AIM_MS, 2),
        "conditions": {
            "readers": READERS,
            "episode_mb": STEPS * STEP_BYTES // 1_000_000,
            "alone": figures(alone),
            "beside": figures(beside),
            "answers": dict(answers),
            "web_mb_alone": round(before / 1e6),
            "web_mb_peak": round(peak.most / 1e6),
            "web_died": peak.ended,
            "aim_mb": AIM_MB,
        },
    }


if __name__ == "__main__":
    print(json.dumps(measure()))
