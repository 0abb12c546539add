"""Reads: stored rows -> wire steps and `schema.Trajectory`. Replay, pages, prompts and exports all start here."""

from __future__ import annotations

from typing import Any

from django.conf import settings

from awmclient.schema import EpisodeView, Outcome, Trajectory
from episodes.models import Episode, Step, VerifierOutcome
from people.access import Actor, may_read, sees_outcomes, visible_or_404

PAGE = 500
MAX_PAGE = 2000


def visible_episode(actor: Actor, episode_id: str) -> Episode:
    may_read(actor)
    return visible_or_404(Episode.objects.select_related("run", "project"), actor, episode_id)


def steps_of(
    episode: Episode, since: int = 0, limit: int | None = None, *, verification: bool = True
) -> list[dict[str, Any]]:
    """Wire steps with seq above `since`, in order; without verification for an agent's eyes."""
    return [row.wire() for row in step_rows(episode, since, limit, verification=verification)]


def step_rows(episode: Episode, since: int = 0, limit: int | None = None, *, verification: bool = True) -> list[Step]:
    rows = Step.objects.filter(episode=episode, seq__gt=since).order_by("seq")
    if not verification:
        rows = rows.exclude(kind="verification")
    return list(rows[:limit] if limit else rows)


def steps_for(actor: Actor, episode_id: str, since: int = 0, limit: int = PAGE) -> list[dict[str, Any]]:
    episode = visible_episode(actor, episode_id)
    return steps_of(episode, since, min(limit, MAX_PAGE), verification=sees_outcomes(actor))


def outcome_of(episode: Episode, source: str = "verifier") -> VerifierOutcome | None:
    return VerifierOutcome.objects.filter(episode=episode, source=source).first()


def view_of(episode: Episode) -> EpisodeView:
    """Where an episode stands, without anything that an agent must not know."""
    return EpisodeView(
        id=episode.pk,
        url=settings.AWMWEB_PUBLIC_URL + episode.get_absolute_url(),
        state=episode.state,
        last_seq=episode.last_seq,
        stop_reason=episode.stop_reason or None,
        fault=episode.fault or None,
        task=episode.task,
        scenario=episode.scenario or None,
        task_idx=episode.task_idx,
    )


def build(episode: Episode) -> Trajectory:
    """The whole episode as one value."""
    same = (
        "task_idx",
        "seed",
        "training_step",
        "task",
        "environment",
        "state",
        "expert",
        "policy",
        "tools",
        "final_answer",
    )
    maybe = ("scenario", "arm", "split", "checkpoint", "group_key", "stop_reason", "fault")
    return Trajectory.model_validate(
        {name: getattr(episode, name) for name in same}
        | {name: getattr(episode, name) or None for name in maybe}
        | {
            "episode": episode.pk,
            "project": episode.project.slug,
            "run": episode.run_id,
            "steps": steps_of(episode),
            "outcome": _value(outcome_of(episode)),
            "reported": _value(outcome_of(episode, "reported")),
        }
    )


def _value(row: VerifierOutcome | None) -> Outcome | None:
    if row is None:
        return None
    return Outcome(
        reward_type=row.reward_type,
        reward=row.reward,
        details=row.details,
        state_diff=row.state_diff,
        source=row.source,
    )
