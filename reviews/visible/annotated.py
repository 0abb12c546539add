"""Reads: which annotations of an episode count, and which of them an actor sees. Called by pages and `reports.py`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.db.models import QuerySet

from episodes.models import Episode, Privilege
from episodes.visible import visibility
from people.access import Actor, scoped
from reviews.models import COMMENT, Annotation, Correction, CorrectionKind


def current(rows: Any) -> list[Annotation]:
    """Return the ones that count: each comment in its last version, and for every other label the newest of each author
    at each place, unless it was withdrawn."""
    newest: dict[tuple[Any, ...], Annotation] = {}
    chains: dict[str, str] = {}
    for row in rows.order_by("created_at", "pk"):
        # the versions of a comment are one chain; two comments at one place are two chains
        chain = chains.get(row.supersedes_id or "", row.supersedes_id or row.pk) if row.label == COMMENT else ""
        chains[row.pk] = chain
        # answers to different asks at one step are different places
        place = (row.author_key, row.episode_id, row.seq, row.path, row.start, row.end, row.ask_id, row.label, chain)
        # ascending, so the last assignment is the newest
        newest[place] = row
    return [row for row in newest.values() if not row.withdrawn]


def seen_by(actor: Actor, episode: Episode) -> list[Annotation]:
    """Return the annotations that this actor can read now, by step: for an episode that they judge blind, only their
    own."""
    rows = Annotation.objects.filter(episode=episode).select_related("schema")
    if not visibility.sees_outcome(actor, episode):
        rows = rows.filter(author_key=actor.key)
    return sorted(current(rows), key=lambda row: (row.seq or 0, row.created_at))


def own_labels(actor: Actor, ids: Collection[str], label: str) -> dict[str, Annotation]:
    """Return this actor's own current labels on whole episodes, by episode."""
    rows = scoped(Annotation.objects.filter(episode__in=ids), actor.project, "episode__project")
    # tags of asks are labels, too
    mine = rows.filter(author_key=actor.key, label=label, seq__isnull=True, ask_id="")
    return {row.episode_id: row for row in current(mine)}


def newest_of(episodes: QuerySet[Episode], labels: Collection[str]) -> dict[str, list[str]]:
    """Return the IDs of the newest annotation of each whole step under each of these labels, by episode; none if the
    newest one was withdrawn."""
    rows = Annotation.objects.filter(
        episode__in=episodes.order_by().values("pk"), label__in=labels, seq__isnull=False, path=""
    ).order_by("created_at", "pk")
    newest: dict[str, dict[tuple[int | None, str], str]] = {}
    for pk, withdrawn, episode, seq, label in rows.values_list("pk", "withdrawn", "episode_id", "seq", "label"):
        # a withdrawn one hides the older ones, which it does not restore
        newest.setdefault(episode, {})[seq, label] = "" if withdrawn else pk
    return {episode: [pk for pk in said.values() if pk] for episode, said in newest.items()}


def blind_corrections(episodes: QuerySet[Episode]) -> dict[str, list[str]]:
    """Return the IDs of corrections to calls and messages by reviewers without verifier access, by episode."""
    rows = Correction.objects.filter(
        episode__in=episodes.order_by().values("pk"),
        superseded_by__isnull=True,
        withdrawn=False,
        privilege=Privilege.BLIND,
        kind__in=[CorrectionKind.CALL, CorrectionKind.MESSAGE],
    )
    by_episode: dict[str, list[str]] = {}
    for episode, pk in rows.order_by("seq", "created_at", "pk").values_list("episode_id", "pk"):
        by_episode.setdefault(episode, []).append(pk)
    return by_episode
