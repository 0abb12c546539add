"""Writes: who wants to hear of asks and how, and what becomes of each notice.

Owns every change of subscriptions, quiet hours and deliveries. `queue.py` calls `queue_for` in the transaction that
puts an ask before people, and `freed` in the one that lets go of it; `courier.py` takes what is due, sends it outside
of any transaction, and says how it went. Any number of couriers may work at once: each locks one subscription for a
moment and skips those that others hold. A subscription is locked before its deliveries, and without its key (`no_key`):
an ask that is just being opened refers to it and waits for nobody.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

from experts import events, outside
from experts.availability import BEFORE_PEOPLE, to_tell
from experts.models import Ask, Channel, Delivery, DeliveryState, QuietHours, Subscription
from people.access import Actor, may_advise
from people.errors import Forbidden, Invalid, NotFound
from people.members import record
from people.plain_text import clean, first_line

WAYS_MAX = 10
"""Ways in which one person hears of one project."""
ATTEMPTS_MAX = 6
TAKEN_FOR = timedelta(seconds=90)
"""A courier that has said nothing after so long is taken for dead; the notice is sent again."""
FIRST_PAUSE_S, PAUSE_MAX_S = 5, 600
KEPT = timedelta(days=30)
LOOKED_AT = 200
TITLE_CHARS, TEXT_CHARS = 80, 160
CODE_EVERY = timedelta(seconds=60)


@dataclass(frozen=True)
class Parcel:
    """What a courier carries: where to, and the few words that may leave the house."""

    way_id: str
    delivery_id: str
    attempt: int
    kind: str
    purpose: str
    target: str
    secret: dict[str, str]
    project_id: str
    project: str
    user_key: str
    ask_id: str
    group: str
    title: str
    text: str
    path: str
    open_asks: int
    deadline_at: datetime | None

    @property
    def url(self) -> str:
        return f"{settings.AWMWEB_PUBLIC_URL}{self.path}"


@dataclass(frozen=True)
class Outcome:
    """How the sending went. `again`: worth another try; `gone`: nobody listens there any more."""

    ok: bool
    words: str
    again: bool = False
    again_in_s: float = 0.0
    gone: bool = False


def queue_for(ask: Ask) -> None:
    """Called in the transaction that opens or moves an ask: one delivery for each way of each person who may answer."""
    if ask.tier not in BEFORE_PEOPLE:
        return
    ways = list(Subscription.objects.current().filter(project=ask.project_id, is_confirmed=True, broken=""))
    if not ways:
        return
    now = timezone.now()
    people = to_tell(ask, now)
    rows = [
        Delivery(subscription=way, ask=ask, tier=ask.tier, due_at=now + timedelta(seconds=way.delay_s))
        for way in ways
        if way.user_key in people
    ]
    Delivery.objects.bulk_create(rows, ignore_conflicts=True)
    if any(row.due_at == now for row in rows):
        events.call_courier()


def freed(ask_id: str) -> None:
    """Called in the transaction that lets go of an ask: what was put off because somebody had it is looked at now, or
    once its delay is over. Waits for no courier, who may hold a notice and wait for another's."""
    now = timezone.now()
    waiting = Delivery.objects.select_for_update(skip_locked=True, of=("self",)).select_related("subscription")
    rows = list(waiting.filter(ask=ask_id, state=DeliveryState.WAITING, attempts=0, due_at__gt=now))
    for row in rows:
        _put_off(row, max(now, row.created_at + timedelta(seconds=row.subscription.delay_s)), "")
    if any(row.due_at == now for row in rows):
        events.call_courier()


@transaction.atomic
def subscribe(
    actor: Actor, kind: str, target: str = "", secret: dict[str, str] | None = None, name: str = ""
) -> Subscription:
    """1. check right and address, 2. the same address again is the same row, renewed, 3. an e-mail address is sent a
    code first, so that nobody's mailbox is filled by somebody else, 4. the trail."""
    _person(actor)
    target, secret = _checked(kind, target.strip(), secret or {})
    mine = Subscription.objects.select_for_update(no_key=True).current().filter(project=actor.project, user=actor.user)
    known = next((way for way in mine if (way.kind, way.target) == (kind, target)), None)
    if known is not None:
        return _renewed(known, secret)
    if len(mine) >= WAYS_MAX:
        raise Invalid(f"At most {WAYS_MAX} ways; remove one first.")
    way, is_new = Subscription.objects.get_or_create(
        project=actor.project,
        user=actor.user,
        kind=kind,
        target=target,
        ended_at=None,
        defaults={"secret": secret, "name": clean(name)[:120], "is_confirmed": kind != Channel.EMAIL},
    )
    if is_new:
        record(actor, "switched on notices", f"{kind} {urlsplit(target).hostname or ''}".strip())
        if kind == Channel.EMAIL:
            _send_code(way)
    return way


def _person(actor: Actor) -> None:
    may_advise(actor)
    if actor.user is None:
        raise Forbidden("Notices are for people; a script listens on the queue's socket.")


def _renewed(way: Subscription, secret: dict[str, str]) -> Subscription:
    """A browser may come back with fresh keys; what was broken is tried again."""
    if way.kind == Channel.PUSH:
        way.secret = secret
    way.broken = ""
    way.save(update_fields=["secret", "broken"])
    return way


def _checked(kind: str, target: str, secret: dict[str, str]) -> tuple[str, dict[str, str]]:
    """The address and the secret of a way, or why they cannot be."""
    if len(target) > 1000:
        raise Invalid("This address is too long.")
    if kind == Channel.BROWSER:
        return "", {}
    if kind == Channel.PUSH:
        _refuse_address(target)
        return target, {"p256dh": _key(secret, "p256dh", 65), "auth": _key(secret, "auth", 16)}
    if kind == Channel.WEBHOOK:
        _refuse_address(target)
        return target, {"key": "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()}
    if kind != Channel.EMAIL:
        raise Invalid(f"A way is one of {', '.join(Channel.values)}.")
    if settings.MAIL_SERVER is None:
        raise Invalid("No mail server is set up here; the operator sets AWMWEB_MAIL_URL.")
    try:
        validate_email(target)
    except ValidationError as error:
        raise Invalid("Give an e-mail address, such as ada@example.org.") from error
    return target, {"code": secrets.token_hex(4)}


def _refuse_address(target: str) -> None:
    """What can be seen without asking anybody; what the name resolves to is looked at when it is used."""
    try:
        outside.checked(target)
    except outside.Refused as refused:
        raise Invalid(str(refused)) from refused


def _key(secret: dict[str, str], name: str, size: int) -> str:
    text = str(secret.get(name, ""))[:200]
    try:
        known = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        known = b""
    if len(known) != size or (size == 65 and known[0] != 4):
        raise Invalid("The browser's keys are not readable; switch push off and on again.")
    return text


def _mine(actor: Actor, pk: str) -> Subscription:
    """One of this person's ways, locked."""
    _person(actor)
    mine = Subscription.objects.select_for_update(no_key=True).current().filter(project=actor.project, user=actor.user)
    way = mine.filter(pk=pk).first()
    if way is None:
        raise NotFound
    return way


@transaction.atomic
def unsubscribe(actor: Actor, pk: str) -> None:
    """End a way. What was sent stays in the log; what led to the person is wiped."""
    _end_way(_mine(actor, pk), "switched off")


def _end_way(way: Subscription, why: str) -> None:
    way.ended_at, way.target, way.secret = timezone.now(), "", {}
    way.save(update_fields=["ended_at", "target", "secret"])
    for row in way.deliveries.filter(state=DeliveryState.WAITING):
        _end(row, DeliveryState.SKIPPED, why)


def forget(leaving: Actor) -> None:
    """Registered with `members.on_leave`: who is removed hears nothing more."""
    ways = (
        Subscription.objects.select_for_update(no_key=True).current().filter(project=leaving.project, user=leaving.user)
    )
    for way in ways.order_by("pk"):
        _end_way(way, "left the project")


@transaction.atomic
def confirm(actor: Actor, pk: str, code: str) -> None:
    """The code from the mail proves that the mailbox is theirs."""
    way = _mine(actor, pk)
    if way.is_confirmed:
        return
    if not secrets.compare_digest(code.strip().lower().encode(), way.secret.get("code", "").encode()):
        raise Invalid("This is not the code from the newest mail.")
    way.is_confirmed, way.secret, way.told_at = True, {}, None
    way.save(update_fields=["is_confirmed", "secret", "told_at"])


@transaction.atomic
def set_rules(actor: Actor, pk: str, delay_s: int, every_s: int) -> None:
    """When a way is used: only if nobody has claimed after so long, and at most once in so long."""
    if not (0 <= delay_s <= 3600 and 0 <= every_s <= 86_400):
        raise Invalid("The delay is 0 to 3600 seconds, the pause between two notices 0 to 86400.")
    way = _mine(actor, pk)
    way.delay_s, way.every_s = delay_s, every_s
    way.save(update_fields=["delay_s", "every_s"])


@transaction.atomic
def set_quiet_hours(actor: Actor, starts: time | None, ends: time | None, zone: str) -> None:
    """When this person hears nothing, in every project; both empty switches it off."""
    _person(actor)
    if starts is None and ends is None:
        QuietHours.objects.filter(user=actor.user).delete()
        return
    if starts is None or ends is None or starts == ends:
        raise Invalid("Quiet hours need a beginning and another end, such as 22:00 and 07:00.")
    try:
        ZoneInfo(zone)
    except (ValueError, OSError, LookupError) as error:
        raise Invalid("Give the time zone by its name, such as Europe/Madrid.") from error
    QuietHours.objects.update_or_create(user=actor.user, defaults={"starts": starts, "ends": ends, "zone": zone})


@transaction.atomic
def test(actor: Actor, pk: str) -> Delivery:
    """Send one now, whatever the rules say. An unconfirmed mailbox gets its code again instead."""
    way = _mine(actor, pk)
    under_way = way.deliveries.filter(state=DeliveryState.WAITING, ask=None).first()
    if under_way is not None:
        return under_way
    if not way.is_confirmed:
        return _send_code(way)
    row = Delivery.objects.create(subscription=way, purpose="test", due_at=timezone.now())
    events.call_courier()
    return row


def _send_code(way: Subscription) -> Delivery:
    now = timezone.now()
    recent = way.deliveries.filter(purpose="code", created_at__gt=now - CODE_EVERY).first()
    if recent is not None:
        raise Invalid("A code was sent a moment ago; look into the mailbox, or try again in a minute.")
    row = Delivery.objects.create(subscription=way, purpose="code", due_at=now)
    events.call_courier()
    return row


@transaction.atomic
def take(now: datetime) -> tuple[bool, Parcel | None]:
    """Whether anything was due, and what a courier is to send of it: 1. lock one way that has something due, 2. end or
    put off what need not be said now, 3. of the rest one is said and the others are counted in it."""
    due = Delivery.objects.filter(state=DeliveryState.WAITING, due_at__lte=now)
    ways = Subscription.objects.select_for_update(skip_locked=True, no_key=True, of=("self",))
    ways = ways.select_related("project", "user__quiet_hours")
    way = ways.filter(Exists(due.filter(subscription=OuterRef("pk")))).first()
    if way is None:
        return False, None
    rows = due.filter(subscription=way).select_related("ask__project", "ask__episode", "ask__assignment")
    return True, _pick(way, list(rows.order_by("ask__deadline_at", "pk")[:LOOKED_AT]), now)


def _pick(way: Subscription, rows: list[Delivery], now: datetime) -> Parcel | None:
    for row in rows:
        if way.ended_at is not None or way.broken:
            _end(row, DeliveryState.SKIPPED, way.broken or "switched off")
        elif row.attempts >= ATTEMPTS_MAX:
            _end(row, DeliveryState.FAILED, row.words or "no courier came back")
    rows = [row for row in rows if row.state == DeliveryState.WAITING]
    own = next((row for row in rows if row.ask is None), None)
    if own is not None:
        return _packed(way, own, now)
    left = [row for row in rows if _still_wanted(way, row, now)]
    chosen = next((row for row in left if _is_for(way, row, now)), None)
    for row in left:
        if chosen is not None and row.pk != chosen.pk and row.state == DeliveryState.WAITING:
            _end(row, DeliveryState.SKIPPED, "told together with another ask")
    return _packed(way, chosen, now) if chosen is not None else None


def _still_wanted(way: Subscription, row: Delivery, now: datetime) -> bool:
    """By the clock and by the ask alone."""
    ask = row.ask
    assert ask is not None
    quiet = way.user.quiet_hours.until(now) if hasattr(way.user, "quiet_hours") else None
    free_at = way.told_at + timedelta(seconds=way.every_s) if way.told_at and not row.attempts else now
    if not ask.is_open or ask.deadline_at <= now:
        _end(row, DeliveryState.SKIPPED, f"the ask {_ending(ask)} first")
    elif ask.tier != row.tier:
        _end(row, DeliveryState.SKIPPED, f"the ask went on: {ask.get_tier_display().lower()}")
    elif ask.assignment.is_held(now) and ask.assignment.lease_until is not None:
        _put_off(row, ask.assignment.lease_until, f"{ask.assignment.holder_name} has it")
    elif quiet is not None and ask.deadline_at <= quiet:
        _end(row, DeliveryState.SKIPPED, "quiet hours until after its deadline")
    elif quiet is not None:
        _put_off(row, quiet, "quiet hours")
    elif free_at > now:
        _put_off(row, free_at, f"one notice in {way.every_s} s")
    else:
        return True
    return False


def _ending(ask: Ask) -> str:
    return "met its deadline" if ask.is_open else f"was {ask.get_status_display().lower()}"


def _is_for(way: Subscription, row: Delivery, now: datetime) -> bool:
    """By the person: they may answer still, and were not told the same question before."""
    ask = row.ask
    assert ask is not None
    if way.user_key not in to_tell(ask, now):
        _end(row, DeliveryState.SKIPPED, "not for you any more: passed, away, or another role")
        return False
    told = way.deliveries.filter(state=DeliveryState.SENT, ask__group=ask.group, tier=row.tier)
    if told.exclude(ask=ask).filter(ask__status="open").exists():
        _end(row, DeliveryState.SKIPPED, "the same question was told already")
        return False
    return True


def _end(row: Delivery, state: str, words: str) -> None:
    row.state, row.words, row.due_at, row.ended_at = state, words[:500], None, timezone.now()
    row.save(update_fields=["state", "words", "due_at", "ended_at"])


def _put_off(row: Delivery, until: datetime, words: str) -> None:
    row.due_at, row.words = until, words[:500]
    row.save(update_fields=["due_at", "words"])


def _packed(way: Subscription, row: Delivery, now: datetime) -> Parcel:
    """Taken: counted as an attempt, and due again only if nobody says how it went."""
    row.attempts, row.due_at = row.attempts + 1, now + TAKEN_FOR
    row.save(update_fields=["attempts", "due_at"])
    if row.ask is not None:
        way.told_at = now
        way.save(update_fields=["told_at"])
    count = Ask.objects.to_take(now).filter(project=way.project_id).count()
    title, text = _words(way, row, count)
    return Parcel(
        way_id=way.pk,
        delivery_id=row.pk,
        attempt=row.attempts,
        kind=way.kind,
        purpose=row.purpose,
        target=way.target,
        secret=way.secret,
        project_id=way.project_id,
        project=way.project.slug,
        user_key=way.user_key,
        ask_id=row.ask_id or "",
        group=row.ask.group if row.ask is not None else "",
        title=title,
        text=text,
        path=f"/asks/{row.ask_id}/" if row.ask_id else "/notices/",
        open_asks=count,
        deadline_at=row.ask.deadline_at if row.ask is not None else None,
    )


def _words(way: Subscription, row: Delivery, count: int) -> tuple[str, str]:
    """A title of ours, and of the agent's words the first line alone: it may hold anything."""
    if row.purpose == "code":
        return "Your code for notices", f"{way.secret.get('code', '')} confirms this address for {way.user}."
    if row.ask is None:
        return "A test", f"Notices of {way.project.name} reach you here."[:TEXT_CHARS]
    more = f" ({count} open)" if count > 1 else ""
    return f"An agent asks in {way.project.slug}{more}"[:TITLE_CHARS], first_line(row.ask.question, TEXT_CHARS)


@transaction.atomic
def settle(parcel: Parcel, outcome: Outcome) -> None:
    """Write down how it went, unless somebody else has taken the notice since: sent, tried again later, or failed."""
    way = Subscription.objects.select_for_update(no_key=True).get(pk=parcel.way_id)
    taken = way.deliveries.filter(pk=parcel.delivery_id, state=DeliveryState.WAITING, attempts=parcel.attempt)
    row = taken.first()
    if row is None:
        return
    if outcome.ok:
        _end(row, DeliveryState.SENT, outcome.words)
    elif outcome.again and row.purpose == "ask" and row.attempts < ATTEMPTS_MAX:
        pause = max(FIRST_PAUSE_S * 3 ** (row.attempts - 1), outcome.again_in_s)
        _put_off(row, timezone.now() + timedelta(seconds=min(pause, PAUSE_MAX_S)), outcome.words)
    else:
        _end(row, DeliveryState.FAILED, outcome.words)
    if outcome.gone:
        way.broken = outcome.words[:500]
        way.save(update_fields=["broken"])


def forget_old() -> None:
    Delivery.objects.filter(created_at__lt=timezone.now() - KEPT).exclude(state=DeliveryState.WAITING).delete()
