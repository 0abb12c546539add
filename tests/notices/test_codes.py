"""The code that confirms a mailbox: nobody's mailbox is filled with them, and nobody guesses one."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from awmweb.variables import MailServer
from notices import sending
from notices.errors import TooManySent, WrongCode
from notices.models import Allowance, Delivery, Subscription
from notices.record import allowances, deliveries, subscriptions
from people.errors import AppError, Invalid
from people.models import Membership
from people.record import members
from tests.browsing import as_person, html
from tests.notices.receivers import mail_server
from tests.people_by_name import person

STRANGER = "stranger@example.org"


@pytest.fixture(autouse=True)
def mail(settings):
    settings.MAIL_SERVER = MailServer("127.0.0.1", 1, "", "", False, False)


@pytest.fixture
def clock(monkeypatch):
    """Time that only the test moves on."""
    now = [timezone.now()]
    monkeypatch.setattr(timezone, "now", lambda: now[0])
    return lambda **passed: now.__setitem__(0, now[0] + timedelta(**passed))


def codes_sent():
    return Delivery.objects.filter(kind="code").count()


def try_to_send(actor, address=STRANGER):
    """Add the mailbox, or ask for another code; whether one was sent. What was refused leaves nothing behind."""
    before = codes_sent()
    try:
        way = subscriptions.subscribe(actor, "email", address)
        subscriptions.unsubscribe(actor, way.pk)
    except TooManySent:
        assert codes_sent() == before
    return codes_sent() > before


def test_removing_and_adding_a_mailbox_sends_no_second_code(edo):
    """As it was attacked: six mails in less than a second."""
    assert [try_to_send(edo) for _ in range(6)] == [True] + [False] * 5


@pytest.mark.parametrize("other", ["Stranger@Example.org", "s.tran.ger@example.org", "stranger+1@example.org"])
def test_other_spellings_of_a_mailbox_send_no_second_code(edo, other):
    assert try_to_send(edo) and not try_to_send(edo, other)


def test_a_mailbox_is_bound_over_all_people_and_projects(edo, ada, elsewhere, max_):
    assert [try_to_send(who) for who in (edo, ada, max_)] == [True, False, False]


def test_a_mailbox_gets_six_codes_a_day_whoever_asks(project, clock):
    people = [person(project, f"p{n}", "expert") for n in range(12)]
    sent = 0
    for n in range(24 * 12):
        sent += try_to_send(people[n % len(people)])
        clock(minutes=5)
    assert sent == 6
    clock(hours=1)
    assert try_to_send(people[0])


def test_a_person_sends_five_codes_an_hour_and_ten_a_day(edo, clock):
    hours = []
    for hour in range(5):
        hours.append(sum(try_to_send(edo, f"m{hour}-{n}@example.org") for n in range(8)))
        clock(minutes=61)
    assert hours == [5, 5, 0, 0, 0]


def test_a_project_sends_thirty_codes_an_hour(project, max_):
    people = [person(project, f"p{n}", "expert") for n in range(8)]
    sent = [try_to_send(one, f"{one.person.pk}-{n}@example.org") for one in people for n in range(4)]
    assert sum(sent) == 30 and try_to_send(max_, "other@example.org")


def test_a_refused_code_says_how_long_to_wait(edo, clock):
    try_to_send(edo)
    with pytest.raises(TooManySent, match=r"codes for this address \(at most 1 per minute\)\. Try again in 60 s\."):
        subscriptions.subscribe(edo, "email", STRANGER)
    clock(seconds=30)
    page = as_person(edo).post("/notifications/on", {"kind": "email", "target": STRANGER})
    assert page.status_code == 429 and "Try again in 30 s." in html(page)
    assert not Subscription.objects.current().exists()


@pytest.mark.django_db(transaction=True)
def test_of_many_at_once_one_sends_a_code(edo, project):
    ready, sent = threading.Barrier(6), []

    def attack(number):
        ready.wait()
        try:
            subscriptions.subscribe(edo, "email", f"stranger+{number}@example.org")
            sent.append(number)
        except AppError:
            pass  # counted by its absence
        finally:
            connection.close()

    threads = [threading.Thread(target=attack, args=[number]) for number in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(sent) == codes_sent() == 1


def test_counters_outlive_people_and_hold_no_address(ada, edo, clock):
    try_to_send(edo)
    members.remove_member(ada, Membership.objects.get(user=edo.person).pk)
    assert not try_to_send(ada)
    assert not any("stranger" in key for key in Allowance.objects.values_list("key", flat=True))
    clock(days=1, seconds=1)
    allowances.forget_old()
    assert not Allowance.objects.exists()


def confirmed(edo, way, code):
    try:
        subscriptions.confirm(edo, way.pk, code)
    except WrongCode as refused:
        return refused.message
    return Subscription.objects.get(pk=way.pk).is_confirmed


def test_a_code_is_worth_nothing_after_five_wrong_ones(edo, clock):
    way = subscriptions.subscribe(edo, "email", STRANGER)
    right = way.secret["code"]
    said = [confirmed(edo, way, "wrong") for _ in range(5)]
    assert [text.split()[2] for text in said[:4]] == ["4", "3", "2", "1"]
    assert said[4] == confirmed(edo, way, right) == "Too many wrong codes. Send a new code."
    assert confirmed(edo, way, "") == "Too many wrong codes. Send a new code."
    sending.work()
    assert Delivery.objects.get().state == "skipped"
    clock(minutes=2)
    subscriptions.test(edo, way.pk)
    way.refresh_from_db()
    assert way.secret["code"] != right and confirmed(edo, way, way.secret["code"]) is True


def test_a_new_code_ends_the_one_before(edo, clock, settings):
    with mail_server() as box:
        settings.MAIL_SERVER = MailServer("127.0.0.1", box.port, "", "", False, False)
        way = subscriptions.subscribe(edo, "email", STRANGER)
        first = way.secret["code"]
        sending.work()
        clock(minutes=2)
        subscriptions.test(edo, way.pk)
        sending.work()
    way.refresh_from_db()
    assert way.secret["code"] in box.mails[1][1] and first not in box.mails[1][1]
    assert "Wrong code." in confirmed(edo, way, first)


@pytest.mark.django_db(transaction=True)
def test_wrong_codes_are_counted_when_they_come_at_once(edo):
    way = subscriptions.subscribe(edo, "email", STRANGER)
    ready, said = threading.Barrier(8), []

    def guess():
        ready.wait()
        said.append(confirmed(edo, way, "wrong"))
        connection.close()

    threads = [threading.Thread(target=guess) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sum(" left. Use the code from the newest mail." in text for text in said) == 4


def test_a_wrong_code_is_counted_inside_a_larger_transaction(edo):
    way = subscriptions.subscribe(edo, "email", STRANGER)
    with transaction.atomic():
        confirmed(edo, way, "wrong")
    assert Subscription.objects.get().secret["wrong"] == "1"


@pytest.mark.parametrize(
    "address",
    [
        '"a b"@example.org',
        "a@[10.0.0.1]",
        "=?utf-8?q?a=40victim.org?=@example.org",
        "ä@example.org",
        "a@b\nBcc: c@d.org",
    ],
)
def test_an_address_that_can_be_read_in_two_ways_is_refused(edo, address):
    with pytest.raises(Invalid, match="such as ada@example.org"):
        subscriptions.subscribe(edo, "email", address)


def test_tests_are_bound_too(edo, clock):
    way = subscriptions.subscribe(edo, "webhook", "https://hooks.example.org/a")
    for _ in range(30):
        subscriptions.test(edo, way.pk)
        deliveries.drop_waiting(way, "x")
    with pytest.raises(TooManySent, match="tests"):
        subscriptions.test(edo, way.pk)
