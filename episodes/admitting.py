"""Writes: episodes that were recorded elsewhere, whole and ended, each with its steps and its outcome.

Owns what an imported episode is: origin *import*, and its outcome *reported* whatever the file calls it, because no
verifier here has seen it. Leaves reading files to `imports`. Called inside the transaction of an import.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, get_args

from django.utils import timezone

from awmclient.schema import LIVE_STATES, EpisodeStart, Fault, Outcome, StopReason, Trajectory
from episodes.entries import Entry, entries_of
from episodes.models import Episode, EpisodeEvent, EpisodeState, Origin, Step, VerifierOutcome
from episodes.recording import policy_facts
from people.access import Actor, may_launch, scoped
from people.errors import Invalid

IMPORTED = "imported"
FAULTS: Sequence[str] = get_args(Fault)
STOP_REASONS: Sequence[str] = get_args(StopReason)


@dataclass(frozen=True)
class Arrival:
    """An episode that comes from elsewhere: its opening, the rest of it, and the words of its history."""

    start: EpisodeStart
    trajectory: Trajectory
    about: str


def known_keys(actor: Actor, keys: Collection[str]) -> dict[str, str]:
    """Return the ids of the project's episodes by key, of those keys that it has."""
    rows = scoped(Episode.objects.filter(key__in=keys), actor.project)
    return dict(rows.values_list("key", "pk"))


def admit(actor: Actor, arrivals: Sequence[Arrival]) -> list[Episode]:
    """Store episodes of which none is known yet. Caller holds the transaction."""
    may_launch(actor)
    now = timezone.now()
    made = [(_episode(actor, one, now), one, entries_of(one.trajectory.steps)) for one in arrivals]
    for episode, _, entries in made:
        _stretch(episode, entries)
    Episode.objects.bulk_create(episode for episode, _, _ in made)
    steps = (
        Step(episode=episode, seq=entry.seq, kind=entry.kind, body=entry.text, cut=entry.cut, at=entry.at)
        for episode, _, entries in made
        for entry in entries
    )
    Step.objects.bulk_create(steps, batch_size=2000)
    outcomes = (_outcome(episode, one.trajectory) for episode, one, _ in made)
    VerifierOutcome.objects.bulk_create(outcome for outcome in outcomes if outcome is not None)
    EpisodeEvent.objects.bulk_create(
        EpisodeEvent(episode=episode, verb=IMPORTED, actor=actor.name, reason=one.about[:2000])
        for episode, one, _ in made
    )
    return [episode for episode, _, _ in made]


def problem_of(trajectory: Trajectory) -> str:
    """Return why an ended episode cannot look like this, in words; empty if it can."""
    if trajectory.state in LIVE_STATES:
        return f"It has not ended: its state is {trajectory.state}."
    if trajectory.stop_reason is not None and trajectory.stop_reason not in STOP_REASONS:
        return f"Unknown stop reason {trajectory.stop_reason[:40]!r}."
    if trajectory.fault is not None and trajectory.fault not in FAULTS:
        return f"Unknown fault {trajectory.fault[:40]!r}."
    outcome = trajectory.outcome or trajectory.reported
    if outcome is not None and not 0 < len(outcome.reward_type) <= 200:
        return "The type of its outcome is not a text of 1 to 200 characters."
    return ""


def _episode(actor: Actor, arrival: Arrival, now: datetime) -> Episode:
    trajectory = arrival.trajectory
    fields: dict[str, Any] = arrival.start.model_dump(exclude={"run", "tools", "policy"}, exclude_none=True)
    return Episode(
        project=actor.project,
        body_digest="",
        tools=[tool.model_dump() for tool in arrival.start.tools or []],
        policy=arrival.start.policy or {},
        origin=Origin.IMPORT,
        **policy_facts(arrival.start.policy or {}),
        state=EpisodeState(trajectory.state),
        stop_reason=trajectory.stop_reason or "",
        fault=trajectory.fault or "",
        final_answer=trajectory.final_answer,
        started_by=actor.name,
        token=actor.token.pk if actor.token else "",
        started_at=now,
        ended_at=now,
        **fields,
    )


def _stretch(episode: Episode, entries: Sequence[Entry]) -> None:
    """Set the episode's number of steps, strip and times to those of its steps."""
    if [entry.seq for entry in entries] != list(range(1, len(entries) + 1)):
        raise Invalid("Its steps are not numbered 1, 2, 3 without gaps.")
    episode.last_seq = len(entries)
    episode.strip = "".join(entry.code for entry in entries)
    if entries:
        times = [entry.at for entry in entries]
        episode.started_at, episode.ended_at = min(times), max(times)


def _outcome(episode: Episode, trajectory: Trajectory) -> VerifierOutcome | None:
    said: Outcome | None = trajectory.outcome or trajectory.reported
    if said is None:
        return None
    claimed = {} if said.source == "reported" else {"claimed_source": said.source}
    return VerifierOutcome(
        episode=episode,
        source=VerifierOutcome.Source.REPORTED,
        reward_type=said.reward_type.replace("\x00", "?").encode("utf-8", "replace").decode(),
        reward=said.reward,
        details={**said.details, **claimed},
        state_diff=said.state_diff,
    )
