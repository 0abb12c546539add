"""Writes: what an episode has of its surroundings: environment, scenario, and what failed to come."""

from __future__ import annotations

import json
from typing import Any

from django.db import connection, transaction

from awmenv.models import BuildReport
from episodes.models import Episode, EpisodeState
from episodes.record.appending import note
from episodes.record.recording import announce, locked
from episodes.stored.settled import NO_SERVER, NOT_VERIFIED
from people.access import Actor
from people.text.plain_text import storable

RESTORED = "restored"
UNBRIEFED = "no briefing"
MODEL_FAILED = "expert model failed"
FOUND = """
-- of this attempt alone: a lost one can still be at work
UPDATE episodes_episode SET tools = coalesce(%s, tools), world = coalesce(%s, world) WHERE id = %s AND attempt = %s
"""


@transaction.atomic
def note_unverified(actor: Actor, episode_id: str, reason: str) -> None:
    """Note in the history why the verifier did not run; the episode has no outcome."""
    note(locked(actor, episode_id), NOT_VERIFIED, actor, storable(reason))


@transaction.atomic
def note_no_server(episode_id: str, reason: str) -> None:
    """Note, once per episode, why a queued episode could not start: no environment server responded."""
    # locked, so that two workers note it once
    queued = Episode.every.select_for_update().filter(pk=episode_id, state=EpisodeState.QUEUED).first()
    if queued is None or queued.events.filter(verb=NO_SERVER).exists():
        return
    note(queued, NO_SERVER, None, storable(reason))
    announce(queued)


@transaction.atomic
def note_unbriefed(episode_id: str, reason: str) -> None:
    """Note, once per episode, why its agent gets no briefing though its arm gives one."""
    queued = Episode.every.select_for_update().filter(pk=episode_id, state=EpisodeState.QUEUED).first()
    if queued is not None and not queued.events.filter(verb=UNBRIEFED).exists():
        note(queued, UNBRIEFED, None, storable(reason))


@transaction.atomic
def note_model_fault(actor: Actor, episode: Episode, reason: str) -> None:
    """Note why an expert model gave no advice; the same reason again is one note."""
    why = storable(reason)
    if not episode.events.filter(verb=MODEL_FAILED, actor=actor.name, reason=why).exists():
        note(episode, MODEL_FAILED, actor, why)
        announce(episode)


@transaction.atomic
def note_partial(actor: Actor, episode_id: str, partial: BuildReport) -> None:
    """Store that the episode's scenario is partial: statements of its pack fail, and it runs without them."""
    episode = locked(actor, episode_id)
    episode.partial = partial.wire()
    episode.save(update_fields=["partial"])


def note_environment(
    episode_id: str, attempt: int, tools: list[dict[str, Any]] | None = None, world: dict[str, Any] | None = None
) -> None:
    """Store what an attempt found in its environment before its first step: the `tools` that it listed, and how its
    `world` began. Our own worker queues an episode before it has asked."""
    texts = [None if said is None else json.dumps(said) for said in (tools, world)]
    with connection.cursor() as cursor:
        cursor.execute(FOUND, [*texts, episode_id, attempt])


def note_grade(episode_id: str, grade: str) -> None:
    """Store how the world of a branch was restored for its first attempt."""
    Episode.every.filter(pk=episode_id, grade="").update(grade=grade)


@transaction.atomic
def note_restored(episode_id: str, grade: str, difference: str) -> None:
    """Say in the history that a world was restored with a lower grade than *exact*, and the first difference."""
    episode = Episode.every.filter(pk=episode_id).first()
    if episode is not None:
        detail = storable(difference)
        note(episode, RESTORED, None, f"attempt {episode.attempt}, grade {grade}: {detail}")
