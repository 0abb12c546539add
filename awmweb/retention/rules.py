"""Writes: the retention rules of a project. Owns what a rule can say."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction

from awmweb.retention.kinds import KINDS
from people.access import Actor, may_manage_people, scoped
from people.errors import Invalid
from people.models import Project, RetentionRule
from people.record.audit import record

DAYS_MAX = 36_500


def rules_of(project: Project) -> dict[str, RetentionRule]:
    """Return the rules of a project by kind, in the order in which they run."""
    rows = {rule.kind: rule for rule in scoped(RetentionRule.objects.all(), project)}
    return {kind: rows[kind] for kind in KINDS if kind in rows}


@transaction.atomic
def set_rule(actor: Actor, kind: str, days: int | None, states: Sequence[str]) -> None:
    """Set after how many days something is erased; without days it is kept. Raises `Invalid`."""
    may_manage_people(actor)
    if kind not in KINDS:
        raise Invalid(f"Use one of {', '.join(KINDS)}.")
    label, states_of_kind = KINDS[kind].label, KINDS[kind].states
    before = rules_of(actor.project).get(kind)
    if days is None:
        if before is not None:
            before.delete()
            record(actor, "retention.changed", kind, "keeps everything")
        return
    if not 1 <= days <= DAYS_MAX:
        raise Invalid(f"{label}: enter 1 to {DAYS_MAX:,} days, or none to keep everything.")
    chosen = [state for state in states_of_kind if state in states]
    if not chosen:
        raise Invalid(f"{label}: choose at least one of {', '.join(states_of_kind)}.")
    if before is not None and (before.days, before.states) == (days, chosen):
        return
    fields = {"days": days, "states": chosen, "changed_by": actor.name}
    RetentionRule.objects.update_or_create(project=actor.project, kind=kind, defaults=fields)
    record(actor, "retention.changed", kind, f"after {days} days: {', '.join(chosen)}")
