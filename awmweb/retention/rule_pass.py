"""One rule's pass over a project as all kinds of rules see it: what it did so far, its batches, its tombstones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from awmweb.erasing import episodes
from people.access import Actor
from people.models import Project, RetentionRule, Tombstone
from people.record.audit import record
from people.text.in_words import count

LOOKED_AT = 200
"""Episodes, asks or exports that are looked up together."""
STEPS_MAX = 5_000
"""Steps that one transaction empties or deletes; an episode that has more is one by itself."""
Sized = tuple[str, int]
"""The ID of what a rule erases, and its steps."""


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


@dataclass(frozen=True)
class RetentionKind:
    """What a retention rule can erase. All that the pages, the command and a pass know about it is here."""

    name: str
    label: str
    nouns: tuple[str, str]
    erases: str
    states: Sequence[str]
    """The states that a rule can name: those in which work has ended."""
    candidates: Callable[[RulePass], QuerySet[Any]]
    """Reads what is old enough, as `Sized`."""
    why_left_out: Callable[[RulePass, Sequence[Sized]], dict[str, str]]
    """Reads why some of the candidates are left out."""
    run: Callable[[RulePass], None]
    """Writes: erases them in batches, each locked, asked again, and committed with its tombstone."""
    says_steps: bool = False

    def counted(self, report: RulePass) -> str:
        """Return the count of what a pass erases, with the steps where these go."""
        singular, many = self.nouns
        words = f"{report.erased:,} {singular if report.erased == 1 else many}"
        return f"{words} with {count(report.steps, 'step')}" if self.says_steps and report.erased else words


def chunks(candidates: QuerySet[Any]) -> Iterator[list[Sized]]:
    """Yield candidates with their steps, each once, in the order of their IDs."""
    after = ""
    ordered = candidates.order_by("pk")
    while rows := list(ordered.filter(pk__gt=after)[:LOOKED_AT]):
        yield rows
        after = rows[-1][0]


def batches(rows: Sequence[Sized]) -> Iterator[list[str]]:
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


def bury(
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
