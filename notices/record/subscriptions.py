"""Writes: a person's channels for a project, and their quiet hours.

Owns every change of subscriptions and quiet hours. Leaves deliveries and the order of locks to `deliveries.py`. Called
by the page, and by `members.remove_member` through `forget`.
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from datetime import time
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.utils import timezone

from notices import outbound, subjects
from notices.errors import WrongCode
from notices.models import Channel, Delivery, DeliveryState, QuietHours, Subscription, SubscriptionQuerySet
from notices.record import allowances, deliveries, slack
from people.access import Actor, may_annotate
from people.errors import Forbidden, Invalid, NotFound
from people.record.audit import record
from people.text.plain_text import clean

ADDRESS_CHARS = 1000
CHANNELS_MAX = 10
"""Channels of one person in one project."""
SLACK_MEMBER = re.compile(r"[UW][A-Z0-9]{2,20}", re.ASCII)
TRIES_MAX = 5
"""Wrong codes after which a code is invalid."""


@transaction.atomic
def subscribe(
    actor: Actor, kind: str, target: str = "", secret: dict[str, str] | None = None, name: str = ""
) -> Subscription:
    """Add a channel.

    1. Check right and address. 2. Renew the row of a known address. 3. Send a code to an email address first, so that
    no one can flood another person's mailbox. 4. Write the audit entry.
    """
    _person(actor)
    target, secret = _checked(kind, target.strip(), secret or {})
    mine = _current(actor)
    channel = next((one for one in mine if (one.kind, one.target) == (kind, target)), None)
    if channel is not None:
        return _renewed(channel, secret)
    if len(mine) >= CHANNELS_MAX:
        raise Invalid(f"You have {CHANNELS_MAX} channels (the maximum). Remove one first.")
    subscription, is_new = Subscription.objects.get_or_create(
        project=actor.project,
        user=actor.person,
        kind=kind,
        target=target,
        ended_at=None,
        defaults={"secret": secret, "name": clean(name)[:120], "is_confirmed": not Channel(kind).code_sent},
    )
    if is_new:
        record(actor, "turned on notifications", _place(subscription))
        if Channel(kind).code_sent:
            _send_code(subscription)
    return subscription


def _place(subscription: Subscription) -> str:
    """Return what the audit trail says of a channel: not its address, which can be a secret."""
    return f"{subscription.kind} {urlsplit(subscription.target).hostname or ''}".strip()


def _current(actor: Actor) -> SubscriptionQuerySet:
    """Return this person's subscriptions in this project, to lock without their keys."""
    rows = Subscription.objects.select_for_update(no_key=True).current()
    return rows.filter(project=actor.project, user=actor.person)


def _person(actor: Actor) -> None:
    may_annotate(actor)
    if not actor.signed_in:
        raise Forbidden("Notifications are for people. Scripts can listen on the queue socket.")


def _renewed(subscription: Subscription, secret: dict[str, str]) -> Subscription:
    """Renew a subscription: a browser can have new keys, and a failed channel is tried again."""
    if subscription.kind == Channel.PUSH:
        subscription.secret = secret
    subscription.broken = ""
    subscription.save(update_fields=["secret", "broken"])
    return subscription


def _checked(kind: str, target: str, secret: dict[str, str]) -> tuple[str, dict[str, str]]:
    """Return the address and the secret of a subscription. Raises if they are invalid."""
    if len(target) > ADDRESS_CHARS:
        raise Invalid(f"The address is too long (at most {ADDRESS_CHARS:,} characters).")
    if kind == Channel.BROWSER:
        return "", {}
    if kind == Channel.PUSH:
        _refuse_address(target)
        return target, {"p256dh": _key(secret, "p256dh", 65), "auth": _key(secret, "auth", 16)}
    if kind == Channel.WEBHOOK:
        _refuse_address(target)
        return target, {"key": "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()}
    if kind == Channel.SLACK:
        if not slack.is_set():
            raise Invalid("Slack is not set. The operator sets AWMWEB_SLACK_TOKEN and AWMWEB_SLACK_SECRET.")
        if not SLACK_MEMBER.fullmatch(target):
            raise Invalid("Enter your Slack member ID, such as U024BE7LH: Profile, More, Copy member ID.")
        return target, {}
    if kind != Channel.EMAIL:
        raise Invalid(f"Unknown channel. Use one of: {', '.join(Channel.values)}.")
    if settings.MAIL_SERVER is None:
        raise Invalid("No mail server is set. The operator sets AWMWEB_MAIL_URL.")
    _refuse_mailbox(target)
    return target, {}


def _refuse_mailbox(target: str) -> None:
    """Accept plain addresses only: mail libraries disagree about quotes and encoded words."""
    wrong = "Enter an email address such as ada@example.org."
    if any(sign in target for sign in ('"', "[", "=?")) or not target.rpartition("@")[0].isascii():
        raise Invalid(wrong)
    try:
        validate_email(target)
    except ValidationError as error:
        raise Invalid(wrong) from error


def _refuse_address(target: str) -> None:
    """Refuse an address that is invalid without a lookup; its name is resolved on use."""
    try:
        outbound.checked(target)
    except outbound.AddressRefused as refused:
        raise Invalid(str(refused)) from refused


def _key(secret: dict[str, str], name: str, size: int) -> str:
    text = str(secret.get(name, ""))[:200]
    try:
        key_bytes = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        key_bytes = b""
    if len(key_bytes) != size or (size == 65 and key_bytes[0] != 4):
        raise Invalid("The browser's keys are invalid. Turn push off and on again.")
    return text


def _mine(actor: Actor, pk: str) -> Subscription:
    """Lock and return one of this person's subscriptions."""
    _person(actor)
    subscription = _current(actor).filter(pk=pk).first()
    if subscription is None:
        raise NotFound
    return subscription


@transaction.atomic
def unsubscribe(actor: Actor, pk: str) -> None:
    """End a subscription. The log of deliveries stays; the address is wiped."""
    subscription = _mine(actor, pk)
    record(actor, "turned off notifications", _place(subscription))
    _end(subscription, "Channel removed.")


def _end(subscription: Subscription, why: str) -> None:
    subscription.ended_at, subscription.target, subscription.secret = timezone.now(), "", {}
    subscription.save(update_fields=["ended_at", "target", "secret"])
    deliveries.drop_waiting(subscription, why)


def forget(leaving: Actor) -> None:
    """Remove the subscriptions of a removed person. Registered with `members.on_leave`."""
    for subscription in _current(leaving).order_by("pk"):
        _end(subscription, "Left the project.")


def confirm(actor: Actor, pk: str, code: str) -> None:
    """Confirm a mailbox by the code from the mail. A wrong code is counted before it is refused."""
    with transaction.atomic():
        subscription = _mine(actor, pk)
        was_confirmed = subscription.is_confirmed
        refusal = _try(subscription, code.strip().lower())
        if subscription.is_confirmed and not was_confirmed:
            record(actor, "confirmed notifications", _place(subscription))
    if refusal:
        raise WrongCode(refusal)


def _try(subscription: Subscription, code: str) -> str:
    """Confirm, or count a wrong code and return the refusal. Raises nothing, so that the count is committed."""
    if subscription.is_confirmed:
        return ""
    right, wrong = subscription.secret.get("code", ""), int(subscription.secret.get("wrong", 0))
    if right and secrets.compare_digest(code.encode(), right.encode()):
        subscription.is_confirmed, subscription.secret, subscription.told_at = True, {}, None
        subscription.save(update_fields=["is_confirmed", "secret", "told_at"])
        return ""
    if right:
        left = TRIES_MAX - wrong - 1
        subscription.secret = {"code": right, "wrong": str(wrong + 1)} if left else {}
        subscription.save(update_fields=["secret"])
        if left:
            return f"Wrong code. {left} {'try' if left == 1 else 'tries'} left. Use the code from the newest mail."
    return "Too many wrong codes. Send a new code."


@transaction.atomic
def set_rules(actor: Actor, pk: str, delay_s: int, every_s: int) -> None:
    """Set when a subscription is used: only if no one has claimed after this delay, and how often at most."""
    if not (0 <= delay_s <= 3600 and 0 <= every_s <= 86_400):
        raise Invalid("Enter a wait of 0 to 3600 s and an interval of 0 to 86400 s.")
    subscription = _mine(actor, pk)
    subscription.delay_s, subscription.every_s = delay_s, every_s
    subscription.save(update_fields=["delay_s", "every_s"])


@transaction.atomic
def set_quiet_hours(actor: Actor, starts: time | None, ends: time | None, zone: str) -> None:
    """Set this person's quiet hours in all projects; both empty switches them off."""
    _person(actor)
    if starts is None and ends is None:
        QuietHours.objects.filter(user=actor.person).delete()
        return
    if starts is None or ends is None or starts == ends:
        raise Invalid("Enter a start and a different end, such as 22:00 and 07:00.")
    try:
        ZoneInfo(zone)
    except (ValueError, OSError, LookupError) as error:
        raise Invalid("Enter a time zone name such as Europe/Madrid.") from error
    QuietHours.objects.update_or_create(user=actor.person, defaults={"starts": starts, "ends": ends, "zone": zone})


@transaction.atomic
def test(actor: Actor, pk: str) -> Delivery:
    """Send a test now, whatever the rules are. An unconfirmed mailbox gets a new code instead."""
    subscription = _mine(actor, pk)
    under_way = subscription.deliveries.filter(state=DeliveryState.WAITING, kind__in=subjects.OWN).first()
    if under_way is not None:
        return under_way
    if not subscription.is_confirmed:
        return _send_code(subscription)
    allowances.spend_test(subscription)
    return deliveries.queue_own(subscription, subjects.TEST)


def _send_code(subscription: Subscription) -> Delivery:
    """Send a new code; it replaces the one before."""
    allowances.spend_code(subscription)
    subscription.secret = {"code": secrets.token_hex(4)}
    subscription.save(update_fields=["secret"])
    return deliveries.queue_own(subscription, subjects.CODE)
