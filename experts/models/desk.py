"""Rows about the desk: settings, presence, quick replies, and calls of expert models.

Owns what a row can contain. Leaves changes to `desk.py`.
"""

from __future__ import annotations

from datetime import datetime

from django.db import models
from django.db.models import Q
from django.db.models.functions import MD5

from episodes.models import AppendOnly, Run
from experts.models.asks import Ask
from people.models import IdField, JsonText, Project


class QuickReply(models.Model):
    """A text that one expert saved for reuse in one project, for themselves or for everyone there."""

    id = IdField()
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="quick_replies")
    author_key = models.CharField(max_length=160)
    author = models.CharField(max_length=160, blank=True, default="", db_default="")
    text = JsonText()
    shared = models.BooleanField(default=False, db_default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            # a hash, because a text can be longer than an entry of a B-tree index
            models.UniqueConstraint("project", "author_key", MD5("text"), name="one_quick_reply_per_text"),
        ]

    def __str__(self) -> str:
        return f"quick reply of {self.author_key}"


class QueueView(models.Model):
    """A named query of the queue, for its author or for everyone in the project."""

    id = IdField()
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="queue_views")
    author_key = models.CharField(max_length=160)
    author = models.CharField(max_length=160)
    name = models.CharField(max_length=60)
    query = models.TextField()
    shared = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "author_key", "name"], name="one_queue_view_per_name"),
        ]

    def __str__(self) -> str:
        return self.name


HIGH_RISK = "delete*, drop*, remove*, purge*, *refund*, *payment*, *transfer*"
"""Patterns of high-risk tools of a new project, see `rules/risk.py`."""


class Desk(models.Model):
    """How the asks of a project are routed; `routing.py` defines each setting. Without a row, the defaults."""

    project = models.OneToOneField(Project, on_delete=models.CASCADE, related_name="desk")
    model_first = models.BooleanField(default=False)
    people_while_free = models.BooleanField(default=False)
    cache = models.CharField(
        max_length=6, default="off", choices=[("off", "Off"), ("models", "Models' answers"), ("all", "All answers")]
    )
    audit_share = models.FloatField(default=0.05)
    low_confidence = models.FloatField(default=0.4)
    large_group = models.IntegerField(default=4)
    seed = models.IntegerField(default=1)
    per_hour = models.IntegerField(null=True, blank=True)
    per_training_step = models.IntegerField(null=True, blank=True)
    wait_limit_s = models.IntegerField(null=True, blank=True)
    capacity = models.IntegerField(default=3)
    senior = models.ForeignKey(
        "people.Membership", null=True, blank=True, on_delete=models.SET_NULL, related_name="senior_of"
    )
    model_tokens_per_hour = models.IntegerField(null=True, blank=True)
    high_risk = models.CharField(max_length=1000, blank=True, default=HIGH_RISK, db_default=HIGH_RISK)

    second_look = models.TextField(blank=True, default="", db_default="")
    second_look_model = models.CharField(max_length=60, blank=True, default="", db_default="")
    """The name of an expert model that reads answers of people, see `looking.py`; empty for none."""
    quorum = models.TextField(blank=True, default="", db_default="")
    """How many people approve which calls, see `rules/quorum.py`."""
    answer_links = models.BooleanField(default=True, db_default=True)
    undo_s = models.IntegerField(null=True, blank=True)
    """How long answers from pages are held; None for `AWMWEB_UNDO_S`."""

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(audit_share__gte=0, audit_share__lte=1, low_confidence__gte=0, low_confidence__lte=1),
                name="shares_from_0_to_1",
            ),
            models.CheckConstraint(condition=Q(capacity__gte=1), name="desk_can_work"),
        ]

    def __str__(self) -> str:
        return f"desk of {self.project}"


class PresenceQuerySet(models.QuerySet["Presence"]):
    def set_away(self, now: datetime) -> PresenceQuerySet:
        """Return who is set to Away now; an end that has passed counts as Available."""
        return self.filter(Q(away_until=None) | Q(away_until__gt=now), away=True)

    def available(self, now: datetime) -> PresenceQuerySet:
        return self.exclude(pk__in=self.model.objects.set_away(now).values("pk"))


class Presence(models.Model):
    """When an expert was last online, and whether and until when they are set to Away."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="presence")
    actor_key = models.CharField(max_length=160)
    name = models.CharField(max_length=160)
    skills = models.JSONField(default=list)
    away = models.BooleanField(default=False)
    away_until = models.DateTimeField(null=True, blank=True)
    seen_at = models.DateTimeField()

    objects = PresenceQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "actor_key"], name="one_presence_per_expert")]

    def __str__(self) -> str:
        return f"{self.name} was seen"

    def has_left(self, now: datetime) -> bool:
        return self.away and (self.away_until is None or self.away_until > now)


class ModelCall(AppendOnly):
    """One call of an expert model: its purpose, cost and result. A fault is a fault, never advice.

    `tokens` is the endpoint's total, or an estimate from the length of texts. The counts by kind are the endpoint's, or
    None. Cached tokens are included in those of the prompt. A call for a briefing has the run and arm that pay for it.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="model_calls")
    ask = models.ForeignKey(Ask, null=True, on_delete=models.SET_NULL, related_name="model_calls")
    run = models.ForeignKey(Run, null=True, on_delete=models.CASCADE, related_name="model_calls")
    arm = models.CharField(max_length=200, blank=True, db_default="", default="")
    model_key = models.CharField(max_length=160)
    model = models.TextField(blank=True, default="", db_default="")
    """The model's name at its endpoint; empty for calls of versions that did not store it."""
    options = JsonText(null=True, blank=True)
    """What its endpoint's settings add to each request; none for calls of versions that did not store them."""
    purpose = models.CharField(
        max_length=8,
        choices=[
            ("answer", "Answer"),
            ("draft", "Draft"),
            ("criteria", "Criteria"),
            ("briefing", "Briefing"),
            ("look", "Second look"),
        ],
    )
    fault = models.TextField(blank=True)
    tokens = models.IntegerField(default=0)
    prompt_tokens = models.IntegerField(null=True)
    completion_tokens = models.IntegerField(null=True)
    cached_tokens = models.IntegerField(null=True)
    duration_s = models.FloatField()
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["project", "-at"], name="model_calls_newest")]

    def __str__(self) -> str:
        return f"{self.purpose} by {self.model_key}"
