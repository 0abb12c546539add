"""Review at scale: keys of a long replay, decisions by keyboard, verdicts, ingest beside search, the list, search lag.

One JSON object a line; beside each value a limit of the same run. Other work on the machine slows a value and its
limit: read the ratio and the load with it. Sections: replay, decisions, pass, submit, list, lag, ingest; run as
`python bench/review.py [section ...]`. `list` and `lag` first fill a project by SQL (`filling.py`), with
`BENCH_EPISODES` (100,000) and `BENCH_STEPS` (4,000,000), which takes 5 GB. Starts a product of its own; `replay` and
`decisions` need a Chromium.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from awmweb.embedded import urls  # noqa: E402
from bench import filling  # noqa: E402
from tests.running import Product, product, until  # noqa: E402

EPISODES = int(os.environ.get("BENCH_EPISODES", "100000"))
STEPS = int(os.environ.get("BENCH_STEPS", "4000000"))
SECTIONS = ("replay", "decisions", "pass", "submit", "list", "lag", "ingest")
BROWSED = {"replay", "decisions", "pass"}
LONG, PRESSED, DRAGGED = 10_000, 40, 15
ITEMS, VERDICTS, KEY_MS = 30, 120, 100
PASS, DIFFERS = 16, 4
"""Reviews of a pass, of which each fourth verdict differs from the verifier and asks why."""
RATE, BATCH, WRITERS = 1000, 50, 20
LOOKS, LAGS = 6, 8
ROUNDS, ROUND_S = 3, 5.0
FRAME_MS = 1000 / 60
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
AIMS: dict[str, object] = {
    "replay_key": "50 ms", "between_items": "100 ms", "decisions": "three keys each, the bound of Prodigy's pace",
    "pass_presses": "three, reasons included", "pass_between": "100 ms",
    "submit": "60 ms", "ingest": 0.9, "list": "300 ms", "search_lag": "5 s",
}  # fmt: skip
LONG_EPISODE = """
import json
from django.utils import timezone
from episodes.models import Episode, Step
from episodes.stored.strip import codes_of
from people.models import Project
def body(n):
    if n % 97 == 0:
        return {"seq": n, "kind": "ask", "question": f"Which of {n}?", "meta": {"closed": "timeout"}}
    call = {"seq": n, "kind": "tool_call", "name": "update_ticket", "arguments": {"id": n}, "result": "x" * (n % 300)}
    if n % 89 == 0:
        call["error"] = "no such ticket"
    if n % 5 == 0:
        call["state_diff"] = {"tickets": {"changed": [{"key": n, "before": {"a": 1}, "after": {"a": 2}}]}}
    return call
bodies, now = [body(n) for n in range(1, count + 1)], timezone.now()
one = Episode.objects.create(
    project=Project.objects.get(slug="demo"), key="long", body_digest="x", task="long", state="finished",
    started_at=now, ended_at=now, heartbeat_at=now, last_seq=len(bodies), strip=codes_of(bodies))
Step.objects.bulk_create(
    [Step(episode=one, seq=b["seq"], kind=b["kind"], body=json.dumps(b), at=now) for b in bodies], batch_size=2000)
print("MADE", json.dumps(one.pk))
"""
QUEUE = """
import json
from awmclient.schema import EpisodeStart, Finish, Outcome, StepBatch
from episodes.record import ending, recording
from episodes.models import Episode
from people.access import system, system_actor
from people.record.members import ensure_project
from reviews.record import assigning, schemas
ensure_project("{slug}", "{slug}")
actor = system_actor("{slug}")
options = [{{"value": "good", "label": "Good step"}}, {{"value": "wrong", "label": "Wrong argument"}}]
schemas.define(actor, "quality", "Quality", "single", options)
queue = assigning.create_queue(actor, "Bench")
for n in range({items}):
    start = EpisodeStart(key=f"item-{{n}}", task=f"Shut ticket {{n}} and say why.", scenario="desk_1", task_idx=n)
    one, _ = recording.start_episode(actor, start)
    call = {{"kind": "tool_call", "name": "update", "arguments": {{"id": n}}, "result": "x" * 200}}
    rows = [{{"seq": seq, **call}} for seq in range(1, 13)]
    recording.append_steps(actor, one.pk, StepBatch.model_validate({{"steps": rows}}).steps)
    ending.finish(actor, one.pk, Finish(stop_reason="done"))
    ending.record_outcome(
        system(actor.project), one.pk, Outcome(reward_type="others", reward=0.0, source="verifier"))
assigning.fill(actor, queue.pk, Episode.objects.filter(project=actor.project))
print("MADE", json.dumps(queue.pk))
"""
# a key counts as answered in the second frame after the row of its step has its content
KEYS = """
window.answers = [];
addEventListener("keydown", (event) => {
  const before = document.querySelector("li.step[aria-current]")?.dataset.seq;
  const look = () => {
    const row = document.querySelector("li.step[aria-current]");
    if (!row || row.dataset.seq === before || row.classList.contains("blank")) return requestAnimationFrame(look);
    return requestAnimationFrame(() => window.answers.push(performance.now() - event.timeStamp));
  };
  if (event.key !== "Shift") requestAnimationFrame(look);
}, true);
"""
SCRUB = """(value) => new Promise((done) => {
  const slider = document.querySelector("[data-slider]"), began = performance.now();
  slider.value = value;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  const look = () => {
    const row = document.querySelector("li.step[aria-current]");
    if (row?.dataset.seq !== String(value) || row.classList.contains("blank")) return requestAnimationFrame(look);
    return requestAnimationFrame(() => done(performance.now() - began));
  };
  requestAnimationFrame(look);
})"""
# an item is ready in the second frame after its page has replaced the previous one
READY = """
let sent = 0;
window.between = [];
addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !event.ctrlKey) return;
  sent = event.timeStamp;
  const before = document.getElementById("main");
  const look = () => {
    const main = document.getElementById("main");
    if (main === before || document.body.hasAttribute("aria-busy")) return requestAnimationFrame(look);
    return requestAnimationFrame(() => window.between.push(performance.now() - sent));
  };
  requestAnimationFrame(look);
}, true);
"""

# each key of a pass may be an item's last: the next item is ready in the second frame after its page is there
NEXT = """
window.passed = [];
addEventListener("keydown", (event) => {
  const shown = () => document.getElementById("main").dataset.review;
  const [before, sent] = [shown(), event.timeStamp];
  if (event.key === "Control" || event.key === "Shift") return;
  window.last = sent;
  const look = () => {
    if (window.last !== sent) return undefined; // another key of the same item
    if (shown() === before || document.body.hasAttribute("aria-busy")) return requestAnimationFrame(look);
    return requestAnimationFrame(() => window.passed.push(performance.now() - sent));
  };
  requestAnimationFrame(look);
}, true);
"""


def p95(values: list[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.95))]


def report(name: str, value: float, unit: str, limit: float, limit_is: str, **conditions: object) -> None:
    """Print one measured line. `ratio` is value to limit, whichever direction is good."""
    line = {"name": f"review.{name}", "value": round(value, 2), "unit": unit, "limit": round(limit, 2)}
    about = {"aim": AIMS[name], "limit_is": limit_is, **conditions}
    about |= {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    print(json.dumps({**line, "ratio": round(value / limit, 3), "conditions": about}), flush=True)


def cpu_s(web: Product) -> float:
    """Return the processor seconds of the product so far."""
    return sum(sum(one.cpu_times()[:2]) for one in web.processes())


def made(web: Product, code: str) -> str:
    out = web.manage("shell", "-c", code)
    return str(json.loads(next(line for line in out.splitlines() if line.startswith("MADE "))[5:]))


def browsed(web: Product, work: Callable[[Product, Page], None], script: str, link: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.add_init_script(script)
        page.goto(link)
        work(web, page)
        browser.close()


def counted(page: Page, name: str, count: int) -> list[float]:
    """Wait for this many answers in the page; the content policy allows no predicate there."""
    return until(lambda: (found := page.evaluate(f"window.{name}")) and len(found) >= count and found, 60)  # type: ignore[no-any-return]


def replay(web: Product, page: Page) -> None:
    """Press each key of a replay of 10,000 steps after the response to the one before, then drag the slider."""
    episode = made(web, f"count = {LONG}{LONG_EPISODE}")
    page.goto(f"{web.url}/episodes/{episode}/replay/?step=1000")
    page.wait_for_selector("li.step[aria-current]:not(.blank)")
    page.wait_for_timeout(1500)
    took: dict[str, list[float]] = {}
    near = [name for name in ("ArrowRight", "Shift+ArrowRight", "w", "q", "e") for _ in range(PRESSED)]
    for name in near + ["End", "Home"] * PRESSED:
        page.evaluate("window.answers.length = 0")
        page.keyboard.press(name)
        took.setdefault(name, []).append(counted(page, "answers", 1)[0])
        page.wait_for_timeout(150)
    every = [ms for all_ms in took.values() for ms in all_ms]
    dice = random.Random(1)
    took["scrub"] = [page.evaluate(SCRUB, dice.randint(1, LONG)) for _ in range(DRAGGED)]
    about = {"steps": LONG, "median_ms": {name: round(statistics.median(all_ms), 1) for name, all_ms in took.items()}}
    about["p95_ms"] = {name: round(p95(all_ms), 1) for name, all_ms in took.items()}
    about["worst_ms"] = {name: round(max(all_ms), 1) for name, all_ms in took.items()}
    report("replay_key", p95(every), "ms p95", 2 * FRAME_MS, "two frames of the screen", presses=len(every), **about)


def decisions(web: Product, page: Page) -> None:
    """Reject, name the failure, label a step and give the verdict, a key each 100 ms; then wait for the next item."""
    queue = made(web, QUEUE.format(slug="keyboard", items=ITEMS + 3))
    page.goto(web.link("rolf", "reviewer", "keyboard"))
    page.goto(f"{web.url}/reviews/queues/{queue}/")
    page.locator("[data-keyline] kbd").first.wait_for()
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-verdict-next]:not([hidden])")
    page.wait_for_timeout(2000)
    began, cpu = time.monotonic(), cpu_s(web)
    for item in range(ITEMS):
        for key in ("x", "2", "1", "Control+Enter"):
            page.keyboard.press(key)
            if "Enter" not in key:
                page.wait_for_timeout(KEY_MS)
        took = counted(page, "between", item + 1)
        page.wait_for_selector("body:not([data-fresh])")  # its keys are awake
    seconds, cpu = time.monotonic() - began, cpu_s(web) - cpu
    with web.http(web.token("review", "keyboard")) as http:
        left = len(http.get("/reviews", params={"queue": queue}).raise_for_status().json()["reviews"])
    page.goto(f"{web.url}/episodes/?verdict=reject&label=quality")
    both = int(page.locator("[data-part=head] h1").inner_text().split()[0])
    keys = {"keys": "x 2 1 Control+Enter", "key_ms": KEY_MS, "items": ITEMS, "with_verdict_and_label": both}
    keys["cpu_ms_each"] = round(cpu / ITEMS * 1000)
    limit = statistics.median(fetched(page, f"{web.url}/reviews/queues/{queue}/"))
    report(
        "between_items",
        statistics.median(took),
        "ms median",
        limit,
        "a GET of the queue's page",
        p95_ms=round(p95(took)),
        **keys,
        left=left,
    )
    bound = 3600 / (3 * KEY_MS / 1000)
    report("decisions", ITEMS / seconds * 3600, "per hour", bound, "the keys alone, no time between items", **keys)


def pass_of_sixteen(web: Product, page: Page) -> None:
    """Review 16 episodes by keys: reject with a failure type, or accept against the verifier and say why."""
    queue = made(web, QUEUE.format(slug="pass", items=PASS + 2))
    page.goto(web.link("rolf", "reviewer", "pass"))
    page.goto(f"{web.url}/reviews/queues/{queue}/")
    page.locator("[data-keyline] kbd").first.wait_for()
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-verdict-next]:not([hidden])")
    page.wait_for_timeout(2000)
    presses, began = 0, time.monotonic()
    for item in range(PASS):
        is_different = item % DIFFERS == DIFFERS - 1
        for key in ("a", "Control+Enter", "2") if is_different else ("x", "2", "Control+Enter"):
            page.keyboard.press(key)
            presses += 1
            if key == "Control+Enter" and is_different:
                page.wait_for_selector("[data-reason='2'] kbd")
            elif key in "ax" or (key == "2" and not is_different):
                page.wait_for_timeout(KEY_MS)
        took = counted(page, "passed", item + 1)
        page.wait_for_selector("body:not([data-fresh])")
    seconds = time.monotonic() - began
    limit = statistics.median(fetched(page, f"{web.url}/reviews/queues/{queue}/"))
    about = {"reviews": PASS, "reasons": PASS // DIFFERS, "seconds": round(seconds, 1), "key_ms": KEY_MS}
    report("pass_presses", presses / PASS, "presses a review", 3, "three keys", **about)
    about |= {"p95_ms": round(p95(took))}
    report("pass_between", statistics.median(took), "ms median", limit, "a GET of the queue's page", **about)


def fetched(page: Page, url: str) -> list[float]:
    script = (
        "async (url) => { const t = performance.now(); await (await fetch(url)).text(); return performance.now() - t; }"
    )
    return [page.evaluate(script, url) for _ in range(9)]


def submit(web: Product) -> None:
    """Give verdicts by the API, each after its claim; the limit is one commit of a step."""
    queue = made(web, QUEUE.format(slug="verdicts", items=VERDICTS))
    took, commits = [], []
    with (
        web.http(web.token("review", "verdicts")) as http,
        web.http(web.token("agent", "verdicts")) as agent,
    ):
        episode = agent.post("/episodes", json={"key": "commit", "task": "t"}).raise_for_status().json()["id"]
        cpu = cpu_s(web)
        waiting = http.get("/reviews", params={"queue": queue}).raise_for_status().json()["reviews"]
        for number, one in enumerate(waiting, 1):
            token = http.post(f"/reviews/{one['id']}/claim").raise_for_status().json()["lease_token"]
            said = {"lease_token": token, "verdict": "reject", "failure_type": "missed_step", "nonce": str(number)}
            took.append(timed(lambda one=one, said=said: http.post(f"/reviews/{one['id']}/verdict", json=said)))
            step = {"steps": [{"seq": number, "kind": "note", "content": "one commit"}]}
            commits.append(timed(lambda step=step: agent.post(f"/episodes/{episode}/steps", json=step)))
    cpu_ms = round((cpu_s(web) - cpu) / len(took) * 1000)
    report(
        "submit",
        p95(took),
        "ms p95",
        p95(commits),
        "an append of one step, p95",
        verdicts=len(took),
        cpu_ms_each_with_claim_and_append=cpu_ms,
        median_ms=round(statistics.median(took), 1),
    )


def timed(call: Callable[[], httpx.Response]) -> float:
    began = time.perf_counter()
    call().raise_for_status()
    return (time.perf_counter() - began) * 1000


class Load:
    """Processes of writers: `rate` steps a second in all, or as many as possible."""

    def __init__(self, web: Product, rate: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.stop, self.count = context.Event(), context.Value("q", 0)
        asked = (web.url, web.token("agent"), rate, self.stop, self.count)
        self.process = context.Process(target=_write, args=asked, daemon=True)

    def __enter__(self) -> Load:
        self.process.start()
        until(lambda: self.count.value, 60)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.process.join(20)


def _write(url: str, token: str, rate: int, stop: Any, count: Any) -> None:
    asked = (url, token, rate / WRITERS, stop, count, filling.sentences(2))
    threads = [threading.Thread(target=_writer, args=asked) for _ in range(WRITERS)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


def _writer(url: str, token: str, rate: float, stop: Any, count: Any, words: list[str]) -> None:
    """Append batches to an episode of its own; a rate of 0 is as fast as possible."""
    dice, seq = random.Random(threading.get_ident()), 1
    with httpx.Client(base_url=f"{url}/api/v1", headers={"Authorization": f"Bearer {token}"}, timeout=60) as http:
        name = f"load-{dice.random()}"
        episode = http.post("/episodes", json={"key": name, "task": name}).raise_for_status().json()["id"]
        began, first = time.monotonic() + dice.random() * BATCH / (rate or 1000), seq
        while not stop.is_set():
            steps = [{"seq": seq + n, "kind": "note", "content": dice.choice(words)} for n in range(BATCH)]
            http.post(f"/episodes/{episode}/steps", json={"steps": steps}).raise_for_status()
            seq += BATCH
            with count.get_lock():
                count.value += BATCH
            if rate:
                stop.wait(max(0.0, began + (seq - first) / rate - time.monotonic()))


def ingest(web: Product) -> None:
    """Append as fast as possible while steps are indexed for search, and while the worker is paused, in turns."""
    worker = psutil.Process(web.children()["worker"])
    speeds: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(2 * ROUNDS):
        searched = turn % 2 == 0
        for one in [] if searched else [worker, *worker.children(recursive=True)]:
            one.suspend()
        try:
            with Load(web, 0) as load:
                before = load.count.value
                time.sleep(ROUND_S)
                speeds[searched].append((load.count.value - before) / ROUND_S)
        finally:
            for one in [worker, *worker.children(recursive=True)]:
                one.resume()
    value, limit = (statistics.median(speeds[searched]) for searched in (True, False))
    about = {
        "writers": WRITERS,
        "batch": BATCH,
        "rounds": {str(key): [round(v) for v in vs] for key, vs in speeds.items()},
    }
    report("ingest", value, "steps/s", limit, "the same without reading for search: its worker is suspended", **about)


def filled(web: Product) -> int:
    """Fill the project of the list; returns the MB of its database."""
    with web.http(web.token("agent")) as http:
        run = http.post("/runs", json={"name": "seed", "key": "seed"}).raise_for_status().json()["id"]
        start = {"key": "seed", "task": "seed", "run": run}
        one = http.post("/episodes", json=start).raise_for_status().json()["id"]
        said = {"seq": 1, "kind": "message", "role": "assistant", "content": "seed"}
        http.post(f"/episodes/{one}/steps", json={"steps": [said]}).raise_for_status()
        end = {"stop_reason": "done", "outcome": {"reward_type": "complete", "reward": 1.0}}
        http.post(f"/episodes/{one}/finish", json=end).raise_for_status()
        until(lambda: "seed" in http.get("/episodes", params={"q": "seed", "error": "none"}).text, 60)  # has its facts
    return filling.fill(urls(web.var).database, one, EPISODES, STEPS // EPISODES)


def asked_for() -> dict[str, list[str]]:
    """Return the addresses of each kind of request, none of them twice."""
    dice = random.Random(3)
    some = [dice.randint(1, EPISODES) for _ in range(LOOKS)]
    return {
        "newest": [f"length={n}-" for n in range(LOOKS)],
        "filter": [f"scenario=scenario_{n % 200}" for n in some] + [f"tool=get_{n % 23}&outcome=others" for n in some],
        "filters": [f"arm=off&expert=plain&error=any&run=run-{1 + n % 40}&scenario=scenario_{n % 200}" for n in some],
        "search_rare": [f'q="{filling.RARE.format(n * (STEPS // EPISODES))}"' for n in some],
        "search_word": [f"q={word}" for word in dice.sample(" ".join(filling.sentences()).split(), LOOKS)],
        "search_2_percent": [f"q={filling.MIDDLE}&length={n}-" for n in range(2)],
        "search_50_percent": [f"q={filling.COMMON}&length={n}-" for n in range(LOOKS)],
    }


def listed(web: Product, size_mb: int) -> None:
    """Request pages of the list while 1,000 steps a second arrive; the limit is a page without a list."""
    took: dict[str, list[float]] = {}
    with (
        httpx.Client(base_url=web.url, follow_redirects=True, timeout=120) as browser,
        Load(web, RATE) as load,
    ):
        browser.get(web.link("edo", "admin"))
        time.sleep(3)
        began, before = time.monotonic(), load.count.value
        plain = [timed(lambda: browser.get("/reviews/mentions/")) for _ in range(20)]
        for kind, addresses in asked_for().items():
            took[kind] = [timed(lambda one=one: browser.get(f"/episodes/?{one}")) for one in addresses]
        rate = (load.count.value - before) / (time.monotonic() - began)
    every = [ms for all_ms in took.values() for ms in all_ms]
    about = {kind: [round(statistics.median(all_ms)), round(p95(all_ms))] for kind, all_ms in took.items()}
    report(
        "list", p95(every), "ms p95", p95(plain), "a page without a list, p95", episodes=EPISODES, steps=STEPS,
        database_mb=size_mb, requests=len(every), steps_per_s_meanwhile=round(rate), median_and_p95_by_kind=about,
        filled_by="SQL, with the expressions of indexing.py",
    )  # fmt: skip


def lag(web: Product) -> None:
    """Append a step with a unique word and search until it is found, while 1,000 steps a second arrive."""
    took = []
    with web.http(web.token("agent")) as http, Load(web, RATE) as load:
        time.sleep(5)
        before, began = load.count.value, time.monotonic()
        episode = http.post("/episodes", json={"key": "lag", "task": "t"}).raise_for_status().json()["id"]
        for number in range(1, LAGS + 1):
            word = f"needle{number}of{random.getrandbits(40)}"
            step = {"seq": number, "kind": "note", "content": word}
            http.post(f"/episodes/{episode}/steps", json={"steps": [step]}).raise_for_status()
            at = time.monotonic()
            until(lambda word=word: http.get("/episodes", params={"q": word}).json()["items"], 120, 0.2)
            took.append(time.monotonic() - at)
        rate = (load.count.value - before) / (time.monotonic() - began)
    report(
        "search_lag",
        max(took),
        "s worst",
        2.0,
        "the worker's beat",
        looks=LAGS,
        steps_per_s=round(rate),
        median_s=round(statistics.median(took), 2),
    )


def main() -> None:
    chosen = [name for name in SECTIONS if not sys.argv[1:] or name in sys.argv[1:]]
    if BROWSED & set(chosen) and not shutil.which("chromium"):
        sys.exit("bench/review.py needs a Chromium on the path")
    with product(AWMWEB_HEARTBEAT_S="3600") as web:
        if "replay" in chosen:
            browsed(web, replay, KEYS, web.login)
        if "decisions" in chosen:
            browsed(web, decisions, READY, web.url)
        if "pass" in chosen:
            browsed(web, pass_of_sixteen, NEXT, web.url)
        if "submit" in chosen:
            submit(web)
        if {"list", "lag"} & set(chosen):
            size_mb = filled(web)
            if "list" in chosen:
                listed(web, size_mb)
            if "lag" in chosen:
                lag(web)
        if "ingest" in chosen:  # last: it leaves more steps than are read in minutes
            ingest(web)


if __name__ == "__main__":
    main()
