"""Rows about training: reported steps, people's decisions about a run, and the snapshots that trainers draw from.

Owns what such a row may contain. Steps and snapshots are never changed; a decision only gets its end. Leaves changes to
`training.py`, `steering.py` and `snapshots.py`.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from episodes.models import AppendOnly, Run
from people.models import IdField, JsonText


class TrainingStep(AppendOnly):
    """A training step that a trainer reported as finished.

    `losses`, `components`, `checkpoint` and `dataset`, which names an export, are the trainer's own values.
    `rollouts`, `format_errors` and `not_counted` were counted from the record when the report arrived, and move the
    ratio by the version `rule` of `rules/ratio.py`; that of steps from before it had versions is 1.

    """

    # Without an index of its own: that of the unique constraint below begins with the run, too.
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="training_steps", db_index=False)
    training_step = models.IntegerField()
    losses = JsonText(default=dict, blank=True)
    components = JsonText(default=dict, blank=True)
    checkpoint = models.CharField(max_length=200, blank=True)
    dataset = models.CharField(max_length=200, blank=True, default="", db_default="")
    rollouts = models.IntegerField()
    format_errors = models.IntegerField()
    not_counted = models.IntegerField(default=0)
    # The first one by default: a process of an earlier version writes steps of its own rule.
    rule = models.SmallIntegerField(default=1, db_default=1)
    reported_by = models.CharField(max_length=160, blank=True)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "training_step"], name="one_report_per_training_step"),
            models.CheckConstraint(condition=Q(training_step__gte=1), name="training_step_from_one"),
        ]
        ordering = ["run", "training_step"]

    def __str__(self) -> str:
        return f"training step {self.training_step}"


class Decision(models.Model):
    """A person's decision about a run's curriculum, its reason, and its end.

    `after` is the last finished training step at that moment. `subject` is the phase of an override, the key of a task
    that is pinned or skipped, or the snapshot of a freeze.

    """

    class Kind(models.TextChoices):
        OVERRIDE = "override", "Override"
        PIN = "pin", "Pin"
        SKIP = "skip", "Skip"
        FREEZE = "freeze", "Freeze"

    class Until(models.TextChoices):
        UNDONE = "undone", "I undo it"
        STEP = "step", "a step ends"
        AGREES = "agrees", "the rule agrees"

    id = IdField()
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="curriculum_decisions")
    kind = models.CharField(max_length=8, choices=Kind.choices)
    subject = models.CharField(max_length=300)
    reason = models.TextField()
    after = models.IntegerField()
    until = models.CharField(max_length=8, choices=Until.choices, default=Until.UNDONE)
    until_step = models.IntegerField(null=True, blank=True)
    made_by = models.CharField(max_length=160)
    made_at = models.DateTimeField(auto_now_add=True)
    undone_by = models.CharField(max_length=160, blank=True)
    undone_at = models.DateTimeField(null=True, blank=True)
    undone_after = models.IntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(kind__in=["override", "pin", "skip", "freeze"]), name="decision_kind_known"
            ),
            models.CheckConstraint(condition=Q(until__in=["undone", "step", "agrees"]), name="decision_until_known"),
        ]
        ordering = ["made_at", "pk"]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}"


class Snapshot(AppendOnly):
    """The curriculum of a run after a training step or a decision; trainers and exports share its ID.

    `basis` identifies the inputs, so that two concurrent requests make one snapshot.

    """

    id = IdField()
    # As for steps: the unique constraint's index begins with the run.
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="snapshots", db_index=False)
    basis = models.CharField(max_length=120)
    training_step = models.IntegerField()
    digest = models.CharField(max_length=64)
    content = JsonText()
    made_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "basis"], name="one_snapshot_per_basis")]
        indexes = [models.Index(fields=["run", "-made_at"], name="snapshots_newest")]

    def __str__(self) -> str:
        return f"snapshot {self.pk}"


class LevelOpened(AppendOnly):
    """A level that opened in a run. It stays open."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="levels_opened", db_index=False)
    level = models.CharField(max_length=40)
    training_step = models.IntegerField()
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "level"], name="level_opens_once")]

    def __str__(self) -> str:
        return self.level
