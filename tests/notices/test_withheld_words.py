"""What receivers say stands in a log that people read: it tells no secret and turns no line around."""

from __future__ import annotations

import base64
from urllib.parse import quote

import pytest

from awmweb.variables import MailServer
from notices import quoting, sending
from notices.models import Delivery
from notices.quoting import HELD_BACK, quoted
from notices.record import subscriptions
from tests.notices.receivers import Browser, mail_server

SECRET = "sw0rdfish-Canary/77"
SPELLINGS = {
    "as it is": SECRET,
    "upper case": SECRET.upper(),
    "percent": quote(SECRET, safe=""),
    "every byte as percent": "".join(f"%{byte:02x}" for byte in SECRET.encode()),
    "base64": base64.b64encode(SECRET.encode()).decode(),
    "base64 for addresses": base64.urlsafe_b64encode(b"Authorization: " + SECRET.encode()).decode(),
    "base64, begun late": base64.b64encode(b"x" + SECRET.encode()).decode()[1:],
    "hexadecimal": SECRET.encode().hex(),
    "HTML": "".join(f"&#{byte};" for byte in SECRET.encode()),
    "JSON": "".join(f"\\u{byte:04x}" for byte in SECRET.encode()),
    "spaced": " ".join(SECRET),
    "the first half": SECRET[:9],
    "the second half": SECRET[9:],
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_words_that_tell_a_secret_are_withheld(spelling):
    assert quoted(f"bad request: {SPELLINGS[spelling]} is wrong", [SECRET]) == HELD_BACK


@pytest.mark.parametrize("said", ["invalid_payload", "posting_to_general_channel_denied", "404 page not found"])
def test_ordinary_words_are_quoted(said):
    assert quoted(said, [SECRET, "", "a", "b2"]) == said


@pytest.mark.parametrize("token", ["eyJhbGciOiJFUzI1NiJ9.eyJhdWQi", "0123456789abcdef0123", "sk-proj-Abcdefghijklmnop"])
def test_what_looks_like_a_key_is_cut_out(token):
    assert quoted(f"upstream refused {token} today", []) == "upstream refused […] today"


def test_quoted_words_are_one_clean_line():
    assert quoted("\n a\u202eb\x1b[31m\u2066 \nsecond", []) == "a⟨U+202E⟩b⟨ESC⟩[31m⟨U+2066⟩"


def test_query_and_keylike_path_of_an_address_are_secret():
    parts = quoting.parts_of("https://hooks.example.org/services/T0/averylonglowercaseword?token=a%20b&x=#frag")
    assert {"T0", "averylonglowercaseword", "a b", "token=a b&x=", "frag"} <= set(parts)
    assert not {"hooks.example.org", "services", "token"} & set(parts)


def words():
    return Delivery.objects.get().words


@pytest.mark.parametrize("status", [400, 503])
@pytest.mark.parametrize("echo", ["/services/T000/cAnArY77", "HUNTER2HUNTER2", "Y0FuQXJZNzc="])
def test_a_webhook_that_echoes_its_address_is_not_quoted(edo, there, asked, status, echo):
    there.answers, there.says = [(status, {})], f"cannot POST {echo}".encode()
    subscriptions.subscribe(edo, "webhook", f"{there.url}/services/T000/cAnArY77?token=hunter2hunter2")
    asked()
    sending.work()
    assert words() == f"The webhook responded {status}: {HELD_BACK}"


def test_a_webhook_that_names_a_plain_word_of_its_path_is_quoted(edo, there, asked):
    there.answers, there.says = [(404, {})], b"no such webhook, or its token is wrong"
    subscriptions.subscribe(edo, "webhook", f"{there.url}/webhook?token=hunter2hunter2")
    asked()
    sending.work()
    assert words() == "The webhook responded 404: no such webhook, or its token is wrong"


def test_a_webhook_turns_no_line_of_the_log_around(edo, there, asked):
    there.answers, there.says = [(400, {})], "\u202egnp.exe\u2069\x07\r\nsecond".encode()
    subscriptions.subscribe(edo, "webhook", f"{there.url}/hook")
    asked()
    sending.work()
    assert words() == "The webhook responded 400: ⟨U+202E⟩gnp.exe⟨U+2069⟩⟨BEL⟩"


def test_a_push_service_that_echoes_its_keys_is_not_quoted(edo, there, asked):
    browser = Browser()
    there.answers, there.says = [(400, {})], f"bad auth {browser.secret['auth']}".encode()
    subscriptions.subscribe(edo, "push", f"{there.url}/push/1", browser.secret)
    asked()
    sending.work()
    assert words() == f"The push service responded 400: {HELD_BACK}"


def test_a_relay_that_quotes_the_mail_gives_no_code_away(edo, settings):
    with mail_server() as box:
        settings.MAIL_SERVER = MailServer("127.0.0.1", box.port, "", "", False, False)
        way = subscriptions.subscribe(edo, "email", "stranger@example.org")
        box.refuses_text = f"554 spam: {way.secret['code']} confirms this address\r\n".encode()
        sending.work()
    assert words() == f"Mail server: {HELD_BACK}"


def test_a_refused_mailbox_is_quoted_without_its_address(edo, settings):
    """What led to a person is wiped when the channel ends, and the log stays."""
    with mail_server() as box:
        settings.MAIL_SERVER = MailServer("127.0.0.1", box.port, "", "", False, False)
        box.refuses = b"550 5.1.1 <edo@example.org>: user unknown\r\n"
        subscriptions.subscribe(edo, "email", "edo@example.org")
        sending.work()
    assert words() == "Mail server: 550 5.1.1 <[address]>: user unknown"


def test_a_member_never_reads_the_operators_mail_password(edo, settings, monkeypatch):
    settings.MAIL_SERVER = MailServer("127.0.0.1", 1, "relay-user", "correct horse battery", False, False)

    def refuse(*args, **more):
        raise sending.smtplib.SMTPAuthenticationError(535, b"no: CORRECT-HORSE-BATTERY")

    monkeypatch.setattr(sending.EmailMessage, "send", refuse)
    subscriptions.subscribe(edo, "email", "edo@example.org")
    sending.work()
    assert words() == f"Mail server: {HELD_BACK}"
