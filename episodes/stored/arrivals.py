"""An episode that was recorded elsewhere, prepared for storing. Pure.

Owns the fields of an episode that a file can set. Leaves reading files to `imports`, and storing to
`episodes/record/admitting.py`.

"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from django.utils import timezone

from awmclient.schema import LIVE_STATES, EpisodeStart, Fault, Outcome, StopReason, Trajectory
from episodes.stored.entries import StepEntry, aware, entries_of_read
from episodes.stored.pictured import named_pictures
from episodes.stored.policies import policy_facts
from people.errors import Invalid
from people.models import new_id

FAULTS: Sequence[str] = get_args(Fault)
STOP_REASONS: Sequence[str] = get_args(StopReason)


@dataclass(frozen=True)
class Arrival:
    """An episode from elsewhere, ready to be stored: the fields of its row and of its outcome as JSON values, the text
    of its history, its steps as lines for `COPY`, and the digests of its pictures."""

    episode: dict[str, Any]
    outcome: dict[str, Any] | None
    about: str
    steps: bytes
    pictures: Sequence[str] = ()

    @property
    def key(self) -> str:
        return str(self.episode["key"])


def arrival_of(start: EpisodeStart, trajectory: Trajectory, about: str, came: Container[str] = ()) -> Arrival:
    """Prepare an episode whose values were all read from JSON. `came` are the pictures that its file had as data.

    Raises:
        Invalid: an ended episode cannot have these values.

    """
    if problem := _problem_of(trajectory):
        raise Invalid(problem)
    entries = entries_of_read(trajectory.steps)
    if [entry.seq for entry in entries] != list(range(1, len(entries) + 1)):
        raise Invalid("Its steps are not numbered 1, 2, 3 without gaps.")
    episode = {**_fields(start, trajectory), **_stretch(entries, trajectory)}
    pictures = sorted(named_pictures(entries, came))
    return Arrival(episode, _outcome(trajectory), about[:2000], lines_of(episode["id"], entries), pictures)


def lines_of(episode_id: str, entries: Sequence[StepEntry]) -> bytes:
    """Return an episode's steps as lines for `COPY`."""
    return "".join(_line(episode_id, entry) for entry in entries).encode()


def _problem_of(trajectory: Trajectory) -> str:
    """Return why an ended episode cannot have these values; "" if it can."""
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


def _fields(start: EpisodeStart, trajectory: Trajectory) -> dict[str, Any]:
    policy = start.policy or {}
    return {
        **start.model_dump(exclude={"run", "tools", "policy"}, exclude_none=True),
        **policy_facts(policy),
        "id": new_id(),
        "tools": [tool.model_dump() for tool in start.tools or []],
        "policy": policy,
        "state": trajectory.state,
        "stop_reason": trajectory.stop_reason or "",
        "fault": trajectory.fault or "",
        "final_answer": trajectory.final_answer,
    }


def _stretch(entries: Sequence[StepEntry], trajectory: Trajectory) -> dict[str, Any]:
    """Return an episode's number of steps, strip and times, computed from its steps unless the file states times."""
    stated = [aware(at) for at in (trajectory.started_at, trajectory.ended_at) if at is not None]
    times = stated or [entry.at for entry in entries] or [timezone.now()]
    return {
        "last_seq": len(entries),
        "strip": "".join(entry.code for entry in entries),
        "started_at": min(times).isoformat(),
        "ended_at": max(times).isoformat(),
    }


def _line(episode_id: str, entry: StepEntry) -> str:
    """Return a step as a line for `COPY`. Its texts are ASCII without control characters, so only backslashes need
    escapes."""
    body = entry.text.replace("\\", "\\\\")
    cut = "\\N" if entry.cut is None else entry.cut.replace("\\", "\\\\")
    return f"{episode_id}\t{entry.seq}\t{entry.kind}\t{body}\t{cut}\t{entry.at.isoformat()}\n"


def _outcome(trajectory: Trajectory) -> dict[str, Any] | None:
    outcome: Outcome | None = trajectory.outcome or trajectory.reported
    if outcome is None:
        return None
    # what the file claims stays readable in the details; the row itself counts as reported
    claimed = {} if outcome.source == "reported" else {"claimed_source": outcome.source}
    return {
        # as a column of text can hold it
        "reward_type": outcome.reward_type.replace("\x00", "?").encode("utf-8", "replace").decode(),
        "reward": outcome.reward,
        "details": {**outcome.details, **claimed},
        "state_diff": outcome.state_diff,
    }
