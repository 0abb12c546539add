"""Pauses of a framework's agent, decided at the desk: what an adapter hands in, and what it gets.

Owns how long a pause waits and when its decision counts as taken. Leaves the framework to the adapter, and what a pause
is asked as to the dashboard. Nothing is kept here: a process that starts again names the same thread, run and pause,
and gets the same ask. A decision is confirmed after the framework has acted on it; until then, and afterwards, it can
be read again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import uuid
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from awmclient.client.dashboard import HttpDashboard
from awmclient.client.sync import SyncHttpDashboard
from awmclient.errors import Unreachable
from awmclient.nouns.ask_kinds import ask_kind
from awmclient.nouns.asks import QUESTION_MAX
from awmclient.nouns.interrupts import (
    PAUSE_S,
    Interrupt,
    InterruptOutcome,
    InterruptsView,
    OtherOutcome,
    ResumeEntry,
    RunInterrupts,
)
from awmclient.nouns.typed import TIMEOUT_REASON
from awmclient.record.observations import plain

log = logging.getLogger(__name__)
T = TypeVar("T")
POLL_S = 25
RETRY_S = 1.0
OURS = "awmweb"
EDITED = "A person changed the arguments of this call before it was made. They are now: "


@dataclass(frozen=True)
class Pause:
    """One pause of a framework. `id` is the framework's own. `typed` is a typed ask, as `ask` takes it."""

    id: str
    message: str
    typed: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_call(
        cls,
        call_id: str,
        name: str,
        arguments: Mapping[str, Any],
        *,
        schema: Any = None,
        message: str = "",
        can_edit: bool = True,
    ) -> Pause:
        """Return the pause of a call that waits for approval. If it cannot be edited, the desk refuses an edit."""
        # an ID can be longer than an ask holds, and no page shows it
        call: dict[str, Any] = {"id": short(call_id), "name": name[:200], "arguments": plain(dict(arguments))}
        if not can_edit:
            call["schema"] = {"const": call["arguments"]}
        elif isinstance(schema, Mapping) and schema:
            call["schema"] = plain(dict(schema))
        return cls(call_id, message or f"May the agent call {name}?", {"kind": "approval", "calls": [call]})

    def interrupt(self) -> Interrupt:
        metadata = {OURS: dict(self.typed)} if self.typed else None
        words = self.message.strip()[:QUESTION_MAX] or "The agent paused."
        reason = "tool_call" if ask_kind(self.typed).is_approval else "input_required"
        return Interrupt(id=short(self.id), reason=reason, message=words, metadata=metadata)


@dataclass(frozen=True)
class PauseDecision:
    """What was decided on one pause. `entry` is AG-UI's form of it."""

    pause: Pause
    entry: ResumeEntry

    @property
    def about(self) -> Mapping[str, Any]:
        return (self.entry.metadata or {}).get(OURS) or {}

    @property
    def by(self) -> str:
        """Who decided: person, model, standing or timeout."""
        return str(self.about.get("by") or "timeout")

    @property
    def decision(self) -> Mapping[str, Any] | None:
        """The typed decision; None if there is none, which approves nothing."""
        return self.about.get("decision")

    @property
    def verdict(self) -> str:
        """approve, edit or reject; without a decision *reject*."""
        return str(self._call.get("verdict", "reject"))

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments that run."""
        return dict(self._call.get("arguments") or {})

    @property
    def reason(self) -> str:
        """Why a call was rejected, in words for the agent."""
        words = self._call.get("reason") or self.about.get("text")
        if words:
            return str(words)
        return TIMEOUT_REASON if self.decision is None else "A person rejected this call."

    @property
    def answer(self) -> Any:
        """What a pause gets that is no call: the answer's words, or the decision; or the typed absence of both."""
        if self.entry.status == "resolved":
            return self.entry.payload
        return {"status": "no_advice", "reason": self.about.get("reason") or self.about.get("status") or "deadline"}

    @property
    def edited(self) -> str:
        """What the agent reads of an edit, so that it does not make its first call again; empty if there is none."""
        return EDITED + json.dumps(self.arguments, ensure_ascii=False) if self.verdict == "edit" else ""

    @property
    def _call(self) -> Mapping[str, Any]:
        calls = (self.decision or {}).get("calls") or [{}]
        return calls[0] if isinstance(calls[0], Mapping) else {}


class Pauses:
    """The pauses of an agent's threads at the desk of a project. `run` is the name of the run that collects them.

    A pause waits `deadline_s` for its decision, a day if it is not said; then nothing is approved. `client` is how the
    queue names the framework.
    """

    client = "AG-UI"

    def __init__(
        self, dash: HttpDashboard | SyncHttpDashboard, run: str, *, deadline_s: int = PAUSE_S, task: str | None = None
    ) -> None:
        self._portal = dash.portal if isinstance(dash, SyncHttpDashboard) else None
        self._dash = dash.alone if isinstance(dash, SyncHttpDashboard) else dash
        self._name, self.deadline_s, self._task = run, deadline_s, task
        self._run = ""

    async def decide(self, thread: str, run: str, pauses: Sequence[Pause]) -> dict[str, PauseDecision]:
        """Return the decision on each pause of a run, by the framework's ID. Waits until all are decided.

        Waits for an unavailable dashboard until the deadline, then raises `Unreachable`; a later call goes on.
        """
        if not pauses:
            return {}
        return await self._here(self._decide(thread, run, pauses))

    async def settle(self, thread: str) -> None:
        """Confirm every decision that the thread has read, because its run has ended. Also after a restart."""
        done = self._paused(thread, "", outcome=OtherOutcome(type="success"))
        await self._here(self._asked(done, 0))

    async def taken(self, thread: str, decided: Mapping[str, PauseDecision]) -> None:
        """Confirm decisions after the framework has acted on them. The same again changes nothing."""
        if decided:
            await self._here(self._taken(thread, decided))

    async def _decide(self, thread: str, run: str, pauses: Sequence[Pause]) -> dict[str, PauseDecision]:
        outcome = InterruptOutcome(type="interrupt", interrupts=[one.interrupt() for one in pauses])
        by_id = {one.interrupt_id: one for one in await self._wait(self._paused(thread, run, outcome=outcome))}
        return {one.id: PauseDecision(one, by_id[short(one.id)]) for one in pauses}

    async def wait(self, paused: RunInterrupts) -> list[ResumeEntry]:
        """Return the entries of a run's interrupts once all are decided."""
        return await self._here(self._wait(paused))

    async def _wait(self, paused: RunInterrupts) -> list[ResumeEntry]:
        end = asyncio.get_running_loop().time() + self.deadline_s
        while True:
            view = await self._asked(paused, end)
            if view.resume is not None:
                return view.resume
            await self._until_closed([one.ask for one in view.interrupts if one.ask and one.resume is None])

    def _paused(self, thread: str, run: str, **more: Any) -> RunInterrupts:
        return RunInterrupts(
            thread_id=short(thread), run_id=short(run or "run"), task=self._task or f"Thread {thread}"[:200], **more,
            deadline_s=self.deadline_s, client=self.client,
        )  # fmt: skip

    async def _asked(self, paused: RunInterrupts, end: float) -> InterruptsView:
        while True:
            try:
                return await self._dash.interrupts(await self._run_id(), paused)
            except Unreachable as error:
                if asyncio.get_running_loop().time() >= end:
                    raise
                log.info("waiting for the dashboard: %s", error)
                await asyncio.sleep(RETRY_S)

    async def _until_closed(self, asks: Sequence[str]) -> None:
        """Wait until one of these asks closes, at most one poll. The next call of `interrupts` sees what came of it."""
        polls = [asyncio.ensure_future(self._dash.view_ask(ask, POLL_S)) for ask in asks]
        try:
            await asyncio.wait(polls, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for poll in polls:
                poll.cancel()
            for came in await asyncio.gather(*polls, return_exceptions=True):
                if isinstance(came, Unreachable):
                    log.info("waiting for the dashboard: %s", came)
                    await asyncio.sleep(RETRY_S)
                elif isinstance(came, Exception):
                    raise came

    async def _taken(self, thread: str, decided: Mapping[str, PauseDecision]) -> None:
        entries = [one.entry for one in decided.values()]
        await self._asked(self._paused(thread, "", resume=entries), 0)

    async def _run_id(self) -> str:
        if not self._run:
            self._run = await self._dash.start_run(self._name, key=f"pauses:{self._name}"[:200])
        return self._run

    async def _here(self, work: Coroutine[Any, Any, T]) -> T:
        """Await a call where the connections live; a framework can call from any loop."""
        return await work if self._portal is None else await asyncio.wrap_future(self._portal.submit(work))


class SavedThreads:
    """Where the paused runs of a framework without a checkpointer are kept: a file a thread, replaced as a whole.

    Each has an ID from its first pause to its end. Models give calls the same IDs in each run, and an approval of one
    that has ended is none for the next.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)

    def load(self, thread: str) -> str | None:
        """Return what was saved last; None for a thread that is not paused."""
        return self._read(thread).get("text")

    def run_of(self, thread: str) -> str:
        """Return the ID of the paused run."""
        return self._read(thread)["run"]

    def _read(self, thread: str) -> dict[str, str]:
        try:
            kept: dict[str, str] = json.loads(self._file(thread).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return kept

    def save(self, thread: str, text: str) -> None:
        file, run = self._file(thread), self._read(thread).get("run") or uuid.uuid4().hex
        self._folder.mkdir(parents=True, exist_ok=True)
        fresh = file.with_suffix(".new")
        fresh.write_text(json.dumps({"run": run, "text": text}), encoding="utf-8")
        fresh.replace(file)

    def drop(self, thread: str) -> None:
        self._file(thread).unlink(missing_ok=True)

    def _file(self, thread: str) -> Path:
        return self._folder / f"{hashlib.sha256(thread.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.json"


def short(name: str) -> str:
    """Return a framework's name within the limit of names; long ones as a digest."""
    if 0 < len(name) <= 200 and name.isprintable():
        return name
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
