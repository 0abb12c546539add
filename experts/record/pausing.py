"""Writes: pauses of agents that others run, each an ask of the episode of the agent's thread.

Owns which episode a thread has and which ask an interrupt has, so that a repeated call, by a client or an agent that
started again, finds what it opened before. Leaves asks to `queue` and `closing`. A decision is final once its asker has
read it, stays readable, and is confirmed when a later run says that it took it.

Lock order is run, then episode, then ask.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from pydantic import ValidationError

from awmclient.nouns.interrupts import (
    Interrupt,
    InterruptOutcome,
    InterruptsView,
    InterruptView,
    OtherOutcome,
    ResumeEntry,
    RunInterrupts,
)
from awmclient.nouns.typed import typed_of
from awmclient.schema import AskOpen, EpisodeStart
from episodes.errors import EpisodeEnded
from episodes.models import Episode, Run
from episodes.record import recording
from episodes.record.appending import reopen_or_refuse
from experts.errors import AskConflict
from experts.models import Ask, AskStatus
from experts.record import closing, opening
from experts.rules import sources
from experts.rules.decisions import refuse_unfit_form
from experts.rules.interrupts import OURS, asked, resumed, seconds_left
from people.access import Actor, may_record, visible_or_404
from people.errors import Invalid
from people.http import misshapen

PAUSES = "pauses:"
"""Prefix of the keys of episodes of threads."""


def pause(actor: Actor, run_id: str, body: RunInterrupts) -> tuple[InterruptsView, bool]:
    """Open the asks of a run's interrupts, or return those it opened before. True if any is new.

    1. Open each new interrupt at the next step of its thread's episode. 2. Park the episode: it waits without a
    process. 3. Confirm what the run has taken. 4. Return the decisions there are, which delivers them.
    """
    may_record(actor)
    interrupts = body.outcome.interrupts if isinstance(body.outcome, InterruptOutcome) else []
    refusals = _refusals(interrupts, body)
    with transaction.atomic():
        # the lock of the run serializes its threads: two clients of one thread open one episode and one ask
        run = visible_or_404(Run.objects.select_for_update(no_key=True), actor, run_id)
        asks, made = {}, False
        for interrupt in (one for one in interrupts if one.id not in refusals):
            asks[interrupt.id], is_new = _opened(actor, run, body, interrupt)
            made = made or is_new
        for episode in {ask.episode_id for ask in asks.values() if ask.is_open}:
            Episode.objects.select_for_update().get(pk=episode)
            recording.park(episode)
    for entry in body.resume or []:
        _take(actor, run, body, entry.interrupt_id)
    if isinstance(body.outcome, OtherOutcome):
        _end(actor, run, body, body.outcome.type)
    views = [
        _refused(interrupt, refusals[interrupt.id])
        if interrupt.id in refusals
        else _view(actor, body, interrupt, asks[interrupt.id])
        for interrupt in interrupts
    ]
    decided = [one.resume for one in views if one.resume is not None]
    opened = next((ask.episode_id for ask in asks.values()), None)
    about = {"thread_id": body.thread_id, "run_id": body.run_id, "episode": opened}
    return InterruptsView(**about, interrupts=views, resume=decided if len(decided) == len(views) else None), made


def _refusals(interrupts: Sequence[Interrupt], body: RunInterrupts) -> dict[str, Invalid]:
    """Return why some interrupts cannot be asked, by ID. Raises where none of them can be."""
    refusals = {}
    for interrupt in interrupts:
        try:
            refuse_unfit_form(typed_of(asked(interrupt, body)))
        except ValidationError as error:
            refusals[interrupt.id] = misshapen(error.errors())
        except Invalid as error:
            refusals[interrupt.id] = error
    if refusals and len(refusals) == len({one.id for one in interrupts}):
        raise next(iter(refusals.values()))
    return refusals


def _refused(interrupt: Interrupt, why: Invalid) -> InterruptView:
    about = {OURS: {"status": "refused", "reason": why.message}}
    entry = ResumeEntry(interrupt_id=interrupt.id, status="cancelled", metadata=about)
    return InterruptView(interrupt_id=interrupt.id, status="refused", resume=entry)


def _opened(actor: Actor, run: Run, body: RunInterrupts, interrupt: Interrupt) -> tuple[Ask, bool]:
    fields = asked(interrupt, body)
    key = f"{_short(body.run_id)}:{_short(interrupt.id)}"
    earlier = _of_thread(actor, run, body).filter(key=key).first()
    if earlier is not None:
        _refuse_other(earlier, fields)
        return earlier, False
    episode = Episode.objects.select_for_update().get(pk=_thread(actor, run, body).pk)
    left = seconds_left(interrupt, timezone.now(), body.deadline_s)
    call = {"call_id": interrupt.tool_call_id} if interrupt.tool_call_id else {}
    try:
        new = AskOpen(key=key, episode=episode.pk, seq=episode.last_seq + 1, deadline_s=left, **fields, **call)
    except ValidationError as error:
        raise misshapen(error.errors()) from error
    return opening.open_ask(actor, new)


def _refuse_other(earlier: Ask, fields: Mapping[str, Any]) -> None:
    """Raise if this interrupt asked something else before."""
    try:
        same = earlier.question == fields["question"] and (earlier.typed or {}) == typed_of(fields)
    except ValidationError as error:
        raise misshapen(error.errors()) from error
    if not same:
        raise AskConflict("This interrupt of this run already asked something else.")


def _of_thread(actor: Actor, run: Run, body: RunInterrupts) -> QuerySet[Ask]:
    episodes = Episode.objects.filter(project=actor.project, run=run, key__startswith=_key(run, body))
    return Ask.objects.select_related("accepted").filter(episode__in=episodes)


def _thread(actor: Actor, run: Run, body: RunInterrupts) -> Episode:
    """Return the live episode of a thread. One that was finished is followed by another."""
    earlier = Episode.objects.filter(project=actor.project, run=run, key__startswith=_key(run, body))
    latest = earlier.order_by("-created_at").first()
    if latest is not None:
        latest = Episode.objects.select_for_update().get(pk=latest.pk)
        try:
            reopen_or_refuse(latest, actor)
        except EpisodeEnded:
            pass
        else:
            return latest
    key = f"{_key(run, body)}{earlier.count() + 1}"
    task = body.task or f"Thread {body.thread_id}"[:200]
    about = {"policy": {"name": body.client}} if body.client else {}
    plan = EpisodeStart(key=key, task=task, run=run.pk, environment=sources.PAUSES, expert="plain", **about)
    return recording.start_episode(actor, plan)[0]


def _take(actor: Actor, run: Run, body: RunInterrupts, interrupt: str) -> None:
    """Confirm the thread's latest ended ask of this interrupt. An ID is one of an earlier run's, so any run has it."""
    asks = _of_thread(actor, run, body).filter(key__endswith=f":{_short(interrupt)}")
    ended = asks.exclude(status=AskStatus.OPEN).order_by("-created_at").first()
    if ended is not None:
        closing.consume(actor, ended.pk)


def _end(actor: Actor, run: Run, body: RunInterrupts, how: str) -> None:
    """Confirm what the thread has read: a run that ended has acted on it. One that was stopped waits for nothing."""
    asks = _of_thread(actor, run, body).filter(consumed_at__isnull=True)
    for ask in asks.filter(delivered_at__isnull=False):
        closing.consume(actor, ask.pk)
    if how == "cancelled":
        for ask in asks.filter(status=AskStatus.OPEN):
            closing.cancel(actor, ask.pk)


def _view(actor: Actor, body: RunInterrupts, interrupt: Interrupt, ask: Ask) -> InterruptView:
    ask = closing.look(actor, ask.pk)
    advice = ask.accepted.value() if ask.accepted else None
    entry = None if ask.is_open else resumed(interrupt, asked(interrupt, body), advice, ask.status)
    about = {"interrupt_id": interrupt.id, "ask": ask.pk, "status": ask.status, "deadline_at": ask.deadline_at}
    return InterruptView(**about, consumed_at=ask.consumed_at, advice=advice, resume=entry)


def _key(run: Run, body: RunInterrupts) -> str:
    return f"{PAUSES}{run.pk}:{_short(body.thread_id)}:"


def _short(*names: str) -> str:
    # names of others can be long, and hold anything
    return hashlib.sha256("\x00".join(names).encode()).hexdigest()[:32]
