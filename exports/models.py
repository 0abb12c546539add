"""Rows about exports: the recipe, the progress and the contents.

Owns what a row may contain. Leaves changes to `datasets.py`. The files are in the storage of exports, under the
dataset's ID.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.urls import reverse

from people.models import JsonText, Project
from people.record.jobs import Job
from people.states import Move


class ExportState(models.TextChoices):
    QUEUED = "queued", "Queued"
    BUILDING = "building", "Building"
    DONE = "done", "Done"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"


EXPORT_MOVES = (
    Move("", "queued", "exports.jobs.requesting.request", "may_export"),
    Move("queued", "building", "exports.jobs.requesting.claim", "worker"),
    Move("building", "done", "exports.jobs.requesting.finish", "worker"),
    Move("building", "failed", "exports.jobs.requesting.fail", "worker"),
    Move("queued building", "cancelled", "exports.jobs.requesting.cancel", "may_export"),
)
"""Every change of an export's state."""
MEASURED_S = 2.0
"""Seconds of work after which a speed is shown."""


class Export(Job):
    """One export. `dataset` is the hash of recipe, snapshot and packs, known once the snapshot is taken: two exports of
    the same dataset share its files."""

    TASK, WORKING, ATTEMPTS_MAX = "exports.tasks.build", (ExportState.QUEUED, ExportState.BUILDING), 5

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="exports")
    recipe = models.JSONField()
    format = models.CharField(max_length=20)
    dataset = models.CharField(max_length=64, blank=True)
    state = models.CharField(max_length=10, choices=ExportState.choices, default=ExportState.QUEUED)
    episodes = models.IntegerField(default=0)
    episodes_done = models.IntegerField(default=0)
    rows = models.IntegerField(default=0)
    files_done = models.IntegerField(default=0, db_default=0)
    manifest = JsonText(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    measured_at = models.DateTimeField(null=True, blank=True)
    measured_episodes = models.IntegerField(default=0)

    class Meta:
        indexes = [
            models.Index(fields=["project", "-created_at"], name="exports_newest"),
            models.Index(fields=["dataset"], name="exports_of_dataset"),
        ]
        constraints = [models.CheckConstraint(condition=Q(state__in=ExportState.values), name="export_state_known")]

    def __str__(self) -> str:
        return f"{self.format} {self.dataset[:12] or self.pk}"

    def get_absolute_url(self) -> str:
        return reverse("export", args=[self.pk])

    @property
    def seconds_left(self) -> int | None:
        """The remaining time at the average speed of this attempt; None until that was measured."""
        if self.state != ExportState.BUILDING or self.measured_at is None or self.heartbeat_at is None:
            return None
        elapsed = (self.heartbeat_at - self.measured_at).total_seconds()
        done = self.episodes_done - self.measured_episodes
        if elapsed < MEASURED_S or done <= 0:
            return None
        return round((self.episodes - self.episodes_done) * elapsed / done)


class Removal(models.Model):
    """Files of a dataset that go, unless an export has them. Noted before they can be left over, deleted after
    them."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="removals")
    dataset = models.CharField(max_length=64)
    noted_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.dataset[:12]


class PushState(models.TextChoices):
    QUEUED = "queued", "Queued"
    PUSHING = "pushing", "Pushing"
    DONE = "done", "Done"
    FAILED = "failed", "Failed"


PUSHING = (PushState.QUEUED, PushState.PUSHING)


class Push(Job):
    """One push of a done export, or of a command's folder, to a repository of the Hub. `address` is the commit, once it
    is there."""

    TASK, WORKING = "exports.tasks.push", PUSHING

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="pushes")
    export = models.ForeignKey(Export, null=True, blank=True, on_delete=models.CASCADE, related_name="pushes")
    repo = models.CharField(max_length=200)
    private = models.BooleanField(default=True)
    state = models.CharField(max_length=10, choices=PushState.choices, default=PushState.QUEUED)
    bytes_total = models.BigIntegerField(default=0)
    bytes_done = models.BigIntegerField(default=0)
    address = models.CharField(max_length=500, blank=True)

    class Meta:
        indexes = [models.Index(fields=["export", "-created_at"], name="pushes_newest")]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=PushState.values), name="push_state_known"),
            models.UniqueConstraint(
                fields=["export", "repo"], condition=Q(state__in=PUSHING), name="one_push_at_a_time"
            ),
        ]

    def __str__(self) -> str:
        return self.repo
