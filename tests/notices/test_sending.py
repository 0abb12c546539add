"""Notices that really leave: encrypted push, signed webhook, mail over SMTP, and where a courier does not go."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from dataclasses import replace
from email import message_from_string
from email.header import decode_header, make_header

import pytest
from django.db import connection, transaction
from django.utils import timezone

from awmweb import embedded
from awmweb.variables import MailServer
from episodes import events as live
from experts.record import closing
from notices import sending, webpush
from notices.errors import TooManySent
from notices.models import Channel, Delivery, Subscription
from notices.record import subscriptions
from people.errors import Invalid
from tests.notices.receivers import Browser, claims_of, mail_server


@pytest.fixture
def mailbox(settings):
    with mail_server() as one:
        settings.MAIL_SERVER = MailServer("127.0.0.1", one.port, "", "", False, False)
        yield one


def outcome():
    row = Delivery.objects.order_by("-created_at").first()
    return row.state, row.words, row.attempts


def due_now():
    Delivery.objects.filter(state="waiting").update(due_at=timezone.now())


def test_push_is_encrypted_for_its_browser_and_signed(edo, there, asked, settings):
    browser = Browser()
    subscriptions.subscribe(edo, "push", f"{there.url}/push/1", browser.secret)
    ask = asked("Into which one?\nthe key is swordfish")
    sending.work()
    (posted,) = there.posted
    told = json.loads(browser.opened(posted.body))
    assert told == {
        "ask": ask.pk,
        "title": "An agent asks in lab",
        "body": "Into which one?",
        "path": f"/projects/lab/asks/{ask.pk}/",
        "tag": ask.group,
    }
    assert b"Into" not in posted.body
    claims, key = claims_of(posted.headers["authorization"])
    assert claims["aud"] == there.url and key == webpush.application_key(settings.VAPID_KEY)
    assert 0 < claims["exp"] - time.time() <= 24 * 3600 and str(claims["sub"]).startswith("mailto:")
    assert posted.headers["content-encoding"] == "aes128gcm" and 290 <= int(posted.headers["ttl"]) <= 300
    assert posted.headers["urgency"] == "high" and len(posted.headers["topic"]) <= 32
    assert outcome() == ("sent", "Accepted by the push service (201).", 1)


def test_a_push_is_encrypted_as_the_example_of_its_standard():
    """RFC 8291, section 5 and appendix A."""
    receiving = Browser("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94", webpush.unb64("BTBZMqHH6r4Tts7J_aSIgg"))
    body = webpush.encrypted(
        b"When I grow up, I want to be a watermelon",
        **receiving.secret,
        once=webpush.private("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"),
        salt=webpush.unb64("DGv6ra1nlYgDCS1FRnbzlw"),
    )
    assert webpush.b64(body) == (
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_"
        "yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
    )


def test_expired_push_subscription_is_not_called_again(edo, there, asked):
    there.answers = [(410, {})]
    browser = Browser()
    way = subscriptions.subscribe(edo, "push", f"{there.url}/push/1", browser.secret)
    asked("one", task="one")
    sending.work()
    asked("two", task="two")
    sending.work()
    assert len(there.posted) == 1 and "unsubscribed (410)" in Subscription.objects.get().broken
    assert subscriptions.subscribe(edo, "push", f"{there.url}/push/1", browser.secret).pk == way.pk
    assert Subscription.objects.get().broken == ""


def test_webhook_signature_detects_wrong_secret_or_body(edo, there, asked, settings):
    key = subscriptions.subscribe(edo, "webhook", f"{there.url}/hook?a=1").secret["key"]
    ask = asked("Into which one?")
    sending.work()
    (posted,) = there.posted
    told = json.loads(posted.body)
    assert (
        told["url"] == f"{settings.AWMWEB_PUBLIC_URL}/projects/lab/asks/{ask.pk}/" and told["text"] == "Into which one?"
    )
    assert (told["type"], told["open"], told["project"], posted.path) == ("notice.ask", 1, "lab", "/hook?a=1")
    signed = f"{posted.headers['webhook-id']}.{posted.headers['webhook-timestamp']}.".encode()
    secret = base64.b64decode(key.removeprefix("whsec_"))
    by_hand = base64.b64encode(hmac.new(secret, signed + posted.body, hashlib.sha256).digest()).decode()
    assert posted.headers["webhook-signature"] == f"v1,{by_hand}" and len(secret) == 32
    assert abs(int(posted.headers["webhook-timestamp"]) - time.time()) < 5


def test_failed_webhook_retries_with_same_id_and_counts(edo, there, asked):
    there.answers = [(503, {}), (429, {"Retry-After": "30"}), (200, {})]
    subscriptions.subscribe(edo, "webhook", f"{there.url}/hook")
    asked()
    sending.work()
    assert outcome() == ("waiting", "The webhook responded 503: thanks", 1)
    due_now()
    sending.work()
    left = (Delivery.objects.get().due_at - timezone.now()).total_seconds()
    assert outcome()[2] == 2 and 25 < left <= 30
    due_now()
    sending.work()
    assert outcome() == ("sent", "Accepted by the webhook (200).", 3)
    assert len({posted.headers["webhook-id"] for posted in there.posted}) == 1


def test_a_refusal_is_final_and_a_redirect_is_not_followed(edo, there, asked):
    there.answers = [(400, {}), (302, {"Location": "http://127.0.0.1:1/"})]
    subscriptions.set_rules(edo, subscriptions.subscribe(edo, "webhook", f"{there.url}/hook").pk, 0, 0)
    asked("one", task="one")
    sending.work()
    assert outcome() == ("failed", "The webhook responded 400: thanks", 1)
    asked("two", task="two")
    sending.work()
    assert outcome() == ("failed", "The webhook responded 302. Redirects are not followed.", 1)


def test_before_a_try_is_repeated_the_ask_is_looked_at_again(ada, edo, there, asked):
    there.answers = [(503, {})]
    subscriptions.subscribe(edo, "webhook", f"{there.url}/hook")
    ask = asked()
    sending.work()
    closing.cancel(ada, ask.pk)
    due_now()
    sending.work()
    assert outcome()[:2] == ("skipped", "Not sent: the ask was already closed (cancelled).") and len(there.posted) == 1


@pytest.mark.django_db(transaction=True)
def test_sender_holds_no_transaction_during_network_waits(edo, there, asked):
    """What others change meanwhile is not held up, and the desk's rows are not locked."""
    seen = []

    def look():
        way = Subscription.objects.select_for_update(nowait=True)
        with transaction.atomic():
            seen.append(way.get().pk)
        connection.close()

    there.on_post = look
    way = subscriptions.subscribe(edo, "webhook", f"{there.url}/hook")
    asked()
    sending.work()
    assert seen == [way.pk] and outcome()[0] == "sent"


def test_a_mailbox_gets_asks_only_after_its_code_came_back(edo, mailbox, asked, settings):
    way = subscriptions.subscribe(edo, "email", "edo@example.org")
    asked("too early", task="one")
    sending.work()
    ((to, text),) = mailbox.mails
    code = way.secret["code"]
    assert to == ["edo@example.org"] and code in text and "too early" not in text
    with pytest.raises(Invalid, match="Wrong code."):
        subscriptions.confirm(edo, way.pk, "00000000" if code != "00000000" else "11111111")
    with pytest.raises(TooManySent, match="1 per minute"):
        subscriptions.test(edo, way.pk)
    subscriptions.confirm(edo, way.pk, f" {code.upper()} ")
    subscriptions.confirm(edo, way.pk, "again")
    ask = asked("Into which one?\r\nBcc: max@example.org", task="two")
    sending.work()
    to, text = mailbox.mails[1]
    head, _, body = text.replace("\r\n", "\n").partition("\n\n")
    assert to == ["edo@example.org"] and "Subject: An agent asks in lab (2 open): Into which one?" in head
    assert "Bcc" not in text and "Auto-Submitted: auto-generated" in head
    assert f"{settings.AWMWEB_PUBLIC_URL}/projects/lab/asks/{ask.pk}/" in body
    quoted_printable = body.replace("=\n", "")
    assert f"{settings.AWMWEB_PUBLIC_URL}/answer/{ask.pk}." in quoted_printable


def test_a_mail_server_that_refuses_is_quoted(edo, mailbox):
    mailbox.refuses = b"550 no such mailbox\r\n"
    subscriptions.subscribe(edo, "email", "edo@example.org")
    sending.work()
    assert outcome() == ("failed", "Mail server: 550 no such mailbox", 1)


def test_a_mail_server_that_is_away_is_tried_again(edo, mailbox, asked, settings):
    way = subscriptions.subscribe(edo, "email", "edo@example.org")
    subscriptions.confirm(edo, way.pk, way.secret["code"])
    way.deliveries.all().delete()
    settings.MAIL_SERVER = replace(settings.MAIL_SERVER, port=1)
    asked()
    sending.work()
    assert outcome()[0] == "waiting" and "refused" in outcome()[1]


def test_open_pages_of_one_person_are_told(edo, asked, monkeypatch):
    told = []
    monkeypatch.setattr(live, "publish", lambda topic, frame, *_: told.append((topic, frame)))
    subscriptions.subscribe(edo, "browser")
    ask = asked()
    told.clear()
    sending.work()
    ((topic, frame),) = told
    assert topic == f"person:{edo.project.pk}:{edo.key}" and (frame["type"], frame["ask"]) == ("notice", ask.pk)


def test_a_test_leaves_at_once_whatever_the_rules_say(edo, there):
    way = subscriptions.subscribe(edo, "webhook", f"{there.url}/hook")
    subscriptions.set_rules(edo, way.pk, 3600, 86_400)
    assert subscriptions.test(edo, way.pk).pk == subscriptions.test(edo, way.pk).pk
    sending.work()
    assert json.loads(there.posted[0].body)["type"] == "notice.test" and len(there.posted) == 1
    there.answers = [(500, {})]
    subscriptions.test(edo, way.pk)
    sending.work()
    assert outcome() == ("failed", "The webhook responded 500: thanks", 1)


def test_the_key_of_the_house_is_made_once(tmp_path):
    first = embedded.vapid_key(tmp_path)
    assert embedded.vapid_key(tmp_path) == first and len(webpush.unb64(first)) == 32
    assert (tmp_path / "vapid_key").stat().st_mode & 0o077 == 0
    assert len(webpush.unb64(webpush.application_key(first))) == 65


def mailed_question(edo, mailbox, asked, question):
    """The mail about a question, as a mail reader has it."""
    way = subscriptions.subscribe(edo, "email", "edo@example.org")
    subscriptions.confirm(edo, way.pk, way.secret["code"])
    way.deliveries.all().delete()
    asked(question)
    sending.work()
    ((_, text),) = mailbox.mails
    return text, message_from_string(text)


ENCODED = "=?utf-8?b?{}?=".format(base64.b64encode("Reset\u202e your\r\nBcc: max@example.org".encode()).decode())


@pytest.mark.parametrize(
    "question",
    [
        ENCODED,
        f"a {ENCODED} b",
        f"ä {ENCODED}",
        f"={ENCODED}",
        "=?utf-8?q?Your=20bank?=",
        "=?utf-8?q?a?= =?utf-8?q?b?=",
        "=?ISO-8859-1*en?Q?=72eset?=",
        "=?utf-8?b?!!!?=",
    ],
)
def test_a_mail_subject_holds_no_encoded_word_of_an_agent(edo, mailbox, asked, question):
    _, mail = mailed_question(edo, mailbox, asked, question)
    shown = str(make_header(decode_header(mail["Subject"])))
    assert shown == f"An agent asks in lab: {question.replace('=?', '=⟨?⟩')}"
    assert str(make_header(decode_header(shown))) == shown, "a reader that decodes twice sees the same"


@pytest.mark.parametrize(
    "end", ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x1e", "\x85", "\u2028", "\u2029", "\x00"]
)
def test_a_question_adds_no_line_to_the_head_of_a_mail(edo, mailbox, asked, end):
    text, mail = mailed_question(edo, mailbox, asked, f"first{end}Bcc: max@example.org{end}{end}body")
    assert set(mail.keys()) == {
        *("Content-Type", "MIME-Version", "Content-Transfer-Encoding", "Subject", "From", "To", "Date"),
        *("Auto-Submitted", "Message-ID"),
    }
    assert mail["To"] == "edo@example.org" and "\nBcc:" not in text.replace("\r", "\n")


def test_each_channel_has_a_sender_and_a_name_in_a_sentence():
    assert set(sending.SENDERS) == set(Channel)
    assert [kind.words for kind in Channel] == ["open tabs", "push", "email", "webhook", "Slack"]
    assert [kind.value for kind in Channel if kind.code_sent] == ["email", "slack"]
