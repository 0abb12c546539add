"""Why a verdict differs from the verifier, and the court about it: cases and rulings."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from episodes.models import AppendOnly
from people.models import IdField, JsonText, Project
from reviews.models.labels import Authored
from reviews.models.queues import Verdict


class Explanation(models.TextChoices):
    VERIFIER_WRONG = "verifier_wrong", "The verifier is wrong"
    I_WAS_WRONG = "i_was_wrong", "I was wrong"
    TASK_AMBIGUOUS = "task_ambiguous", "The task is ambiguous"


class Disagreement(AppendOnly):
    """A reviewer's explanation of a verdict that differs from the verifier's outcome."""

    verdict = models.OneToOneField(Verdict, on_delete=models.CASCADE, related_name="disagreement")
    explanation = models.CharField(max_length=14, choices=Explanation.choices)
    at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.explanation


class CourtCase(models.Model):
    """A task whose verifier or text someone doubts. Open until a ruling is newer than the last doubt."""

    id = IdField()
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="court_cases")
    task_key = models.CharField(max_length=300)
    scenario = models.CharField(max_length=200, blank=True)
    task_idx = models.IntegerField(null=True, blank=True)
    doubted_at = models.DateTimeField()
    ruled_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "task_key"], name="one_court_case_per_task")]

    def __str__(self) -> str:
        return self.task_key

    @property
    def is_open(self) -> bool:
        # a doubt after the ruling opens the case again
        return self.ruled_at is None or self.ruled_at < self.doubted_at


class Word(models.TextChoices):
    """The possible rulings of the court on a verifier or a task."""

    SOUND = "sound", "The verifier is right"
    BROKEN = "broken", "The verifier is broken"
    TOO_STRICT = "too_strict", "The verifier is too strict"
    TOO_LENIENT = "too_lenient", "The verifier is too lenient"
    IMPOSSIBLE = "impossible", "The task is impossible"
    TRIVIAL = "trivial", "The task is trivial"
    AMBIGUOUS = "ambiguous", "The task is ambiguous"


class Ruling(Authored):
    """The court's decision on a task. It is shown beside outcomes and changes none; the newest of a case counts."""

    id = IdField()
    case = models.ForeignKey(CourtCase, on_delete=models.CASCADE, related_name="rulings")
    word = models.CharField(max_length=11, choices=Word.choices)
    reason = JsonText()

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(word__in=Word.values), name="ruling_word_known")]

    def __str__(self) -> str:
        return self.word
