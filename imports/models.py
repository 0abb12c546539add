"""Rows about imports: the file, its progress and its result; and traces whose spans arrive one by one.

Owns what a row may contain. Leaves every change to `importing.py`.
"""

from __future__ import annotations

from datetime import timedelta

from django.db import models
from django.db.models import Q
from django.urls import reverse

from episodes.models import Episode
from people.models import ApiToken, IdField, JsonText, Project
from people.record.jobs import Job


class ImportState(models.TextChoices):
    QUEUED = "queued", "Queued"
    READING = "reading", "Reading"
    DONE = "done", "Done"
    REFUSED = "refused", "Refused"
    FAILED = "failed", "Failed"


class Import(Job):
    """One file that was given. `format` is what was asked for, then what was recognized."""

    TASK, WORKING = "imports.tasks.read", (ImportState.QUEUED, ImportState.READING)
    SILENT_AFTER = timedelta(seconds=60)

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="imports")
    name = models.CharField(max_length=255)
    format = models.CharField(max_length=20, blank=True)
    size = models.BigIntegerField(default=0)
    behind = models.BigIntegerField(default=0)
    state = models.CharField(max_length=10, choices=ImportState.choices, default=ImportState.QUEUED)
    rows = models.IntegerField(default=0)
    episodes = models.IntegerField(default=0)
    known = models.IntegerField(default=0)
    steps = models.IntegerField(default=0)
    refused = models.IntegerField(default=0)
    refusals = JsonText(default=list, blank=True)
    lost = JsonText(default=dict, blank=True)

    class Meta:
        indexes = [models.Index(fields=["project", "-created_at"], name="imports_newest")]
        constraints = [models.CheckConstraint(condition=Q(state__in=ImportState.values), name="import_state_known")]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("import", args=[self.pk])

    @property
    def is_storing(self) -> bool:
        """Whether the file is read completely: `rows` is set, and one transaction is storing the episodes."""
        return self.state == ImportState.READING and self.rows > 0


class Imported(models.Model):
    """An episode that an import made: its place in the file, and the values that were lost."""

    of = models.ForeignKey(Import, on_delete=models.CASCADE, related_name="made")
    episode = models.OneToOneField(Episode, on_delete=models.CASCADE, related_name="imported")
    place = models.CharField(max_length=255)
    lost = JsonText(default=dict, blank=True)

    def __str__(self) -> str:
        return self.place


class Trace(models.Model):
    """A trace of OpenTelemetry: its spans wait here until it is complete, then it is an episode."""

    id = IdField()
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="traces")
    token = models.ForeignKey(ApiToken, on_delete=models.CASCADE, related_name="+")
    """The token that sent its first span."""
    name = models.CharField(max_length=32)
    """Its ID in OpenTelemetry, in hexadecimal."""
    episode = models.OneToOneField(Episode, null=True, blank=True, on_delete=models.CASCADE, related_name="trace")
    heard_at = models.DateTimeField()
    has_root = models.BooleanField(default=False)
    is_waiting = models.BooleanField(default=True)
    """Whether it has spans that are in no episode."""
    size = models.BigIntegerField(default=0, db_default=0)
    """Characters of all spans that it was sent."""
    problem = models.TextField(blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "name"], name="trace_once")]
        indexes = [models.Index(fields=["heard_at"], condition=Q(is_waiting=True), name="traces_waiting")]

    def __str__(self) -> str:
        return self.name


class TraceSpan(models.Model):
    """A span of a trace. Once its steps are stored it has no body; its ID stays, so that a repeat is known."""

    trace = models.ForeignKey(Trace, on_delete=models.CASCADE, related_name="spans", db_index=False)
    name = models.CharField(max_length=16)
    body = JsonText(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["trace", "name"], name="span_once")]

    def __str__(self) -> str:
        return self.name
