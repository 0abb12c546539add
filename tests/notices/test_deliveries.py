"""Who hears of an ask, when, and how often: the rules, decided from rows alone, without sending anything."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from experts.models import Assignment
from experts.record import advising, desk, queue
from notices.models import Delivery, QuietHours
from notices.record import deliveries, subscriptions
from notices.record.deliveries import SendResult
from people.models import Membership
from tests.notices.rows import due, state
from tests.people_by_name import person


def test_human_ask_is_notified_once_with_first_line_and_link(edo, bell, asked):
    one = asked("\n  Into which one?  \nmy password is hunter2")
    (parcel,) = due()
    assert (parcel.text, parcel.path, parcel.open_count) == ("Into which one?", f"/projects/lab/asks/{one.pk}/", 1)
    assert parcel.user_key == edo.key and parcel.title == "An agent asks in lab"
    assert due() == [] and state(bell) == [("sent", "taken")]


def test_agent_text_in_notices_is_bounded_without_bidi(bell, asked):
    asked("a\u202eb\ud800\x00" + "c" * 1000)
    (parcel,) = due()
    assert parcel.text.startswith("a⟨U+202E⟩b⟨U+D800⟩⟨NUL⟩ccc") and len(parcel.text) <= 160


def test_model_first_ask_notifies_people_on_escalation(ada, bell, asked, models, project):
    desk.set_policy(ada, model_first=True, audit_share=0.0)
    ask = asked()
    assert ask.tier == "llm" and Delivery.objects.count() == 0
    queue.transfer(ada, ask.pk, "people")
    assert [parcel.subject_id for parcel in due()] == [ask.pk]


def test_only_those_who_may_answer_hear_of_it(project, ada, edo, asked):
    lea = person(project, "lea", "expert")
    Membership.objects.filter(user=lea.person).update(skills=["sql"])
    for one in (ada, edo, lea):
        subscriptions.subscribe(one, "browser")
    desk.seen(ada, away=True)
    asked(skills=["sql"])
    assert [parcel.user_key for parcel in due()] == [lea.key]


def test_whoever_passed_meanwhile_hears_nothing(edo, ada, bell, asked):
    subscriptions.set_rules(edo, bell.pk, 30, 60)
    ask = asked()
    queue.decline_unclaimed(edo, ask.pk)
    assert due(timezone.now() + timedelta(seconds=31)) == []
    assert state(bell) == [("skipped", "Not sent: you declined it, set yourself to Away, or can no longer answer it.")]


def test_notice_is_sent_for_a_released_ask_not_a_claimed_one(ada, edo, bell, asked):
    ask = asked()
    queue.claim(ada, ask.pk)
    assert due() == [] and state(bell) == [("waiting", "Claimed by ada.")]
    later = timezone.now() + timedelta(seconds=95)
    assert [parcel.subject_id for parcel in due(later)] == [ask.pk]


def test_an_ask_that_is_given_back_is_told_at_once(ada, bell, asked):
    ask = asked()
    lease = queue.claim(ada, ask.pk)
    assert due() == [] and state(bell) == [("waiting", "Claimed by ada.")]
    queue.release(ada, lease.assignment_id, lease.lease_token)
    assert [parcel.subject_id for parcel in due()] == [ask.pk]


def test_notice_skips_people_who_released_or_declined(ada, edo, bell, asked):
    hers = subscriptions.subscribe(ada, "browser")
    subscriptions.set_rules(edo, bell.pk, 120, 60)
    ask = asked()
    lease = queue.claim(ada, ask.pk)
    assert due() == [] and due(lease.lease_until - timedelta(seconds=1)) == []
    queue.decline(ada, lease.assignment_id, lease.lease_token)
    assert due() == [] and state(hers) == [
        ("skipped", "Not sent: you declined it, set yourself to Away, or can no longer answer it.")
    ]
    assert [parcel.user_key for parcel in due(timezone.now() + timedelta(seconds=121))] == [edo.key]


@pytest.mark.django_db(transaction=True)
def test_giving_back_waits_for_no_courier(ada, edo, asked):
    """A courier holds the notice while Ada gives the ask back: she is through at once, it is told when it was due."""
    way = subscriptions.subscribe(edo, "browser")
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
    assert Assignment.objects.get().state == "queued" and state(way) == [("waiting", "Claimed by ada.")]


def test_an_answered_ask_needs_no_notice(ada, bell, asked):
    ask = asked()
    lease = queue.claim(ada, ask.pk)
    advising.answer(ada, lease.assignment_id, lease.lease_token, "the first", "n")
    assert due() == [] and state(bell) == [("skipped", "Not sent: the ask was already closed (answered).")]


def test_a_delay_leaves_time_to_claim(edo, bell, asked):
    subscriptions.set_rules(edo, bell.pk, 120, 60)
    asked()
    assert due() == [] and len(due(timezone.now() + timedelta(seconds=121))) == 1


def test_one_notice_for_many_asks_says_how_many_are_open(bell, asked):
    for number in range(3):
        asked(f"question {number}", task=f"task {number}")
    (parcel,) = due()
    assert parcel.title == "An agent asks in lab (3 open)"
    assert sorted(row[1] for row in state(bell)) == ["Sent together with another ask."] * 2 + ["taken"]


def test_at_most_one_in_a_minute(bell, asked):
    asked("first", task="one")
    assert len(due()) == 1
    asked("second", task="two")
    assert due() == [] and state(bell)[1] == ("waiting", "At most one every 60 s.")
    assert len(due(timezone.now() + timedelta(seconds=61))) == 1


def test_same_question_group_is_notified_once_while_open(edo, bell, asked):
    subscriptions.set_rules(edo, bell.pk, 0, 0)
    first = asked("Into which one?")
    assert len(due()) == 1
    second = asked("Into which one?")
    assert second.group == first.group
    assert due() == [] and state(bell)[1] == ("skipped", "Not sent: you were already notified of the same question.")


def test_quiet_hours_delay_open_asks_and_drop_closed_ones(edo, bell, asked):
    now = timezone.now()
    QuietHours.objects.create(
        user=edo.person, starts=(now - timedelta(hours=1)).time(), ends=(now + timedelta(hours=1)).time(), zone="UTC"
    )
    asked("short", task="one", deadline_s=300)
    asked("long", task="two", deadline_s=7200)
    assert due() == []
    assert {words for _, words in state(bell)} == {"Not sent: quiet hours end after the deadline.", "Quiet hours."}
    assert [parcel.text for parcel in due(now + timedelta(hours=1, seconds=1))] == ["long"]


def test_failed_delivery_backs_off_and_gives_up(bell, asked):
    asked(deadline_s=86_400)
    now, pauses = timezone.now(), []
    for _ in range(deliveries.ATTEMPTS_MAX):
        _, parcel = deliveries.take(now)
        deliveries.record_result(parcel, SendResult(False, "503", again=True))
        row = Delivery.objects.get()
        if row.due_at is not None:
            pauses.append(round((row.due_at - timezone.now()).total_seconds()))
            now = row.due_at
    assert pauses == [5, 15, 45, 135, 405] and (row.state, row.attempts, row.words) == ("failed", 6, "503")


def test_unconfirmed_delivery_is_resent_and_late_result_ignored(bell, asked):
    asked()
    now = timezone.now()
    _, lost = deliveries.take(now)
    assert deliveries.take(now) == (False, None)
    _, again = deliveries.take(now + deliveries.TAKEN_FOR)
    deliveries.record_result(lost, SendResult(False, "late"))
    assert again.attempt == 2 and Delivery.objects.get().state == "waiting"
    deliveries.record_result(again, SendResult(True, "taken"))
    deliveries.record_result(again, SendResult(False, "twice"))
    assert state(bell) == [("sent", "taken")]


@pytest.mark.django_db(transaction=True)
def test_of_many_couriers_at_once_one_gets_a_notice(bell, asked):
    asked()
    taken, ready = [], threading.Barrier(4)

    def courier():
        ready.wait()
        taken.append(deliveries.take(timezone.now())[1])
        connection.close()

    threads = [threading.Thread(target=courier) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len([parcel for parcel in taken if parcel is not None]) == 1


@pytest.mark.django_db(transaction=True)
def test_ask_opens_while_a_channel_is_being_edited(edo, bell, asked):
    opened = threading.Event()

    def ask():
        asked()
        opened.set()
        connection.close()

    with transaction.atomic():
        subscriptions.unsubscribe(edo, bell.pk)
        thread = threading.Thread(target=ask)
        thread.start()
        assert opened.wait(10)
    thread.join()
    assert due() == [] and state(bell) == [("skipped", "Channel removed.")]


def test_old_lines_of_the_log_are_forgotten(bell, asked):
    asked("old", task="one")
    due()
    asked("new", task="two")
    Delivery.objects.filter(state="sent").update(created_at=timezone.now() - deliveries.KEPT - timedelta(days=1))
    deliveries.forget_old()
    assert [state for state, _ in state(bell)] == ["waiting"]
