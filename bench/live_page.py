"""A real Chromium on the live page while an episode grows: how long from the acknowledged append to the painted step.

Prints three lines: the 95th percentile of that delay beside the limit of the same run (one quiet look-up of a step's
picture and two frames of the screen), how many of the acknowledged steps the page painted, and the page's JS heap at
the end beside the one at the start. Run as `python bench/live_page.py`; starts and stops a
product of its own. Needs Debian's Chromium and the packages of requirements-dev.txt.
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

from tests.running import Product, product

RATE, BATCH, SECONDS, WARM_UP = 200, 10, 25, 3
AIM_MS = 250
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


class Writer(threading.Thread):
    """Appends batches at a steady rate and notes when each step was acknowledged, in milliseconds since 1970."""

    def __init__(self, house: Product, token: str, episode: str, first: int) -> None:
        super().__init__(daemon=True)
        self.client, self.episode, self.next = house.http(token), episode, first
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


def heap(session: CDPSession) -> float:
    session.send("HeapProfiler.collectGarbage")
    return float(session.send("Runtime.getHeapUsage")["usedSize"]) / 1e6


def quiet_limit(page: Page, url: str) -> float:
    """Milliseconds of a look-up of one step on a quiet product, and two frames."""
    code = """async url => {
      const took = [];
      for (let n = 0; n < 15; n += 1) {
        const start = performance.now();
        await (await fetch(url)).text();
        took.push(performance.now() - start);
      }
      return took;
    }"""
    return statistics.median(page.evaluate(code, url)) + 2 * FRAME_MS


def measure(house: Product) -> list[dict[str, object]]:
    token = house.token("agent")
    started: httpx.Response = house.http(token).post("/episodes", json={"key": "bench", "task": "be watched"})
    episode = started.json()["id"]
    writer = Writer(house, token, episode, 1)
    writer.append()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(house.login)
        page.add_init_script(WATCH)
        page.goto(f"{house.url}/episodes/{episode}/")
        page.wait_for_selector(f"#step-{BATCH}")
        limit = quiet_limit(page, f"/episodes/{episode}/steps.html?since=0&limit=1&parts=0")
        session = page.context.new_cdp_session(page)
        writer.start()
        page.wait_for_timeout(WARM_UP * 1000)
        heap_start, from_seq = heap(session), writer.next
        writer.join(SECONDS + 30)
        last = writer.next - 1
        page.wait_for_function("last => window.painted.has(last)", arg=last, timeout=15_000)
        heap_end = heap(session)
        painted = {int(seq): at for seq, at in page.evaluate("[...window.painted]")}
        rows = page.locator("ol[data-steps] > li.step[data-seq]").count()
        browser.close()
    return lines(writer.acknowledged, painted, from_seq, limit, (heap_start, heap_end), rows)


def lines(
    acknowledged: dict[int, float],
    painted: dict[int, float],
    from_seq: int,
    limit: float,
    heaps: tuple[float, float],
    rows: int,
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
    return [
        line("live_page_painted_p95", p95, "ms", limit, {**conditions, "aim": AIM_MS, "p50": p50}),
        line("live_page_steps_painted", shown, "steps", len(wanted), {**conditions, "missing": missing[:5]}),
        line("live_page_heap", heaps[1], "MB", heaps[0], {**conditions, "rows_on_the_page": rows}),
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
