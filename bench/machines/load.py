"""A bounded load on a cluster, by programs that write down what was acknowledged: loops of `awmclient` that append and
ask, a scripted expert that answers, runs of scripted policies, and exports. `Load.problems` compares afterwards.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

import httpx

from awmclient.client import HttpDashboard
from bench.machines.cluster import Cluster

BATCH, BATCHES, PAUSE_S = 5, 16, 0.25
ASK_EVERY, DEADLINE_S = 8, 120
RETRY_S = 180.0
PASSING = (429, 500, 502, 503, 504)
RUN_EVERY_S, EXPORT_EVERY_S = 20.0, 40.0
PLAN = {
    "arms": [{"name": "off", "expert": "off"}, {"name": "plain", "expert": "plain"}], "policy": "script:demo",
    "tasks": {"scenarios": ["helpdesk_1", "library_1"]}, "parallel": 6, "ask_deadline_s": DEADLINE_S,
}  # fmt: skip
LIVE = ("queued", "running", "waiting", "parked")


def content(key: str, seq: int) -> str:
    return f"{key} step {seq} " + "x" * 200


@dataclass
class Loop:
    """One episode of an external loop, and what of it was acknowledged."""

    id: str
    key: str
    last: int = 0
    asks: dict[int, dict] = field(default_factory=dict)
    ended: bool = False


class Load:
    """All programs of the load, each in a thread."""

    def __init__(self, cluster: Cluster, loops: int = 6) -> None:
        self.cluster = cluster
        self.agent, self.expert = cluster.token("agent"), cluster.token("expert")
        self.launch, self.export = cluster.token("launch"), cluster.token("export")
        self.loops: list[Loop] = []
        self.answered: dict[str, str] = {}
        self.runs: list[str] = []
        self.exports: list[str] = []
        self.faults: list[str] = []
        self.seen: Counter[int] = Counter()
        self.steps = 0
        self._stop, self._over, self._lock = threading.Event(), threading.Event(), threading.Lock()
        work = [(self._loop, number) for number in range(loops)]
        work += [(self._answer, number) for number in range(2)] + [(self._run, 0), (self._export, 0)]
        self.threads = [
            threading.Thread(target=self._safely, args=(what, number), name=f"{what.__name__} {number}", daemon=True)
            for what, number in work
        ]

    def start(self) -> None:
        for one in self.threads:
            one.start()

    def stop(self) -> None:
        """End the load: loops finish their episodes, then the experts answer until no episode is live."""
        self._stop.set()
        experts = [one for one in self.threads if one.name.startswith("_answer")]
        for one in self.threads:
            if one not in experts:
                one.join(240)
        self._settle()
        self._over.set()
        for one in experts:
            one.join(240)
        self.faults += [f"{one.name} does not end" for one in self.threads if one.is_alive()]

    def _safely(self, what, number: int) -> None:
        try:
            what(number)
        except Exception as error:  # noqa: BLE001  what a program of the load could not do is a finding
            self.faults.append(f"{what.__name__.strip('_')} {number}: {type(error).__name__}: {error}")

    # external loops, by the client of the product

    def _loop(self, number: int) -> None:
        asyncio.run(self._episodes(number))

    async def _episodes(self, number: int) -> None:
        async with HttpDashboard(self.cluster.url, self.agent, retry_s=RETRY_S) as dash:
            while not self._stop.is_set():
                key = f"loop-{number}-{random.getrandbits(40):x}"
                episode = await dash.start_episode("Follow the script.", key=key, expert="plain")
                loop = Loop(episode.id, key)
                self.loops.append(loop)
                for batch in range(1, BATCHES + 1):
                    first = loop.last + 1
                    steps = [
                        {"kind": "note", "content": content(key, seq), "seq": seq}
                        for seq in range(first, first + BATCH)
                    ]
                    loop.last = await episode.append(steps)
                    self.steps += BATCH
                    if batch % ASK_EVERY == 0:
                        advice = await episode.ask(f"{key} asks {batch}?", deadline_s=DEADLINE_S)
                        loop.last += 1
                        loop.asks[loop.last] = advice.model_dump(include={"text", "source"})
                    await asyncio.sleep(PAUSE_S)
                await episode.finish(stop_reason="done")
                loop.ended = True

    # a scripted expert

    def _answer(self, number: int) -> None:
        with self.cluster.http(self.expert) as http:
            while not self._over.is_set():
                listed = self._heard(http, "GET", "/asks?status=open").json().get("asks", [])
                random.shuffle(listed)
                for one in listed[:4]:
                    self._answer_one(http, one["id"], f"answer {number}/{random.getrandbits(40):x}")
                time.sleep(0.2)

    def _answer_one(self, http: httpx.Client, ask: str, text: str) -> None:
        claim = self._heard(http, "POST", f"/asks/{ask}/claim", {})
        if claim.status_code != 200:
            return
        lease = claim.json()
        body = {"lease_token": lease["lease_token"], "text": text, "nonce": text}
        done = self._heard(http, "POST", f"/assignments/{lease['assignment']}/answer", body)
        if done.status_code == 200:
            with self._lock:
                self.answered[ask] = text

    def _heard(self, http: httpx.Client, method: str, path: str, body: object = None) -> httpx.Response:
        """Send the same again until there is an answer; at most as long as the client does."""
        end = time.monotonic() + RETRY_S
        while True:
            try:
                answer = http.request(method, path, json=body)
            except httpx.HTTPError:
                answer = None
            if answer is not None and answer.status_code not in PASSING:
                return answer
            if time.monotonic() > end:
                raise TimeoutError(f"{method} {path}: {answer.status_code if answer is not None else 'no answer'}")
            time.sleep(0.2)

    # runs of scripted policies, and exports into the store

    def _run(self, _number: int) -> None:
        with self.cluster.http(self.launch) as http:
            while not self._stop.is_set():
                key = f"run-{random.getrandbits(40):x}"
                made = self._heard(http, "POST", "/runs", {"name": key, "key": key, "plan": {"name": key, **PLAN}})
                if made.status_code not in (200, 201):
                    raise RuntimeError(f"launch: {made.status_code} {made.text[:300]}")
                self.runs.append(made.json()["id"])
                self._stop.wait(RUN_EVERY_S)

    def _export(self, _number: int) -> None:
        with self.cluster.http(self.export) as http:
            while not self._stop.is_set():
                made = self._heard(http, "POST", "/exports", {"format": "raw"})
                if made.status_code != 202:
                    raise RuntimeError(f"export: {made.status_code} {made.text[:300]}")
                self.exports.append(made.json()["id"])
                self._stop.wait(EXPORT_EVERY_S)

    # afterwards

    def _settle(self, seconds: float = 300) -> None:
        """Wait until no episode of the load is live, and no export is being built."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and (self._live() or self._unbuilt() or self._open_runs()):
            time.sleep(2)

    def _listed(self, path: str) -> list[dict]:
        found, cursor = [], ""
        with self.cluster.http(self.export) as http:
            while True:
                page = self._heard(http, "GET", f"{path}{'&' if '?' in path else '?'}limit=200{cursor}").json()
                found += page["items"]
                if not page.get("next"):
                    return found
                cursor = f"&cursor={page['next']}"

    def episodes(self) -> list[dict]:
        return self._listed("/episodes")

    def _live(self) -> list[dict]:
        return [one for one in self.episodes() if one["state"] in LIVE]

    def _open_runs(self) -> list[str]:
        """Return runs that are not finished: each of their episodes needs its outcome."""
        with self.cluster.http(self.launch) as http:
            said = {run: self._heard(http, "GET", f"/runs/{run}").json() for run in self.runs}
        return [run for run, one in said.items() if one.get("state") != "finished"]

    def _unbuilt(self) -> list[str]:
        return [one for one, state in self.export_states().items() if state not in ("done", "failed", "cancelled")]

    def export_states(self) -> dict[str, str]:
        with self.cluster.http(self.export) as http:
            return {one: self._heard(http, "GET", f"/exports/{one}").json()["state"] for one in self.exports}

    def problems(self) -> list[str]:
        """Return what of the acknowledged work is missing, twice or different, and what has not ended."""
        found = list(self.faults)
        with self.cluster.http(self.agent) as http:
            for loop in self.loops:
                found += self._against(http, loop)
            for ask, text in self.answered.items():
                view = self._heard(http, "GET", f"/asks/{ask}").json()
                if (view.get("advice") or {}).get("text") != text:
                    found.append(f"answer of ask {ask} is {view.get('status')} {view.get('advice')}")
        for one in self.episodes():
            if one["state"] in LIVE:
                found.append(f"episode {one['id']} is still {one['state']}")
            elif one.get("fault"):
                found.append(f"episode {one['id']} has fault {one['fault']}")
        found += [f"run {run} is not finished: an outcome is missing" for run in self._open_runs()]
        for export, state in self.export_states().items():
            if state != "done":
                found.append(f"export {export} is {state}")
            elif problem := self._unread(export):
                found.append(f"export {export}: {problem}")
        return found

    def _unread(self, export: str) -> str:
        """Return what is wrong with the file of a dataset in the store; "" if it has as many rows as it says."""
        with self.cluster.http(self.export) as http:
            said = self._heard(http, "GET", f"/exports/{export}").json()
            file = self._heard(http, "GET", f"/exports/{export}/download")
        rows = len(file.text.splitlines()) if file.status_code == 200 else -1
        wanted = said["counts"]["rows"]
        return "" if rows == wanted else f"{rows} of {wanted} rows, status {file.status_code}"

    def _against(self, http: httpx.Client, loop: Loop) -> list[str]:
        steps: list[dict] = []
        while True:
            since = steps[-1]["seq"] if steps else 0
            more = self._heard(http, "GET", f"/episodes/{loop.id}/steps?since={since}&limit=1000").json()["steps"]
            if not more:
                break
            steps += more
        found = []
        if [step["seq"] for step in steps] != list(range(1, len(steps) + 1)) or len(steps) < loop.last:
            found.append(f"loop {loop.key}: {len(steps)} steps, {loop.last} acknowledged")
        for step in steps[: loop.last]:
            advice = loop.asks.get(step["seq"])
            if advice is not None and (step.get("advice") or {}).get("text") != advice["text"]:
                found.append(f"loop {loop.key}: the advice of step {step['seq']} differs")
            if step["kind"] == "note" and step["content"] != content(loop.key, step["seq"]):
                found.append(f"loop {loop.key}: step {step['seq']} differs")
        return found
