"""Pinned lists of tasks to train on and to hold out."""

from __future__ import annotations

from django.db import models

from people.models import IdField, Project


class Split(models.Model):
    """A pinned list of tasks to train on and tasks to hold out. Never changed once written; `digest` covers the lists.

    `unit` says what was kept together: whole scenarios, or single tasks. `about` holds the filters that made it.
    """

    id = IdField()
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="splits")
    name = models.CharField(max_length=200)
    unit = models.CharField(
        max_length=8, choices=[("scenario", "Scenario"), ("task", "Task"), ("instance", "Instance")]
    )
    seed = models.BigIntegerField()
    digest = models.CharField(max_length=64)
    about = models.JSONField(default=dict, blank=True)
    created_by = models.CharField(max_length=160, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "name"], name="one_split_per_name")]

    def __str__(self) -> str:
        return self.name


class SplitTask(models.Model):
    """One task of a split: its key (`scenario/idx`) and its side."""

    # no index of its own: the unique pair begins with the split
    split = models.ForeignKey(Split, on_delete=models.CASCADE, related_name="tasks", db_index=False)
    task = models.CharField(max_length=300)
    side = models.CharField(max_length=5, choices=[("train", "Train"), ("val", "Held out")])

    class Meta:
        constraints = [models.UniqueConstraint(fields=["split", "task"], name="one_side_per_task")]
        indexes = [models.Index(fields=["task"], name="splits_of_task")]

    def __str__(self) -> str:
        return f"{self.task} {self.side}"
