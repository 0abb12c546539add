"""Retention of what models wrote and no agent got, of closed asks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from awmweb.retention import emptying, reasons
from awmweb.retention.rule_pass import RetentionKind, RulePass, Sized, bury, chunks
from experts.models import Ask, AskStatus
from people.access import scoped, system
from people.record import holding


def _old(report: RulePass) -> QuerySet[Any]:
    rows = Ask.objects.filter(status__in=report.rule.states, closed_at__lt=report.before)
    drafts, answers = emptying.outputs_of(Q(ask=OuterRef("pk")), with_delivered=False)
    asks = rows.filter(Q(Exists(drafts)) | Q(Exists(answers)))
    return scoped(asks, report.project).values_list("pk", "seq")


def _why(report: RulePass, rows: Sequence[Sized]) -> dict[str, str]:
    of = dict(Ask.objects.filter(pk__in=[pk for pk, _ in rows]).values_list("pk", "episode_id"))
    # of the episode alone: a later branch has no part in its asks
    why = reasons.left_out(report.project, {pk: {pk} for pk in of.values()}, timezone.now())
    return {ask: why[episode] for ask, episode in of.items() if episode in why}


def _run(report: RulePass) -> None:
    for rows in chunks(_old(report)):
        with transaction.atomic():
            holding.guard(report.project)
            ids = [pk for pk, _ in rows]
            list(Ask.objects.filter(pk__in=ids).order_by("pk").select_for_update())
            still = list(_old(report).filter(pk__in=ids))
            why = _why(report, still)
            erased = [pk for pk, _ in still if pk not in why]
            if erased:
                fell = emptying.empty_outputs(Q(ask__in=erased), with_delivered=False)
                bury(report, system(report.project), erased, fell, [])
        report.left.update(why.values())
        report.erased += len(erased)


GENERATIONS = RetentionKind(
    name="generations",
    label="Model outputs",
    nouns=("ask", "asks"),
    erases="Drafts of expert models and answers of models that no agent got, of closed asks.",
    states=tuple(state for state in AskStatus.values if state != AskStatus.OPEN),
    candidates=_old,
    why_left_out=_why,
    run=_run,
)
