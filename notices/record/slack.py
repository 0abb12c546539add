"""Slack: notifications as direct messages, which change with their subject, and the windows that a press opens.

Owns the calls of Slack's Web API and what a direct message shows. Slack parses `mrkdwn`, so texts of agents are
`plain_text` only. Leaves messages in channels to `channels.py`, and presses of buttons to the app of the subject, which
finds the message and the member by `pressed_by`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.error import URLError

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone

from notices import subjects
from notices.models import Channel, Delivery, DeliveryState, SlackPost, Subscription
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
TEXT_CHARS = 2900
"""Of a text in a message or a window; Slack takes 3,000."""
ANSWER, CLAIM = "awm_answer", "awm_claim"
"""Buttons of a message; the value of each is its delivery or post."""
DIRECT = "D"
"""Slack's names of direct messages begin with it."""
REDRAWN_FOR = timedelta(days=1)


class SlackAway(Exception):
    """Slack does not answer."""


class SlackRefusal(SlackAway):
    """Slack refused a call; `pause_s` is for how long it wants no further one, 0 if it does not say so."""

    def __init__(self, code: str, pause_s: float) -> None:
        super().__init__(code)
        self.code, self.pause_s = code, pause_s


def is_set() -> bool:
    return bool(settings.AWMWEB_SLACK_TOKEN and settings.AWMWEB_SLACK_SECRET)


def is_signed(body: bytes, headers: Any) -> bool:
    """Return whether Slack signed a request within the last five minutes."""
    stamp, signature = headers.get("X-Slack-Request-Timestamp", ""), headers.get("X-Slack-Signature", "")
    # the library takes a number and compares texts
    if not is_set() or not (stamp.isascii() and stamp.isdecimal()) or not signature.isascii():
        return False
    from slack_sdk.signature import SignatureVerifier

    return bool(SignatureVerifier(settings.AWMWEB_SLACK_SECRET).is_valid(body, stamp, signature))


def call(method: str, *, within_s: int = TIMEOUT_S, **fields: Any) -> Any:
    """Call a method of Slack's Web API and return what Slack returns. Raises `SlackRefusal` and `SlackAway`."""
    from slack_sdk import WebClient
    from slack_sdk.errors import SlackApiError, SlackClientError

    client = WebClient(settings.AWMWEB_SLACK_TOKEN, f"{settings.AWMWEB_SLACK_URL}/api/", within_s)
    try:
        return getattr(client, method)(**fields)
    except SlackApiError as refused:
        raise SlackRefusal(str(refused.response.get("error", ""))[:80], _pause_s(refused.response.headers)) from None
    except (URLError, OSError, SlackClientError) as silent:
        raise SlackAway(type(silent).__name__) from None


def send(parcel: Parcel) -> SendResult:
    """Send a notification as a direct message. Its receipt names the message, which `redraw` changes later."""
    if not is_set():
        return SendResult(False, "Slack is not set (AWMWEB_SLACK_TOKEN, AWMWEB_SLACK_SECRET).")
    try:
        made = call(
            "chat_postMessage",
            channel=parcel.target,
            text=escaped(f"{parcel.title}: {parcel.text}"),
            blocks=_blocks(parcel),
            unfurl_links=False,
            unfurl_media=False,
        )
    except SlackRefusal as refused:
        code, wait = refused.code, refused.pause_s
        return SendResult(False, f"Slack responded {code}.", code in AGAIN, wait, ended=code in ENDED)
    except SlackAway as silent:
        return SendResult(False, f"Slack could not be reached ({silent}).", again=True)
    return SendResult(True, "Accepted by Slack.", receipt={"channel": made["channel"], "ts": made["ts"]})


def _pause_s(headers: Any) -> float:
    after = str(headers.get("Retry-After", ""))
    return float(after) if after.isascii() and after.isdecimal() and len(after) < 6 else 0.0


def plain(text: str) -> dict[str, Any]:
    """Return a text that Slack shows as it is."""
    return {"type": "plain_text", "text": text[:TEXT_CHARS] or " ", "emoji": False}


def escaped(text: str) -> str:
    """Return a text for a notification's line, which Slack parses."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def unescaped(text: str) -> str:
    """Return what a person wrote in a message: Slack sends three signs as they are in its own texts."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _blocks(parcel: Parcel) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = [
        {"type": "section", "text": plain(parcel.title)},
        {"type": "section", "text": plain(parcel.text)},
    ]
    if parcel.deadline_at is not None:
        blocks.append({"type": "context", "elements": [deadline(parcel.deadline_at)]})
    buttons = [link(parcel.url)]
    if parcel.answer_path:
        buttons = [*presses(parcel.delivery_id, is_free=True), *buttons]
    return [*blocks, actions(buttons)]


def deadline(at: datetime) -> dict[str, Any]:
    """Return the words for a deadline; Slack shows the time of the reader's zone."""
    by = f"<!date^{int(at.timestamp())}^Answer by {{date_short_pretty}} {{time}}|Answer by {at:%b %-d, %H:%M} UTC>"
    return {"type": "mrkdwn", "text": by}


def presses(message_id: str, *, is_free: bool) -> list[dict[str, Any]]:
    """Return the buttons of a message about something to answer."""
    answer = {**button("Answer", ANSWER, message_id), "style": "primary"}
    return [answer, button("Claim", CLAIM, message_id)] if is_free else [answer]


def actions(buttons: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "actions", "elements": buttons}


def link(url: str) -> dict[str, Any]:
    return button("Open in awmweb", "awm_open", url=url)


def button(words: str, action: str, value: str = "", url: str = "") -> dict[str, Any]:
    more = {"url": url} if url else {"value": value}
    return {"type": "button", "text": plain(words), "action_id": action, **more}


def open_window(trigger: str, window: dict[str, Any]) -> str:
    """Open a window over the person's Slack. Return what went wrong; empty if it is open."""
    try:
        call("views_open", within_s=WINDOW_S, trigger_id=trigger, view=window)
    except SlackRefusal as refused:
        # a press that Slack delivered twice: its window is open
        return "" if refused.code == "exchanged_trigger_id" else f"Slack responded {refused.code}."
    except SlackAway:
        return "Slack could not be reached."
    return ""


def whisper(payload: Any, words: str) -> None:
    """Say something to the person who pressed a button, in its conversation."""
    channel, message, user = (
        value if isinstance(value := payload.get(name), dict) else {} for name in ("channel", "message", "user")
    )
    tell(str(channel.get("id", "")), str(message.get("ts", "")), str(user.get("id", "")), words)


def tell(channel: str, ts: str, user: str, words: str, press: tuple[str, str, str] | None = None) -> None:
    """Say something to one person: in the thread of a direct message, and in a channel so that no one else sees it.

    Words that do not arrive are lost: the message itself stays true. A button has its words, its action and its value.
    """
    shown = [{"type": "section", "text": plain(clean(words))}, actions([button(*press)])] if press else None
    is_direct = channel.startswith(DIRECT)
    method, place = ("chat_postMessage", {"thread_ts": ts}) if is_direct else ("chat_postEphemeral", {"user": user})
    try:
        call(method, within_s=WINDOW_S, channel=channel, text=escaped(words), blocks=shown, **place)
    except SlackAway as error:
        log.warning("Slack did not take a reply: %s", error)


def move(channel: str, ts: str, url: str) -> None:
    """Leave only a link in a message that another one replaces."""
    words = "Moved: this ask has another message here."
    blocks = [{"type": "section", "text": plain(words)}, actions([link(url)])]
    try:
        call("chat_update", within_s=WINDOW_S, channel=channel, ts=ts, text=words, blocks=blocks)
    except SlackAway as error:
        # the next press on it tries again
        log.warning("Slack did not move a message: %s", error)


@dataclass(frozen=True)
class Pressed:
    """A message about a subject, and the member whose press or reply it was."""

    id: str
    subject_id: str
    actor: Actor
    slack_user: str
    channel: str
    ts: str


def pressed_by(kind: str, message_id: str, slack_user: str) -> Pressed | None:
    """Return the pressed message; None unless it was sent to this person, or to a channel of a project of theirs."""
    row = _sent_to(kind, slack_user).filter(pk=message_id).first()
    return _of_delivery(row) or _of_post(_posts(kind).filter(pk=message_id).first(), slack_user)


def replied_to(kind: str, channel: str, ts: str, slack_user: str) -> Pressed | None:
    """Return the direct message that a person replied to; None if it was not sent to them."""
    return _of_delivery(_sent_to(kind, slack_user).filter(receipt={"channel": channel, "ts": ts}).first())


def thread_of(kind: str, channel: str, ts: str) -> SlackPost | None:
    """Return the newest message in a thread of a channel."""
    mine = _posts(kind).filter(Q(ts=ts) | Q(thread_ts=ts), channel__target=channel)
    return mine.order_by("-created_at").first()


def replied_in(post: SlackPost, slack_user: str) -> Pressed | None:
    """Return a reply in a channel; None unless the person is a member of its project."""
    return _of_post(post, slack_user)


def _sent_to(kind: str, slack_user: str) -> QuerySet[Delivery]:
    ways = {"subscription__kind": Channel.SLACK, "subscription__target": slack_user, "subscription__ended_at": None}
    return Delivery.objects.select_related("subscription").filter(kind=kind, **ways)


def _posts(kind: str) -> QuerySet[SlackPost]:
    return SlackPost.objects.select_related("channel").filter(kind=kind, channel__ended_at=None)


def _of_delivery(row: Delivery | None) -> Pressed | None:
    actor = _confirmed(row.subscription) if row is not None else None
    if row is None or actor is None:
        return None
    place = {name: str(row.receipt.get(name, "")) for name in ("channel", "ts")}
    return Pressed(row.pk, row.subject_id, actor, row.subscription.target, **place)


def _of_post(post: SlackPost | None, slack_user: str) -> Pressed | None:
    """Return the press of the member who confirmed this Slack account in the channel's project."""
    if post is None:
        return None
    mine = Subscription.objects.current().filter(project=post.channel.project_id, kind=Channel.SLACK)
    ways = mine.filter(target=slack_user, is_confirmed=True).order_by("created_at")
    actor = next((one for one in map(_confirmed, ways) if one is not None), None)
    if actor is None:
        return None
    return Pressed(post.pk, post.subject_id, actor, slack_user, post.channel.target, post.ts)


def _confirmed(way: Subscription) -> Actor | None:
    """Return the member behind a confirmed account, as long as they are one."""
    if not way.is_confirmed:
        return None
    rows = Membership.objects.current(timezone.now()).select_related("user", "project")
    member = rows.filter(user=way.user_id, project=way.project_id).first()
    return person(member) if member is not None else None


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
        buttons = [*(presses(row.pk, is_free=False) if held else []), link(parcel.url)]
        blocks = [*blocks[:2], {"type": "context", "elements": [plain(words)]}, actions(buttons)]
    try:
        call("chat_update", **row.receipt, text=escaped(f"{parcel.title}: {parcel.text}"), blocks=blocks)
    except SlackRefusal as refused:
        return refused.code not in AGAIN
    except SlackAway:
        return False
    return True
