"""Notices that really leave: encrypted push, signed webhook, mail over SMTP, and where a courier does not go."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import socket
import threading
import time
from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from django.db import connection, transaction
from django.utils import timezone

from awmweb import embedded
from awmweb.settings import MailServer
from episodes import events as live
from experts import closing, courier, notices, outside, webpush
from experts.models import Delivery, Subscription
from people.errors import Invalid
from tests.experts.receivers import Browser, claims_of, mail_server, receiver


@pytest.fixture
def private(settings):
    """The house may reach its own network, as a self-hoster allows it."""
    settings.AWMWEB_NOTICES_PRIVATE = True


@pytest.fixture
def there(private):
    with receiver() as one:
        yield one


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


def test_a_push_is_read_by_its_browser_alone_and_says_who_sends_it(edo, there, asked, settings):
    browser = Browser()
    notices.subscribe(edo, "push", f"{there.url}/push/1", browser.secret)
    ask = asked("Into which one?\nthe key is swordfish")
    courier.work()
    (posted,) = there.posted
    told = json.loads(browser.opened(posted.body))
    assert told == {
        "ask": ask.pk,
        "title": "An agent asks in lab",
        "body": "Into which one?",
        "path": f"/asks/{ask.pk}/",
        "tag": ask.group,
    }
    assert b"Into" not in posted.body
    claims, key = claims_of(posted.headers["authorization"])
    assert claims["aud"] == there.url and key == webpush.application_key(settings.VAPID_KEY)
    assert 0 < claims["exp"] - time.time() <= 24 * 3600 and str(claims["sub"]).startswith("mailto:")
    assert posted.headers["content-encoding"] == "aes128gcm" and 290 <= int(posted.headers["ttl"]) <= 300
    assert posted.headers["urgency"] == "high" and len(posted.headers["topic"]) <= 32
    assert outcome() == ("sent", "the push service took it (201)", 1)


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


def test_a_browser_that_is_gone_is_not_called_again_until_it_comes_back(edo, there, asked):
    there.answers = [(410, {})]
    browser = Browser()
    way = notices.subscribe(edo, "push", f"{there.url}/push/1", browser.secret)
    asked("one", task="one")
    courier.work()
    asked("two", task="two")
    courier.work()
    assert len(there.posted) == 1 and "gone (410)" in Subscription.objects.get().broken
    assert notices.subscribe(edo, "push", f"{there.url}/push/1", browser.secret).pk == way.pk
    assert Subscription.objects.get().broken == ""


def test_a_webhook_is_signed_and_a_wrong_secret_or_an_altered_body_does_not_fit(edo, there, asked, settings):
    key = notices.subscribe(edo, "webhook", f"{there.url}/hook?a=1").secret["key"]
    ask = asked("Into which one?")
    courier.work()
    (posted,) = there.posted
    told = json.loads(posted.body)
    assert told["url"] == f"{settings.AWMWEB_PUBLIC_URL}/asks/{ask.pk}/" and told["text"] == "Into which one?"
    assert (told["type"], told["open"], told["project"], posted.path) == ("notice.ask", 1, "lab", "/hook?a=1")
    signed = f"{posted.headers['webhook-id']}.{posted.headers['webhook-timestamp']}.".encode()
    secret = base64.b64decode(key.removeprefix("whsec_"))
    by_hand = base64.b64encode(hmac.new(secret, signed + posted.body, hashlib.sha256).digest()).decode()
    assert posted.headers["webhook-signature"] == f"v1,{by_hand}" and len(secret) == 32
    assert abs(int(posted.headers["webhook-timestamp"]) - time.time()) < 5


def test_a_webhook_that_breaks_is_tried_again_under_the_same_id_and_every_try_is_counted(edo, there, asked):
    there.answers = [(503, {}), (429, {"Retry-After": "30"}), (200, {})]
    notices.subscribe(edo, "webhook", f"{there.url}/hook")
    asked()
    courier.work()
    assert outcome() == ("waiting", "the webhook answered 503 thanks", 1)
    due_now()
    courier.work()
    left = (Delivery.objects.get().due_at - timezone.now()).total_seconds()
    assert outcome()[2] == 2 and 25 < left <= 30
    due_now()
    courier.work()
    assert outcome() == ("sent", "the webhook took it (200)", 3)
    assert len({posted.headers["webhook-id"] for posted in there.posted}) == 1


def test_a_refusal_is_final_and_a_redirect_is_not_followed(edo, there, asked):
    there.answers = [(400, {}), (302, {"Location": "http://127.0.0.1:1/"})]
    notices.set_rules(edo, notices.subscribe(edo, "webhook", f"{there.url}/hook").pk, 0, 0)
    asked("one", task="one")
    courier.work()
    assert outcome() == ("failed", "the webhook answered 400 thanks", 1)
    asked("two", task="two")
    courier.work()
    assert outcome() == ("failed", "the webhook answered 302; redirects are not followed", 1)


def test_before_a_try_is_repeated_the_ask_is_looked_at_again(ada, edo, there, asked):
    there.answers = [(503, {})]
    notices.subscribe(edo, "webhook", f"{there.url}/hook")
    ask = asked()
    courier.work()
    closing.cancel(ada, ask.pk)
    due_now()
    courier.work()
    assert outcome()[:2] == ("skipped", "the ask was cancelled first") and len(there.posted) == 1


@pytest.mark.django_db(transaction=True)
def test_no_transaction_is_open_while_a_courier_waits_for_the_network(edo, there, asked):
    """What others change meanwhile is not held up, and the desk's rows are not locked."""
    seen = []

    def look():
        way = Subscription.objects.select_for_update(nowait=True)
        with transaction.atomic():
            seen.append(way.get().pk)
        connection.close()

    there.on_post = look
    way = notices.subscribe(edo, "webhook", f"{there.url}/hook")
    asked()
    courier.work()
    assert seen == [way.pk] and outcome()[0] == "sent"


def test_a_mailbox_gets_asks_only_after_its_code_came_back(edo, mailbox, asked, settings):
    way = notices.subscribe(edo, "email", "edo@example.org")
    asked("too early", task="one")
    courier.work()
    ((to, text),) = mailbox.mails
    code = way.secret["code"]
    assert to == ["edo@example.org"] and code in text and "too early" not in text
    with pytest.raises(Invalid, match="not the code"):
        notices.confirm(edo, way.pk, "00000000" if code != "00000000" else "11111111")
    with pytest.raises(Invalid, match="a moment ago"):
        notices.test(edo, way.pk)
    notices.confirm(edo, way.pk, f" {code.upper()} ")
    notices.confirm(edo, way.pk, "again")
    ask = asked("Into which one?\r\nBcc: max@example.org", task="two")
    courier.work()
    to, text = mailbox.mails[1]
    head, _, body = text.replace("\r\n", "\n").partition("\n\n")
    assert to == ["edo@example.org"] and "Subject: An agent asks in lab (2 open): Into which one?" in head
    assert "Bcc" not in text and "Auto-Submitted: auto-generated" in head
    assert f"{settings.AWMWEB_PUBLIC_URL}/asks/{ask.pk}/" in body


def test_a_mail_server_that_refuses_is_quoted(edo, mailbox):
    mailbox.refuses = b"550 no such mailbox\r\n"
    notices.subscribe(edo, "email", "edo@example.org")
    courier.work()
    assert outcome() == ("failed", "the mail server: 550 no such mailbox", 1)


def test_a_mail_server_that_is_away_is_tried_again(edo, mailbox, asked, settings):
    way = notices.subscribe(edo, "email", "edo@example.org")
    notices.confirm(edo, way.pk, way.secret["code"])
    way.deliveries.all().delete()
    settings.MAIL_SERVER = replace(settings.MAIL_SERVER, port=1)
    asked()
    courier.work()
    assert outcome()[0] == "waiting" and "refused" in outcome()[1]


def test_open_pages_of_one_person_are_told(edo, asked, monkeypatch):
    told = []
    monkeypatch.setattr(live, "publish", lambda topic, frame: told.append((topic, frame)))
    notices.subscribe(edo, "browser")
    ask = asked()
    told.clear()
    courier.work()
    ((topic, frame),) = told
    assert topic == f"person:{edo.project.pk}:{edo.key}" and (frame["type"], frame["ask"]) == ("notice", ask.pk)


def test_a_test_leaves_at_once_whatever_the_rules_say(edo, there):
    way = notices.subscribe(edo, "webhook", f"{there.url}/hook")
    notices.set_rules(edo, way.pk, 3600, 86_400)
    assert notices.test(edo, way.pk).pk == notices.test(edo, way.pk).pk
    courier.work()
    assert json.loads(there.posted[0].body)["type"] == "notice.test" and len(there.posted) == 1
    there.answers = [(500, {})]
    notices.test(edo, way.pk)
    courier.work()
    assert outcome() == ("failed", "the webhook answered 500 thanks", 1)


@pytest.fixture
def names(monkeypatch):
    """A name server that says something else each time; what it was asked is kept."""
    asked_for, answers = [], []

    async def getaddrinfo(self, host, port, **more):
        asked_for.append(host)
        ips = answers.pop(0)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port)) for ip in ips]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)
    return asked_for, answers


@pytest.mark.parametrize(
    "ips",
    [
        ["127.0.0.1"],
        ["10.1.2.3"],
        ["169.254.169.254"],
        ["100.64.0.1"],
        ["8.8.8.8", "192.168.0.1"],
        ["::ffff:127.0.0.1"],
    ],
)
def test_a_name_that_leads_to_a_private_address_is_not_gone_to(ips, names):
    names[1].append(ips)
    with pytest.raises(outside.Refused, match="private address"):
        outside.post("https://hooks.example.org/", b"{}", {})


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "localhost"])
def test_other_spellings_of_this_machine_are_not_gone_to(host):
    with pytest.raises((outside.Refused, outside.Unreached)):
        outside.post(f"https://{host}:1/", b"{}", {})


def test_a_name_that_no_server_can_know_is_said_not_thrown():
    with pytest.raises(outside.Unreached, match="cannot be resolved"):
        outside.post(f"https://{'a' * 70}.example.org/", b"{}", {})


def test_a_name_is_resolved_once_and_the_connection_goes_to_what_was_looked_at(there, names):
    asked_for, answers = names
    answers += [["127.0.0.1"], ["203.0.113.9"]]
    port = urlsplit(there.url).port
    assert outside.post(f"http://hooks.example.org:{port}/x", b"{}", {}).status == 201
    assert asked_for == ["hooks.example.org"] and there.posted[0].headers["host"] == f"hooks.example.org:{port}"


def test_a_receiver_that_drips_is_left_in_time(private, monkeypatch):
    monkeypatch.setattr(outside, "TOTAL_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip():
            line, _ = server.accept()
            with line:
                for letter in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"a" * 40:
                    try:
                        line.send(bytes([letter]))
                    except OSError:
                        return
                    time.sleep(0.05)

        thread = threading.Thread(target=drip)
        thread.start()
        began = time.monotonic()
        with pytest.raises(outside.Unreached, match="No answer within"):
            outside.post(f"http://127.0.0.1:{server.getsockname()[1]}/", b"{}", {})
        assert time.monotonic() - began < 2
        thread.join()


def test_the_key_of_the_house_is_made_once(tmp_path):
    first = embedded.vapid_key(tmp_path)
    assert embedded.vapid_key(tmp_path) == first and len(webpush.unb64(first)) == 32
    assert (tmp_path / "vapid_key").stat().st_mode & 0o077 == 0
    assert len(webpush.unb64(webpush.application_key(first))) == 65
