"""Writes: many built-in episodes of a planned run, queued or cancelled in a few statements.

Owns bulk changes of episodes that no worker has begun. Leaves single ones to `recording.py`, whose rules hold here too:
the caller has launch rights, and an episode's key is unique in its project. Called by `runs.launch.planning`.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.utils import timezone

from awmclient.schema import EpisodeStart
from episodes.models import Episode, EpisodeEvent, EpisodeState, Origin, Run
from episodes.record.recording import digest_of
from episodes.stored.policies import policy_facts
from people.access import Actor, may_launch

BATCH = 1000


def queue_many(actor: Actor, run: Run, starts: Sequence[EpisodeStart], max_steps: int) -> list[Episode]:
    """Insert a queued built-in episode for each start. The caller must be in a transaction; no frame is sent, because
    no page shows them yet."""
    may_launch(actor)
    now = timezone.now()
    made = [
        Episode(
            project=actor.project,
            run=run,
            body_digest=digest_of(start.model_dump(exclude_unset=True)),
            policy=start.policy or {},
            origin=Origin.BUILTIN,
            state=EpisodeState.QUEUED,
            max_steps=max_steps,
            started_by=actor.name,
            heartbeat_at=now,
            **policy_facts(start.policy or {}),
            **start.model_dump(exclude={"run", "tools", "policy"}, exclude_none=True),
        )
        for start in starts
    ]
    Episode.every.bulk_create(made, batch_size=BATCH)
    _note(made, "queued", actor)
    return made


def cancel_unbegun(actor: Actor, run: Run, reason: str) -> int:
    """Cancel the episodes of a run that no worker ever began; none of them has steps or asks."""
    may_launch(actor)
    # a locked one is being begun: the caller cancels it like any live episode
    waiting = Episode.every.select_for_update(skip_locked=True).filter(run=run, state=EpisodeState.QUEUED, attempt=0)
    rows = list(waiting.only("pk"))
    Episode.every.filter(pk__in=[one.pk for one in rows]).update(state=EpisodeState.CANCELLED, ended_at=timezone.now())
    _note(rows, "cancelled", actor, reason)
    return len(rows)


def _note(episodes: Sequence[Episode], verb: str, actor: Actor, reason: str = "") -> None:
    events = [EpisodeEvent(episode=one, verb=verb, actor=actor.name, reason=reason) for one in episodes]
    EpisodeEvent.objects.bulk_create(events, batch_size=BATCH)
