"""A thread that ended an episode plays the next of its run: for some seconds, and never past what others wait for."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from celery.worker import state as worker
from django.db import DatabaseError, connection, transaction

from episodes.models import Episode
from episodes.record import ending
from runs.errors import UnknownPolicy
from runs.launch import feeding, launching, relay
from runs.models import Plan, PlannedTry
from runs.plan import limits
from runs.play import playing
from tests.awmenv.conftest import OpenFolders, start_server
from tests.awmenv.hostile_packs import pack
from tests.runs.planned import end, launched


@pytest.fixture
def calls(monkeypatch):
    """The episodes that workers are called for by way of the broker."""
    called = []
    for module in (launching, relay):
        monkeypatch.setattr(module, "wake_worker", lambda pk, delay_s=0: called.append(pk))
    return called


def chain(first, wanted):
    """Play `first` in a relay that is offered `wanted` one after the other; return what it played."""
    played, one = [], relay.Relay()

    def play(pk):
        played.append(pk)
        for other in wanted.pop(0) if wanted else []:
            if not one.take(other):
                relay.wake_worker(other)

    one.play(first, play)
    return played


def test_thread_plays_one_and_workers_are_called_for_others(calls):
    assert chain("a", [["b", "c"], ["d"]]) == ["a", "b", "d"]
    assert calls == ["c"]


def test_thread_takes_no_next_after_its_time(calls, monkeypatch):
    monkeypatch.setattr(relay, "HOLDS_S", 0.0)
    assert chain("a", [["b"]]) == ["a"] and calls == ["b"]


def test_worker_that_ends_takes_no_next(calls, monkeypatch):
    monkeypatch.setattr(worker, "should_stop", 0)
    assert chain("a", [["b"]]) == ["a"] and calls == ["b"]


def test_nothing_is_taken_outside_a_play(calls):
    assert not relay.Relay().take("a")


def test_what_was_taken_is_called_for_when_all_takes_long(calls):
    played, one = [], relay.Relay()

    def play(pk):
        played.append(pk)
        assert one.take("b")
        one.pass_on()

    one.play("a", play)
    assert played == ["a"] and calls == ["b"]


@pytest.mark.parametrize(("breaking", "again"), [("a", ["b"]), ("b", ["b"])])
def test_a_play_that_breaks_loses_no_episode(calls, breaking, again):
    """The first is tried again by its own call; a later one has none."""
    one = relay.Relay()

    def play(pk):
        assert pk == breaking or one.take("b")
        if pk == breaking:
            if pk == "a":
                assert one.take("b")
            raise DatabaseError("away")

    with pytest.raises(DatabaseError):
        one.play("a", play)
    assert calls == again


@pytest.mark.django_db(transaction=True)
def test_end_hands_the_next_of_the_run_to_its_thread(ada, calls):
    plan, played = launched(ada, parallel=1), []

    def play(pk):
        played.append(pk)
        end(pk)

    relay.thread.play(calls.pop(), play)
    plan.refresh_from_db()
    assert plan.state == "finished" and calls == [] and len(played) == plan.tries.count() == len(set(played))


@pytest.mark.django_db(transaction=True)
def test_end_calls_a_worker_while_another_run_waits_for_threads(ada, calls):
    mine, other = launched(ada, parallel=1), launched(ada, parallel=1, name="other")
    first = Episode.objects.get(planned__plan=mine, planned__called_at__isnull=False).pk
    assert first in calls and len(calls) == 2
    played = []

    def play(pk):
        played.append(pk)
        end(pk)

    relay.thread.play(first, play)
    assert played == [first] and len(calls) == 3
    assert feeding.feed(other.pk) == 0


@pytest.mark.django_db(transaction=True)
def test_only_the_thread_that_plays_takes_the_next_uncounted(ada, calls, monkeypatch):
    plan, counted = launched(ada, tasks={"limit": 2}, arms=[{"name": "alone"}], seeds=2, parallel=1), []
    loads = limits.loads
    monkeypatch.setattr(limits, "loads", lambda: [counted.append(1), loads()][1])
    waiting = Episode.objects.filter(planned__plan=plan, planned__called_at=None).values_list("pk", flat=True)
    ending.cancel(ada, waiting[0], "not this one")
    assert len(counted) == 1 and len(calls) == 1 and plan.tries.filter(called_at=None).count() == 3

    def play(pk):
        counted.clear()
        end(pk)
        # the last one counts at its end, and after its outcome
        assert len(counted) == (0 if relay.thread._next else 2)

    relay.thread.play(calls.pop(), play)
    plan.refresh_from_db()
    assert plan.state == "finished" and calls == []


@pytest.mark.django_db(transaction=True)
def test_end_and_a_look_at_the_run_call_for_different_tries(ada, calls):
    """The look comes while the end is not committed: it still counts the episode that ends, and takes the others."""
    plan = launched(ada, tasks={"limit": 2}, arms=[{"name": "alone"}], seeds=2, parallel=1)
    first = calls.pop()
    Plan.objects.update(parallel=3)

    def look():
        try:
            return feeding.feed(plan.pk)
        finally:
            connection.close()

    def play(pk):
        if pk == first:
            with transaction.atomic(), ThreadPoolExecutor(1) as beside:
                end(pk)
                assert beside.submit(look).result(30) == 2 and len(set(calls)) == 2

    relay.thread.play(first, play)
    called = plan.tries.filter(called_at__isnull=False).values_list("episode_id", flat=True)
    assert len(called) == 4 and first not in calls


SCRIPT = [{"call": {"name": "add_row", "arguments": {}}}, {"answer": "done"}]


@pytest.fixture
def served(settings, tmp_path):
    """A real environment server with one task."""
    settings.VAR, folders = tmp_path, OpenFolders()
    folder = pack(tmp_path / "packs" / "mine")
    (folder / "scripts.jsonl").write_text(
        json.dumps({"scenario": "open_1", "task_idx": 0, "scripts": {"oracle": SCRIPT}}) + "\n"
    )
    server = start_server(folders.mktemp("run"), folder, own_zygotes=False)
    settings.AWMENV_URL = server.url
    yield
    server.stop()
    folders.remove()


@pytest.mark.django_db(transaction=True)
def test_one_call_plays_a_run_of_short_episodes(ada, served, calls):
    plan = launched(ada, tasks=["open_1/0"], arms=[{"name": "alone"}], seeds=3, parallel=1)
    playing.play(calls.pop(), "w")
    assert calls == [] and [one.state for one in Episode.objects.all()] == ["finished"] * 3
    plan.refresh_from_db()
    assert plan.state == "finished" and not PlannedTry.objects.filter(begun_at=None).exists()


@pytest.mark.parametrize("fault", ["worker", "environment"])
@pytest.mark.django_db(transaction=True)
def test_a_call_that_only_fails_is_taken_all_the_same(ada, calls, settings, monkeypatch, fault):
    """Else every later look at what runs next would read it again."""
    launched(ada, tasks={"limit": 1}, arms=[{"name": "alone"}])

    def refuse(episode):
        raise UnknownPolicy

    if fault == "worker":
        monkeypatch.setattr(playing, "policy_of", refuse)
    else:
        Episode.objects.update(environment="gone")
    playing.play(calls.pop(), "w")
    assert Episode.objects.get().fault == fault and limits.loads() == {}
    assert not PlannedTry.objects.filter(begun_at=None).exists()
