"""Rows about what people and models said: asks, assignments, advice, drafts, declines, annotations, and their history;
and about who is told of it how.

Owns what a row may contain and facts about one row. Leaves changes of an ask to `queue.py`, of the desk around it to
`desk.py`. Advice, declines, annotations and events are append-only.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import MD5
from django.utils import timezone

from awmclient.schema import Advice as AdviceValue
from awmclient.schema import ToolCall
from episodes.models import AppendOnly, Episode
from people.models import IdField, JsonText, Project

MODEL = "model:"
"""How the key of an actor begins that is a model."""


LATE = "late_advice"
"""The label of an annotation that was meant as advice and came too late."""


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


class Tier(models.TextChoices):
    """Who is to answer now. The plan of an ask is a list of these; moving along it is an escalation with its reason."""

    CACHE = "cache", "Cache"
    LLM = "llm", "Model"
    PEOPLE = "people", "People"
    SENIOR = "senior", "Senior"


class AskQuerySet(models.QuerySet["Ask"]):
    def open(self) -> AskQuerySet:
        return self.filter(status=AskStatus.OPEN)

    def due(self, now: datetime) -> AskQuerySet:
        return self.open().filter(deadline_at__lte=now)

    def to_take(self, now: datetime) -> AskQuerySet:
        """Open before people, and in nobody's hands."""
        free = Q(assignment__state=AssignmentState.QUEUED) | Q(assignment__lease_until__lte=now)
        return self.open().filter(free, tier__in=[Tier.PEOPLE, Tier.SENIOR], deadline_at__gt=now)

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
    group = models.CharField(max_length=40, blank=True)
    tiers = models.JSONField(default=list)
    tier = models.CharField(max_length=6, choices=Tier.choices, default=Tier.PEOPLE)
    tier_reason = models.CharField(max_length=40, blank=True)
    chance = models.FloatField(default=1.0)
    expected_wait_s = models.FloatField(null=True, blank=True)
    draft_at = models.DateTimeField(null=True, blank=True)
    draft_hint = models.TextField(blank=True)
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
            models.CheckConstraint(condition=Q(tier__in=Tier.values), name="ask_tier_known"),
            models.CheckConstraint(
                condition=~Q(status__in=["answered", "fell_back"]) | Q(accepted__isnull=False),
                name="closed_ask_has_advice",
            ),
        ]
        indexes = [
            models.Index(fields=["project", "status", "deadline_at"], name="asks_in_turn"),
            models.Index(fields=["project", "-created_at"], name="asks_newest"),
            models.Index(fields=["status", "deadline_at"], name="asks_due"),
            models.Index(fields=["tier", "created_at"], condition=Q(status="open"), name="asks_of_tier"),
            models.Index(fields=["draft_at"], condition=Q(status="open"), name="asks_wanting_draft"),
        ]

    def __str__(self) -> str:
        return f"ask {self.pk}"

    @property
    def is_open(self) -> bool:
        return self.status == AskStatus.OPEN

    @property
    def run_key(self) -> str:
        """What fairness counts: the run, or the episode where an agent plays without one."""
        return self.episode.run_id or self.episode_id


class Assignment(models.Model):
    """The slot of work on an ask. Each claim gets a new lease token; a lease lapses by itself."""

    id = IdField()
    ask = models.OneToOneField(Ask, on_delete=models.CASCADE, related_name="assignment")
    state = models.CharField(max_length=10, choices=AssignmentState.choices, default=AssignmentState.QUEUED)
    holder = models.CharField(max_length=160, blank=True)
    holder_name = models.CharField(max_length=160, blank=True)
    lease_token = models.CharField(max_length=64, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    claimed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["holder"], condition=Q(state="claimed"), name="assignments_held")]
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
    confidence = models.FloatField(null=True, blank=True)
    supersedes = models.OneToOneField(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="amended_by"
    )
    drafted_by = models.CharField(max_length=160, blank=True)
    draft_kept = models.FloatField(null=True, blank=True)
    took_s = models.FloatField(null=True, blank=True)
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


class Draft(models.Model):
    """A text that was not sent: what a person is typing, or what a model prepared unseen. One for each author of an
    ask, saved in place. A model's has no text while the model is at work."""

    ask = models.ForeignKey(Ask, on_delete=models.CASCADE, related_name="drafts")
    author = models.CharField(max_length=160)
    author_key = models.CharField(max_length=160)
    text = JsonText(null=True, blank=True)
    tool_calls = JsonText(null=True, blank=True)
    confidence = models.FloatField(null=True, blank=True)
    privilege = models.CharField(max_length=14, choices=Privilege.choices, default=Privilege.BLIND)
    failed = models.BooleanField(default=False)
    drafted_by = models.CharField(max_length=160, blank=True)
    version = models.IntegerField(default=1)
    saved_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["ask", "author_key"], name="one_draft_per_author")]

    def __str__(self) -> str:
        return f"draft by {self.author}"

    @property
    def is_ready(self) -> bool:
        return not self.failed and (self.text is not None)


class QuickReply(models.Model):
    """A text that one expert keeps at hand in one project."""

    id = IdField()
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="quick_replies")
    author_key = models.CharField(max_length=160)
    text = JsonText()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint("project", "author_key", MD5("text"), name="one_quick_reply_per_text"),
        ]

    def __str__(self) -> str:
        return f"quick reply of {self.author_key}"


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


class Annotation(AppendOnly):
    """A label or comment on a step or on a whole episode."""

    id = IdField()
    episode = models.ForeignKey(Episode, on_delete=models.CASCADE, related_name="annotations")
    seq = models.IntegerField(null=True, blank=True)
    ask = models.ForeignKey(Ask, null=True, blank=True, on_delete=models.SET_NULL, related_name="annotations")
    label = models.CharField(max_length=60)
    text = JsonText(blank=True)
    author = models.CharField(max_length=160)
    author_key = models.CharField(max_length=160)
    author_kind = models.CharField(max_length=5, choices=[("human", "Human"), ("model", "Model"), ("code", "Code")])
    privilege = models.CharField(max_length=14, choices=Privilege.choices, default=Privilege.BLIND)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["episode", "seq"], name="annotations_of_step")]

    def __str__(self) -> str:
        return f"{self.label} by {self.author}"


class Desk(models.Model):
    """How the asks of a project are routed; `routing.py` says what each figure does. No row: the defaults."""

    project = models.OneToOneField(Project, on_delete=models.CASCADE, related_name="desk")
    model_first = models.BooleanField(default=False)
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


class Presence(models.Model):
    """When an expert was last seen, and whether they said that they are away."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="presence")
    actor_key = models.CharField(max_length=160)
    name = models.CharField(max_length=160)
    skills = models.JSONField(default=list)
    away = models.BooleanField(default=False)
    seen_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "actor_key"], name="one_presence_per_expert")]

    def __str__(self) -> str:
        return f"{self.name} was seen"


class ModelCall(AppendOnly):
    """One call of an expert model: what it was for, what it cost, how it went. A fault is a fault, never advice."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="model_calls")
    ask = models.ForeignKey(Ask, null=True, on_delete=models.SET_NULL, related_name="model_calls")
    model_key = models.CharField(max_length=160)
    purpose = models.CharField(
        max_length=8, choices=[("answer", "Answer"), ("draft", "Draft"), ("criteria", "Criteria")]
    )
    fault = models.TextField(blank=True)
    tokens = models.IntegerField(default=0)
    duration_s = models.FloatField()
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["project", "-at"], name="model_calls_newest")]

    def __str__(self) -> str:
        return f"{self.purpose} by {self.model_key}"


class Channel(models.TextChoices):
    BROWSER = "browser", "Open pages"
    PUSH = "push", "Push"
    EMAIL = "email", "E-mail"
    WEBHOOK = "webhook", "Webhook"


class SubscriptionQuerySet(models.QuerySet["Subscription"]):
    def current(self) -> SubscriptionQuerySet:
        return self.filter(ended_at=None)


class Subscription(models.Model):
    """A way in which one person wants to hear of the asks of one project. It ends without its row, so that an ask that
    is just being opened never refers to nothing; what led to the person is wiped then."""

    id = IdField()
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="subscriptions")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="subscriptions")
    kind = models.CharField(max_length=7, choices=Channel.choices)
    name = models.CharField(max_length=120, blank=True)
    target = models.CharField(max_length=1000, blank=True)
    secret = models.JSONField(default=dict, blank=True)
    is_confirmed = models.BooleanField(default=True)
    delay_s = models.IntegerField(default=0)
    every_s = models.IntegerField(default=60)
    told_at = models.DateTimeField(null=True, blank=True)
    broken = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = SubscriptionQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["project"], condition=Q(ended_at=None), name="subscriptions_current")]
        constraints = [
            models.UniqueConstraint(
                fields=["user", "project", "kind", "target"],
                condition=Q(ended_at=None),
                name="one_subscription_per_target",
            ),
            models.CheckConstraint(condition=Q(kind__in=Channel.values), name="channel_known"),
            models.CheckConstraint(condition=Q(delay_s__gte=0, every_s__gte=0), name="notices_wait_forwards"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.user}"

    @property
    def user_key(self) -> str:
        return f"user:{self.user_id}"


class DeliveryState(models.TextChoices):
    WAITING = "waiting", "Waiting"
    SENT = "sent", "Sent"
    SKIPPED = "skipped", "Not needed"
    FAILED = "failed", "Failed"


class Delivery(models.Model):
    """One notice on its way: due, tried, and what came of it in words. Without an ask: a test, or a code to confirm."""

    id = IdField()
    subscription = models.ForeignKey(Subscription, on_delete=models.CASCADE, related_name="deliveries")
    ask = models.ForeignKey(Ask, null=True, blank=True, on_delete=models.CASCADE, related_name="deliveries")
    tier = models.CharField(max_length=6, blank=True)
    purpose = models.CharField(
        max_length=4, default="ask", choices=[("ask", "Ask"), ("test", "Test"), ("code", "Code")]
    )
    state = models.CharField(max_length=7, choices=DeliveryState.choices, default=DeliveryState.WAITING)
    attempts = models.IntegerField(default=0)
    due_at = models.DateTimeField(null=True, blank=True)
    words = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["due_at"], condition=Q(state="waiting"), name="deliveries_due"),
            models.Index(fields=["subscription", "-created_at"], name="deliveries_newest"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["subscription", "ask", "tier"], name="one_notice_per_tier"),
            models.CheckConstraint(condition=Q(state__in=DeliveryState.values), name="delivery_state_known"),
            models.CheckConstraint(
                condition=Q(state="waiting", due_at__isnull=False, ended_at=None)
                | (~Q(state="waiting") & Q(due_at=None, ended_at__isnull=False)),
                name="waiting_notice_is_due",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.purpose} {self.state}"


class QuietHours(models.Model):
    """When a person hears nothing, in the time of their own place; over midnight if it ends before it begins."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="quiet_hours")
    starts = models.TimeField()
    ends = models.TimeField()
    zone = models.CharField(max_length=60, default="UTC")

    def __str__(self) -> str:
        return f"{self.starts:%H:%M} to {self.ends:%H:%M} {self.zone}"

    def until(self, now: datetime) -> datetime | None:
        """The end of the quiet that holds now; None if it does not."""
        here = now.astimezone(ZoneInfo(self.zone))
        time, over_midnight = here.time().replace(tzinfo=None), self.ends <= self.starts
        is_quiet = self.starts <= time or time < self.ends if over_midnight else self.starts <= time < self.ends
        if not is_quiet:
            return None
        end = datetime.combine(here.date(), self.ends, here.tzinfo)
        return end + timedelta(days=1) if over_midnight and time >= self.starts else end


def as_fallback(reason: str) -> dict[str, Any]:
    """The fields of a fallback: no text, a typed reason."""
    return {"text": "", "source": "fallback", "reason": reason}
