"""Reads: which episodes an export includes, as a query and as an immutable snapshot.

A snapshot names each episode with the length of its record and the outcomes and ruling that counted when it was taken.
The same snapshot therefore gives the same files on any machine at any time. Leaves the meaning of filters to
`episodes.find.selection`.
"""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any

import orjson
from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import F, Q, QuerySet
from django.db.models.functions import MD5, Coalesce, Collate
from django.utils import timezone

from awmclient.schema import LIVE_STATES
from episodes.find.selection import filtered, refuse_unknown_values
from episodes.models import Episode, EpisodeState, PictureUse, VerifierOutcome
from episodes.stored import outcomes
from episodes.stored.splits import task_key
from episodes.visible import visibility
from experts.models.asks import TAGS
from exports.recipe import Recipe
from exports.select.measured import PinnedFork, measured
from people.access import Actor, may_export
from people.models import Project
from reviews.statistics import reports
from reviews.visible import annotated, rulings
from runs.taskset import probes

BRANCH_DEPTH = 3
"""Forks of branches: how far below the episodes that a filter selects their branches are included."""
_LINE = json.JSONEncoder(separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class SnapshotEntry:
    """One episode of a snapshot: its ID, its task, the number of its last step, and what counted when it was taken: the
    IDs of its outcomes, the fault that the court found with its task, the IDs of corrections, the verdict of blind
    reviewers, the IDs of labels of its questions, whether its task is known to pass unchanged, the forks that show a
    difference, the votes of blind people on its pairs, and whether it has pictures that rows can have."""

    episode: str
    task: str
    last_seq: int
    outcomes: tuple[int, ...]
    ruling: str = ""
    corrections: tuple[str, ...] = ()
    verdict: str = ""
    tags: tuple[str, ...] = ()
    unchanged: bool = False
    forks: tuple[PinnedFork, ...] = ()
    compared: tuple[tuple[Any, ...], ...] = ()
    has_pictures: bool = False

    def line(self) -> str:
        forks = [fork.pinned for fork in self.forks]
        reviews = [self.ruling, list(self.corrections), self.verdict, list(self.tags), self.unchanged, forks]
        reviews += [[list(one) for one in self.compared], self.has_pictures]
        while reviews and not reviews[-1]:
            reviews.pop()
        fields = [self.episode, self.task, self.last_seq, list(self.outcomes), *reviews]
        return _LINE.encode(fields) + "\n"

    @classmethod
    def read(cls, line: bytes) -> SnapshotEntry:
        episode, task, last_seq, kept, *reviews = orjson.loads(line)
        nothing: list[Any] = ["", (), "", (), False, (), (), False]
        ruling, corrections, verdict, tags, unchanged, forks, compared, has_pictures = reviews + nothing[len(reviews) :]
        shown = tuple(PinnedFork(*one) for one in forks)
        pinned = (ruling, tuple(corrections), verdict, tuple(tags), unchanged, shown, tuple(map(tuple, compared)))
        return cls(episode, task, last_seq, tuple(kept), *pinned, has_pictures)


@dataclass(frozen=True)
class PinnedReviews:
    """What a snapshot pins beside outcomes: rulings by task key, versions of tasks that pass unchanged by task key, the
    rest by episode."""

    ruled: Mapping[str, str] = field(default_factory=dict)
    corrected: Mapping[str, Sequence[str]] = field(default_factory=dict)
    judged: Mapping[str, str] = field(default_factory=dict)
    tagged: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unchanged: Mapping[str, Collection[str]] = field(default_factory=dict)
    forks: Mapping[str, Sequence[PinnedFork]] = field(default_factory=dict)
    compared: Mapping[str, Sequence[tuple[Any, ...]]] = field(default_factory=dict)
    pictured: Collection[str] = ()

    def passes_unchanged(self, task: str, version: str) -> bool:
        """Return whether a task of this version passes unchanged; where a version is unknown, any counts."""
        versions = self.unchanged.get(task, ())
        return version in versions or "" in versions or (not version and bool(versions))


def selected(actor: Actor, recipe: Recipe) -> QuerySet[Episode]:
    """Return the ended episodes that match the recipe's filters, without those that the actor has to judge blind,
    because an export reveals outcomes. Raises `Invalid`, which names filter and value."""
    may_export(actor)
    refuse_unknown_values(actor.project, recipe.filter)
    return visibility.with_open_outcome(actor, matching(actor.project, recipe))


def may_open(actor: Actor) -> None:
    """Raise unless the actor can export, and read files with outcomes, and has nothing to judge blind."""
    may_export(actor)
    visibility.refuse_while_blind(actor)


def matching(project: Project, recipe: Recipe) -> QuerySet[Episode]:
    with timezone.override(UTC):  # a worker builds the recipe, and knows no reader
        rows = filtered(project, recipe.filter)
    if "branches" in recipe.include:
        roots = rows.order_by().values("pk")
        below = [Q(**{f"fork{'__parent__fork' * depth}__parent__in": roots}) for depth in range(BRANCH_DEPTH)]
        rows = Episode.every.filter(functools.reduce(operator.or_, below, Q(pk__in=roots)), project=project)
    return rows.exclude(state__in=LIVE_STATES)


def usable(rows: QuerySet[Episode], recipe: Recipe) -> QuerySet[Episode]:
    """Filter to episodes that the rules about faults and outcomes (`leakage.py`) may let through: without a fault, and
    with an outcome of a source that the recipe trusts."""
    if recipe.kind.needs == "tasks":
        return rows
    source = VerifierOutcome.Source
    trusted = [source.VERIFIER, source.ATTESTED, *([source.REPORTED] if "reported" in recipe.include else [])]
    condition = Q(outcomes__source__in=trusted, state=EpisodeState.FINISHED, fault="")
    if recipe.kind.needs == "complete":
        condition &= Q(outcomes__reward_type="complete")
    return rows.filter(condition)


def snapshot(rows: QuerySet[Episode], reviews: PinnedReviews) -> Iterator[SnapshotEntry]:
    """Yield the entries of these episodes, grouped by task; the order depends on the rows only."""
    # few episodes match this; only for them is the task's text read
    of_texts = any(key.startswith("text/") for key in reviews.ruled)
    counting = Q(outcomes__isnull=False) & ~Q(outcomes__source=VerifierOutcome.Source.SUPERSEDED)
    verdicts = ArrayAgg("outcomes__pk", filter=counting, distinct=True, order_by="outcomes__pk")
    ordered = rows.annotate(verdicts=Coalesce(verdicts, []), text=MD5("task"))
    # by bytes, because the locale of a database must not change the order
    ordered = ordered.order_by(Collate("scenario", "C"), F("task_idx").asc(nulls_first=True), "text", "pk")
    always = ("pk", "scenario", "task_idx", "scenario_digest", "text", "last_seq", "verdicts")
    columns = (*always, *(["task"] if of_texts else []))
    for row in ordered.values_list(*columns).iterator(5000):
        pk, scenario, task_idx, version, text, last_seq, outcome_ids, *words = row
        yield SnapshotEntry(
            episode=pk,
            # the first part of the order, so that the episodes of a task are neighbors
            task=f"{scenario}/{task_idx}" if scenario and task_idx is not None else text,
            last_seq=last_seq,
            outcomes=tuple(outcome_ids),
            ruling=reviews.ruled.get(task_key(scenario, task_idx, *words), ""),
            corrections=tuple(reviews.corrected.get(pk, ())),
            verdict=reviews.judged.get(pk, ""),
            tags=tuple(reviews.tagged.get(pk, ())),
            unchanged=reviews.passes_unchanged(f"{scenario}/{task_idx}", version),
            forks=tuple(reviews.forks.get(pk, ())),
            compared=tuple(reviews.compared.get(pk, ())),
            has_pictures=pk in reviews.pictured,
        )


def entries_of(project: Project, recipe: Recipe, rows: QuerySet[Episode]) -> Iterator[SnapshotEntry]:
    """Return the snapshot of these episodes with the reviews that this recipe counts."""
    reviews = PinnedReviews(
        ruled=rulings.at_fault(project),
        corrected=annotated.blind_corrections(rows) if "corrections" in recipe.include else {},
        judged=reports.blind_verdicts(rows) if "rejected" not in recipe.include else {},
        tagged=annotated.newest_of(rows, TAGS) if recipe.format == "ask_decision" else {},
        unchanged=_unchanged(project, rows),
        forks=measured(rows) if recipe.format == "dpo" else {},
        compared=reports.blind_preferences(rows) if "compared" in recipe.include else {},
        pictured=_pictured(rows) if recipe.keeps_pictures else (),
    )
    return snapshot(rows, reviews)


def _pictured(rows: QuerySet[Episode]) -> frozenset[str]:
    uses = PictureUse.objects.filter(episode__in=rows.order_by().values("pk"))
    return frozenset(uses.values_list("episode_id", flat=True).distinct())


def _unchanged(project: Project, rows: QuerySet[Episode]) -> dict[str, set[str]]:
    """Return versions of tasks that pass unchanged, of scenarios with an outcome that awmweb's verifier did not find:
    such an outcome has no check of its own. Known from checks beside verified outcomes, from probes and from packs.
    """
    source = VerifierOutcome.Source
    loose = rows.filter(outcomes__source__in=[source.ATTESTED, source.REPORTED]).exclude(scenario="")
    scenarios = set(loose.order_by().values_list("scenario", flat=True).distinct())
    by_task: dict[str, set[str]] = {}
    if scenarios:
        for scenario, number, version, check in outcomes.checks_of(project, scenarios):
            if check.passes_unchanged:
                by_task.setdefault(f"{scenario}/{number}", set()).add(version)
        for task, version in probes.passing_unchanged(scenarios):
            by_task.setdefault(task, set()).add(version)
    return by_task


def filters_of(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the filters of a query string or of `K=V` arguments; a repeated name has several values."""
    filters: dict[str, list[str]] = {}
    for name, value in pairs:
        if value:
            filters.setdefault(name, []).append(value)
    return dict(filters)
