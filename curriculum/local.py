"""The Dashboard port answered in process, for our own worker: the same loop as everybody's, without HTTP.

Owns crossing from the loop's coroutine to the database, patience while the database is away, and how refusals of the
house become the client's errors. Leaves every rule to `episodes.recording`, `experts.queue` and `experts.closing`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from channels.db import database_sync_to_async
from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.utils import timezone
from pydantic import ValidationError

from awmclient import errors
from awmclient.bodies import StepLike, numbered
from awmclient.rollout import EpisodePort
from awmclient.schema import (
    Advice,
    AskOpen,
    AskView,
    EpisodeStart,
    Fault,
    Finish,
    ReportedOutcome,
    StepBatch,
    StopReason,
)
from episodes import recording
from episodes.hub import hub
from episodes.models import Episode
from experts import closing, queue
from experts.events import ask_topic
from experts.reading import ask_view
from people.access import Actor
from people.errors import AppError
from people.models import new_id

log = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R")
PATIENCE_S = 60.0
RE_READ_S = 5.0


async def patiently(call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a write in the database; every one of them may be repeated, so an absent database only costs time."""
    loop = asyncio.get_running_loop()
    give_up, pause = loop.time() + PATIENCE_S, 0.2
    while True:
        try:
            done: R = await database_sync_to_async(call)(*args, **kwargs)
            return done
        except AppError as refused:
            raise errors.refusal(refused.status, refused.code, refused.message) from refused
        except (OperationalError, InterfaceError) as error:
            if loop.time() + pause > give_up:
                raise errors.Unreachable(f"The database is away: {error}") from error
            log.warning("database away, trying again: %s", error)
        await asyncio.sleep(pause)
        pause = min(pause * 2, 3.0)


def _look(actor: Actor, ask_id: str) -> AskView:
    return ask_view(closing.look(actor, ask_id))


def _batch(steps: list[dict[str, Any]]) -> StepBatch:
    try:
        return StepBatch.model_validate({"steps": steps})
    except ValidationError as error:
        raise errors.Invalid(str(error)) from error


class LocalDashboard:
    """Records for one actor. With `queued`, the episode was planned by `launching` and is only filled in."""

    def __init__(self, actor: Actor, queued: Episode | None = None) -> None:
        self.actor = actor
        self.queued = queued

    async def start_episode(self, task: str, **fields: Any) -> EpisodePort:
        fields = {name: value for name, value in fields.items() if value is not None}
        fields.setdefault("key", new_id())
        plan = EpisodeStart(task=task, **fields)
        if self.queued is not None:
            tools = [tool.model_dump() for tool in plan.tools or []]
            await patiently(recording.set_tools, self.queued.pk, tools)
            return LocalEpisode(self.actor, self.queued)
        episode, _ = await patiently(recording.start_episode, self.actor, plan)
        return LocalEpisode(self.actor, episode)


class LocalEpisode:
    """One episode, numbered here."""

    def __init__(self, actor: Actor, episode: Episode) -> None:
        self.actor = actor
        self.id: str = episode.pk
        self.url: str = settings.AWMWEB_PUBLIC_URL + episode.get_absolute_url()
        self.last_seq: int = episode.last_seq

    async def append(self, steps: StepLike | Sequence[StepLike]) -> int:
        plain = numbered(steps, self.last_seq)
        if not plain:
            return self.last_seq
        acknowledged = await patiently(recording.append_steps, self.actor, self.id, _batch(plain).steps)
        self.last_seq = max(self.last_seq, acknowledged)
        return acknowledged

    async def ask(self, question: str, *, deadline_s: int = 300, key: str | None = None, **fields: Any) -> Advice:
        seq = self.last_seq + 1
        given = {name: value for name, value in fields.items() if value is not None}
        plan = {"key": key or f"{self.id}/{seq}", "episode": self.id, "seq": seq, "deadline_s": deadline_s}
        wanted = AskOpen.model_validate({**plan, "question": question, **given})
        ask, _ = await patiently(queue.open_ask, self.actor, wanted)
        self.last_seq = seq
        while True:
            view = await self._closed(ask.pk)
            if view.advice is None:
                return Advice(text="", source="fallback", reason=view.reason or view.status)
            try:
                read = await patiently(closing.consume, self.actor, ask.pk)
            except errors.Refused as taken_back:
                if taken_back.code != "still_open":
                    raise
                continue
            return read.accepted.value() if read.accepted else view.advice

    async def _closed(self, ask_id: str) -> AskView:
        """Woken by the hint, by the deadline, or after some seconds anyway; the waiting loop settles the deadline."""
        async with hub().listening(ask_topic(ask_id)) as listener:
            while True:
                view = await patiently(_look, self.actor, ask_id)
                if view.status != "open":
                    return view
                left = (view.deadline_at - timezone.now()).total_seconds()
                try:
                    await asyncio.wait_for(listener.get(), min(max(left, 0.02), RE_READ_S))
                except TimeoutError:
                    continue

    async def heartbeat(self) -> None:
        await patiently(recording.heartbeat, self.actor, self.id)

    async def finish(
        self,
        stop_reason: StopReason,
        *,
        final_answer: str | None = None,
        outcome: ReportedOutcome | Mapping[str, Any] | None = None,
    ) -> None:
        end = Finish.model_validate({"stop_reason": stop_reason, "final_answer": final_answer, "outcome": outcome})
        await patiently(recording.finish, self.actor, self.id, end)

    async def fail(self, fault: Fault, detail: str) -> None:
        await patiently(recording.fail, self.actor, self.id, fault, detail)
