"""A real Chromium on the live page of a growing episode: the delay from the acknowledged append to the painted step.

Prints the 95th percentile of that delay beside the limit of the same run (one quiet response of the web process and two
frames of the screen), how many of the acknowledged steps the page painted, the page's JS heap and its DOM nodes at the
end beside those at the start, and for an episode of 10,000 steps the time to open it, beside its bare HTML, and the
slow end of the frames while it scrolls, beside a frame of the screen. Run as `python bench/live_page.py [SECONDS]`;
starts and stops a product of its own. Requires Debian's Chromium and the packages of requirements-dev.txt.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import httpx
from playwright.sync_api import CDPSession, Page, sync_playwright

from tests.browser.long_episode import long_episode
from tests.running import Product, product

RATE, BATCH, WARM_UP = 200, 10, 3
SECONDS = int(sys.argv[1]) if sys.argv[1:] else 25
LOOK_S = 60
AIM_MS, OPEN_AIM_MS = 250, 1500
LONG, SCROLLS, SCROLL_PX = 10_000, 150, 120
FRAME_MS = 1000 / 60
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
# a step counts as painted in the second frame after it came into the page: the first one draws it
WATCH = """
window.painted = new Map();
addEventListener("DOMContentLoaded", () => {
  const list = document.querySelector("ol[data-steps]");
  if (!list) return;
  new MutationObserver((changes) => {
    const seqs = changes.flatMap((change) => [...change.addedNodes])
      .filter((row) => row.matches?.("li.step[data-seq]:not(.blank)")).map((row) => Number(row.dataset.seq));
    if (seqs.length) requestAnimationFrame(() => requestAnimationFrame(() => {
      for (const seq of seqs) if (!window.painted.has(seq)) window.painted.set(seq, Date.now());
    }));
  }).observe(list, { childList: true });
});
"""


# one step of the wheel in every frame; answers the gaps between frames in milliseconds
SCROLL = """async ([times, px]) => {
  const pane = document.querySelector("[data-scroll]");
  const gaps = [];
  let last = 0;
  for (let n = 0; n <= times; n += 1) {
    const now = await new Promise(requestAnimationFrame);
    if (last) gaps.push(now - last);
    last = now;
    pane.scrollTop -= px;
  }
  return gaps;
}"""
FETCH = """async ([url, times]) => {
  const took = [];
  for (let n = 0; n < times; n += 1) {
    const start = performance.now();
    await (await fetch(url)).text();
    took.push(performance.now() - start);
  }
  return took;
}"""


class Writer(threading.Thread):
    """A thread that appends batches at a steady rate and notes each acknowledgment, in milliseconds since 1970."""

    def __init__(self, web: Product, token: str, episode: str, first: int) -> None:
        super().__init__(daemon=True)
        self.client, self.episode, self.next = web.http(token), episode, first
        self.acknowledged: dict[int, float] = {}

    def run(self) -> None:
        began = time.monotonic()
        for turn in range(RATE * (SECONDS + WARM_UP) // BATCH):
            time.sleep(max(0.0, began + turn * BATCH / RATE - time.monotonic()))
            self.append()

    def append(self) -> None:
        seqs = range(self.next, self.next + BATCH)
        steps = [step(seq) for seq in seqs]
        self.client.post(f"/episodes/{self.episode}/steps", json={"steps": steps}).raise_for_status()
        now = time.time() * 1000
        self.acknowledged |= dict.fromkeys(seqs, now)
        self.next = seqs.stop


def step(seq: int) -> dict[str, Any]:
    change = {"tickets": {"changed": [{"key": seq, "before": {"status": "new"}, "after": {"status": "open"}}]}}
    call = {"kind": "tool_call", "name": "update_ticket", "arguments": {"id": seq}, "result": {"id": seq, "ok": True}}
    return {"seq": seq, **call, **({"state_diff": change} if seq % 5 == 0 else {})}


def size(session: CDPSession) -> tuple[float, int]:
    """Return MB of JS heap and the number of live DOM nodes."""
    session.send("HeapProfiler.collectGarbage")
    used = float(session.send("Runtime.getHeapUsage")["usedSize"]) / 1e6
    return round(used, 2), int(session.send("Memory.getDOMCounters")["nodes"])


def drained(page: Page) -> dict[int, float]:
    """Return when each step was painted since the last call.

    The times are removed from the page, so that the bench does not grow it.
    """
    found = page.evaluate("() => { const all = [...window.painted]; window.painted.clear(); return all; }")
    return {int(seq): at for seq, at in found}


def fetched_ms(page: Page, url: str) -> float:
    """Return milliseconds of one fetch from the page while nothing else happens."""
    return statistics.median(page.evaluate(FETCH, [url, 15]))


def measure(web: Product) -> list[dict[str, object]]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(web.login)
        page.add_init_script(WATCH)
        measured = [*following(web, page), *reading(web, page)]
        browser.close()
    return measured


def following(web: Product, page: Page) -> list[dict[str, object]]:
    token = web.token("agent")
    started: httpx.Response = web.http(token).post("/episodes", json={"key": "bench", "task": "be watched"})
    episode = started.json()["id"]
    writer = Writer(web, token, episode, 1)
    writer.append()
    page.goto(f"{web.url}/episodes/{episode}/")
    page.wait_for_selector(f"#step-{BATCH}")
    limit = fetched_ms(page, "/static/mark.svg") + 2 * FRAME_MS
    session = page.context.new_cdp_session(page)
    writer.start()
    page.wait_for_timeout(WARM_UP * 1000)
    sizes, from_seq, painted = [size(session)], writer.next, drained(page)
    while writer.is_alive():
        page.wait_for_timeout(1000)
        painted = drained(page) | painted
        if writer.next - from_seq >= RATE * LOOK_S * len(sizes):
            sizes.append(size(session))
    last, until = writer.next - 1, time.monotonic() + 15
    while last not in painted and time.monotonic() < until:
        page.wait_for_timeout(100)
        painted = drained(page) | painted
    sizes.append(size(session))
    return lines(writer.acknowledged, painted, from_seq, limit, sizes)


def reading(web: Product, page: Page) -> list[dict[str, object]]:
    """Open a long episode at its end, and scroll away from there."""
    url = f"/episodes/{long_episode(web, LONG, 'long')}/"
    limit = fetched_ms(page, url)
    began = time.monotonic()
    page.goto(web.url + url)
    page.wait_for_selector(f"#step-{LONG}")
    opened = (time.monotonic() - began) * 1000
    page.wait_for_timeout(1000)
    gaps = sorted(page.evaluate(SCROLL, [SCROLLS, SCROLL_PX]))
    conditions = {
        "steps": LONG,
        "frames": SCROLLS,
        "px_a_frame": SCROLL_PX,
        "aim": round(FRAME_MS, 1),
        "worst": round(gaps[-1], 1),
    }
    return [
        line("live_page_open", opened, "ms", limit, {"steps": LONG, "aim": OPEN_AIM_MS}),
        line("live_page_scroll_frame_p95", gaps[int(len(gaps) * 0.95)], "ms", FRAME_MS, conditions),
    ]


def lines(
    acknowledged: dict[int, float],
    painted: dict[int, float],
    from_seq: int,
    limit: float,
    sizes: list[tuple[float, int]],
) -> list[dict[str, object]]:
    wanted = [seq for seq in acknowledged if seq > BATCH]
    missing = [seq for seq in wanted if seq not in painted]
    delays = sorted(
        max(0.0, painted[seq] - at) for seq, at in acknowledged.items() if seq >= from_seq and seq in painted
    )
    p95 = delays[int(len(delays) * 0.95)]
    conditions = {"events_per_s": RATE, "batch": BATCH, "seconds": SECONDS, "steps": len(acknowledged)}
    shown = len(wanted) - len(missing)
    p50 = round(statistics.median(delays), 1)
    flat = {**conditions, "aim": "flat from the first minute on"}
    return [
        line("live_page_painted_p95", p95, "ms", limit, {**conditions, "aim": AIM_MS, "p50": p50}),
        line(
            "live_page_steps_painted", shown, "steps", len(wanted), {**conditions, "aim": "all", "missing": missing[:5]}
        ),
        line("live_page_heap", sizes[-1][0], "MB", sizes[0][0], {**flat, "by_minute": [mb for mb, _ in sizes]}),
        line("live_page_nodes", sizes[-1][1], "nodes", sizes[0][1], {**flat, "by_minute": [n for _, n in sizes]}),
    ]


def line(name: str, value: float, unit: str, limit: float, conditions: dict[str, object]) -> dict[str, object]:
    measured = {"name": name, "value": round(value, 2), "unit": unit, "limit": round(limit, 2)}
    return {**measured, "ratio": round(value / limit, 3), "conditions": conditions}


if __name__ == "__main__":
    if not shutil.which("chromium"):
        sys.exit("bench/live_page.py needs a Chromium on the path")
    with product(AWMWEB_HEARTBEAT_S="3600") as running:
        for measured in measure(running):
            print(json.dumps(measured))
