"""Prompts of a coding agent at the desk: from a prompt to a phone's page, and from the press there to the agent.

Installs the hook as a person does, and runs the installed command for each prompt as Claude Code does. Prints at p95:
a start of the hook that asks nothing; from the start of a hook until its ask is drawn on an open queue of 390 px; and
from the press of *Send* on the ask's page until the hook has printed the decision and ended. The limits are of the same
run: a bare start of the hook's interpreter, one that makes a single call, two calls alone, and a push to a socket.

Where the time from the press goes, in a run of median 65 ms with a load of 3 on 2 cores: 6 ms until the web process has
the request, 24 until it begins to write (session, rights, form, checks), 7 for the transaction, 2 until the waiting
call is awake, 6 to 22 for its read beside the page's own next requests, 3 in the hook, 2 to 4 for its end. At the 95th
percentile all of these grow alike: browser, page and hook share the cores.
Run as `python bench/hook.py [PROMPTS]`; requires a Chromium.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path
from statistics import median
from typing import Any

import httpx
from playwright.sync_api import Error, Page, sync_playwright
from websockets.sync.client import connect

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.asks import commit_once, p95, start
from tests.commands import ROOT
from tests.running import Product, product, until

PROMPTS = int(sys.argv[1]) if sys.argv[1:] else 40
BARE = 20
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
# an ask counts as drawn in the second frame after its row came: the first one draws it
WATCH = """
window.drawn = new Map();
addEventListener("DOMContentLoaded", () => {
  const keys = () => [...document.querySelectorAll("[data-key]")].map((row) => row.dataset.key);
  const before = new Set(keys());
  new MutationObserver(() => {
    const fresh = keys().filter((key) => !before.has(key));
    for (const key of fresh) before.add(key);
    if (fresh.length) requestAnimationFrame(() => requestAnimationFrame(() => {
      for (const key of fresh) window.drawn.set(key, Date.now());
    }));
  }).observe(document.body, { childList: true, subtree: true });
});
addEventListener("click", (event) => {
  if (event.target.closest("[data-answer] button[type=submit]")) sessionStorage.setItem("pressed", Date.now());
}, true);
"""
CALL = """
import http.client, json, sys
url, path, token = sys.argv[1:]
http = http.client.HTTPConnection(url.removeprefix("http://"))
http.request("POST", path, b"{}", {"Authorization": f"Bearer {token}", "Content-Type": "application/json"})
answer = http.getresponse()
json.loads(answer.read())
sys.exit(answer.status != 200)
"""


class Hook(threading.Thread):
    """One process of the hook, started by a shell with an event on stdin. Times are seconds since 1970."""

    def __init__(self, command: str, environment: dict[str, str], event: dict[str, Any]) -> None:
        super().__init__()
        self.command, self.environment, self.event = command, environment, event
        self.printed, self.began, self.ended = "", 0.0, 0.0

    def run(self) -> None:
        self.began = time.time()
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": self.environment}
        with subprocess.Popen(["/bin/sh", "-c", self.command], text=True, **pipes) as process:
            self.printed, _ = process.communicate(json.dumps(self.event))
        self.ended = time.time()


class Session:
    """A session of Claude Code: the hooks of its settings, run one after the other."""

    def __init__(self, web: Product, home: Path) -> None:
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(home), "CLAUDE_CONFIG_DIR": str(home)}
        install = [sys.executable, "-m", "awmclient", "hook", "install", "claude-code", "--url", web.url]
        settings = {**self.environment, "AWMWEB_TOKEN": web.token("agent")}
        subprocess.run(install, cwd=ROOT, env=settings, check=True, stdout=subprocess.DEVNULL)
        hooks = json.loads((home / "settings.json").read_text(encoding="utf-8"))["hooks"]
        self.commands = {name: groups[0]["hooks"][0]["command"] for name, groups in hooks.items()}
        self.about = {"session_id": uuid.uuid4().hex, "cwd": str(home), "permission_mode": "default"}

    def started(self, name: str, **more: Any) -> Hook:
        event = {**self.about, "hook_event_name": name, **more}
        hook = Hook(self.commands.get(name, self.commands["Stop"]), self.environment, event)
        hook.start()
        return hook

    def ran(self, name: str, **more: Any) -> Hook:
        hook = self.started(name, **more)
        hook.join()
        return hook


def prompted(web: Product, session: Session, page: Page, number: int) -> tuple[float, float]:
    """Return milliseconds from a prompt to its row, and from the press to the decision at the agent."""
    call = {"tool_name": "Bash", "tool_input": {"command": f"make part{number}", "description": f"Make part {number}"}}
    page.goto(f"{web.url}/queue/")
    page.wait_for_timeout(1000)
    hook = session.started("PermissionRequest", **call)
    (ask, drawn) = until(lambda: page.evaluate("() => [...window.drawn]"), 20, 0.02)[0]
    page.goto(f"{web.url}/asks/{ask}/")
    page.get_by_role("button", name="Claim and answer").tap()
    page.locator(".callcard [data-verdict=approve]").tap()
    page.wait_for_timeout(300)  # a person looks before the press
    page.locator("[data-answer] button.main[type=submit]").tap()
    hook.join(20)
    decision = json.loads(hook.printed)["hookSpecificOutput"]["decision"]
    assert decision == {"behavior": "allow"}, decision
    pressed = until(lambda: pressed_at(page), 20)
    page.wait_for_url("**/queue/")  # the page goes on by itself, often after the tool
    session.ran("PostToolUse", tool_use_id=f"toolu_{number}", tool_response={"stdout": "done"}, **call)
    return drawn - hook.began * 1000, hook.ended * 1000 - pressed


def pressed_at(page: Page) -> float:
    """Return when *Send* was pressed; 0 while the page goes on to the next one."""
    try:
        return float(page.evaluate("sessionStorage.getItem('pressed')"))
    except Error:
        return 0.0


def timed(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, env={"PATH": os.environ["PATH"]})
    return (time.perf_counter() - began) * 1000


def pushes(web: Product, token: str, agent: httpx.Client, episode: str) -> list[float]:
    """Return milliseconds from sending a step until a socket has it."""
    took = []
    with connect(
        f"{web.websocket}/ws/episodes/{episode}", additional_headers={"Authorization": f"Bearer {token}"}
    ) as at:
        for seq in range(1, BARE + 1):
            began = time.perf_counter()
            steps = [{"seq": seq, "kind": "note", "content": f"step {seq}"}]
            agent.post(f"/episodes/{episode}/steps", json={"steps": steps}).raise_for_status()
            while seq not in [one["seq"] for one in json.loads(at.recv(timeout=20)).get("steps", [])]:
                """Heartbeats and the state of the episode come, too."""
            took.append((time.perf_counter() - began) * 1000)
    return took


def line(name: str, took: list[float], aim_ms: int, limit: float, limit_is: str, **more: object) -> None:
    conditions = {
        "aim_ms": aim_ms, "median_ms": round(median(took), 1), "worst_ms": round(max(took), 1), "runs": len(took),
        "limit_is": limit_is, **more, "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip
    value = p95(took)
    fields = {"name": f"hook.{name}", "value": round(value, 1), "unit": "ms p95", "limit": round(limit, 1)}
    print(json.dumps({**fields, "ratio": round(value / limit, 2), "conditions": conditions}), flush=True)


def measure(web: Product, home: Path, chromium: str) -> None:
    session, token = Session(web, home), web.token("agent")
    with web.http(token) as agent:
        episode = start(agent, "limit")
        commits = commit_once(agent, episode)
        call = [sys.executable, "-I", "-c", CALL, web.url, f"/api/v1/episodes/{episode}/heartbeat", token]
        bare = [timed([sys.executable, "-I", "-c", "pass"]) for _ in range(BARE)]
        calls = [timed(call) for _ in range(BARE)]
        pushed = pushes(web, token, agent, episode)
    starts = [session.ran("Other") for _ in range(BARE)]
    line("start", [(one.ended - one.began) * 1000 for one in starts], 100, p95(bare), "a start of its interpreter")
    session.ran("UserPromptSubmit", prompt="Make all parts")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(**PHONE)
        page.add_init_script(WATCH)
        page.goto(web.link("edo", "expert"))
        took = [prompted(web, session, page, number) for number in range(1, PROMPTS + 1)]
        browser.close()
    session.ran("SessionEnd")
    to_page, to_tool = ([one[place] for one in took] for place in (0, 1))
    one_call = "a start of the interpreter with one call, and a push to a socket"
    line("prompt_to_page", to_page, 300, p95(calls) + p95(pushed), one_call, page_px=390)
    two_calls = "two calls, for the answer and its delivery, and a push to a socket"
    line("answer_to_tool", to_tool, 100, 2 * p95(commits) + p95(pushed), two_calls, page_px=390, undo_s=0)


def main() -> None:
    chromium = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    if chromium is None:
        sys.exit("bench/hook.py needs a Chromium")
    with product(world=False, AWMWEB_HEARTBEAT_S="3600") as web, tempfile.TemporaryDirectory() as home:
        measure(web, Path(home), chromium)


if __name__ == "__main__":
    main()
