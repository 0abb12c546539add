"""Sends notifications: by push, mail, webhook, or to a person's open pages.

Owns the protocol of each channel. Leaves what is due, for whom, and the result to `deliveries.py`; holds no transaction
while it waits for the network. Called by Celery, in any number of processes.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import smtplib
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.mail import EmailMessage
from django.core.mail.backends.smtp import EmailBackend
from django.utils import timezone

from notices import events, outbound, quoting, subjects, webpush
from notices.models import Channel
from notices.quoting import quoted
from notices.record import deliveries, slack
from notices.record.deliveries import Parcel, SendResult
from people.requests import addresses

CONCURRENT = 2
"""Senders per process: slow receivers must not block the worker's other threads, which call models."""
MAIL_S = 10
AGAIN = {408, 425, 429}
PUSH_LIFE_S = 86_400
_hands = threading.BoundedSemaphore(CONCURRENT)


def work() -> None:
    """Send until nothing is due."""
    if not _hands.acquire(blocking=False):
        return
    try:
        busy = True
        while busy:
            busy, parcel = deliveries.take(timezone.now())
            if parcel is not None:
                deliveries.record_result(parcel, send(parcel))
    finally:
        _hands.release()


def send(parcel: Parcel) -> SendResult:
    """Send one parcel. Every failure outside is returned as a result."""
    try:
        return SENDERS[parcel.channel](parcel)
    except outbound.AddressRefused as refused:
        return SendResult(False, str(refused))
    except outbound.Unreached as silent:
        return SendResult(False, quoted(silent, _secrets_of(parcel)), again=True)


def _to_pages(parcel: Parcel) -> SendResult:
    events.tell_person(parcel.project_id, parcel.user_key, shown(parcel))
    return SendResult(True, "Sent to your open tabs.")


def shown(parcel: Parcel) -> dict[str, Any]:
    """Return what a browser shows, and the address of a click. The newest of a group replaces the others."""
    tag = parcel.group or parcel.delivery_id
    return {**about(parcel), "title": parcel.title, "body": parcel.text, "path": parcel.path, "tag": tag}


def about(parcel: Parcel) -> dict[str, str]:
    """Return the subject by the name of its kind, such as `{"ask": id}`; empty for a test or a code."""
    return {parcel.kind: parcel.subject_id} if parcel.subject_id else {}


def _push(parcel: Parcel) -> SendResult:
    body = webpush.encrypted(json.dumps(shown(parcel)).encode(), parcel.secret["p256dh"], parcel.secret["auth"])
    parts = urlsplit(parcel.target)
    left = (parcel.deadline_at - timezone.now()).total_seconds() if parcel.deadline_at else 60.0
    headers = {
        "Authorization": webpush.authorization(
            settings.VAPID_KEY, f"{parts.scheme}://{parts.netloc}", _contact(), time.time()
        ),
        "Content-Encoding": "aes128gcm",
        "Content-Type": "application/octet-stream",
        "TTL": str(int(min(max(left, 0), PUSH_LIFE_S))),
        "Urgency": "high",
        "Topic": hashlib.sha256(shown(parcel)["tag"].encode()).hexdigest()[:32],
    }
    answer = outbound.post(parcel.target, body, headers)
    if answer.status in (404, 410):
        return SendResult(
            False, f"The push service reports that this browser unsubscribed ({answer.status}).", ended=True
        )
    return _judged(parcel, answer, "push service")


def _contact() -> str:
    """Return the operator's contact for push services, which accept no plain http address."""
    public = str(settings.AWMWEB_PUBLIC_URL)
    return public if public.startswith("https://") else f"mailto:{settings.AWMWEB_MAIL_FROM}"


def _webhook(parcel: Parcel) -> SendResult:
    """Send a Standard Webhooks message. A receiver recognizes a repetition by its ID."""
    notice = {
        "type": f"notice.{parcel.kind}",
        "project": parcel.project,
        "ask": None,
        **about(parcel),
        "title": parcel.title,
        "text": parcel.text,
        "url": parcel.url,
        "answer_url": parcel.answer_url or None,
        "open": parcel.open_count,
        "deadline_at": parcel.deadline_at.isoformat() if parcel.deadline_at else None,
    }
    body, at = json.dumps(notice).encode(), str(int(time.time()))
    headers = {
        "Content-Type": "application/json",
        "webhook-id": parcel.delivery_id,
        "webhook-timestamp": at,
        "webhook-signature": f"v1,{signature(parcel.secret['key'], parcel.delivery_id, at, body)}",
    }
    return _judged(parcel, outbound.post(parcel.target, body, headers), "webhook")


def signature(key: str, delivery_id: str, at: str, body: bytes) -> str:
    """Return HMAC-SHA256 over id, time and body, in base64."""
    secret = base64.b64decode(key.removeprefix("whsec_"))
    return base64.b64encode(hmac.digest(secret, f"{delivery_id}.{at}.".encode() + body, "sha256")).decode()


def _judged(parcel: Parcel, answer: outbound.HttpAnswer, who: str) -> SendResult:
    if 200 <= answer.status < 300:
        return SendResult(True, f"Accepted by the {who} ({answer.status}).")
    if 300 <= answer.status < 400:
        return SendResult(False, f"The {who} responded {answer.status}. Redirects are not followed.")
    again = answer.status >= 500 or answer.status in AGAIN
    quote = quoted(answer.text, _secrets_of(parcel))
    return SendResult(
        False, f"The {who} responded {answer.status}" + (f": {quote}" if quote else "."), again, answer.retry_after_s
    )


def _secrets_of(parcel: Parcel) -> list[str]:
    """Return what no log may contain: the exact address, its keys and codes, and the operator's password."""
    link = quoting.parts_of(parcel.answer_url) if parcel.answer_url else []
    if parcel.channel != Channel.EMAIL:
        return [*link, *quoting.parts_of(parcel.target), *parcel.secret.values()]
    server = settings.MAIL_SERVER
    return [*link, *parcel.secret.values(), *([server.username, server.password] if server is not None else [])]


def _mail(parcel: Parcel) -> SendResult:
    server = settings.MAIL_SERVER
    if server is None:
        return SendResult(False, "No mail server is set (AWMWEB_MAIL_URL).")
    message = EmailMessage(
        _subject_line(parcel),
        "\n\n".join([parcel.text, parcel.url, *_answer_link(parcel), _footer(parcel)]) + "\n",
        settings.AWMWEB_MAIL_FROM,
        [parcel.target],
        headers={"Auto-Submitted": "auto-generated", "Message-ID": _message_id(parcel)},
        connection=EmailBackend(
            host=server.host,
            port=server.port,
            username=server.username,
            password=server.password,
            use_tls=server.use_tls,
            use_ssl=server.use_ssl,
            timeout=MAIL_S,
        ),
    )
    try:
        message.send()
    except (smtplib.SMTPException, OSError) as error:
        words = _mail_words(error).replace(parcel.target, "[address]")
        return SendResult(False, f"Mail server: {quoted(words, _secrets_of(parcel))}", again=not _is_final(error))
    return SendResult(True, "Accepted by the mail server.")


def _answer_link(parcel: Parcel) -> list[str]:
    if not parcel.answer_url or parcel.deadline_at is None:
        return []
    # a mail shows no reader's zone
    until = f"{parcel.deadline_at:%b %-d, %H:%M} UTC"
    return [f"Answer without signing in, once, until {until}. Don't forward it:\n{parcel.answer_url}"]


def _footer(parcel: Parcel) -> str:
    if parcel.kind == subjects.CODE:
        return "If you did not request this code, ignore this mail."
    return f"Manage notifications: {addresses.public_url(parcel.project, '/notifications/')}"


def _subject_line(parcel: Parcel) -> str:
    """Return the subject as one line.

    Agents' text must not contain an encoded word (RFC 2047), which mail readers would decode to unchecked characters.
    The separator is not ASCII, so the whole subject is encoded, and a folded line cannot join into an encoded word.
    """
    line = f"{parcel.title}: {parcel.text}" if parcel.subject_id else parcel.title
    return line.replace("=?", "=⟨?⟩")


def _message_id(parcel: Parcel) -> str:
    return f"<{parcel.delivery_id}@{urlsplit(settings.AWMWEB_PUBLIC_URL).hostname}>"


def _is_final(error: Exception) -> bool:
    """Return whether a reply is final: a leading 5 means not to retry."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return all(code >= 500 for code, _ in error.recipients.values())
    return isinstance(error, smtplib.SMTPResponseException) and error.smtp_code >= 500


def _mail_words(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return "; ".join(f"{code} {words.decode('utf-8', 'replace')}" for code, words in error.recipients.values())
    if isinstance(error, smtplib.SMTPResponseException):
        reply = error.smtp_error
        return f"{error.smtp_code} {reply.decode('utf-8', 'replace') if isinstance(reply, bytes) else reply}"
    return f"{type(error).__name__}: {error}"


SENDERS: dict[str, Callable[[Parcel], SendResult]] = {
    Channel.BROWSER: _to_pages,
    Channel.PUSH: _push,
    Channel.EMAIL: _mail,
    Channel.WEBHOOK: _webhook,
    Channel.SLACK: slack.send,
}
