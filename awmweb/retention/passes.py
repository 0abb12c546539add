"""Writes: one pass of a project's rules, in small transactions, or its preview, which writes nothing.

Each batch is locked, asked again what is left out, and committed with its tombstone and its line of the audit trail. A
pass that was killed is continued by the next one: what was erased is no candidate any more. Two passes at the same time
wait for each other's rows, and then find them erased.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from datetime import timedelta

from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from awmweb.retention import rule_pass
from awmweb.retention.kinds import KINDS
from awmweb.retention.rule_pass import RulePass, chunks
from awmweb.retention.rules import rules_of
from people.models import Project, RetentionRule

ARCHIVED = "the project is archived and read-only"


def work(projects: Iterable[Project]) -> Iterator[RulePass]:
    """Run the rules of projects, one after the other."""
    for project in projects:
        for report in _reports(project):
            if project.archived_at is None:
                KINDS[report.rule.kind].run(report)
            else:
                _preview(report)
            yield report


def preview(project: Project, within_s: float | None = None) -> list[RulePass]:
    """Return what a pass would erase now, and what it would leave out. Writes nothing.

    With a time it stops counting then, after some of each rule: the time of a full one grows with the data.
    """
    reports = list(_reports(project))
    until = time.monotonic() + within_s if within_s is not None else None
    for report in reports:
        _preview(report, until)
    return reports


def with_rules() -> QuerySet[Project]:
    return Project.objects.filter(Exists(RetentionRule.objects.filter(project=OuterRef("pk")))).order_by("slug")


def _reports(project: Project) -> Iterator[RulePass]:
    for rule in rules_of(project).values():
        rule.project = project
        yield RulePass(rule, timezone.now() - timedelta(days=rule.days))


def _preview(report: RulePass, until: float | None = None) -> None:
    kind = KINDS[report.rule.kind]
    for rows in chunks(kind.candidates(report)):
        why = kind.why_left_out(report, rows)
        if report.project.archived_at is not None:
            why = {pk: why.get(pk, ARCHIVED) for pk, _ in rows}
        report.left.update(why.values())
        report.erased += len(rows) - len(why)
        report.steps += sum(steps for pk, steps in rows if pk not in why)
        if until is not None and len(rows) == rule_pass.LOOKED_AT and time.monotonic() > until:
            report.is_whole = False
            return
