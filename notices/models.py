"""Rows about notifications: subscriptions, deliveries, a project's Slack channels, quiet hours, and counters of use.

Owns what a row can contain and facts about one row. Leaves changes to `subscriptions.py`, `deliveries.py`,
`channels.py` and `allowances.py`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Exists, OuterRef, Q, Value
from django.utils import timezone

from notices import subjects
from people.models import IdField, Membership, Project

LISTENED = """EXISTS (
  SELECT FROM notices_subscription WHERE project_id = %(project)s AND ended_at IS NULL AND is_confirmed AND broken = ''
) OR EXISTS (SELECT FROM notices_slackchannel WHERE project_id = %(project)s AND ended_at IS NULL)"""
"""Whether `deliveries.queue_for` or `channels.queue_for` finds one, for a statement that reads more than that."""


class Channel(models.TextChoices):
    BROWSER = "browser", "Open tabs"
    PUSH = "push", "Push"
    EMAIL = "email", "Email"
    WEBHOOK = "webhook", "Webhook"
    SLACK = "slack", "Slack"

    @property
    def words(self) -> str:
        """Its name in a sentence."""
        return self.label if self is Channel.SLACK else self.label.lower()

    @property
    def code_sent(self) -> str:
        """Where its code went, for a channel that a code confirms: others could name the mailbox or the member, too."""
        sent = {Channel.EMAIL: "Code sent. Check that mailbox.", Channel.SLACK: "Code sent. Check your Slack messages."}
        return sent.get(self, "")

    @property
    def is_mended_by_owner(self) -> bool:
        """Whether its owner alone can mend it."""
        return self in (Channel.BROWSER, Channel.PUSH)


class SubscriptionQuerySet(models.QuerySet["Subscription"]):
    def current(self) -> SubscriptionQuerySet:
        return self.filter(ended_at=None)

    def of_members(self, now: datetime) -> SubscriptionQuerySet:
        """Filter to those whose person acts in their project: no channel reaches anyone else."""
        mine = Membership.objects.current(now).filter(project=OuterRef("project"), user=OuterRef("user"))
        return self.filter(Exists(mine))


class Subscription(models.Model):
    """A channel by which one person is notified about one project.

    Its row stays after its end, so that a delivery being queued keeps its reference; the address is wiped then.
    """

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
    SKIPPED = "skipped", "Skipped"
    FAILED = "failed", "Failed"


class Delivery(models.Model):
    """One notification: when it is due, its attempts, and its result in words.

    It is of a kind of this app (`subjects.OWN`) or about an object of an app above, which it stores as a plain ID.
    """

    id = IdField()
    subscription = models.ForeignKey(Subscription, on_delete=models.CASCADE, related_name="deliveries")
    kind = models.CharField(max_length=20)
    subject_id = models.CharField(max_length=40, blank=True)
    rank = models.CharField(max_length=20, blank=True)
    group = models.CharField(max_length=40, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    state = models.CharField(max_length=7, choices=DeliveryState.choices, default=DeliveryState.WAITING)
    attempts = models.IntegerField(default=0)
    due_at = models.DateTimeField(null=True, blank=True)
    words = models.TextField(blank=True)
    receipt = models.JSONField(default=dict, blank=True, db_default=Value({}, models.JSONField()))
    """The sent message, where it can be changed: `{"channel", "ts"}` of Slack."""
    shown = models.CharField(max_length=300, blank=True, default="", db_default="")
    """What that message says about its subject's state."""
    is_over = models.BooleanField(default=False, db_default=False)
    """Whether the message says how its subject ended."""
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["due_at"], condition=Q(state="waiting"), name="deliveries_due"),
            models.Index(fields=["subscription", "-created_at"], name="deliveries_newest"),
            models.Index(fields=["subject_id"], condition=Q(state="waiting"), name="deliveries_of_subject"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["subscription", "kind", "subject_id", "rank"],
                condition=~Q(subject_id=""),
                name="one_notice_per_rank",
            ),
            models.CheckConstraint(condition=Q(state__in=DeliveryState.values), name="delivery_state_known"),
            models.CheckConstraint(
                condition=Q(state="waiting", due_at__isnull=False, ended_at=None)
                | (~Q(state="waiting") & Q(due_at=None, ended_at__isnull=False)),
                name="waiting_notice_is_due",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.state}"

    @property
    def label(self) -> str:
        """The name of its kind on pages."""
        return subjects.label(self.kind)

    @property
    def path(self) -> str:
        """The page of its subject, which finds its project; empty for a kind of this app."""
        return subjects.path(self.kind, self.subject_id)


class SlackChannel(models.Model):
    """A channel in Slack that shows the asks of a project, and which of them.

    It belongs to the project: who added it can leave. Its row stays after its end, as that of a subscription.
    """

    id = IdField()
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="slack_channels")
    target = models.CharField(max_length=30)
    skills = models.JSONField(default=list, blank=True)
    """An ask with one of these skills is shown; empty for every ask."""
    only_high_risk = models.BooleanField(default=False)
    broken = models.TextField(blank=True)
    paused_until = models.DateTimeField(null=True, blank=True)
    """Slack takes nothing for it before."""
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project", "target"], condition=Q(ended_at=None), name="one_slack_channel_per_target"
            ),
        ]

    def __str__(self) -> str:
        return f"Slack channel {self.target}"


class SlackPost(models.Model):
    """The message of one subject in one Slack channel, which is drawn again when the subject changes.

    It stores no text: `shown` is a digest of what the message says.
    """

    id = IdField()
    channel = models.ForeignKey(SlackChannel, on_delete=models.CASCADE, related_name="posts")
    kind = models.CharField(max_length=20)
    subject_id = models.CharField(max_length=40)
    ts = models.CharField(max_length=40, blank=True)
    """Slack's name of the message; empty until it was sent."""
    thread_ts = models.CharField(max_length=40, blank=True)
    """The first message of its thread, where it continues an earlier one."""
    shown = models.CharField(max_length=64, blank=True)
    is_over = models.BooleanField(default=False)
    attempts = models.IntegerField(default=0)
    """Failures in a row."""
    taken_until = models.DateTimeField(null=True, blank=True)
    """Until when one process draws it, or until when Slack is not asked again."""
    heard = models.JSONField(default=list, blank=True)
    """Slack's names of the newest replies that were stored."""
    looked_at = models.DateTimeField(default=timezone.now)
    """When the sweep last compared it."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [
            models.Index(fields=["looked_at"], condition=Q(is_over=False), name="slack_posts_to_draw"),
            models.Index(fields=["kind", "subject_id"], name="slack_posts_of_subject"),
            models.Index(fields=["channel", "ts"], name="slack_posts_by_ts"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["channel", "kind", "subject_id"], name="one_slack_post_per_subject"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} in {self.channel_id}"


class QuietHours(models.Model):
    """The hours without notifications, in the person's time zone. An end before the start is on the next day."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="quiet_hours")
    starts = models.TimeField()
    ends = models.TimeField()
    zone = models.CharField(max_length=60, default="UTC")

    def __str__(self) -> str:
        return f"{self.starts:%H:%M} to {self.ends:%H:%M} {self.zone}"

    def until(self, now: datetime) -> datetime | None:
        """Return the end of the current quiet hours, or None."""
        here = now.astimezone(ZoneInfo(self.zone))
        time, over_midnight = here.time().replace(tzinfo=None), self.ends <= self.starts
        is_quiet = self.starts <= time or time < self.ends if over_midnight else self.starts <= time < self.ends
        if not is_quiet:
            return None
        end = datetime.combine(here.date(), self.ends, here.tzinfo)
        return end + timedelta(days=1) if over_midnight and time >= self.starts else end


class Allowance(models.Model):
    """How often something was used in the last day, by a key that outlives subscriptions."""

    key = models.CharField(max_length=120, primary_key=True)
    used_at = ArrayField(models.DateTimeField(), default=list, blank=True)
    last_at = models.DateTimeField(default=timezone.now)

    class Meta:
        indexes = [models.Index(fields=["last_at"], name="allowances_oldest")]

    def __str__(self) -> str:
        return f"{self.key}: {len(self.used_at)}"
