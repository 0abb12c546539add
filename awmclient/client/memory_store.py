"""A dashboard's record in memory, with the rules of the real one: idempotent appends, conflicts, gaps and deadlines.

For tests of loops. Stores nothing on disk and has no tokens. Called by `testing.MemoryDashboard`.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import ValidationError

from awmclient.client.bodies import unanswered
from awmclient.errors import EpisodeEnded, ExpertOff, Invalid, KeyConflict, NotFound, SeqGap, StepConflict, refusal
from awmclient.nouns.asks import Advice, AskOpen
from awmclient.nouns.episodes import EpisodeStart, Finish
from awmclient.nouns.kinds import is_briefing
from awmclient.nouns.steps import LATE_BRIEFING, NO_BRIEFING_AFTER, STEP
from awmclient.nouns.typed import typed_of
from awmclient.nouns.values import AT_WORK_STATES

WRITTEN_HERE = frozenset({"ask", "verification"})
"""Kinds that a loop cannot append."""


@dataclass(eq=False)
class StoredEpisode:
    """One episode."""

    id: str
    plan: EpisodeStart
    body: dict[str, Any]
    steps: list[dict[str, Any]] = field(default_factory=list)
    state: str = "running"
    stop_reason: str | None = None
    final_answer: str | None = None
    fault: str | None = None
    detail: str | None = None
    reported: dict[str, Any] | None = None
    heartbeats: int = 0

    @property
    def is_live(self) -> bool:
        return self.state in AT_WORK_STATES


@dataclass(eq=False)
class MemoryAsk:
    """One question; `closed` is set when it is no longer open."""

    id: str
    plan: AskOpen
    body: dict[str, Any]
    deadline_at: datetime
    status: str = "open"
    reason: str | None = None
    advice: Advice | None = None
    consumed: bool = False
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def typed(self) -> dict[str, Any]:
        return typed_of(self.plan.model_dump(by_alias=True))

    def silence(self) -> Advice:
        """Return what an absence means, as the dashboard sends it."""
        return unanswered("deadline", self.typed).model_copy(update={"local": False})

    def view(self) -> dict[str, Any]:
        view: dict[str, Any] = {"id": self.id, "status": self.status, "deadline_at": self.deadline_at.isoformat()}
        if self.reason:
            view["reason"] = self.reason
        if self.advice is not None:
            view["advice"] = self.advice.model_dump(exclude_none=True, exclude={"local"})
        return view


class MemoryStore:
    """All episodes and asks."""

    def __init__(self) -> None:
        self.episodes: dict[str, StoredEpisode] = {}
        self.asks: dict[str, MemoryAsk] = {}

    def start(self, body: Mapping[str, Any]) -> tuple[StoredEpisode, bool]:
        plan = _checked(EpisodeStart, body)
        for stored in self.episodes.values():
            if stored.plan.key == plan.key:
                if stored.body != dict(body):
                    raise KeyConflict
                return stored, False
        entry = StoredEpisode(uuid.uuid4().hex, plan, dict(body))
        self.episodes[entry.id] = entry
        return entry, True

    def entry(self, episode: str) -> StoredEpisode:
        if episode not in self.episodes:
            raise NotFound
        return self.episodes[episode]

    def append(self, episode: str, steps: Sequence[Mapping[str, Any]]) -> int:
        """Store steps.

        1. Check shapes. 2. Handle gaps, repeats and conflicts. 3. Refuse steps after the end. 4. Store.
        """
        entry = self.entry(episode)
        bodies = [_step(step) for step in steps]
        if not bodies:
            raise Invalid("No steps.")
        fresh = self._fresh(entry, bodies)
        if fresh and not entry.is_live:
            raise EpisodeEnded
        _refuse_late_briefing(entry.steps, fresh)
        entry.steps.extend(fresh)
        return int(bodies[-1]["seq"])

    def _fresh(self, entry: StoredEpisode, bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
        # A batch can begin with steps that are stored; after them it must continue without a gap.
        expected = min(bodies[0]["seq"], len(entry.steps) + 1)
        for body in bodies:
            if body["seq"] != expected:
                raise SeqGap(f"Expected step {expected}, got {body['seq']}. Steps are numbered without gaps.")
            if expected <= len(entry.steps) and entry.steps[expected - 1] != body:
                raise StepConflict(f"Step {expected} already exists with different content.")
            expected += 1
        return [body for body in bodies if body["seq"] > len(entry.steps)]

    def heartbeat(self, episode: str) -> None:
        self.entry(episode).heartbeats += 1

    def finish(self, episode: str, body: Mapping[str, Any]) -> None:
        end = _checked(Finish, body)
        entry = self.entry(episode)
        if not entry.is_live:
            # As at the real dashboard, the same finish again changes nothing.
            stored = (entry.stop_reason, entry.final_answer, entry.fault, entry.detail)
            if stored == (end.stop_reason, end.final_answer, end.fault, end.detail):
                return
            raise EpisodeEnded
        entry.final_answer, entry.fault, entry.detail = end.final_answer, end.fault, end.detail
        entry.reported = end.outcome.model_dump(exclude_none=True) if end.outcome else None
        self._end(entry, "failed" if end.stop_reason == "error" else "finished", end.stop_reason)

    def fail(self, episode: str, fault: str, detail: str) -> None:
        entry = self.entry(episode)
        if entry.is_live:
            entry.fault, entry.detail = fault, detail
            self._end(entry, "failed", "error")

    def stop(self, episode: str) -> None:
        """End the episode as if a person stopped it."""
        entry = self.entry(episode)
        if entry.is_live:
            self._end(entry, "cancelled", None)

    def _end(self, entry: StoredEpisode, state: str, stop_reason: str | None) -> None:
        entry.state, entry.stop_reason = state, stop_reason
        for ask in self.asks.values():
            if ask.plan.episode == entry.id and ask.status == "open":
                self.close(ask, "cancelled", reason="episode_ended")

    def open_ask(self, body: Mapping[str, Any]) -> tuple[MemoryAsk, bool]:
        """Open an ask.

        1. Return the ask of a known key. 2. Refuse after the end and without an expert. 3. Take the step number. 4. Set
        the episode to waiting.
        """
        plan = _checked(AskOpen, body)
        entry = self.entry(plan.episode)
        for stored in self.asks.values():
            if stored.plan.episode == plan.episode and stored.plan.key == plan.key:
                if stored.body != dict(body):
                    raise KeyConflict
                return stored, False
        if entry.plan.expert == "off":
            raise ExpertOff
        if not entry.is_live:
            raise EpisodeEnded
        if not str(plan.question).strip():
            raise Invalid("The question is empty.")
        ask = MemoryAsk(uuid.uuid4().hex, plan, dict(body), datetime.now(UTC) + timedelta(seconds=plan.deadline_s))
        shown = plan.model_dump(include={"seq", "question", "context", "turn", "call_id", "thread"}, exclude_none=True)
        step = {"kind": "ask", "ask": ask.id, **shown}
        if ask.typed:
            step["typed"] = ask.typed
        # Before the check for gaps: a question under a known number conflicts even if it is equal.
        if plan.seq <= len(entry.steps):
            raise StepConflict(f"Step {plan.seq} already exists with different content.")
        entry.steps.extend(self._fresh(entry, [step]))
        entry.state = "waiting"
        self.asks[ask.id] = ask
        return ask, True

    def ask(self, ask: str) -> MemoryAsk:
        """Return an ask. One past its deadline falls back here."""
        if ask not in self.asks:
            raise NotFound
        stored = self.asks[ask]
        if stored.status == "open" and stored.deadline_at <= datetime.now(UTC):
            self.close(stored, "fell_back", stored.silence(), reason="deadline")
        return stored

    def open_asks(self, episode: str) -> list[MemoryAsk]:
        return [ask for ask in self.asks.values() if ask.plan.episode == episode and ask.status == "open"]

    def close(self, ask: MemoryAsk, status: str, advice: Advice | None = None, reason: str | None = None) -> None:
        """Close the ask once: set the status, add the advice to its step, continue the episode, wake the waiter."""
        if ask.status != "open":
            return
        ask.status, ask.advice, ask.reason = status, advice, reason
        entry = self.entry(ask.plan.episode)
        if advice is not None:
            entry.steps[ask.plan.seq - 1]["advice"] = advice.model_dump(exclude_none=True, exclude={"local"})
        if entry.state == "waiting" and not self.open_asks(entry.id):
            entry.state = "running"
        ask.closed.set()


def _refuse_late_briefing(stored: Sequence[Mapping[str, Any]], fresh: Sequence[Mapping[str, Any]]) -> None:
    kinds = [step["kind"] for step in (*stored, *fresh)]
    late = any(kind == "briefing" and NO_BRIEFING_AFTER.intersection(kinds[:at]) for at, kind in enumerate(kinds))
    if late and any(is_briefing(step) for step in fresh):
        raise refusal(409, "briefing_late", LATE_BRIEFING)


def _checked(model: type[Any], body: Mapping[str, Any]) -> Any:
    try:
        return model.model_validate(dict(body))
    except ValidationError as error:
        raise Invalid(str(error)) from None


def _step(step: Mapping[str, Any]) -> dict[str, Any]:
    body = dict(step)
    if body.get("kind") in WRITTEN_HERE:
        raise Invalid(f"A step of kind {body['kind']} is written by the dashboard.")
    try:
        STEP.validate_python(body)
    except ValidationError as error:
        raise Invalid(str(error)) from None
    return body
