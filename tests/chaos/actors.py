"""Who writes and who watches while processes are killed: threads that do what a loop and a page do, and count.

A writer repeats what was not acknowledged. A watcher reads frames, and asks over HTTP for what it missed: on a gap, on
a jump, when the episode is said to be further than it has seen, after a reconnect, and from time to time.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time

import httpx
from websockets.exceptions import InvalidHandshake, WebSocketException
from websockets.sync.client import connect

from people.models import new_id

PASSING = (429, 500, 502, 503)
SLOW_S = 3.0
NUDGE_S = 0.05


def content(seq, size):
    return f"step {seq} " + "x" * size


class Writer(threading.Thread):
    """Appends batch after batch to an episode of its own; `twice` sends each one again although it was acknowledged."""

    def __init__(self, house, token, *, batch=5, size=100, twice=False, pause=0.01):
        super().__init__(daemon=True)
        self.http = house.http(token)
        self.episode = (
            self.http.post("/episodes", json={"key": new_id(), "task": "chaos"}).raise_for_status().json()["id"]
        )
        self.batch, self.size, self.twice, self.pause = batch, size, twice, pause
        self.acknowledged = self.refused = self.cut_off = self.repeated = 0
        self.wrong = ""
        self.through = threading.Event()

    def run(self):
        while not self.through.is_set() and not self.wrong:
            first = self.acknowledged + 1
            steps = [
                {"seq": seq, "kind": "note", "content": content(seq, self.size)}
                for seq in range(first, first + self.batch)
            ]
            if self.send(steps) and self.twice:
                self.repeated += self.send(steps)
            time.sleep(self.pause)

    def send(self, steps):
        try:
            answer = self.http.post(f"/episodes/{self.episode}/steps", json={"steps": steps}, timeout=15)
        except httpx.HTTPError:
            self.cut_off += 1
            time.sleep(0.1)
            return False
        if answer.status_code == 200:
            self.acknowledged = max(self.acknowledged, answer.json()["acknowledged"])
            return True
        self.refused += 1
        if answer.status_code not in PASSING:
            self.wrong = answer.text
        elif answer.status_code in (429, 503) and "retry-after" not in answer.headers:
            self.wrong = f"{answer.status_code} without Retry-After"
        time.sleep(0.1)
        return False

    def stop(self):
        self.through.set()
        self.join(30)
        assert not self.is_alive()

    def stored(self, since, until):
        """The steps after `since`, up to `until` at least; the table may grow faster than it is read."""
        steps = []
        while since < until and (more := page(self.http, self.episode, since)):
            steps += more
            since = more[-1]["seq"]
        return steps


def page(http, episode, since):
    return http.get(f"/episodes/{episode}/steps?since={since}&limit=2000").raise_for_status().json()["steps"]


class Watcher(threading.Thread):
    """A page's way of following one episode. `stall(seconds)` leaves the socket unread for so long."""

    def __init__(self, house, token, episode):
        super().__init__(daemon=True)
        self.where = f"{house.websocket}/ws/episodes/{episode}"
        self.headers = {"Authorization": f"Bearer {token}"}
        self.http, self.episode = house.http(token), episode
        self.steps = {}
        self.last = self.gaps = self.jumps = self.reconnects = self.caught_up = self.frames = 0
        self.behind = False
        self.stalls = 0.0
        self.through = threading.Event()

    def run(self):
        while not self.through.is_set():
            try:
                with connect(f"{self.where}?since={self.last}", additional_headers=self.headers, max_queue=4) as socket:
                    self.behind = self.last > 0
                    self.follow(socket)
            except (OSError, WebSocketException, InvalidHandshake):
                self.reconnects += 1
                time.sleep(0.2)

    def follow(self, socket):
        looked = time.monotonic()
        while not self.through.is_set():
            if self.stalls:
                time.sleep(self.stalls)
                self.stalls = 0.0
            with contextlib.suppress(TimeoutError):
                self.take(json.loads(socket.recv(timeout=NUDGE_S)))
            if self.behind or time.monotonic() - looked > SLOW_S:
                looked = time.monotonic()
                self.catch_up()

    def take(self, frame):
        self.frames += 1
        if frame["type"] == "gap":
            self.gaps += 1
            self.behind = True
        elif frame["type"] == "episode":
            self.behind |= frame["last_seq"] > self.last
        elif frame["type"] == "steps" and frame["steps"]:
            if frame["steps"][0]["seq"] > self.last + 1:
                self.jumps += 1
                self.behind = True
            self.keep(frame["steps"])

    def keep(self, steps):
        for step in steps:
            self.steps[step["seq"]] = step["content"]
        while self.last + 1 in self.steps:
            self.last += 1

    def catch_up(self):
        """One page; it is behind until a page is empty."""
        try:
            missed = page(self.http, self.episode, self.last)
        except httpx.HTTPError:
            return  # still behind; the next round asks again
        self.behind = bool(missed)
        self.caught_up += len(missed)
        self.keep(missed)

    def stall(self, seconds):
        self.stalls = seconds

    def stop(self):
        self.through.set()
        self.join(30)
        assert not self.is_alive()
