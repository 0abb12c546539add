"""The delay until a question is visible to a person, and until an answer reaches the agent.

Two values at p95: from sending an ask until its text is in a queue page that is open in Chromium, and from sending an
answer until the waiting poll of the loop has it. The limit of both is one call of the same API that commits once, in
the same run. Run as `python bench/asks.py`.
"""

from __future__ import annotations

import json
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.running import Product, product

AIM_MS = 200
ROUNDS = 40
WATCH = """() => {
  window.seen = {};
  const look = () => {
    for (const word of document.body.innerText.match(/bench-question-\\d+/g) ?? []) window.seen[word] ??= Date.now();
  };
  new MutationObserver(look).observe(document.body, {childList: true, subtree: true, characterData: true});
}"""


def p95(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]


def commit_once(agent: httpx.Client, episode: str) -> list[float]:
    return [_timed(lambda: agent.post(f"/episodes/{episode}/heartbeat")) for _ in range(ROUNDS)]


def _timed(call: Any) -> float:
    began = time.perf_counter()
    call().raise_for_status()
    return (time.perf_counter() - began) * 1000


def start(agent: httpx.Client, name: str) -> str:
    answer = agent.post("/episodes", json={"key": name, "task": "bench", "expert": "plain"})
    return str(answer.raise_for_status().json()["id"])


def visible(web: Product, agent: httpx.Client) -> list[float]:
    """Return milliseconds from sending an ask until it is in the open queue page."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium")
    if path is None:
        sys.exit("bench/asks.py needs a Chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.goto(web.link("edo", "expert"))
        page.goto(web.url + "/queue/")
        page.wait_for_timeout(1000)
        page.evaluate(WATCH)
        times = [_until_seen(page, agent, number) for number in range(ROUNDS)]
        browser.close()
    return times


def _until_seen(page: Any, agent: httpx.Client, number: int) -> float:
    episode, word = start(agent, f"seen-{number}"), f"bench-question-{number}"
    began = time.time() * 1000
    body = {"key": "q", "episode": episode, "seq": 1, "question": word, "deadline_s": 60}
    ask = agent.post("/asks", json=body).raise_for_status().json()["id"]
    page.wait_for_function("word => window.seen[word]", arg=word, timeout=10_000)
    took = float(page.evaluate("word => window.seen[word]", word)) - began
    agent.post(f"/asks/{ask}/cancel")
    return took


def delivered(agent: httpx.Client, expert: httpx.Client) -> list[float]:
    """Return milliseconds from sending an answer until the waiting poll of the loop has it."""
    return [_until_delivered(agent, expert, number) for number in range(ROUNDS)]


def _until_delivered(agent: httpx.Client, expert: httpx.Client, number: int) -> float:
    body = {"key": "q", "episode": start(agent, f"told-{number}"), "seq": 1, "question": "?", "deadline_s": 60}
    ask = agent.post("/asks", json=body).raise_for_status().json()["id"]
    got: list[float] = []

    def wait() -> None:
        if agent.get(f"/asks/{ask}?wait=20").json()["status"] == "answered":
            got.append(time.perf_counter())

    waiter = threading.Thread(target=wait)
    waiter.start()
    lease = expert.post(f"/asks/{ask}/claim").raise_for_status().json()
    time.sleep(0.1)  # the poll must be waiting when the answer comes
    began = time.perf_counter()
    answer = {"lease_token": lease["lease_token"], "text": "that one", "nonce": "n"}
    expert.post(f"/assignments/{lease['assignment']}/answer", json=answer).raise_for_status()
    waiter.join(25)
    return (got[0] - began) * 1000


def line(name: str, values: list[float], limit: float) -> str:
    conditions = {"aim": AIM_MS, "rounds": len(values), "median": round(sorted(values)[len(values) // 2], 1)}
    value = p95(values)
    figures = {"name": name, "value": round(value, 1), "unit": "ms p95", "limit": round(limit, 1)}
    return json.dumps({**figures, "ratio": round(value / limit, 2), "conditions": conditions})


def main() -> None:
    with product() as web:
        with web.http(web.token("agent")) as agent, web.http(web.token("expert")) as expert:
            limit = p95(commit_once(agent, start(agent, "limit")))
            print(line("ask_posted_to_visible", visible(web, agent), limit))
            print(line("advice_sent_to_delivered", delivered(agent, expert), limit))


if __name__ == "__main__":
    main()
