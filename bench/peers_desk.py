"""The desk beside its nearest peer, awaithumans 0.1.12 with SQLite, in one run on one machine.

*cycles*: asks that are opened, claimed and answered a second by 8 clients without keep-alive; the peer's create and
complete, which has no claim, is the limit, and the aim 1.5 times it. *typed*: the same with an approval; the limit is
our own question. Both rates of a ratio are measured in turns, as whatever comes later finds fuller tables and other
neighbors. *claims*: of 8 claimers of one ask, how many got it. *killed*: answers that were acknowledged and are missing
after kill -9 of the server. *deadline*: answers within 50 ms of a deadline of which person and agent heard differently.
The peer's shortest deadline is a minute, so *deadline* looks at ours alone.

The peer is installed from the package registry into a folder of its own, or found there: `--peer DIR`.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import http.client
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.desk import line
from tests.running import Product, product, until

PEER = "awaithumans[server]==0.1.12"
CLIENTS, SECONDS, TURNS, CLAIMED, KILLED_AFTER, NEAR, STEPS = 8, 10.0, 3, 40, 60, 30, 40
FIT = {"type": "object", "properties": {"approved": {"type": "boolean"}}, "required": ["approved"]}
CALLS = [{"id": "1", "name": "send_reply", "arguments": {"ticket": 4127, "template": "refund"}}]

Call = Callable[..., tuple[int, Any]]


def caller(base: str, token: str) -> Call:
    """Return a function that sends one request on a connection of its own and returns status and body."""
    parts = urlsplit(base)

    def call(method: str, path: str, body: Any = None) -> tuple[int, Any]:
        line_ = http.client.HTTPConnection(str(parts.hostname), parts.port or 80, timeout=60)
        try:
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Connection": "close"}
            line_.request(method, f"{parts.path}{path}", json.dumps(body) if body is not None else None, headers)
            answer = line_.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text else None
        finally:
            line_.close()

    return call


# --- both desks behind the same three questions ----------------------------------------------------------------------


class Ours:
    """awmweb as `make run` starts it."""

    def __init__(self, running: Product) -> None:
        self.running = running
        base = f"{running.url}/api/v1"
        self.agent, self.expert = caller(base, running.token("agent")), caller(base, running.token("expert"))
        self.lock, self.episodes = threading.Lock(), dict[int, tuple[str, int]]()
        self.fields: dict[str, Any] = {}
        self.said: dict[str, Any] = {"text": "Into 4127."}

    def opened(self, name: str, deadline_s: int = 600) -> str:
        episode, seq = self.step()
        about = {"key": name, "episode": episode, "seq": seq, "deadline_s": deadline_s}
        asked = {**about, "question": f"Which one, {name}?", **self.fields}
        return str(self.must(self.agent("POST", "/asks", asked))["id"])

    def step(self) -> tuple[str, int]:
        """Return the episode of this thread and its next step: one loop asks again and again."""
        with self.lock:
            known = self.episodes.get(threading.get_ident())
            if known is None or known[1] >= STEPS:
                body = {"key": secrets.token_hex(8), "task": secrets.token_hex(8), "expert": "plain"}
                known = (self.must(self.agent("POST", "/episodes", body))["id"], 0)
            self.episodes[threading.get_ident()] = (known[0], known[1] + 1)
            return self.episodes[threading.get_ident()]

    def claim(self, ask: str) -> tuple[int, Any]:
        return self.expert("POST", f"/asks/{ask}/claim", {})

    def answer(self, lease: dict[str, Any]) -> int:
        body = {"lease_token": lease["lease_token"], "nonce": secrets.token_hex(8), **self.said}
        return self.expert("POST", f"/assignments/{lease['assignment']}/answer", body)[0]

    def cycle(self, name: str) -> bool:
        status, lease = self.claim(self.opened(name))
        return status == 200 and self.answer(lease) == 200

    def is_answered(self, ask: str) -> bool:
        return bool(self.must(self.agent("GET", f"/asks/{ask}"))["status"] == "answered")

    def kill(self) -> None:
        self.running.kill("web")
        until(self.running.healthy, 120)

    @staticmethod
    def must(answer: tuple[int, Any]) -> Any:
        assert answer[0] in (200, 201), answer
        return answer[1]


class Theirs:
    """The peer with SQLite, as its page says for one machine."""

    def __init__(self, folder: Path, python: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        token = secrets.token_hex(16)
        self.command = [str(python.parent / "awaithumans"), "serve", "--host", "127.0.0.1", "--port", str(port)]
        key = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
        own = {"ADMIN_API_TOKEN": token, "PAYLOAD_KEY": key, "DB_PATH": str(folder / "peer.db"), "LOG_LEVEL": "WARNING"}
        self.environment = {"PATH": os.environ["PATH"], **{f"AWAITHUMANS_{name}": text for name, text in own.items()}}
        self.folder, self.call = folder, caller(f"http://127.0.0.1:{port}/api", token)
        self.start()

    def start(self) -> None:
        with (self.folder / "peer.log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command, env=self.environment, cwd=self.folder, stdout=log, stderr=log, start_new_session=True
            )
        until(self.is_up, 120)

    def is_up(self) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.call("GET", "/health")[0] == 200
        return False

    def opened(self, name: str) -> str:
        body = {"task": name, "payload": {"ticket": 4127}, "payload_schema": {}, "response_schema": FIT}
        status, made = self.call("POST", "/tasks", {**body, "timeout_seconds": 600, "idempotency_key": name})
        assert status == 201, made
        return str(made["id"])

    def complete(self, task: str) -> int:
        return self.call("POST", f"/tasks/{task}/complete", {"response": {"approved": True}})[0]

    def cycle(self, name: str) -> bool:
        return self.complete(self.opened(name)) == 200

    def is_answered(self, task: str) -> bool:
        return bool(self.call("GET", f"/tasks/{task}")[1]["status"] == "completed")

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.start()

    def stop(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextlib.contextmanager
def peer(home: Path | None) -> Iterator[Theirs]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = home or Path(scratch) / "peer"
        python = folder / "bin" / "python"
        if not python.exists():
            venv.create(folder, with_pip=True)
            subprocess.run([python, "-m", "pip", "install", "-q", PEER], check=True)
        there = Theirs(Path(scratch), python)
        try:
            yield there
        finally:
            there.stop()


# --- what is measured ------------------------------------------------------------------------------------------------


def rate(desk: Ours | Theirs, name: str) -> float:
    """Return cycles a second of `CLIENTS` clients."""
    done, end = [0] * CLIENTS, time.monotonic() + SECONDS

    def work(number: int) -> None:
        while time.monotonic() < end:
            assert desk.cycle(f"{name} {number} {done[number]}")
            done[number] += 1

    began = time.monotonic()
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(work, range(CLIENTS)))
    return sum(done) / (time.monotonic() - began)


def in_turns(first: Ours | Theirs, second: Ours) -> tuple[float, float]:
    """Return the mean rates of both, measured by turns."""
    found = [
        (rate(first, f"first {secrets.token_hex(4)}"), rate(second, f"second {secrets.token_hex(4)}"))
        for _ in range(TURNS)
    ]
    return sum(one for one, _ in found) / TURNS, sum(other for _, other in found) / TURNS


def doubled(take: Callable[[str], bool], opened: Callable[[str], str]) -> int:
    """Return how many of `CLAIMED` asks more than one of `CLIENTS` took that pressed at the same moment."""
    found = 0
    for number in range(CLAIMED):
        ask, gate = opened(f"claimed {number}"), threading.Barrier(CLIENTS)

        def press(_: int, ask: str = ask, gate: threading.Barrier = gate) -> bool:
            gate.wait()
            return take(ask)

        with ThreadPoolExecutor(CLIENTS) as pool:
            found += sum(pool.map(press, range(CLIENTS))) > 1
    return found


def lost(desk: Ours | Theirs, answer: Callable[[str], int]) -> tuple[int, int]:
    """Return how many answers were acknowledged before a kill -9 in their midst, and how many of them are missing."""
    asks = [desk.opened(f"killed {number}") for number in range(KILLED_AFTER * 2)]
    acknowledged: list[str] = []

    def work(ask: str) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException, json.JSONDecodeError, KeyError):
            if answer(ask) == 200:
                acknowledged.append(ask)

    with ThreadPoolExecutor(CLIENTS) as pool:
        futures = [pool.submit(work, ask) for ask in asks]
        until(lambda: len(acknowledged) >= KILLED_AFTER // 2, 120, every=0.005)
        desk.kill()
        for one in futures:
            one.result()
    return len(acknowledged), sum(not desk.is_answered(ask) for ask in acknowledged)


def split(desk: Ours) -> int:
    """Return how many of `NEAR` answers within 50 ms of the deadline person and agent heard differently."""

    def near(number: int) -> bool:
        began = time.monotonic()
        ask = desk.opened(f"near {number}", deadline_s=3)
        _, lease = desk.claim(ask)
        offset = (number / (NEAR - 1) - 0.5) / 10
        time.sleep(max(0.0, began + 3 + offset - time.monotonic()))
        sent = desk.answer(lease) == 200
        return sent != desk.is_answered(ask)

    with ThreadPoolExecutor(4) as pool:
        return sum(pool.map(near, range(NEAR)))


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--peer", type=Path, help="folder of the peer's environment")
    given.add_argument("--web-processes", default="1", help="AWMWEB_WEB_PROCESSES of our desk")
    said = given.parse_args()
    about = {
        "clients": CLIENTS,
        "keep_alive": False,
        "peer": PEER,
        "seconds": SECONDS,
        "turns": TURNS,
        "web_processes": int(said.web_processes),
    }
    ours_is = {"AWMWEB_DEMO": "0", "AWMWEB_HEARTBEAT_S": "3600", "AWMWEB_WEB_PROCESSES": said.web_processes}
    with peer(said.peer) as theirs, product(**ours_is) as running:
        ours = Ours(running)
        for one in (theirs, ours):
            assert one.cycle("warm")
        limit, questions = in_turns(theirs, ours)
        line("desk.cycles", questions, "cycles/s", limit, aim=1.5, **about)
        typed = Ours(running)
        typed.fields = {"kind": "approval", "calls": CALLS, "on_timeout": "reject"}
        typed.said = {"text": "", "decision": {"calls": [{"id": "1", "verdict": "approve"}]}}
        plain, decided = in_turns(ours, typed)
        line("desk.typed", decided, "cycles/s", plain, aim=0.95, **about)

        def ours_answered(ask: str) -> int:
            return ours.answer(ours.claim(ask)[1])

        double = doubled(lambda ask: ours.claim(ask)[0] == 200, ours.opened)
        line("desk.doubled", double, "asks", None, asks=CLAIMED, claimers=CLIENTS)
        line(
            "peer.doubled", doubled(lambda one: theirs.complete(one) == 200, theirs.opened), "tasks", None, asks=CLAIMED
        )
        for name, (sure, missing) in (("desk", lost(ours, ours_answered)), ("peer", lost(theirs, theirs.complete))):
            line(f"{name}.lost", missing, "answers", None, acknowledged=sure)
        line("desk.split", split(ours), "answers", None, answers=NEAR, within_ms=50)


if __name__ == "__main__":
    main()
