"""One session of a coding agent as an episode, written by many short processes.

Owns the file in which these processes keep the episode, its last step, steps that could not be sent and open asks.
Leaves waiting for an answer to `running.py`, which holds no lock. Each change is made under the file's lock, so that
steps keep their order. What the dashboard could not take goes with the next event.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

from awmclient.hooks.desk import DeskAway, Refusal, folder, write_private
from awmclient.hooks.shown import bounded, machine, repository_of
from awmclient.hooks.tools import ClaudeCode, Event, PromptDecision

if TYPE_CHECKING:
    from awmclient.hooks.calls import DeskCalls

KEPT_STEPS = 500
"""Steps that wait for the dashboard; later ones are counted in a note."""
STEP_MAX = 1_000_000
PAUSE_S = 30
"""For how long an unreachable dashboard is not tried again by events that only record."""
WITHDRAWN = {
    "": "The permission prompt was answered in the terminal.",
    "unreachable": "The dashboard was unreachable. The permission prompt stayed in the terminal.",
    "stopped": "The hook was stopped. The permission prompt stayed in the terminal.",
}
"""The note of a withdrawn ask, by what its hook heard."""


def digest_of(event: Event) -> str:
    """Return what a call is recognized by: its tool and arguments. Codex adds a description to those of a prompt."""
    arguments = {name: value for name, value in event.arguments.items() if name != "description"}
    words = json.dumps([event.name, arguments], sort_keys=True)
    return hashlib.sha256(words.encode()).hexdigest()[:32]


class HookedSession:
    """The episode of a session, locked while the `with` block runs."""

    def __init__(self, tool: ClaudeCode, event: Event, desk: DeskCalls) -> None:
        self.tool, self.event, self.desk = tool, event, desk
        name = hashlib.sha256(f"{tool.name}\n{event.session}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
        self._file = folder("XDG_STATE_HOME", ".local/state") / "hooks" / f"{name}.json"
        self._lock: IO[str] | None = None
        self.state: dict[str, Any] = {}

    def __enter__(self) -> Self:
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = open(self._file.with_suffix(".lock"), "a")  # noqa: SIM115
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            self.state = json.loads(self._file.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError, RecursionError):
            self.state = {"key": f"hook:{self.tool.name}:{self.event.session}:{time.time_ns()}"[:200], "pending": []}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, DeskAway):
            self.state["away_until"] = time.time() + PAUSE_S
        if self.state:
            write_private(self._file, json.dumps(self.state))
        else:
            # the lock's file stays: another process can wait for it, and a later one would lock a new file
            self._file.unlink(missing_ok=True)
        if self._lock is not None:
            self._lock.close()

    def add(self, step: Mapping[str, Any]) -> None:
        """Keep a step. `flush` sends it."""
        if len(self.state["pending"]) >= KEPT_STEPS:
            self.state["left_out"] = self.state.get("left_out", 0) + 1
            return
        step = bounded(dict(step))
        if len(json.dumps(step)) > STEP_MAX:
            step = {"kind": "note", "content": "A step was too large to be recorded."}
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self.state["pending"].append({**step, "at": now})

    def flush(self) -> None:
        """Send what is kept. Raises `DeskAway`; what could not be sent stays."""
        self._confirm()
        if left_out := self.state.pop("left_out", 0):
            content = f"{left_out} steps were left out while the dashboard was unreachable."
            self.state["pending"].append({"kind": "note", "content": content})
        pending = self.state["pending"]
        if not pending:
            return
        episode = self._episode()
        for again in (False, True):
            first = self.state["last"] + 1
            steps = [{**step, "seq": number} for number, step in enumerate(pending, first)]
            try:
                self.desk.call("POST", f"/episodes/{episode}/steps", {"steps": steps})
                self.state["last"] += len(pending)
                break
            except Refusal as error:
                if again or error.code not in ("seq_gap", "step_conflict"):
                    # No later try can succeed, and later steps must not wait for it.
                    self.state["pending"] = []
                    raise
                self._catch_up()
        self.state["pending"] = []

    def _confirm(self) -> None:
        """Send the receipts of answers that earlier events of this session have read."""
        while receipts := self.state.get("receipts"):
            with suppress(Refusal):  # no later try can succeed
                self.desk.call("POST", f"/asks/{receipts[0]}/consumed", {})
            receipts.pop(0)

    def _catch_up(self) -> None:
        self.state["last"] = self.desk.call("GET", f"/episodes/{self.state['episode']}")["last_seq"]

    def _episode(self) -> str:
        """Return the ID of the episode; open it, and the run of its repository, if there is none."""
        if "episode" not in self.state:
            if "opened" not in self.state:
                self.state["opened"] = self._opening()
            run, body, note = self.state["opened"]
            body["run"] = self.desk.call("POST", "/runs", run)["id"]
            self.state["episode"] = self.desk.call("POST", "/episodes", body)["id"]
            self.state["last"] = 0
            self.state["pending"].insert(0, note)
        return str(self.state["episode"])

    def _opening(self) -> list[dict[str, Any]]:
        """Return the bodies of run and episode, and the first step. The same are sent again after a lost answer."""
        event, tool = self.event, self.tool
        top, branch = repository_of(event.cwd)
        name = f"{tool.label} in {top or event.cwd or 'a folder'}"[:200]
        place = json.dumps([tool.name, top or event.cwd, machine()])
        key = hashlib.sha256(place.encode()).hexdigest()[:32]
        task = event.text.strip()[:20_000] if event.kind == "prompt" else ""
        body = {
            "key": self.state["key"], "task": task or f"A session of {tool.label}", "environment": tool.name,
            "expert": "plain", "policy": {"kind": "coding-agent", "name": tool.name},
        }  # fmt: skip
        meta = {"cwd": event.cwd, "repository": top, "branch": branch, "machine": machine(), "session": event.session}
        note = {"kind": "note", "content": name, "meta": {**meta, "transcript": event.transcript}}
        return [{"name": name, "key": f"hook:{key}"}, body, note]

    def open_ask(self, fields: Mapping[str, Any]) -> str:
        """Open an ask, and return its ID. Raises `DeskAway` and `Refusal`."""
        self._episode()
        self.flush()
        key = os.urandom(16).hex()
        for again in (False, True):
            body = {**fields, "key": key, "episode": self.state["episode"], "seq": self.state["last"] + 1}
            try:
                ask = str(self.desk.call("POST", "/asks", body)["id"])
                break
            except DeskAway:  # the answer can be lost, and no one would wait for this ask
                if again:
                    raise
            except Refusal as error:
                if again or error.code not in ("seq_gap", "step_conflict"):
                    raise
                self._catch_up()
        self.state["last"] += 1
        self.state.setdefault("asks", {})[ask] = digest_of(self.event)
        return ask

    def decided(self, ask: str, decision: PromptDecision | None, *, is_answered: bool = True) -> None:
        """Note what became of an ask: the step of its call will say so. An answer gets its receipt with the next
        event, since the tool waits for this one."""
        self.state.get("asks", {}).pop(ask, None)
        if is_answered:
            self.state.setdefault("receipts", []).append(ask)
        if decision is None:
            return
        mark = {"verdict": decision.verdict, "by": decision.by}
        if decision.reason:
            mark["reason"] = decision.reason[:2000]
        if decision.verdict == "edit":
            mark["proposed"] = self.event.arguments  # type: ignore[assignment]
        made = decision.arguments if decision.verdict == "edit" else self.event.arguments
        if decision.verdict == "reject":
            step = {"kind": "tool_call", "name": self.event.name or "tool", "arguments": made, "approval": mark}
            self.add({**step, "error": f"This call was not made. {decision.reason}".strip()})
        else:
            ran = Event("call", self.event.session, name=self.event.name, arguments=made)
            self.state.setdefault("decided", {})[digest_of(ran)] = mark

    def called(self) -> None:
        """Record a call that was made. An ask for it that is still open was answered in the terminal."""
        event, digest = self.event, digest_of(self.event)
        step = {"kind": "tool_call", "name": event.name or "tool", "arguments": event.arguments, "result": event.result}
        if event.error:
            step = {**step, "result": None, "error": event.error}
        if event.call_id:
            step["call_id"] = event.call_id[:200]
        mark = self.state.get("decided", {}).pop(digest, None)
        self.add({**step, "approval": mark} if mark else step)
        if not mark:
            self.withdraw([ask for ask, of in self.state.get("asks", {}).items() if of == digest][:1])

    def withdraw(self, asks: list[str], heard: str = "") -> None:
        """Cancel asks at the desk: the terminal answered, or the hook stopped waiting. Raises `DeskAway`."""
        for ask in asks:
            reason = "?heard=unreachable" if heard == "unreachable" else ""
            try:
                status = self.desk.call("POST", f"/asks/{ask}/cancel{reason}", {}, wait_s=5).get("status")
            except Refusal:
                status = None
            self.state["asks"].pop(ask)
            if status == "cancelled":  # otherwise the desk was first, or its deadline
                self.add({"kind": "note", "content": WITHDRAWN[heard]})

    def withdraw_all(self) -> None:
        self.withdraw([*self.state.get("asks", {})])

    @property
    def is_pausing(self) -> bool:
        """Whether the dashboard was unreachable a moment ago."""
        return bool(self.state.get("away_until", 0) > time.time())

    def finish(self) -> None:
        """End the episode; the file goes with it."""
        if "episode" in self.state:
            answer = self.state.get("answer")
            body = {"stop_reason": "done", **({"final_answer": answer} if answer else {})}
            try:
                self.desk.call("POST", f"/episodes/{self.state['episode']}/finish", body)
            except Refusal as error:
                if error.code != "episode_ended":
                    raise
        self.state = {}
