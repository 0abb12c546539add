"""Writes: the queue of notifications: who gets what, when, and the result.

Owns every change of a delivery. An app above calls `queue_for` in the transaction that makes a subject claimable, and
`reconsider` in the one that releases it; `sending.py` takes what is due, sends it outside of any transaction, and
records the result. Any number of senders can work concurrently: each locks one subscription briefly and skips locked
ones. A subscription is locked before its deliveries, and without its key (`no_key`): inserting a delivery references it
and must not wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

from notices import events, subjects
from notices.models import Delivery, DeliveryState, Subscription
from notices.subjects import KEEP, Relevance, Subject, put_off, skip
from people.requests import addresses
from people.text.plain_text import first_line

ATTEMPTS_MAX = 6
TAKEN_FOR = timedelta(seconds=90)
"""A sender without a result after this time counts as failed; the notification is sent again."""
FIRST_PAUSE_S, PAUSE_MAX_S = 5, 600
KEPT = timedelta(days=30)
LOOKED_AT = 200
TITLE_CHARS, TEXT_CHARS = 80, 160


@dataclass(frozen=True)
class Parcel:
    """One notification to send: its target and the few texts that leave the server."""

    subscription_id: str
    delivery_id: str
    attempt: int
    channel: str
    kind: str
    subject_id: str
    target: str
    secret: dict[str, str]
    project_id: str
    project: str
    user_key: str
    group: str
    title: str
    text: str
    path: str
    open_count: int
    deadline_at: datetime | None
    answer_path: str = ""
    """Anyone who has it can answer once in the person's name."""

    @property
    def url(self) -> str:
        return f"{settings.AWMWEB_PUBLIC_URL}{self.path}"

    @property
    def answer_url(self) -> str:
        return f"{settings.AWMWEB_PUBLIC_URL}{self.answer_path}" if self.answer_path else ""


@dataclass(frozen=True)
class SendResult:
    """The result of sending. `again`: retry later. `ended`: the receiver no longer exists."""

    ok: bool
    words: str
    again: bool = False
    again_in_s: float = 0.0
    ended: bool = False
    receipt: dict[str, str] | None = None


def queue_for(subject: Subject) -> None:
    """Queue one delivery for each channel of each recipient.

    Called in the transaction that makes the subject claimable. Deliveries already queued for the same rank are
    unchanged.
    """
    now = timezone.now()
    rows = Subscription.objects.current().of_members(now)
    listening = list(rows.filter(project=subject.project_id, is_confirmed=True, broken=""))
    if not listening:
        return
    recipients = subject.recipients(now)
    queued = [
        Delivery(
            subscription=subscription,
            kind=subject.kind,
            subject_id=subject.id,
            rank=subject.rank,
            group=subject.group,
            expires_at=subject.expires_at,
            due_at=now + timedelta(seconds=subscription.delay_s),
        )
        for subscription in listening
        if subscription.user_key in recipients
    ]
    # A unique constraint on subscription, subject and rank drops repeats.
    Delivery.objects.bulk_create(queued, ignore_conflicts=True)
    if any(row.due_at == now for row in queued):
        events.call_sender()


def queue_own(subscription: Subscription, kind: str) -> Delivery:
    """Queue a test or a code, due now whatever the rules of the subscription are."""
    row = Delivery.objects.create(subscription=subscription, kind=kind, due_at=timezone.now())
    events.call_sender()
    return row


def reconsider(kind: str, subject_id: str) -> None:
    """Make deliveries due that were delayed because someone held the subject.

    Called in the transaction that releases it. Skips locked deliveries: their sender may be waiting for another lock.
    """
    now = timezone.now()
    waiting = Delivery.objects.select_for_update(skip_locked=True, of=("self",)).select_related("subscription")
    mine = waiting.filter(kind=kind, subject_id=subject_id, state=DeliveryState.WAITING, attempts=0, due_at__gt=now)
    rows = list(mine)
    for row in rows:
        _put_off(row, max(now, row.created_at + timedelta(seconds=row.subscription.delay_s)), "")
    if any(row.due_at == now for row in rows):
        events.call_sender()


def drop_waiting(subscription: Subscription, why: str) -> None:
    """End the queued deliveries of a subscription that has ended. The caller holds its lock."""
    for row in subscription.deliveries.filter(state=DeliveryState.WAITING):
        _end(row, DeliveryState.SKIPPED, why)


@transaction.atomic
def take(now: datetime) -> tuple[bool, Parcel | None]:
    """Return whether anything was due, and the parcel to send.

    1. Lock one subscription with due deliveries. 2. End or delay those that are not wanted now. 3. Send one of the rest
    and count the others of its kind in it.
    """
    due = Delivery.objects.filter(state=DeliveryState.WAITING, due_at__lte=now)
    rows = Subscription.objects.select_for_update(skip_locked=True, no_key=True, of=("self",))
    rows = rows.select_related("project", "user__quiet_hours")
    subscription = rows.filter(Exists(due.filter(subscription=OuterRef("pk")))).first()
    if subscription is None:
        return False, None
    mine = due.filter(subscription=subscription).order_by("expires_at", "pk")
    return True, _pick(subscription, list(mine[:LOOKED_AT]), now)


def _pick(subscription: Subscription, rows: list[Delivery], now: datetime) -> Parcel | None:
    is_reached = Subscription.objects.of_members(now).filter(pk=subscription.pk).exists()
    for row in rows:
        if subscription.ended_at is not None or subscription.broken:
            _end(row, DeliveryState.SKIPPED, subscription.broken or "Channel removed.")
        elif not is_reached:
            _end(row, DeliveryState.SKIPPED, "Not sent: the membership has expired, or a sign-in is needed.")
        # No attempt has recorded a result: the sender was killed each time.
        elif row.attempts >= ATTEMPTS_MAX:
            _end(row, DeliveryState.FAILED, row.words or "The sender stopped before it finished.")
    rows = [row for row in rows if row.state == DeliveryState.WAITING]
    own = next((row for row in rows if row.kind in subjects.OWN), None)
    # The mailbox was confirmed meanwhile, or the code was used up.
    if own is not None and own.kind == subjects.CODE and not subscription.secret.get("code"):
        _end(own, DeliveryState.SKIPPED, "Not sent: this code is no longer valid.")
    elif own is not None:
        return _packed(subscription, own, None, now)
    return _pick_subject(subscription, [row for row in rows if row.kind not in subjects.OWN], now)


def _pick_subject(subscription: Subscription, rows: list[Delivery], now: datetime) -> Parcel | None:
    """Return one notification for all due ones of a kind. Each that is not wanted now is ended or delayed."""
    by_key = subjects.read({(row.kind, row.subject_id) for row in rows})
    about = [(row, by_key.get((row.kind, row.subject_id))) for row in rows]
    due_rows = [(row, one) for row, one in about if _holds(row, _standing(subscription, row, one, now))]
    left = [(row, one) for row, one in due_rows if one is not None]
    chosen = next(((row, one) for row, one in left if _holds(row, _standing_for(subscription, row, one, now))), None)
    if chosen is None:
        return None
    for row, _ in left:
        if row.pk != chosen[0].pk and row.kind == chosen[0].kind and row.state == DeliveryState.WAITING:
            _end(row, DeliveryState.SKIPPED, f"Sent together with another {row.label.lower()}.")
    return _packed(subscription, *chosen, now)


def _standing(subscription: Subscription, row: Delivery, subject: Subject | None, now: datetime) -> Relevance:
    """Return whether clock, subject and the subscription's rules allow it, for any person."""
    standing = subject.standing(row.rank, now) if subject is not None else skip("Not sent: it no longer exists.")
    if not standing.is_wanted:
        return standing
    user = subscription.user
    quiet = user.quiet_hours.until(now) if hasattr(user, "quiet_hours") else None
    if quiet is not None and row.expires_at is not None and row.expires_at <= quiet:
        return skip("Not sent: quiet hours end after the deadline.")
    if quiet is not None:
        return put_off(quiet, "Quiet hours.")
    # A retry is not limited: its first attempt was counted.
    told_at = subscription.told_at if not row.attempts else None
    if told_at is not None and (free_at := told_at + timedelta(seconds=subscription.every_s)) > now:
        return put_off(free_at, f"At most one every {subscription.every_s} s.")
    return KEEP


def _standing_for(subscription: Subscription, row: Delivery, subject: Subject, now: datetime) -> Relevance:
    """Return whether this person wants it: they are still a recipient, and were not notified of the same before."""
    standing = subject.standing_for(subscription.user_key, now)
    if not standing.is_wanted:
        return standing
    kind = subjects.kind_of(row.kind)
    sent = subscription.deliveries.filter(state=DeliveryState.SENT, kind=row.kind, group=row.group, rank=row.rank)
    same = set(sent.exclude(subject_id=row.subject_id).values_list("subject_id", flat=True)) if row.group else set()
    if kind is not None and same and kind.open_among(same):
        return skip("Not sent: you were already notified of the same question.")
    return KEEP


def _holds(row: Delivery, standing: Relevance) -> bool:
    """Return whether to send it now. If not, end or delay it."""
    if standing.until is not None:
        _put_off(row, standing.until, standing.why)
    elif not standing.is_wanted:
        _end(row, DeliveryState.SKIPPED, standing.why)
    return standing.is_wanted


def _end(row: Delivery, state: str, words: str) -> None:
    row.state, row.words, row.due_at, row.ended_at = state, words[:500], None, timezone.now()
    row.save(update_fields=["state", "words", "due_at", "ended_at"])


def _put_off(row: Delivery, until: datetime, words: str) -> None:
    row.due_at, row.words = until, words[:500]
    row.save(update_fields=["due_at", "words"])


def _packed(subscription: Subscription, row: Delivery, subject: Subject | None, now: datetime) -> Parcel:
    """Count an attempt. It is due again only if no result is recorded."""
    row.attempts, row.due_at = row.attempts + 1, now + TAKEN_FOR
    row.save(update_fields=["attempts", "due_at"])
    if subject is not None:
        # Before sending, so that a concurrent sender respects the limit.
        subscription.told_at = now
        subscription.save(update_fields=["told_at"])
    return parcel_of(row, subject, now)


def parcel_of(row: Delivery, subject: Subject | None, now: datetime | None = None) -> Parcel:
    """Return what a delivery sends, as its subject is now."""
    subscription = row.subscription
    count = subjects.open_count(row.kind, subscription.project_id, now or timezone.now())
    title, text = _words(subscription, row) if subject is None else (subject.title(count), subject.text)
    return Parcel(
        subscription_id=subscription.pk,
        delivery_id=row.pk,
        attempt=row.attempts,
        channel=subscription.kind,
        kind=row.kind,
        subject_id=row.subject_id,
        target=subscription.target,
        secret=subscription.secret,
        project_id=subscription.project_id,
        project=subscription.project.slug,
        user_key=subscription.user_key,
        group=row.group,
        title=first_line(title, TITLE_CHARS),
        text=first_line(text, TEXT_CHARS),
        path=addresses.in_project(subscription.project.slug, row.path or "/notifications/"),
        open_count=count,
        deadline_at=row.expires_at,
        answer_path=subject.answer_path(subscription.user_key) if subject is not None else "",
    )


def _words(subscription: Subscription, row: Delivery) -> tuple[str, str]:
    """Return title and text of one of this app's own notifications."""
    if row.kind == subjects.CODE:
        code = subscription.secret.get("code", "")
        what = "Slack account" if subscription.kind == "slack" else "email address"
        return f"Confirm your {what}", f"Your code is {code}. It was requested by {subscription.user}."
    return "Test notification", f"Notifications for {subscription.project.name} arrive here."


@transaction.atomic
def record_result(parcel: Parcel, result: SendResult) -> None:
    """Record a result: sent, to retry, or failed. Ignored if another sender has taken it since."""
    subscription = Subscription.objects.select_for_update(no_key=True).get(pk=parcel.subscription_id)
    mine = subscription.deliveries.filter(pk=parcel.delivery_id, state=DeliveryState.WAITING, attempts=parcel.attempt)
    row = mine.first()
    if row is None:
        return
    if result.ok:
        row.receipt = result.receipt or {}
        row.save(update_fields=["receipt"])
        _end(row, DeliveryState.SENT, result.words)
    elif result.again and row.kind not in subjects.OWN and row.attempts < ATTEMPTS_MAX:
        pause = max(FIRST_PAUSE_S * 3 ** (row.attempts - 1), result.again_in_s)
        _put_off(row, timezone.now() + timedelta(seconds=min(pause, PAUSE_MAX_S)), result.words)
    else:
        _end(row, DeliveryState.FAILED, result.words)
    if result.ended:
        subscription.broken = result.words[:500]
        subscription.save(update_fields=["broken"])


def forget_old() -> None:
    Delivery.objects.filter(created_at__lt=timezone.now() - KEPT).exclude(state=DeliveryState.WAITING).delete()
