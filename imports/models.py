"""Rows about imports: the file, its progress and its result.

Owns what a row may contain. Leaves every change to `importing.py`.
"""

from __future__ import annotations

from datetime import datetime

from django.db import models
from django.db.models import Q
from django.urls import reverse

from episodes.models import Episode
from people.models import IdField, JsonText, Project, unheard_since


class ImportState(models.TextChoices):
    QUEUED = "queued", "Queued"
    READING = "reading", "Reading"
    DONE = "done", "Done"
    REFUSED = "refused", "Refused"
    FAILED = "failed", "Failed"


WORKING = (ImportState.QUEUED, ImportState.READING)


class ImportQuerySet(models.QuerySet["Import"]):
    def silent_since(self, moment: datetime) -> ImportQuerySet:
        """Return imports that no worker reads: never started, or without a heartbeat since then."""
        return self.filter(state__in=WORKING).filter(unheard_since(moment))


class Import(models.Model):
    """One imported file. `format` is the requested format, later the recognized one.

    `rows` counts rows of the file, `episodes` the new ones, `known` those that the project already had. `refusals`
    holds place and reason of the first refused rows, `lost` counts values that the record cannot hold.

    """

    id = IdField()
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="imports")
    name = models.CharField(max_length=255)
    format = models.CharField(max_length=20, blank=True)
    size = models.BigIntegerField(default=0)
    behind = models.BigIntegerField(default=0)
    state = models.CharField(max_length=10, choices=ImportState.choices, default=ImportState.QUEUED)
    attempt = models.IntegerField(default=0)
    rows = models.IntegerField(default=0)
    episodes = models.IntegerField(default=0)
    known = models.IntegerField(default=0)
    steps = models.IntegerField(default=0)
    refused = models.IntegerField(default=0)
    refusals = JsonText(default=list, blank=True)
    lost = JsonText(default=dict, blank=True)
    problem = models.TextField(blank=True)
    requested_by = models.CharField(max_length=160, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = ImportQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["project", "-created_at"], name="imports_newest")]
        constraints = [models.CheckConstraint(condition=Q(state__in=ImportState.values), name="import_state_known")]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("import", args=[self.pk])

    @property
    def is_working(self) -> bool:
        return self.state in WORKING

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
