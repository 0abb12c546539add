"""Slack: notifications as direct messages, which change with their subject, and the windows that a press opens.

Owns the calls of Slack's Web API and what a message shows. Slack parses `mrkdwn`, so texts of agents are `plain_text`
only. Leaves presses of buttons to the app of the subject, which finds its delivery by `pressed_by`.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any
from urllib.error import URLError

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.signature import SignatureVerifier

from notices import subjects
from notices.models import Channel, Delivery, DeliveryState, Subscription
from notices.record import deliveries
from notices.record.deliveries import Parcel, SendResult
from people.access import Actor, person
from people.models import Membership
from people.text.plain_text import clean

log = logging.getLogger(__name__)
TIMEOUT_S = 8
WINDOW_S = 2
"""Slack gives a press three seconds until its window must be open."""
AGAIN = {"ratelimited", "rate_limited", "internal_error", "fatal_error", "service_unavailable", "request_timeout"}
ENDED = {"user_not_found", "channel_not_found", "account_inactive", "users_not_found", "cannot_dm_bot"}
OUT = (URLError, OSError, SlackClientError)
"""What the client raises if Slack does not answer; `SlackApiError` is one of them, and is looked at first."""
TEXT_CHARS = 2900
"""Of a text in a message or a window; Slack takes 3,000."""
REDRAWN_FOR = timedelta(days=1)


def is_set() -> bool:
    return bool(settings.AWMWEB_SLACK_TOKEN and settings.AWMWEB_SLACK_SECRET)


def is_signed(body: bytes, headers: Any) -> bool:
    """Return whether Slack signed a request within the last five minutes."""
    stamp, signature = headers.get("X-Slack-Request-Timestamp", ""), headers.get("X-Slack-Signature", "")
    # the library takes a number and compares texts
    if not is_set() or not (stamp.isascii() and stamp.isdecimal()) or not signature.isascii():
        return False
    return bool(SignatureVerifier(settings.AWMWEB_SLACK_SECRET).is_valid(body, stamp, signature))


def _client(timeout_s: int = TIMEOUT_S) -> WebClient:
    return WebClient(token=settings.AWMWEB_SLACK_TOKEN, base_url=f"{settings.AWMWEB_SLACK_URL}/api/", timeout=timeout_s)


def send(parcel: Parcel) -> SendResult:
    """Send a notification as a direct message. Its receipt names the message, which `redraw` changes later."""
    if not is_set():
        return SendResult(False, "Slack is not set (AWMWEB_SLACK_TOKEN, AWMWEB_SLACK_SECRET).")
    try:
        made = _client().chat_postMessage(
            channel=parcel.target,
            text=_escaped(f"{parcel.title}: {parcel.text}"),
            blocks=_blocks(parcel),
            unfurl_links=False,
            unfurl_media=False,
        )
    except SlackApiError as refused:
        code = str(refused.response.get("error", ""))[:80]
        after = str(refused.response.headers.get("Retry-After", ""))
        wait = float(after) if after.isdecimal() and len(after) < 6 else 0.0
        return SendResult(False, f"Slack responded {code}.", code in AGAIN, wait, ended=code in ENDED)
    except OUT as silent:
        return SendResult(False, f"Slack could not be reached ({type(silent).__name__}).", again=True)
    return SendResult(True, "Accepted by Slack.", receipt={"channel": made["channel"], "ts": made["ts"]})


def plain(text: str) -> dict[str, Any]:
    """Return a text that Slack shows as it is."""
    return {"type": "plain_text", "text": text[:TEXT_CHARS] or " ", "emoji": False}


def _escaped(text: str) -> str:
    """Return a text for a notification's line, which Slack parses."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _blocks(parcel: Parcel) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = [
        {"type": "section", "text": plain(parcel.title)},
        {"type": "section", "text": plain(parcel.text)},
    ]
    if parcel.deadline_at is not None:
        # Slack shows the time of the reader's zone
        stamp, utc = int(parcel.deadline_at.timestamp()), f"{parcel.deadline_at:%H:%M} UTC"
        at = f"<!date^{stamp}^Answer by {{time}}|Answer by {utc}>"
        blocks.append({"type": "context", "elements": [{"type": "mrkdwn", "text": at}]})
    buttons = [_link(parcel)]
    if parcel.answer_path:
        answer, claim = (_button(word, f"awm_{word.lower()}", parcel.delivery_id) for word in ("Answer", "Claim"))
        buttons = [{**answer, "style": "primary"}, claim, *buttons]
    return [*blocks, _actions(buttons)]


def _actions(buttons: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "actions", "elements": buttons}


def _link(parcel: Parcel) -> dict[str, Any]:
    return _button("Open in awmweb", "awm_open", url=parcel.url)


def _button(words: str, action: str, value: str = "", url: str = "") -> dict[str, Any]:
    more = {"url": url} if url else {"value": value}
    return {"type": "button", "text": plain(words), "action_id": action, **more}


def open_window(trigger: str, window: dict[str, Any]) -> str:
    """Open a window over the person's Slack. Return what went wrong; empty if it is open."""
    try:
        _client(WINDOW_S).views_open(trigger_id=trigger, view=window)
    except SlackApiError as refused:
        return f"Slack responded {str(refused.response.get('error', ''))[:80]}."
    except OUT:
        return "Slack could not be reached."
    return ""


def whisper(payload: Any, words: str) -> None:
    """Say something to the person who pressed a button, in its conversation."""
    where = payload.get("channel")
    channel = where.get("id") if isinstance(where, dict) else None
    message = payload.get("message")
    reply(str(channel or ""), str(message.get("ts", "")) if isinstance(message, dict) else "", words)


def reply(channel: str, ts: str, words: str, button: tuple[str, str, str] | None = None) -> None:
    """Say something in the thread of a message. Words that do not arrive are lost: the message itself stays true.

    A button has its words, its action and its value.
    """
    shown = [{"type": "section", "text": plain(clean(words))}, _actions([_button(*button)])] if button else None
    try:
        _client(WINDOW_S).chat_postMessage(channel=channel, thread_ts=ts, text=_escaped(words), blocks=shown)
    except OUT as error:
        log.warning("Slack did not take a reply: %s", type(error).__name__)


def pressed_by(kind: str, delivery_id: str, slack_user: str) -> tuple[Delivery, Actor] | None:
    """Return the delivery of a pressed message and the person who pressed; None if it was not sent to them."""
    return _with_person(_sent_to(kind, slack_user).filter(pk=delivery_id).first())


def replied_to(kind: str, channel: str, ts: str, slack_user: str) -> tuple[Delivery, Actor] | None:
    """Return the delivery whose message a person replied to; None if it was not sent to them."""
    return _with_person(_sent_to(kind, slack_user).filter(receipt={"channel": channel, "ts": ts}).first())


def _sent_to(kind: str, slack_user: str) -> QuerySet[Delivery]:
    ways = {"subscription__kind": Channel.SLACK, "subscription__target": slack_user, "subscription__ended_at": None}
    return Delivery.objects.select_related("subscription").filter(kind=kind, **ways)


def _with_person(delivery: Delivery | None) -> tuple[Delivery, Actor] | None:
    if delivery is None or not delivery.subscription.is_confirmed:
        return None
    way = delivery.subscription
    rows = Membership.objects.current(timezone.now()).select_related("user", "project")
    member = rows.filter(user=way.user_id, project=way.project_id).first()
    return (delivery, person(member)) if member is not None else None


def redraw(kind: str, subject_id: str) -> None:
    """Bring the messages about a subject up to date: who holds it, or how it ended."""
    reached = Subscription.objects.of_members(timezone.now())
    sent = Delivery.objects.filter(kind=kind, subject_id=subject_id, state=DeliveryState.SENT, subscription__in=reached)
    rows = sent.exclude(receipt={})
    subject = subjects.read({(kind, subject_id)}).get((kind, subject_id))
    if subject is None:
        return
    for row in rows.select_related("subscription", "subscription__project"):
        words = clean(subject.state_for(row.subscription.user_key, timezone.now()))[:300]
        if words == row.shown or _update(row, subject, words):
            row.shown, row.is_over = words, subject.is_over
            row.save(update_fields=["shown", "is_over"])


def redraw_missed() -> None:
    """Redraw messages whose subject changed without a call, which can be lost."""
    rows = Delivery.objects.filter(state=DeliveryState.SENT, ended_at__gt=timezone.now() - REDRAWN_FOR, is_over=False)
    for kind, subject_id in set(rows.exclude(receipt={}).values_list("kind", "subject_id")[:200]):
        redraw(kind, subject_id)


def _update(row: Delivery, subject: subjects.Subject, words: str) -> bool:
    """Change a sent message. Return whether Slack took it, or will never take it."""
    parcel = deliveries.parcel_of(row, subject)
    blocks = _blocks(parcel)
    if words:
        # a press of anyone but the holder would be refused
        held = subject.is_held_by(row.subscription.user_key, timezone.now()) and bool(parcel.answer_path)
        buttons = [*([_button("Answer", "awm_answer", row.pk)] if held else []), _link(parcel)]
        blocks = [*blocks[:2], {"type": "context", "elements": [plain(words)]}, _actions(buttons)]
    try:
        _client().chat_update(**row.receipt, text=_escaped(f"{parcel.title}: {parcel.text}"), blocks=blocks)
    except SlackApiError as refused:
        return str(refused.response.get("error", "")) not in AGAIN
    except OUT:
        return False
    return True
