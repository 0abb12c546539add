"""Writes: one pass of a project's rules, in small transactions, or its preview, which writes nothing.

Each batch is locked, asked again what is left out, and committed with its tombstone and its line of the audit trail. A
pass that was killed is continued by the next one: what was erased is no candidate any more. Two passes at the same time
wait for each other's rows, and then find them erased.
"""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from awmweb.erasing import datasets, episodes
from awmweb.retention import emptying, reasons
from awmweb.retention.rules import Kind, rules_of
from episodes.models import Episode, Origin
from experts.models import Ask
from exports.assembly import storing
from exports.jobs import removing, requesting, turns
from exports.models import PUSHING, Export, ExportState, Push
from people.access import Actor, scoped, system
from people.errors import OnHold
from people.models import Project, RetentionRule, Tombstone
from people.record import holding
from people.record.audit import record

LOOKED_AT = 200
"""Episodes, asks or exports that are looked up together."""
STEPS_MAX = 5_000
"""Steps that one transaction empties or deletes; an episode that has more is one by itself."""
ARCHIVED = "the project is archived and read-only"
Families = Mapping[str, Set[str]]


@dataclass
class RulePass:
    """What one rule erased, or would erase, in one project, and what it left out, by reason."""

    rule: RetentionRule
    before: datetime
    erased: int = 0
    steps: int = 0
    left: Counter[str] = field(default_factory=Counter)
    is_whole: bool = True
    """Whether a preview counted all; one within a time counts what it can."""

    @property
    def project(self) -> Project:
        return self.rule.project


def work(projects: Iterable[Project]) -> Iterator[RulePass]:
    """Run the rules of projects, one after the other."""
    for project in projects:
        for report in _reports(project):
            if project.archived_at is None:
                _RUNS[Kind(report.rule.kind)](report)
            else:
                _preview(report)
            yield report


def preview(project: Project, within_s: float | None = None) -> list[RulePass]:
    """Return what a pass would erase now, and what it would leave out. Writes nothing.

    With a time it stops counting then, after some of each rule: the time of a full one grows with the data.
    """
    found = list(_reports(project))
    until = time.monotonic() + within_s if within_s is not None else None
    for report in found:
        _preview(report, until)
    return found


def with_rules() -> QuerySet[Project]:
    return Project.objects.filter(Exists(RetentionRule.objects.filter(project=OuterRef("pk")))).order_by("slug")


def _reports(project: Project) -> Iterator[RulePass]:
    for rule in rules_of(project).values():
        rule.project = project
        yield RulePass(rule, timezone.now() - timedelta(days=rule.days))


def _preview(report: RulePass, until: float | None = None) -> None:
    for rows in _chunks(_CANDIDATES[Kind(report.rule.kind)](report)):
        why = _WHY[Kind(report.rule.kind)](report, rows)
        if report.project.archived_at is not None:
            why = {pk: why.get(pk, ARCHIVED) for pk, _ in rows}
        report.left.update(why.values())
        report.erased += len(rows) - len(why)
        report.steps += sum(steps for pk, steps in rows if pk not in why)
        if until is not None and len(rows) == LOOKED_AT and time.monotonic() > until:
            report.is_whole = False
            return


def _chunks(candidates: QuerySet[Any]) -> Iterator[list[tuple[str, int]]]:
    """Yield candidates with their steps, each once, in the order of their IDs."""
    after = ""
    ordered = candidates.order_by("pk")
    while rows := list(ordered.filter(pk__gt=after)[:LOOKED_AT]):
        yield rows
        after = rows[-1][0]


def _batches(rows: Sequence[tuple[str, int]]) -> Iterator[list[str]]:
    """Split candidates by the steps that a transaction takes."""
    batch: list[str] = []
    taken = 0
    for pk, steps in rows:
        if batch and taken + steps > STEPS_MAX:
            yield batch
            batch, taken = [], 0
        batch.append(pk)
        taken += steps
    if batch:
        yield batch


def _old_episodes(report: RulePass) -> QuerySet[Any]:
    rule = report.rule
    rows = Episode.every.filter(state__in=rule.states, ended_at__lt=report.before)
    of_kind = {Kind.STEPS: ~Q(origin=Origin.BRANCH) & Q(steps_erased_at=None), Kind.BRANCHES: Q(origin=Origin.BRANCH)}
    return scoped(rows.filter(of_kind[Kind(rule.kind)]), report.project).values_list("pk", "last_seq")


def _old_asks(report: RulePass) -> QuerySet[Any]:
    rows = Ask.objects.filter(status__in=report.rule.states, closed_at__lt=report.before)
    drafts, answers = emptying.outputs_of(Q(ask=OuterRef("pk")), with_delivered=False)
    found = rows.filter(Q(Exists(drafts)) | Q(Exists(answers)))
    return scoped(found, report.project).values_list("pk", "seq")


def _old_exports(report: RulePass) -> QuerySet[Any]:
    rows = Export.objects.filter(state__in=report.rule.states, ended_at__lt=report.before)
    return scoped(rows, report.project).values_list("pk", "rows")


def _families(ids: Sequence[str]) -> dict[str, set[str]]:
    """Return each episode with its branches, and the branches of these."""
    found = {pk: {pk} for pk in ids}
    level = {pk: {pk} for pk in ids}
    while level:
        rows = Episode.every.filter(fork__parent__in=list(level)).values_list("fork__parent_id", "pk")
        below: dict[str, set[str]] = {}
        for parent, branch in rows:
            for root in level[parent]:
                found[root].add(branch)
                below.setdefault(branch, set()).add(root)
        level = below
    return found


def _why_episodes(report: RulePass, rows: Sequence[tuple[str, int]]) -> dict[str, str]:
    return reasons.left_out(report.project, _families([pk for pk, _ in rows]), report.before)


def _why_asks(report: RulePass, rows: Sequence[tuple[str, int]]) -> dict[str, str]:
    of = dict(Ask.objects.filter(pk__in=[pk for pk, _ in rows]).values_list("pk", "episode_id"))
    # of the episode alone: a later branch has no part in its asks
    why = reasons.left_out(report.project, {pk: {pk} for pk in of.values()}, timezone.now())
    return {ask: why[episode] for ask, episode in of.items() if episode in why}


def _why_exports(report: RulePass, rows: Sequence[tuple[str, int]]) -> dict[str, str]:
    ids = [pk for pk, _ in rows]
    building = Export.objects.filter(project=report.project, state=ExportState.BUILDING).exists()
    why = dict.fromkeys(ids, reasons.IN_WORK) if building else {}
    why |= dict.fromkeys(
        Push.objects.filter(export__in=ids, state__in=PUSHING).values_list("export", flat=True), "it is being pushed"
    )
    for export in Export.objects.filter(pk__in=ids).select_related("project"):
        try:
            with transaction.atomic():
                requesting.refuse_on_hold(export)
        except OnHold:
            why[export.pk] = reasons.HELD
    return why


def _run_episodes(report: RulePass) -> None:
    for rows in _chunks(_old_episodes(report)):
        sizes = dict(rows)
        for batch in _batches(rows):
            with transaction.atomic():
                holding.guard(report.project)
                families = _locked(batch)
                still = dict(_old_episodes(report).filter(pk__in=batch))
                families = {pk: those for pk, those in families.items() if pk in still}
                why = reasons.left_out(report.project, families, report.before)
                erased = {pk: those for pk, those in families.items() if pk not in why}
                if erased and _is_building(report):
                    why |= dict.fromkeys(erased, reasons.IN_WORK)
                    erased = {}
                if erased:
                    _erase_episodes(report, erased)
            report.left.update(why.values())
            report.erased += len(erased)
            report.steps += sum(sizes[pk] for pk in erased)


def _locked(batch: Sequence[str]) -> Families:
    """Lock episodes and their branches in the order of their IDs; return those that are left."""
    families, before = _families(batch), None
    while families != before:  # one can be forked before its lock is held
        list(
            Episode.every.filter(pk__in={one for those in families.values() for one in those})
            .order_by("pk")
            .select_for_update()
        )
        before, families = families, _families(batch)
    return families


def _is_building(report: RulePass) -> bool:
    """Return whether a worker reads episodes for an export now; until the end of the transaction none begins to."""
    turns.hold()
    return scoped(Export.objects.filter(state=ExportState.BUILDING), report.project).exists()


def _erase_episodes(report: RulePass, families: Families) -> None:
    actor = system(report.project)
    members = {one for those in families.values() for one in those}
    lost: list[dict[str, Any]] = []
    if report.rule.kind == Kind.STEPS:
        fell = emptying.empty(members)
    else:
        fell = episodes.erase_rows(actor, members)
        lost = datasets.drop(actor, *datasets.affected(report.project, members, _may_have_branches))
    _bury(report, actor, sorted(families), fell, lost)


def _may_have_branches(export: Export) -> bool:
    return "branches" in export.recipe.get("include", ()) or Origin.BRANCH in export.recipe.get("filter", {}).get(
        "origin", ()
    )


def _run_asks(report: RulePass) -> None:
    for rows in _chunks(_old_asks(report)):
        with transaction.atomic():
            holding.guard(report.project)
            ids = [pk for pk, _ in rows]
            list(Ask.objects.filter(pk__in=ids).order_by("pk").select_for_update())
            still = list(_old_asks(report).filter(pk__in=ids))
            why = _why_asks(report, still)
            erased = [pk for pk, _ in still if pk not in why]
            if erased:
                fell = emptying.empty_outputs(Q(ask__in=erased), with_delivered=False)
                _bury(report, system(report.project), erased, fell, [])
        report.left.update(why.values())
        report.erased += len(erased)


def _run_exports(report: RulePass) -> None:
    """Delete exports one by one. Their files go after the commit, or by the sweep if this process is killed first."""
    for rows in _chunks(_old_exports(report)):
        for pk, _ in rows:
            with transaction.atomic():
                holding.guard(report.project)
                turns.hold()
                still = list(_old_exports(report).filter(pk=pk).select_for_update())
                why = _why_exports(report, still)
                if still and not why:
                    _erase_export(report, pk)
            report.left.update(why.values())
            report.erased += len(still) - len(why)


def _erase_export(report: RulePass, pk: str) -> None:
    export = Export.objects.get(pk=pk)
    pushes = Push.objects.filter(export=export).exclude(address="").values_list("address", flat=True)
    said = {"dataset": export.dataset, "format": export.format, "rows": [], "fallen": export.rows, "of": export.rows}
    said |= {"exports": [pk], "pushed_to": sorted(set(pushes)), "not_built_again": "old enough for the rule"}
    export.delete()
    transaction.on_commit(functools.partial(storing.forget_work, pk))
    if export.dataset:
        removing.after_commit(export.project_id, export.dataset)
    _bury(report, system(report.project), [pk], Counter({"exports.Export": 1}), [said])


def _bury(
    report: RulePass, actor: Actor, ids: Sequence[str], fell: Mapping[str, int], lost: list[dict[str, Any]]
) -> None:
    """Leave a tombstone of a batch, and a line in the audit trail."""
    rule = report.rule
    Tombstone.objects.create(
        project=report.project,
        kind=Tombstone.Kind.RULE,
        subject=rule.kind,
        by=actor.name,
        fell=dict(sorted(fell.items())),
        datasets=lost,
        left=episodes.left_of(lost),
        about={"days": rule.days, "states": rule.states, "ids": list(ids)},
    )
    record(actor, "retention.erased", rule.kind, f"{len(ids):,} after {rule.days} days")


_CANDIDATES = {
    Kind.STEPS: _old_episodes,
    Kind.BRANCHES: _old_episodes,
    Kind.GENERATIONS: _old_asks,
    Kind.EXPORTS: _old_exports,
}
_WHY = {
    Kind.STEPS: _why_episodes,
    Kind.BRANCHES: _why_episodes,
    Kind.GENERATIONS: _why_asks,
    Kind.EXPORTS: _why_exports,
}
_RUNS = {
    Kind.STEPS: _run_episodes,
    Kind.BRANCHES: _run_episodes,
    Kind.GENERATIONS: _run_asks,
    Kind.EXPORTS: _run_exports,
}
