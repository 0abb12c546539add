"""Notifications about whatever an app above registers: here a kind that only these tests know."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from notices import sending, subjects
from notices.models import Delivery, QuietHours
from notices.record import deliveries, subscriptions
from notices.subjects import KEEP, Relevance, put_off, skip
from tests.browsing import as_person, html
from tests.notices.rows import due, state


@dataclass
class Mention:
    id: str
    project_id: str
    people: set[str]
    rank: str = ""
    group: str = ""
    expires_at: datetime | None = None
    text: str = "look at this\nsecond line"
    stands: Relevance = KEEP
    stands_for: Relevance = KEEP
    kind: str = "mention"

    def title(self, open_count):
        return f"{open_count} mentions"

    def recipients(self, now):
        return self.people

    def standing(self, rank, now):
        return self.stands

    def standing_for(self, person, now):
        return self.stands_for

    @property
    def is_over(self):
        return True

    def state_for(self, person, now):
        return ""

    def is_held_by(self, person, now):
        return False

    def answer_path(self, person):
        return ""


@dataclass
class Mentions:
    found: dict[str, Mention] = field(default_factory=dict)
    name: str = "mention"
    label: str = "Mention"

    def path(self, subject_id):
        return f"/episodes/{subject_id}/"

    def read(self, ids):
        return {one: self.found[one] for one in ids if one in self.found}

    def open_among(self, ids):
        return {one for one in ids if one in self.found}

    def open_count(self, project_id, now):
        return len(self.found)


@pytest.fixture
def mentions(monkeypatch):
    monkeypatch.setattr(subjects, "_kinds", dict(subjects._kinds))
    kind = Mentions()
    subjects.register(kind)
    return kind


@pytest.fixture
def mentioned(mentions, edo):
    """Queue a mention of Edo."""
    count = iter(range(1000))

    def mention(**more):
        one = Mention(f"m{next(count)}", edo.project.pk, {edo.key}, **more)
        mentions.found[one.id] = one
        deliveries.queue_for(one)
        return one

    return mention


def test_a_registered_kind_leaves_with_its_own_words_and_page(bell, mentioned):
    one = mentioned()
    (parcel,) = due()
    assert (parcel.title, parcel.text, parcel.path) == (
        "1 mentions",
        "look at this",
        f"/projects/lab/episodes/{one.id}/",
    )
    assert sending.shown(parcel)["mention"] == one.id and "ask" not in sending.shown(parcel)
    assert due() == []


def test_a_registered_kind_stands_in_the_log_with_its_page(bell, edo, mentioned):
    one = mentioned()
    assert f'<a href="/projects/lab/episodes/{one.id}/">Mention</a>' in html(as_person(edo).get("/notifications/"))


def test_a_subject_says_when_its_notification_is_not_wanted(bell, mentioned):
    mentioned(stands=skip("resolved"))
    mentioned(stands_for=skip("you read it"))
    later = mentioned(stands=put_off(timezone.now() + timedelta(minutes=5), "being edited"))
    assert due() == []
    assert state(bell) == [("skipped", "resolved"), ("skipped", "you read it"), ("waiting", "being edited")]
    later.stands = KEEP
    assert due(timezone.now() + timedelta(minutes=4)) == []
    assert [parcel.subject_id for parcel in due(timezone.now() + timedelta(minutes=6))] == [later.id]


def test_a_subject_that_is_let_go_is_looked_at_again(bell, mentioned):
    one = mentioned(stands=put_off(timezone.now() + timedelta(minutes=5), "being edited"))
    other = mentioned(stands=put_off(timezone.now() + timedelta(minutes=5), "being edited"))
    assert due() == []
    one.stands = other.stands = KEEP
    deliveries.reconsider("ask", one.id)
    assert due() == []
    deliveries.reconsider("mention", one.id)
    assert [parcel.subject_id for parcel in due()] == [one.id]


def test_a_subject_that_is_gone_is_skipped(bell, mentions, mentioned):
    one = mentioned()
    del mentions.found[one.id]
    assert due() == [] and state(bell)[0][0] == "skipped"


def test_rows_of_a_kind_that_nobody_knows_are_skipped(bell, mentioned, monkeypatch):
    mentioned()
    monkeypatch.setattr(subjects, "_kinds", {})
    assert due() == [] and state(bell)[0][0] == "skipped"


def test_each_kind_is_told_by_itself_and_counts_its_own(edo, bell, mentioned, asked):
    subscriptions.set_rules(edo, bell.pk, 0, 60)
    asked("one", task="one")
    mentioned()
    mentioned()
    (ask,) = due()
    assert (ask.kind, ask.title) == ("ask", "An agent asks in lab") and sorted(one for one, _ in state(bell)) == [
        *("sent", "waiting", "waiting")
    ]
    (mention,) = due(timezone.now() + timedelta(seconds=61))
    assert mention.title == "2 mentions"


def test_a_subject_is_told_once_at_each_rank(bell, mentions, mentioned):
    one = mentioned(rank="first")
    deliveries.queue_for(one)
    assert Delivery.objects.count() == 1
    one.rank = "second"
    deliveries.queue_for(one)
    assert Delivery.objects.count() == 2


def test_a_group_is_told_once_while_one_of_it_is_open(edo, bell, mentions, mentioned):
    subscriptions.set_rules(edo, bell.pk, 0, 0)
    first = mentioned(group="g")
    assert len(due()) == 1
    mentioned(group="g")
    assert due() == []
    del mentions.found[first.id]
    third = mentioned(group="g")
    mentions.found = {third.id: third}
    assert [parcel.subject_id for parcel in due()] == [third.id]


def test_without_an_end_quiet_hours_only_put_off(edo, bell, mentioned):
    now = timezone.now()
    QuietHours.objects.create(
        user=edo.person, starts=(now - timedelta(hours=1)).time(), ends=(now + timedelta(hours=1)).time(), zone="UTC"
    )
    mentioned()
    assert due() == [] and state(bell)[0][0] == "waiting"
    assert len(due(now + timedelta(hours=1, seconds=1))) == 1


@pytest.mark.parametrize("name", ["ask", "test", "code"])
def test_a_kind_is_registered_once_and_never_under_our_own_names(mentions, name):
    with pytest.raises(ValueError, match=name):
        subjects.register(Mentions(name=name))
