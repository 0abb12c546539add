"""Who hears of an ask, when, and how often: the rules, decided from rows alone, without sending anything."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, time, timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from experts import advising, desk, notices, queue
from experts.models import Ask, Assignment, Delivery, QuietHours, Subscription
from experts.notices import Outcome
from people import members
from people.errors import AppError, Forbidden, Invalid, NotFound
from people.models import Membership
from tests.people_by_name import person, token


@pytest.fixture
def bell(edo):
    """Edo hears of asks by his open pages."""
    return notices.subscribe(edo, "browser")


def due(now=None):
    """Take everything that is due and say that it went well; what was told, in order."""
    told, now = [], now or timezone.now()
    while (step := notices.take(now))[0]:
        if step[1] is not None:
            notices.settle(step[1], Outcome(True, "taken"))
            told.append(step[1])
    return told


def state(way):
    return [(row.state, row.words) for row in way.deliveries.order_by("created_at", "pk")]


def test_an_ask_before_people_is_told_once_with_its_first_line_and_its_page(edo, bell, asked):
    one = asked("\n  Into which one?  \nmy password is hunter2")
    (parcel,) = due()
    assert (parcel.text, parcel.path, parcel.open_asks) == ("Into which one?", f"/asks/{one.pk}/", 1)
    assert parcel.user_key == edo.key and parcel.title == "An agent asks in lab"
    assert due() == [] and state(bell) == [("sent", "taken")]


def test_the_words_of_an_agent_are_bounded_and_cannot_turn_a_line_around(bell, asked):
    asked("a\u202eb\ud800\x00" + "c" * 1000)
    (parcel,) = due()
    assert parcel.text.startswith("a⟨U+202E⟩b⟨U+D800⟩⟨U+0000⟩ccc") and len(parcel.text) <= 160


def test_a_model_hears_of_it_first_and_people_when_it_comes_to_them(ada, bell, asked, models, project):
    desk.set_policy(ada, model_first=True, audit_share=0.0)
    ask = asked()
    assert ask.tier == "llm" and Delivery.objects.count() == 0
    queue.hand(ada, ask.pk, "people")
    assert [parcel.ask_id for parcel in due()] == [ask.pk]


def test_only_those_who_may_answer_hear_of_it(project, ada, edo, asked):
    lea = person(project, "lea", "expert")
    Membership.objects.filter(user=lea.user).update(skills=["sql"])
    for one in (ada, edo, lea):
        notices.subscribe(one, "browser")
    desk.seen(ada, away=True)
    asked(skills=["sql"])
    assert [parcel.user_key for parcel in due()] == [lea.key]


def test_whoever_passed_meanwhile_hears_nothing(edo, ada, bell, asked):
    notices.set_rules(edo, bell.pk, 30, 60)
    ask = asked()
    queue.pass_over(edo, ask.pk)
    assert due(timezone.now() + timedelta(seconds=31)) == []
    assert state(bell) == [("skipped", "not for you any more: passed, away, or another role")]


def test_a_claimed_ask_needs_no_notice_and_one_that_is_let_go_does(ada, edo, bell, asked):
    ask = asked()
    queue.claim(ada, ask.pk)
    assert due() == [] and state(bell) == [("waiting", "ada has it")]
    later = timezone.now() + timedelta(seconds=95)
    assert [parcel.ask_id for parcel in due(later)] == [ask.pk]


def test_an_ask_that_is_given_back_is_told_at_once(ada, bell, asked):
    ask = asked()
    lease = queue.claim(ada, ask.pk)
    assert due() == [] and state(bell) == [("waiting", "ada has it")]
    queue.release(ada, lease.assignment_id, lease.lease_token)
    assert [parcel.ask_id for parcel in due()] == [ask.pk]


def test_who_gave_it_back_and_passed_hears_nothing_and_a_delay_is_still_kept(ada, edo, bell, asked):
    hers = notices.subscribe(ada, "browser")
    notices.set_rules(edo, bell.pk, 120, 60)
    ask = asked()
    lease = queue.claim(ada, ask.pk)
    assert due() == [] and due(timezone.now() + timedelta(seconds=89)) == []
    queue.decline(ada, lease.assignment_id, lease.lease_token)
    assert due() == [] and state(hers) == [("skipped", "not for you any more: passed, away, or another role")]
    assert [parcel.user_key for parcel in due(timezone.now() + timedelta(seconds=121))] == [edo.key]


@pytest.mark.django_db(transaction=True)
def test_giving_back_waits_for_no_courier(ada, edo, asked):
    """A courier holds the notice while Ada gives the ask back: she is through at once, it is told when it was due."""
    way = notices.subscribe(edo, "browser")
    lease = queue.claim(ada, asked().pk)
    assert due() == []

    def give_back():
        try:
            queue.release(ada, lease.assignment_id, lease.lease_token)
        finally:
            connection.close()

    with transaction.atomic():
        way.deliveries.select_for_update().get()
        giving = threading.Thread(target=give_back)
        giving.start()
        giving.join(20)
        assert not giving.is_alive()
    assert Assignment.objects.get().state == "queued" and state(way) == [("waiting", "ada has it")]


def test_an_answered_ask_needs_no_notice(ada, bell, asked):
    ask = asked()
    lease = queue.claim(ada, ask.pk)
    advising.answer(ada, lease.assignment_id, lease.lease_token, "the first", "n")
    assert due() == [] and state(bell) == [("skipped", "the ask was answered first")]


def test_a_delay_leaves_time_to_claim(edo, bell, asked):
    notices.set_rules(edo, bell.pk, 120, 60)
    asked()
    assert due() == [] and len(due(timezone.now() + timedelta(seconds=121))) == 1


def test_one_notice_for_many_asks_says_how_many_are_open(bell, asked):
    for number in range(3):
        asked(f"question {number}", task=f"task {number}")
    (parcel,) = due()
    assert parcel.title == "An agent asks in lab (3 open)"
    assert sorted(row[1] for row in state(bell)) == ["taken", "told together with another ask"] + [
        "told together with another ask"
    ]


def test_at_most_one_in_a_minute(bell, asked):
    asked("first", task="one")
    assert len(due()) == 1
    asked("second", task="two")
    assert due() == [] and state(bell)[1] == ("waiting", "one notice in 60 s")
    assert len(due(timezone.now() + timedelta(seconds=61))) == 1


def test_a_group_that_asks_the_same_is_told_once_while_it_is_open(edo, bell, asked):
    notices.set_rules(edo, bell.pk, 0, 0)
    first = asked("Into which one?")
    assert len(due()) == 1
    twin = asked("Into which one?")
    assert twin.group == first.group
    assert due() == [] and state(bell)[1] == ("skipped", "the same question was told already")


def test_quiet_hours_put_off_what_is_open_afterwards_and_drop_the_rest(edo, bell, asked):
    now = timezone.now()
    QuietHours.objects.create(
        user=edo.user, starts=(now - timedelta(hours=1)).time(), ends=(now + timedelta(hours=1)).time(), zone="UTC"
    )
    asked("short", task="one", deadline_s=300)
    asked("long", task="two", deadline_s=7200)
    assert due() == []
    assert {words for _, words in state(bell)} == {"quiet hours until after its deadline", "quiet hours"}
    assert [parcel.text for parcel in due(now + timedelta(hours=1, seconds=1))] == ["long"]


@pytest.mark.parametrize(
    ("clock", "end"),
    [("21:59", None), ("22:00", 25), ("23:30", 25), ("06:59", 24), ("07:00", None)],
)
def test_quiet_hours_go_over_midnight_in_the_place_of_the_person(clock, end):
    quiet = QuietHours(starts=time(22), ends=time(7), zone="Europe/Madrid")
    hour, minute = map(int, clock.split(":"))
    now = datetime(2026, 1, 24, hour - 1, minute, tzinfo=UTC)  # an hour behind in winter
    assert quiet.until(now) == (datetime(2026, 1, end, 6, tzinfo=UTC) if end else None)


def test_what_failed_is_tried_again_ever_later_and_given_up_in_the_end(bell, asked):
    asked(deadline_s=86_400)
    now, pauses = timezone.now(), []
    for _ in range(notices.ATTEMPTS_MAX):
        _, parcel = notices.take(now)
        notices.settle(parcel, Outcome(False, "503", again=True))
        row = Delivery.objects.get()
        if row.due_at is not None:
            pauses.append(round((row.due_at - timezone.now()).total_seconds()))
            now = row.due_at
    assert pauses == [5, 15, 45, 135, 405] and (row.state, row.attempts, row.words) == ("failed", 6, "503")


def test_what_no_courier_brought_back_is_sent_again_and_a_late_word_changes_nothing(bell, asked):
    asked()
    now = timezone.now()
    _, lost = notices.take(now)
    assert notices.take(now) == (False, None)
    _, again = notices.take(now + notices.TAKEN_FOR)
    notices.settle(lost, Outcome(False, "late"))
    assert again.attempt == 2 and Delivery.objects.get().state == "waiting"
    notices.settle(again, Outcome(True, "taken"))
    notices.settle(again, Outcome(False, "twice"))
    assert state(bell) == [("sent", "taken")]


@pytest.mark.django_db(transaction=True)
def test_of_many_couriers_at_once_one_gets_a_notice(bell, asked):
    asked()
    taken, ready = [], threading.Barrier(4)

    def courier():
        ready.wait()
        taken.append(notices.take(timezone.now())[1])
        connection.close()

    threads = [threading.Thread(target=courier) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len([parcel for parcel in taken if parcel is not None]) == 1


@pytest.mark.django_db(transaction=True)
def test_an_ask_is_opened_without_waiting_for_a_way_that_is_being_changed(edo, bell, asked):
    opened = threading.Event()

    def ask():
        asked()
        opened.set()
        connection.close()

    with transaction.atomic():
        notices.unsubscribe(edo, bell.pk)
        thread = threading.Thread(target=ask)
        thread.start()
        assert opened.wait(10)
    thread.join()
    assert due() == [] and state(bell) == [("skipped", "switched off")]


def test_twice_the_same_way_is_one_row_and_a_third_of_a_kind_is_its_own(edo):
    first = notices.subscribe(edo, "browser")
    assert notices.subscribe(edo, "browser").pk == first.pk
    assert notices.subscribe(edo, "webhook", "https://hooks.example.org/a").pk != first.pk
    assert Subscription.objects.count() == 2


def test_a_person_has_at_most_ten_ways(edo):
    for number in range(notices.WAYS_MAX):
        notices.subscribe(edo, "webhook", f"https://hooks.example.org/{number}")
    with pytest.raises(Invalid, match="At most 10"):
        notices.subscribe(edo, "webhook", "https://hooks.example.org/more")


def test_those_who_may_not_answer_and_scripts_have_no_notices(rita, project):
    script, _ = token(project, "expert")
    for who in (rita, script):
        with pytest.raises(Forbidden):
            notices.subscribe(who, "browser")


def test_a_stranger_and_a_colleague_change_nothing_of_mine(ada, bell, max_):
    for who in (ada, max_):
        for act in (
            lambda who=who: notices.unsubscribe(who, bell.pk),
            lambda who=who: notices.test(who, bell.pk),
            lambda who=who: notices.set_rules(who, bell.pk, 0, 0),
            lambda who=who: notices.confirm(who, bell.pk, "x"),
        ):
            with pytest.raises(NotFound):
                act()
    assert Subscription.objects.get().ended_at is None


def test_who_is_removed_hears_nothing_more_and_nothing_leads_to_them(ada, edo, asked):
    way = notices.subscribe(edo, "webhook", "https://hooks.example.org/a")
    ask = asked()
    members.remove_member(ada, Membership.objects.get(user=edo.user).pk)
    way.refresh_from_db()
    assert (way.target, way.secret) == ("", {}) and state(way) == [("skipped", "left the project")]
    assert due() == [] and Ask.objects.get(pk=ask.pk).is_open


@pytest.mark.parametrize(
    ("kind", "target", "secret"),
    [
        ("pigeon", "", {}),
        ("webhook", "http://hooks.example.org/", {}),
        ("webhook", "https://user:word@hooks.example.org/", {}),
        ("webhook", "https://127.0.0.1/", {}),
        ("webhook", "https://[::1]/", {}),
        ("webhook", "https://169.254.169.254/latest/", {}),
        ("webhook", "https://[::ffff:10.0.0.1]/", {}),
        ("webhook", "https://[64:ff9b::a00:1]/", {}),
        ("webhook", "https://hooks.example.org:99999/", {}),
        ("webhook", "file:///etc/passwd", {}),
        ("push", "https://push.example.org/x", {}),
        ("push", "https://push.example.org/x", {"p256dh": "QUJD", "auth": "QUJD"}),
        ("email", "ada@example.org", {}),
    ],
)
def test_what_cannot_be_reached_is_refused_with_its_reason(edo, kind, target, secret):
    with pytest.raises(AppError):
        notices.subscribe(edo, kind, target, secret)
    assert not Subscription.objects.exists()


def test_old_lines_of_the_log_are_forgotten(bell, asked):
    asked("old", task="one")
    due()
    asked("new", task="two")
    Delivery.objects.filter(state="sent").update(created_at=timezone.now() - notices.KEPT - timedelta(days=1))
    notices.forget_old()
    assert [state for state, _ in state(bell)] == ["waiting"]
