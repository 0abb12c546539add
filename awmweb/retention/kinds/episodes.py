"""Retention of ended episodes: the words of their steps, and branches of forks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from awmweb.erasing import datasets, episodes
from awmweb.retention import emptying, reasons
from awmweb.retention.rule_pass import RetentionKind, RulePass, Sized, batches, bury, chunks
from episodes.models import ENDED_STATES, Episode, Origin
from exports.jobs import turns
from exports.models import Export, ExportState
from people.access import scoped, system
from people.record import holding

Families = Mapping[str, Set[str]]
Erase = Callable[[RulePass, Set[str]], tuple[Mapping[str, int], list[dict[str, Any]]]]


def _old(which: Q, report: RulePass) -> QuerySet[Any]:
    rows = Episode.every.filter(which, state__in=report.rule.states, ended_at__lt=report.before)
    return scoped(rows, report.project).values_list("pk", "last_seq")


def _families(ids: Sequence[str]) -> dict[str, set[str]]:
    """Return each episode with its branches, and the branches of these."""
    families = {pk: {pk} for pk in ids}
    level = {pk: {pk} for pk in ids}
    while level:
        rows = Episode.every.filter(fork__parent__in=list(level)).values_list("fork__parent_id", "pk")
        below: dict[str, set[str]] = {}
        for parent, branch in rows:
            for root in level[parent]:
                families[root].add(branch)
                below.setdefault(branch, set()).add(root)
        level = below
    return families


def _why(report: RulePass, rows: Sequence[Sized]) -> dict[str, str]:
    return reasons.left_out(report.project, _families([pk for pk, _ in rows]), report.before)


def _run(which: Q, erase: Erase, report: RulePass) -> None:
    for rows in chunks(_old(which, report)):
        sizes = dict(rows)
        for batch in batches(rows):
            with transaction.atomic():
                holding.guard(report.project)
                families = _locked(batch)
                still = dict(_old(which, report).filter(pk__in=batch))
                families = {pk: those for pk, those in families.items() if pk in still}
                why = reasons.left_out(report.project, families, report.before)
                erased = {pk: those for pk, those in families.items() if pk not in why}
                if erased and _is_building(report):
                    why |= dict.fromkeys(erased, reasons.IN_WORK)
                    erased = {}
                if erased:
                    fell, lost = erase(report, {one for those in erased.values() for one in those})
                    bury(report, system(report.project), sorted(erased), fell, lost)
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


def _empty(_report: RulePass, members: Set[str]) -> tuple[Mapping[str, int], list[dict[str, Any]]]:
    return emptying.empty(members), []


def _delete(report: RulePass, members: Set[str]) -> tuple[Mapping[str, int], list[dict[str, Any]]]:
    actor = system(report.project)
    fell = episodes.erase_rows(actor, members)
    return fell, datasets.drop(actor, *datasets.affected(report.project, members, _may_have_branches))


def _may_have_branches(export: Export) -> bool:
    return "branches" in export.recipe.get("include", ()) or Origin.BRANCH in export.recipe.get("filter", {}).get(
        "origin", ()
    )


_WITH_WORDS, _BRANCHES = ~Q(origin=Origin.BRANCH) & Q(steps_erased_at=None), Q(origin=Origin.BRANCH)
STEPS = RetentionKind(
    name="steps",
    label="Raw steps",
    nouns=("episode", "episodes"),
    erases="The words of steps of ended episodes and of their branches. Numbers, kinds, tools and times are left, "
    "and so are outcomes, asks, labels and verdicts.",
    states=ENDED_STATES,
    candidates=partial(_old, _WITH_WORDS),
    why_left_out=_why,
    run=partial(_run, _WITH_WORDS, _empty),
    says_steps=True,
)
BRANCHES = RetentionKind(
    name="branches",
    label="Branches",
    nouns=("branch", "branches"),
    erases="Branches of forks, with all that hangs on them. Their forks still count them as tries.",
    states=ENDED_STATES,
    candidates=partial(_old, _BRANCHES),
    why_left_out=_why,
    run=partial(_run, _BRANCHES, _delete),
    says_steps=True,
)
