"""What other people's pages hear of a lease that goes on, and of asks beyond those that a frame names."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from types import SimpleNamespace

import pytest
from django.utils import timezone

from episodes import events
from experts.find import reading
from experts.models import Assignment
from experts.record import queue


@pytest.fixture
def heard(monkeypatch, django_capture_on_commit_callbacks):
    """Do something; which frames the queue heard of it."""

    def hear(act):
        lines = []
        monkeypatch.setattr(events, "tell", lines.extend)
        with django_capture_on_commit_callbacks(execute=True):
            act()
        parts = [line.split(" ", 3) for line in lines]
        return [json.loads(payload) for topic, _, _, payload in parts if topic.startswith("queue:")]

    return hear


def test_frequent_lease_renewals_are_announced_rarely_in_time(edo, asked, heard, monkeypatch):
    ask, clock = asked(), SimpleNamespace(at=timezone.now())
    monkeypatch.setattr(queue, "timezone", SimpleNamespace(now=lambda: clock.at))
    lease = queue.claim(edo, ask.pk)
    end, told = lease.lease_until, 0
    for _ in range(100):
        clock.at += timedelta(seconds=1)
        for frame in heard(lambda: queue.renew(edo, lease.assignment_id, lease.lease_token)):
            assert (frame["type"], frame["ask"]) == ("lease", ask.pk)
            end, told = datetime.fromisoformat(frame["lease_until"]), told + 1
        assert end - clock.at > timedelta(seconds=60)
    assert 4 <= told <= 6


def test_lease_ending_at_the_deadline_is_not_announced_again(edo, asked, heard):
    ask = asked(deadline_s=30)
    lease = queue.claim(edo, ask.pk)
    assert heard(lambda: queue.renew(edo, lease.assignment_id, lease.lease_token)) == []


def test_a_lapsed_lease_that_is_renewed_is_news_to_everybody(edo, asked, heard):
    ask = asked()
    lease = queue.claim(edo, ask.pk)
    Assignment.objects.filter(ask=ask).update(lease_until=timezone.now() - timedelta(seconds=1))
    (frame,) = heard(lambda: queue.renew(edo, lease.assignment_id, lease.lease_token))
    assert (frame["type"], frame["held_by"]) == ("ask", "edo") and frame["lease_until"]


def test_long_queue_counts_the_remaining_human_asks(ada, edo, asked, models, monkeypatch):
    asks = [asked(f"question {number}", task=f"task {number}") for number in range(5)]
    assert reading.more_to_take(ada, reading.open_asks(ada)) == 0
    monkeypatch.setattr(reading, "LISTED", 2)
    listed = reading.open_asks(ada)
    assert len(listed) == 2 and reading.more_to_take(ada, listed) == 3
    queue.claim(edo, asks[3].pk)
    queue.transfer(ada, asks[4].pk, "llm")
    assert reading.more_to_take(ada, reading.open_asks(ada)) == 1
