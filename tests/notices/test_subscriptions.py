"""Which channels a person may have, and who may change them."""

from __future__ import annotations

from datetime import UTC, datetime, time

import pytest

from experts.models import Ask
from notices.models import QuietHours, Subscription
from notices.record import subscriptions
from people.errors import AppError, Forbidden, Invalid, NotFound
from people.models import Membership
from people.record import members
from tests.notices.rows import due, state
from tests.people_by_name import person, token


@pytest.mark.parametrize(
    ("clock", "end"),
    [("21:59", None), ("22:00", 25), ("23:30", 25), ("06:59", 24), ("07:00", None)],
)
def test_quiet_hours_go_over_midnight_in_the_place_of_the_person(clock, end):
    quiet = QuietHours(starts=time(22), ends=time(7), zone="Europe/Madrid")
    hour, minute = map(int, clock.split(":"))
    now = datetime(2026, 1, 24, hour - 1, minute, tzinfo=UTC)  # an hour behind in winter
    assert quiet.until(now) == (datetime(2026, 1, end, 6, tzinfo=UTC) if end else None)


def test_duplicate_channel_is_one_row(edo):
    first = subscriptions.subscribe(edo, "browser")
    assert subscriptions.subscribe(edo, "browser").pk == first.pk
    assert subscriptions.subscribe(edo, "webhook", "https://hooks.example.org/a").pk != first.pk
    assert Subscription.objects.count() == 2


def test_a_person_has_at_most_ten_ways(edo):
    for number in range(subscriptions.CHANNELS_MAX):
        subscriptions.subscribe(edo, "webhook", f"https://hooks.example.org/{number}")
    with pytest.raises(Invalid, match="You have 10 channels"):
        subscriptions.subscribe(edo, "webhook", "https://hooks.example.org/more")


def test_viewers_and_scripts_have_no_notices(project):
    script, _ = token(project, "expert")
    for who in (person(project, "vera", "viewer"), script):
        with pytest.raises(Forbidden):
            subscriptions.subscribe(who, "browser")


def test_a_stranger_and_a_colleague_change_nothing_of_mine(ada, bell, max_):
    for who in (ada, max_):
        for act in (
            lambda who=who: subscriptions.unsubscribe(who, bell.pk),
            lambda who=who: subscriptions.test(who, bell.pk),
            lambda who=who: subscriptions.set_rules(who, bell.pk, 0, 0),
            lambda who=who: subscriptions.confirm(who, bell.pk, "x"),
        ):
            with pytest.raises(NotFound):
                act()
    assert Subscription.objects.get().ended_at is None


def test_removed_member_gets_no_notices_or_transfers(ada, edo, asked):
    way = subscriptions.subscribe(edo, "webhook", "https://hooks.example.org/a")
    ask = asked()
    members.remove_member(ada, Membership.objects.get(user=edo.person).pk)
    way.refresh_from_db()
    assert (way.target, way.secret) == ("", {}) and state(way) == [("skipped", "Left the project.")]
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
        ("webhook", "https://[::127.0.0.1]/", {}),
        ("webhook", "https://[3fff::1]/", {}),
        ("push", "https://[5f00::1]/", {}),
        ("webhook", "https://hooks.example.org:99999/", {}),
        ("webhook", "file:///etc/passwd", {}),
        ("push", "https://push.example.org/x", {}),
        ("push", "https://push.example.org/x", {"p256dh": "QUJD", "auth": "QUJD"}),
        ("email", "ada@example.org", {}),
    ],
)
def test_what_cannot_be_reached_is_refused_with_its_reason(edo, kind, target, secret):
    with pytest.raises(AppError):
        subscriptions.subscribe(edo, kind, target, secret)
    assert not Subscription.objects.exists()
