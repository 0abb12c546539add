"""Reads: which annotations of an episode count, and which of them an actor sees. For pages and `reports.py`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.db.models import QuerySet

from episodes.models import Episode, Privilege
from episodes.visible import visibility
from people.access import Actor, scoped
from reviews.models import COMMENT, Annotation, Correction, CorrectionKind


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


def newest_of(episodes: QuerySet[Episode], labels: Collection[str]) -> dict[str, list[str]]:
    """Return the ids of the newest annotation of each whole step under each of these labels, by episode; none where
    the newest one was withdrawn."""
    rows = Annotation.objects.filter(
        episode__in=episodes.order_by().values("pk"), label__in=labels, seq__isnull=False, path=""
    ).order_by("created_at", "pk")
    newest: dict[str, dict[tuple[int | None, str], str]] = {}
    for pk, withdrawn, episode, seq, label in rows.values_list("pk", "withdrawn", "episode_id", "seq", "label"):
        newest.setdefault(episode, {})[seq, label] = "" if withdrawn else pk
    return {episode: [pk for pk in said.values() if pk] for episode, said in newest.items()}


def blind_corrections(episodes: QuerySet[Episode]) -> dict[str, list[str]]:
    """Return the ids of other calls and messages of reviewers who could not read the verifier, by episode."""
    rows = Correction.objects.filter(
        episode__in=episodes.order_by().values("pk"),
        superseded_by__isnull=True,
        withdrawn=False,
        privilege=Privilege.BLIND,
        kind__in=[CorrectionKind.CALL, CorrectionKind.MESSAGE],
    )
    found: dict[str, list[str]] = {}
    for episode, pk in rows.order_by("seq", "created_at", "pk").values_list("episode_id", "pk"):
        found.setdefault(episode, []).append(pk)
    return found
