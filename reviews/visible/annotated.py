"""Reads: which annotations of an episode count, and which of them an actor sees. For pages and `reports.py`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from episodes.models import Episode
from episodes.visible import visibility
from people.access import Actor, scoped
from reviews.models import COMMENT, Annotation


def current(rows: Any) -> list[Annotation]:
    """Return what counts of these: each comment as it was last said, and under every other label the newest of each
    author at each place, unless it was withdrawn."""
    newest: dict[tuple[Any, ...], Annotation] = {}
    chains: dict[str, str] = {}
    for row in rows.order_by("created_at", "pk"):
        # a comment and its later words are one chain; two comments at one place are two
        chain = chains.get(row.supersedes_id or "", row.supersedes_id or row.pk) if row.label == COMMENT else ""
        chains[row.pk] = chain
        place = (row.author_key, row.episode_id, row.seq, row.path, row.start, row.end, row.ask_id, row.label, chain)
        newest[place] = row
    return [row for row in newest.values() if not row.withdrawn]


def seen_by(actor: Actor, episode: Episode) -> list[Annotation]:
    """Return what this actor may read of it now, by step: of an episode that they judge blind, only their own."""
    rows = Annotation.objects.filter(episode=episode).select_related("schema")
    if not visibility.sees_outcome(actor, episode):
        rows = rows.filter(author_key=actor.key)
    return sorted(current(rows), key=lambda one: (one.seq or 0, one.created_at))


def own_labels(actor: Actor, ids: Collection[str], label: str) -> dict[str, Annotation]:
    """Return what counts of this actor's own on whole episodes under a label, by episode."""
    rows = scoped(Annotation.objects.filter(episode__in=ids), actor.project, "episode__project")
    mine = rows.filter(author_key=actor.key, label=label, seq__isnull=True, ask_id="")
    return {row.episode_id: row for row in current(mine)}
