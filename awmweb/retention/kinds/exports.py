"""Retention of exports with their files."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from awmweb.retention import reasons
from awmweb.retention.rule_pass import RetentionKind, RulePass, Sized, bury, chunks
from exports.assembly import storing
from exports.jobs import removing, requesting, turns
from exports.models import PUSHING, Export, ExportState, Push
from people.access import scoped, system
from people.errors import OnHold
from people.record import holding


def _old(report: RulePass) -> QuerySet[Any]:
    rows = Export.objects.filter(state__in=report.rule.states, ended_at__lt=report.before)
    return scoped(rows, report.project).values_list("pk", "rows")


def _why(report: RulePass, rows: Sequence[Sized]) -> dict[str, str]:
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


def _run(report: RulePass) -> None:
    """Delete exports one by one. Their files go after the commit, or by the sweep if this process is killed first."""
    for rows in chunks(_old(report)):
        for pk, _ in rows:
            with transaction.atomic():
                holding.guard(report.project)
                turns.hold()
                still = list(_old(report).filter(pk=pk).select_for_update())
                why = _why(report, still)
                if still and not why:
                    _erase(report, pk)
            report.left.update(why.values())
            report.erased += len(still) - len(why)


def _erase(report: RulePass, pk: str) -> None:
    export = Export.objects.get(pk=pk)
    pushes = Push.objects.filter(export=export).exclude(address="").values_list("address", flat=True)
    fallen = {"dataset": export.dataset, "format": export.format, "rows": [], "fallen": export.rows, "of": export.rows}
    fallen |= {"exports": [pk], "pushed_to": sorted(set(pushes)), "not_built_again": "old enough for the rule"}
    export.delete()
    transaction.on_commit(functools.partial(storing.forget_work, pk))
    if export.dataset:
        removing.after_commit(export.project_id, export.dataset)
    bury(report, system(report.project), [pk], Counter({"exports.Export": 1}), [fallen])


EXPORTS = RetentionKind(
    name="exports",
    label="Exports",
    nouns=("export", "exports"),
    erases="Exports with their files. A tombstone lists what each dataset was.",
    states=(ExportState.DONE, ExportState.FAILED, ExportState.CANCELLED),
    candidates=_old,
    why_left_out=_why,
    run=_run,
)
