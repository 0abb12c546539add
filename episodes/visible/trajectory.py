"""Reads: stored rows -> wire steps and `schema.Trajectory`. Replay, pages, prompts and exports all start here."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Any

from django.conf import settings
from django.db.models import Func, IntegerField, QuerySet
from django.db.models.functions import Coalesce

from awmclient.schema import EpisodeView, Outcome, Trajectory
from episodes.models import Episode, Step, VerifierOutcome
from episodes.stored import outcomes
from episodes.stored.entries import StepEntry, with_time
from episodes.stored.truncation import cut_text
from episodes.visible.lens import EVERYTHING, STREAM, Lens, steps_through, through
from people.access import Actor, may_read, visible_or_404
from people.errors import NotFound

PAGE = 500
MAX_PAGE = 2000
PAGE_BYTES = 4 * 1024 * 1024
"""A page ends early rather than hold more than this, unless its first step alone does."""
SENT_BYTES = 1024 * 1024
"""The same for what a socket holds while its reader takes it: of those there may be many."""


class OctetLength(Func):
    """Bytes of a text, without reading it."""

    function = "octet_length"
    output_field = IntegerField()


def visible_episode(actor: Actor, episode_id: str) -> Episode:
    may_read(actor)
    return visible_or_404(Episode.every.select_related("run", "project"), actor, episode_id)


def steps_of(episode: Episode, since: int = 0, limit: int | None = None, *, lens: Lens = EVERYTHING) -> list[Any]:
    """Return wire steps with seq above `since`, in order."""
    rows = _rows(lens, episode, since)
    steps = list(rows[:limit] if limit else rows)
    for row in steps:
        row.body = through(lens, row.body)
    return [row.wire() for row in steps]


def page_text(lens: Lens, episode: Episode, since: int = 0, limit: int = PAGE) -> str:
    """Return a page of whole steps as JSON text (`StepPage`).

    Rows are text already, and reading and writing them again is most of what a page would cost."""
    rows = _rows(lens, episode, since)
    count, more = _fitting(rows, "body", min(limit, MAX_PAGE), PAGE_BYTES)
    bodies = rows.values_list("body", "at")[:count]
    steps = ",".join(with_time(through(lens, body), at) for body, at in bodies)
    return f'{{"steps": [{steps}], "more": {"true" if more else "false"}}}'


def step_text(lens: Lens, episode: Episode, seq: int) -> str:
    """Return one whole step as JSON text."""
    row = _rows(lens, episode, seq - 1).filter(seq=seq).values_list("body", "at").first()
    if row is None:
        raise NotFound
    return with_time(through(lens, row[0]), row[1])


def as_sent(entry: StepEntry) -> str:
    """Return a step as the stream carries it: JSON text, cut where it is large, always with its time, for any ears."""
    return with_time(through(STREAM, entry.cut or entry.text), entry.stamp)


def sent_after(lens: Lens, episode_id: str, since: int, limit: int) -> tuple[list[tuple[int, str]], bool]:
    """Return number and text of the stored steps as the stream carries them through a lens, and whether more follow."""
    rows = _rows(lens, episode_id, since).annotate(sent=Coalesce("cut", "body"))
    count, more = _fitting(rows, "sent", limit, SENT_BYTES)
    sent_rows = rows.values_list("seq", "sent", "at")[:count]
    return [(seq, with_time(through(lens & STREAM, cut_text(text)), at)) for seq, text, at in sent_rows], more


def _rows(lens: Lens, episode: Episode | str, since: int) -> QuerySet[Step]:
    return steps_through(lens, episode).filter(seq__gt=since).order_by("seq")


def _fitting(rows: QuerySet[Step], field: str, limit: int, most: int) -> tuple[int, bool]:
    """Return how many of the first `limit` rows fit into one answer, at least one if there is any, and whether more
    follow. PostgreSQL knows sizes without reading texts."""
    # one more than the limit shows whether others follow
    sizes = list(rows.annotate(size=OctetLength(field)).values_list("size", flat=True)[: limit + 1])
    count = bisect_right(list(accumulate(sizes[:limit])), most)
    count = max(count, min(1, len(sizes)))
    return count, len(sizes) > count


def view_of(episode: Episode) -> EpisodeView:
    """Return the state of an episode, without anything that an agent must not know."""
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
        scenario_digest=episode.scenario_digest or None,
    )


def build(episode: Episode) -> Trajectory:
    """Return the whole episode as one value."""
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
    by_source = outcomes.by_source(episode)
    maybe = ("scenario", "scenario_digest", "arm", "split", "checkpoint", "group_key", "stop_reason", "fault")
    return Trajectory.model_validate(
        {name: getattr(episode, name) for name in same}
        | {name: getattr(episode, name) or None for name in maybe}
        | {
            "episode": episode.pk,
            "project": episode.project.slug,
            "run": episode.run_id,
            "steps": steps_of(episode),
            "outcome": _value(by_source.get("verifier")),
            "reported": _value(by_source.get("reported")),
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
