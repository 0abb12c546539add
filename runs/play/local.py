"""The Dashboard port in process, for awmweb's worker: the common loop without HTTP.

Owns database calls from the loop's coroutine, retries while the database is unavailable, and the mapping of awmweb's
errors to the client's. Leaves every rule to `episodes.record.recording` and `experts.record`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from pydantic import ValidationError

from awmclient import errors
from awmclient.client.bodies import StepLike, numbered
from awmclient.loop.ports import EpisodePort
from awmclient.nouns.pictures import ImagePart
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
    WheelView,
)
from awmenv import spans
from episodes.events import episode_topic
from episodes.live.hub import hub
from episodes.models import Episode
from episodes.record import ask_steps, ending, noting, pictures, recording, steering
from episodes.stored import decoding
from episodes.visible.trajectory import steps_of
from experts.events import ask_topic
from experts.find.reading import ask_view
from experts.models import Ask
from experts.record import closing, opening
from people.access import Actor, visible_or_404
from people.errors import AWAY, AppError, Busy
from people.models import new_id
from runs.play import parking
from runs.play.database import in_database

log = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R")
PATIENCE_S, FIRST_PAUSE_S = 60.0, 0.2
RE_READ_S, FIRST_READS_S = 5.0, 1.0


async def patiently(call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a write in the database and retry while it is unavailable; every write here is idempotent."""
    loop = asyncio.get_running_loop()
    give_up, pause = loop.time() + PATIENCE_S, FIRST_PAUSE_S
    while True:
        try:
            return await in_database(call)(*args, **kwargs)
        except AppError as refused:
            raise errors.refusal(refused.status, refused.code, refused.message) from refused
        except AWAY as error:
            if loop.time() + pause > give_up:
                raise errors.Unreachable(f"The database is unavailable: {error}") from error
            log.warning("database unavailable, retrying: %s", error)
        await asyncio.sleep(pause)
        pause = min(pause * 2, 3.0)


async def _when_free(call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Read a picture, after others that are being read. Raises `Unreachable` if that takes too long."""
    clock = asyncio.get_running_loop().time
    give_up, pause = clock() + PATIENCE_S, FIRST_PAUSE_S
    while True:
        try:
            return await patiently(call, *args, **kwargs)
        except errors.Refused as refused:
            if refused.code != Busy.code:
                raise
            if clock() + pause > give_up:
                raise errors.Unreachable("Other pictures are being read.") from refused
        await asyncio.sleep(pause)
        pause = min(pause * 2, 3.0)


def _look(actor: Actor, ask_id: str) -> AskView:
    return ask_view(closing.look(actor, ask_id))


def _view(actor: Actor, ask_id: str) -> AskView:
    """Return the state of an ask without delivering it: consuming the advice soon after delivers it, too."""
    return ask_view(visible_or_404(Ask.objects.select_related("accepted"), actor, ask_id))


@transaction.atomic
def _note_waiting(actor: Actor, ask_id: str) -> None:
    """Record it under the lock of the episode, which closing the ask takes, too."""
    visible_or_404(Ask.objects.all(), actor, ask_id)
    # closing takes the same lock, so the ask cannot close between the look and the note
    ask = closing.locked(ask_id)
    if ask.is_open:
        ask_steps.note_waiting(ask.episode_id)


def _copied_advice(branch: Episode, ask_id: str) -> Advice | None:
    """Return the recorded answer to a question that is no ask of this branch; None if it is one."""
    if Ask.objects.filter(pk=ask_id, episode=branch).exists():
        return None
    asked = next(step for step in steps_of(branch, branch.last_seq - 1) if step.get("ask") == ask_id)
    return Advice.model_validate(asked.get("advice") or {"text": "", "source": "fallback", "reason": "cancelled"})


def _batch(steps: list[dict[str, Any]]) -> StepBatch:
    try:
        return StepBatch.model_validate({"steps": steps})
    except ValidationError as error:
        raise errors.Invalid(str(error)) from error


class LocalDashboard:
    """A recorder for one actor. With `queued`, the episode was planned by `launching` and only gets its missing fields,
    including the `found` facts about its environment once they are known."""

    def __init__(self, actor: Actor, queued: Episode | None = None, found: Callable[[], dict[str, Any]] = dict) -> None:
        self.actor = actor
        self.queued, self.found = queued, found

    async def start_episode(self, task: str, **fields: Any) -> EpisodePort:
        fields = {name: value for name, value in fields.items() if value is not None}
        if self.queued is not None:  # the plan set all other fields; the loop has checked the tools
            tools, env_fields = [tool.model_dump() for tool in fields.get("tools", [])], self.found()
            if tools != self.queued.tools:  # an attempt that continues usually finds them stored
                env_fields["tools"] = tools
            if env_fields:
                await patiently(noting.note_environment, self.queued.pk, self.queued.attempt, **env_fields)
            return LocalEpisode(self.actor, self.queued, self.queued.attempt)
        fields.setdefault("key", new_id())
        plan = EpisodeStart(task=task, **fields)
        episode, _ = await patiently(recording.start_episode, self.actor, plan)
        return LocalEpisode(self.actor, episode)


class LocalEpisode:
    """One episode, numbered here. With an `attempt`, another one that takes over ends this one."""

    def __init__(self, actor: Actor, episode: Episode, attempt: int | None = None) -> None:
        self.actor, self.attempt, self._episode = actor, attempt, episode
        self.id: str = episode.pk
        self.url: str = settings.AWMWEB_PUBLIC_URL + episode.get_absolute_url()
        self.last_seq: int = episode.last_seq
        self.steered: bool = episode.steered

    async def append(self, steps: StepLike | Sequence[StepLike]) -> int:
        plain = numbered(steps, self.last_seq)
        if not plain:
            return self.last_seq
        stored = await patiently(recording.append_steered, self.actor, self.id, _batch(plain).steps, self.attempt)
        acknowledged, self.steered = stored
        # a batch that was sent again is acknowledged with its own last number, which is not the last of all
        self.last_seq = max(self.last_seq, acknowledged)
        return acknowledged

    async def upload(self, picture: bytes) -> ImagePart:
        """Store a picture of a step to come."""
        row, _ = await _when_free(pictures.upload, self.actor, self.id, picture)
        return pictures.part_of_stored(row)

    async def part_of(self, picture: bytes) -> ImagePart:
        """Return the part of a picture without storing it, to compare what comes again with the record."""
        read = await _when_free(decoding.decoded, picture, self.actor.key)
        return ImagePart.model_validate(read.part)

    async def ask(self, question: str, *, deadline_s: int = 300, key: str | None = None, **fields: Any) -> Advice:
        await self.heartbeat()  # an attempt that has ended must not send an ask
        seq = self.last_seq + 1
        extras = {name: value for name, value in fields.items() if value is not None}
        plan = {"key": key or f"{self.id}/{seq}", "episode": self.id, "seq": seq, "deadline_s": deadline_s}
        ask_open = AskOpen.model_validate({**plan, "question": question, **extras})
        ask, _ = await patiently(opening.open_ask, self.actor, ask_open)
        self.last_seq = seq
        return await self._advice(ask.pk)

    async def steps(self, since: int = 0) -> list[dict[str, Any]]:
        return await patiently(steps_of, self._episode, since)

    async def wait_for_advice(self, ask: str, deadline_s: int = 0, typed: Mapping[str, Any] | None = None) -> Advice:
        """Wait until the ask closes; its own deadline was set when it was opened. A question that a branch was begun
        with was another episode's, and has its answer in the record."""
        if self._episode.is_branch and (advice := await patiently(_copied_advice, self._episode, ask)) is not None:
            return advice
        return await self._advice(ask, await patiently(_view, self.actor, ask))

    async def _advice(self, ask: str, view: AskView | None = None) -> Advice:
        """Wait, unless the ask was already closed: a parked episode that continues need not wait."""
        if view is None or view.status == "open":
            await patiently(_note_waiting, self.actor, ask)
            with spans.span("wait for advice", marks=False, ask=ask):  # parked, it ends by an exception
                view = await self._closed(ask)
        while (advice := view.advice) is not None:
            try:
                read = await patiently(closing.consume, self.actor, ask)
            # withdrawn after it was closed: wait for the next answer
            except errors.Refused as taken_back:
                if taken_back.code != "still_open":
                    raise
                view = await self._closed(ask)
                continue
            # its files are read from the database
            return await patiently(read.accepted.value) if read.accepted else advice
        return Advice(text="", source="fallback", reason=view.reason or view.status)

    async def _closed(self, ask_id: str) -> AskView:
        """Wait for the hint, the deadline, or some seconds; the waiting loop closes an ask past its deadline. Raises
        Parked if the episode was parked."""
        clock = asyncio.get_running_loop().time
        began = clock()
        # listen before the first look: an ask that closes in between wakes this loop
        async with hub().listening(ask_topic(ask_id)) as listener:
            while True:
                view = await patiently(_look, self.actor, ask_id)
                if view.status != "open":
                    return view
                waited = clock() - began
                if self.attempt is not None and await patiently(parking.park_if_due, ask_id, self.attempt, waited):
                    raise errors.Parked("The episode is parked until its ask is closed.")
                left = (view.deadline_at - timezone.now()).total_seconds()
                until_parked = settings.AWMWEB_PARK_AFTER_S - waited
                # a hint can get lost, so the loop looks again: every second at first, later every five
                pause = min(left, RE_READ_S if waited >= RE_READ_S else FIRST_READS_S, max(until_parked, 0.2))
                try:
                    # never 0: a deadline that is just past would make this loop spin
                    await asyncio.wait_for(listener.get(), max(pause, 0.02))
                except TimeoutError:
                    continue

    async def heartbeat(self) -> None:
        self.steered = (await patiently(recording.heartbeat, self.actor, self.id, self.attempt)).steered

    async def look(self) -> bool:
        is_held = await patiently(steering.is_held, self.id)
        self.steered = self.steered or is_held
        return is_held

    async def wheel(self, acted: int) -> WheelView:
        """Return what to do; while someone holds the wheel, wait some seconds for an order."""
        # listen before the first look: an order that comes in between wakes this loop
        async with hub().listening(episode_topic(self.id)) as listener:
            view = await patiently(steering.read, self.actor, self.id, acted, self.attempt)
            if view.held and not view.orders:
                with contextlib.suppress(TimeoutError):
                    # a hint can get lost, and a lease ends without one
                    await asyncio.wait_for(listener.get(), FIRST_READS_S)
                view = await patiently(steering.read, self.actor, self.id, acted, self.attempt)
        self.steered = view.held or bool(view.orders)
        return view

    async def finish(
        self,
        stop_reason: StopReason,
        *,
        final_answer: str | None = None,
        outcome: ReportedOutcome | Mapping[str, Any] | None = None,
    ) -> None:
        end = Finish.model_validate({"stop_reason": stop_reason, "final_answer": final_answer, "outcome": outcome})
        await patiently(ending.finish, self.actor, self.id, end, self.attempt)

    async def fail(self, fault: Fault, detail: str) -> None:
        await patiently(ending.fail, self.actor, self.id, fault, detail, self.attempt)
