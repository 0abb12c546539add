"""Rows about what people and models said: asks, assignments, advice, declines, and their history.

Owns what a row may contain and facts about one row. Leaves every change to `queue.py`. Advice and events are
append-only.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import models
from django.db.models import F, Q

from awmclient.schema import Advice as AdviceValue
from awmclient.schema import ToolCall
from episodes.models import AppendOnly, Episode
from people.models import IdField, JsonText, Project


class AskStatus(models.TextChoices):
    OPEN = "open", "Open"
    ANSWERED = "answered", "Answered"
    FELL_BACK = "fell_back", "Fell back"
    CANCELLED = "cancelled", "Cancelled"


class AssignmentState(models.TextChoices):
    QUEUED = "queued", "Queued"
    CLAIMED = "claimed", "Claimed"
    SUBMITTED = "submitted", "Submitted"
    VOID = "void", "Void"


class Privilege(models.TextChoices):
    BLIND = "blind", "Blind"
    SEES_VERIFIER = "sees_verifier", "Sees verifier"


class AskQuerySet(models.QuerySet["Ask"]):
    def open(self) -> AskQuerySet:
        return self.filter(status=AskStatus.OPEN)

    def due(self, now: datetime) -> AskQuerySet:
        return self.open().filter(deadline_at__lte=now)

    def in_turn(self) -> AskQuerySet:
        """The queue's order: nearest deadline first, then priority."""
        return self.order_by("deadline_at", F("priority").desc(), "pk")


class Ask(models.Model):
    """One question of one episode."""

    id = IdField()
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="asks")
    episode = models.ForeignKey(Episode, on_delete=models.CASCADE, related_name="asks")
    key = models.CharField(max_length=200)
    body_digest = models.CharField(max_length=64)
    seq = models.IntegerField()
    question = JsonText()
    context = JsonText(null=True, blank=True)
    status = models.CharField(max_length=10, choices=AskStatus.choices, default=AskStatus.OPEN)
    reason = models.CharField(max_length=40, blank=True)
    privilege = models.CharField(max_length=14, choices=Privilege.choices, default=Privilege.BLIND)
    priority = models.IntegerField(default=0)
    skills = JsonText(default=list, blank=True)
    group_key = models.CharField(max_length=200, blank=True)
    deadline_at = models.DateTimeField()
    human_deadline_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    closed_at = models.DateTimeField(null=True, blank=True)
    delivered_at = models.DateTimeField(null=True, blank=True)
    consumed_at = models.DateTimeField(null=True, blank=True)
    accepted = models.OneToOneField("Advice", null=True, blank=True, on_delete=models.PROTECT, related_name="+")

    objects = AskQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["episode", "key"], name="ask_key_unique"),
            models.UniqueConstraint(fields=["episode", "seq"], name="ask_seq_unique"),
            models.CheckConstraint(condition=Q(status__in=AskStatus.values), name="ask_status_known"),
            models.CheckConstraint(condition=Q(privilege__in=Privilege.values), name="ask_privilege_known"),
            models.CheckConstraint(
                condition=~Q(status__in=["answered", "fell_back"]) | Q(accepted__isnull=False),
                name="closed_ask_has_advice",
            ),
        ]
        indexes = [
            models.Index(fields=["project", "status", "deadline_at"], name="asks_in_turn"),
            models.Index(fields=["status", "deadline_at"], name="asks_due"),
        ]

    def __str__(self) -> str:
        return f"ask {self.pk}"

    @property
    def is_open(self) -> bool:
        return self.status == AskStatus.OPEN


class Assignment(models.Model):
    """The slot of work on an ask. Each claim gets a new lease token; a lease lapses by itself."""

    id = IdField()
    ask = models.OneToOneField(Ask, on_delete=models.CASCADE, related_name="assignment")
    state = models.CharField(max_length=10, choices=AssignmentState.choices, default=AssignmentState.QUEUED)
    holder = models.CharField(max_length=160, blank=True)
    holder_name = models.CharField(max_length=160, blank=True)
    lease_token = models.CharField(max_length=64, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(state__in=AssignmentState.values), name="assignment_state_known")
        ]

    def __str__(self) -> str:
        return f"assignment of {self.ask_id}"

    def is_held(self, now: datetime) -> bool:
        return self.state == AssignmentState.CLAIMED and self.lease_until is not None and self.lease_until > now


class Advice(AppendOnly):
    """An answer to an ask, with its source. Late and alternative ones are kept beside the accepted one."""

    id = IdField()
    ask = models.ForeignKey(Ask, on_delete=models.CASCADE, related_name="advice")
    text = JsonText()
    tool_calls = JsonText(null=True, blank=True)
    source = models.CharField(
        max_length=8, choices=[("human", "Human"), ("llm", "Model"), ("cache", "Cache"), ("fallback", "Fallback")]
    )
    author = models.CharField(max_length=160, blank=True)
    author_key = models.CharField(max_length=160, blank=True)
    privilege = models.CharField(max_length=14, choices=Privilege.choices, default=Privilege.BLIND)
    nonce = models.CharField(max_length=200, blank=True)
    late = models.BooleanField(default=False)
    reason = models.CharField(max_length=40, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            # a text that lost its lease may be sent again, with the lease back in hand
            models.UniqueConstraint(
                fields=["ask", "author_key", "nonce", "late"], condition=~Q(nonce=""), name="one_advice_per_nonce"
            ),
            models.CheckConstraint(condition=~Q(source="fallback") | Q(text=""), name="fallback_has_no_text"),
        ]

    def __str__(self) -> str:
        return f"advice by {self.author or self.source}"

    def value(self) -> AdviceValue:
        """The advice as it crosses a process."""
        return AdviceValue(
            text=self.text,
            source=self.source,
            author=self.author or None,
            privilege=self.privilege,
            tool_calls=[ToolCall.model_validate(call) for call in self.tool_calls] if self.tool_calls else None,
            reason=self.reason or None,
        )


class Decline(AppendOnly):
    """One expert passing on one ask; the others still see it."""

    ask = models.ForeignKey(Ask, on_delete=models.CASCADE, related_name="declines")
    author_key = models.CharField(max_length=160)
    author = models.CharField(max_length=160)
    reason = models.TextField(blank=True)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["ask", "author_key"], name="one_decline_per_expert")]

    def __str__(self) -> str:
        return f"{self.author} passed"


class AskEvent(AppendOnly):
    """Every transition of an ask: who, when, why."""

    ask = models.ForeignKey(Ask, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField(auto_now_add=True)
    verb = models.CharField(max_length=30)
    actor = models.CharField(max_length=160, blank=True)
    reason = models.TextField(blank=True)

    def __str__(self) -> str:
        return self.verb


def as_fallback(reason: str) -> dict[str, Any]:
    """The fields of a fallback: no text, a typed reason."""
    return {"text": "", "source": "fallback", "reason": reason}
