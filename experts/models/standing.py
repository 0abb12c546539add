"""Rows of standing answers: approvals given ahead for calls like one that a person has approved."""

from __future__ import annotations

from datetime import datetime

from django.db import models
from django.db.models import F, Q

from episodes.models import Privilege, Run
from people.models import ApiToken, IdField, JsonText, Project


class StandingAnswerQuerySet(models.QuerySet["StandingAnswer"]):
    def active(self, now: datetime) -> StandingAnswerQuerySet:
        return self.filter(ended_at=None, until__gt=now, used__lt=F("at_most"))


class StandingAnswer(models.Model):
    """An approval of calls of a tool ahead: with these arguments, in a run or the project, with an end and a count."""

    id = IdField()
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="standing_answers")
    run = models.ForeignKey(Run, null=True, blank=True, on_delete=models.CASCADE, related_name="standing_answers")
    tool = models.CharField(max_length=200)
    arguments = JsonText(default=dict)
    """Arguments that must be equal."""
    any_value = JsonText(null=True, blank=True)
    """Names of the others that a call can have, with any value; None where it can have any others."""
    until = models.DateTimeField()
    at_most = models.IntegerField()
    used = models.IntegerField(default=0)
    author = models.CharField(max_length=160)
    author_key = models.CharField(max_length=160)
    token = models.ForeignKey(ApiToken, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    """By which it was given, if by one: it ends with its token."""
    privilege = models.CharField(max_length=14, choices=Privilege.choices, default=Privilege.BLIND)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_by = models.CharField(max_length=160, blank=True)

    objects = StandingAnswerQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(used__lte=F("at_most")), name="standing_answer_within_count"),
            models.CheckConstraint(condition=Q(privilege__in=Privilege.values), name="standing_privilege_known"),
        ]
        indexes = [models.Index(fields=["project", "tool"], condition=Q(ended_at=None), name="standing_by_tool")]

    def __str__(self) -> str:
        return f"standing answer for {self.tool}"
