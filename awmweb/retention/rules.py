"""Writes: the retention rules of a project. Owns what a rule can say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.db import transaction

from episodes.models import ENDED_STATES
from experts.models import AskStatus
from exports.models import ExportState
from people.access import Actor, may_manage_people, scoped
from people.errors import Invalid
from people.models import Project, RetentionRule
from people.record.audit import record

Kind = RetentionRule.Kind
DAYS_MAX = 36_500
STATES: Mapping[str, Sequence[str]] = {
    Kind.STEPS: ENDED_STATES,
    Kind.BRANCHES: ENDED_STATES,
    Kind.GENERATIONS: tuple(state for state in AskStatus.values if state != AskStatus.OPEN),
    Kind.EXPORTS: (ExportState.DONE, ExportState.FAILED, ExportState.CANCELLED),
}
"""The states that each kind of rule can name: those in which work has ended."""
ERASES: Mapping[str, str] = {
    Kind.STEPS: "The words of steps of ended episodes and of their branches. Numbers, kinds, tools and times are left, "
    "and so are outcomes, asks, labels and verdicts.",
    Kind.BRANCHES: "Branches of forks, with all that hangs on them. Their forks still count them as tries.",
    Kind.GENERATIONS: "Drafts of expert models and answers of models that no agent got, of closed asks.",
    Kind.EXPORTS: "Exports with their files. A tombstone lists what each dataset was.",
}


def rules_of(project: Project) -> dict[str, RetentionRule]:
    """Return the rules of a project by kind, in the order in which they run."""
    rows = {rule.kind: rule for rule in scoped(RetentionRule.objects.all(), project)}
    return {kind: rows[kind] for kind in Kind.values if kind in rows}


@transaction.atomic
def set_rule(actor: Actor, kind: str, days: int | None, states: Sequence[str]) -> None:
    """Set after how many days something is erased; without days it is kept. Raises `Invalid`."""
    may_manage_people(actor)
    if kind not in STATES:
        raise Invalid(f"Use one of {', '.join(STATES)}.")
    before = rules_of(actor.project).get(kind)
    if days is None:
        if before is not None:
            before.delete()
            record(actor, "retention.changed", kind, "keeps everything")
        return
    if not 1 <= days <= DAYS_MAX:
        raise Invalid(f"{Kind(kind).label}: enter 1 to {DAYS_MAX:,} days, or none to keep everything.")
    chosen = [state for state in STATES[kind] if state in states]
    if not chosen:
        raise Invalid(f"{Kind(kind).label}: choose at least one of {', '.join(STATES[kind])}.")
    if before is not None and (before.days, before.states) == (days, chosen):
        return
    said = {"days": days, "states": chosen, "changed_by": actor.name}
    RetentionRule.objects.update_or_create(project=actor.project, kind=kind, defaults=said)
    record(actor, "retention.changed", kind, f"after {days} days: {', '.join(chosen)}")
