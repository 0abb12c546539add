"""Writes: a person's decision about a curriculum (override, pin, skip, freeze) with its reason, and its undo."""

from __future__ import annotations

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from curriculum import snapshots
from curriculum.models import Decision, TrainingStep
from curriculum.record import taking
from curriculum.rules.ratio import Phase
from episodes import events
from episodes.models import Run
from people.access import Actor, may_launch, visible_or_404
from people.errors import Invalid
from people.record.audit import record

REASON_MAX = 2000


def decide(
    actor: Actor,
    run: Run,
    kind: str,
    subject: str,
    reason: str,
    *,
    until: str = "undone",
    until_step: int | None = None,
) -> Decision:
    """Write a decision: 1. check right, reason, subject and end, 2. insert, 3. notify the pages, 4. take a snapshot.

    Raises `Invalid`, which says what to send instead.

    """
    may_launch(actor)
    after = last_step(run)
    words = reason.strip()
    # PostgreSQL stores no U+0000 in a text.
    if not words or len(words) > REASON_MAX or "\x00" in words:
        raise Invalid(f"Enter a reason of at most {REASON_MAX} characters.")
    if kind not in Decision.Kind.values or until not in Decision.Until.values:
        raise Invalid("Unknown decision.")
    if until == Decision.Until.STEP and (until_step is None or not after < until_step < 2**31):
        raise Invalid(f"Enter a training step after {after}.")
    subject = _subject(run, kind, subject)
    end = until_step if until == Decision.Until.STEP else None
    with transaction.atomic():
        decision = Decision.objects.create(
            run=run,
            kind=kind,
            subject=subject,
            reason=words,
            after=after,
            until=until,
            until_step=end,
            made_by=actor.name,
        )
        record(actor, f"curriculum.{kind}", run.pk, f"{subject}: {words}"[:2000])
        # Called inside the transaction; `publish` sends the hint after its commit.
        _tell(run)
    # A transaction of its own: without a snapshot the decision holds all the same.
    taking.current(run)
    return decision


def undo(actor: Actor, pk: str) -> Decision:
    """End a decision. Idempotent."""
    may_launch(actor)
    decision = visible_or_404(Decision.objects.select_related("run__project"), actor, pk, "run__project")
    ended = {"undone_by": actor.name, "undone_at": timezone.now(), "undone_after": last_step(decision.run)}
    with transaction.atomic():
        # Conditional, so that of two people who undo it together one is recorded.
        if Decision.objects.filter(pk=pk, undone_at=None).update(**ended):
            record(actor, "curriculum.undone", decision.run.pk, str(decision))
            _tell(decision.run)
    taking.current(decision.run)
    decision.refresh_from_db()
    return decision


def last_step(run: Run) -> int:
    """Return the last finished training step of a run; 0 before the first."""
    return int(TrainingStep.objects.filter(run=run).aggregate(last=Max("training_step"))["last"] or 0)


def _subject(run: Run, kind: str, subject: str) -> str:
    if kind == Decision.Kind.OVERRIDE:
        if subject not in set(Phase):
            raise Invalid(f"Unknown phase: {subject}. Use one of {', '.join(Phase)}.")
        return subject
    snapshot = taking.current(run)
    if kind == Decision.Kind.FREEZE:
        return snapshot
    # From the snapshot, which has the side of every task: pinning a held-out one would train on it.
    tasks = {row["task"]: row["split"] for row in snapshots.content_of(snapshot)["tasks"]}
    if tasks.get(subject) != "train":
        raise Invalid(f"{subject or 'The task'} is not a training task of this run.")
    return subject


def _tell(run: Run) -> None:
    frame = {"type": "curriculum", "run": run.pk, "training_step": None}
    events.publish(events.queue_topic(run.project_id), frame)
