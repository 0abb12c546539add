"""The queue's promises where they break easily: a lease lost and won back, crossing locks, floods, signs of life."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone
from pydantic import ValidationError

from awmclient.schema import AskOpen, EpisodeStart, RunStart
from episodes.models import Episode
from episodes.record import recording
from experts.errors import LeaseLost, TooLate, TooManyAsks
from experts.models import Advice, Ask, Assignment
from experts.record import advising, closing, desk, opening, queue
from experts.who import arriving
from tests.locks import somebody_waits_for_a_lock
from tests.people_by_name import token

pytestmark = pytest.mark.attack("tokens and doors")


@pytest.fixture
def episode(ada):
    return recording.start_episode(ada, EpisodeStart(key="one", task="merge the tickets", expert="plain"))[0]


def wanted(episode, seq=1, **more):
    return AskOpen(**{"key": f"q{seq}", "episode": episode.pk, "seq": seq, "question": "Into which one?", **more})


@pytest.fixture
def ask(ada, episode):
    return opening.open_ask(ada, wanted(episode))[0]


def lapse(ask):
    Assignment.objects.filter(ask=ask).update(lease_until=timezone.now() - timedelta(seconds=1))


def test_text_saved_without_lease_counts_after_reclaim(ada, edo, ask):
    first = queue.claim(edo, ask.pk)
    lapse(ask)
    other = queue.claim(ada, ask.pk)
    for _ in range(2):
        with pytest.raises(LeaseLost):
            advising.answer(edo, first.assignment_id, first.lease_token, "Into the oldest.", "n1")
    queue.release(ada, other.assignment_id, other.lease_token)
    again = queue.claim(edo, ask.pk)
    sent = advising.answer(edo, again.assignment_id, again.lease_token, "Into the oldest.", "n1")
    assert sent.late is False and Ask.objects.get(pk=ask.pk).status == "answered"
    repeat = advising.answer(edo, again.assignment_id, again.lease_token, "Into the oldest.", "n1")
    assert repeat.pk == sent.pk and Advice.objects.filter(ask=ask).count() == 2


def test_a_lease_is_not_renewed_past_the_deadline(edo, ask):
    lease = queue.claim(edo, ask.pk)
    Ask.objects.filter(pk=ask.pk).update(deadline_at=timezone.now() - timedelta(seconds=1))
    with pytest.raises(TooLate):
        queue.renew(edo, lease.assignment_id, lease.lease_token)


def test_one_episode_cannot_flood_the_queue(ada, episode):
    for seq in range(1, opening.OPEN_MAX + 1):
        opening.open_ask(ada, wanted(episode, seq))
    with pytest.raises(TooManyAsks):
        opening.open_ask(ada, wanted(episode, opening.OPEN_MAX + 1))
    assert opening.open_ask(ada, wanted(episode, 1))[1] is False
    assert Episode.objects.get(pk=episode.pk).last_seq == opening.OPEN_MAX


@pytest.mark.parametrize("field", [{"question": " \n"}, {"question": "x" * 20_001}, {"context": "x" * 100_001}])
def test_question_and_context_have_bounds(episode, field):
    with pytest.raises(ValidationError):
        wanted(episode, **field)


def test_repeated_ask_and_consumption_count_as_heartbeats(project, edo):
    agent, _ = token(project, "agent")
    episode, _ = recording.start_episode(agent, EpisodeStart(key="one", task="t", expert="plain"))
    ask, _ = opening.open_ask(agent, wanted(episode))
    lease = queue.claim(edo, ask.pk)
    advising.answer(edo, lease.assignment_id, lease.lease_token, "Yes.", "n1")
    for call in (lambda: opening.open_ask(agent, wanted(episode)), lambda: closing.consume(agent, ask.pk)):
        Episode.objects.filter(pk=episode.pk).update(heartbeat_at=timezone.now() - timedelta(hours=1))
        call()
        assert timezone.now() - Episode.objects.get(pk=episode.pk).heartbeat_at < timedelta(minutes=1)


@pytest.mark.django_db(transaction=True)
def test_concurrent_claim_and_answer_do_not_deadlock(ada, edo, monkeypatch):
    """Ada takes Edo's lapsed lease while he sends: whoever is first is first, and neither hears of a deadlock."""
    episode, _ = recording.start_episode(ada, EpisodeStart(key="race", task="race", expert="plain"))
    ask, _ = opening.open_ask(ada, wanted(episode))
    lease = queue.claim(edo, ask.pk)
    lapse(ask)
    claimed, log, results = threading.Event(), closing.log, {}

    def slow_log(noted, verb, *rest):
        if verb == "claimed":
            claimed.set()
            for _ in range(300):  # until the answer stands in front of a lock that this claim holds
                if somebody_waits_for_a_lock():
                    break
                threading.Event().wait(0.01)
        log(noted, verb, *rest)

    def run(name, call):
        try:
            results[name] = call()
        except Exception as error:
            results[name] = error
        finally:
            connection.close()

    monkeypatch.setattr(closing, "log", slow_log)
    taking = threading.Thread(target=run, args=("claim", lambda: queue.claim(ada, ask.pk)))
    sending = threading.Thread(
        target=run,
        args=("answer", lambda: advising.answer(edo, lease.assignment_id, lease.lease_token, "Now.", "n1")),
    )
    taking.start()
    assert claimed.wait(10)
    sending.start()
    for thread in (taking, sending):
        thread.join(20)
    assert isinstance(results["claim"], queue.AskClaim), results
    assert isinstance(results["answer"], LeaseLost), results


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("by", ["task", "group_key", "budget"])
def test_concurrent_asks_see_each_other(ada, monkeypatch, by):
    """Three agents of one run ask at the same moment: their groups and their budget are counted one by one."""
    run, _ = recording.start_run(ada, RunStart(name="grpo"))
    if by == "budget":
        desk.set_policy(ada, per_hour=1)
    look, inside, asked = arriving.arrival, [], []

    def slow_look(*given, **named):
        found = look(*given, **named)
        inside.append(found)
        for _ in range(1000):  # until the others stand in front of a lock, or in here, too
            if len(inside) == 3 or somebody_waits_for_a_lock():
                break
            threading.Event().wait(0.01)
        return found

    def ask_in(episode, group_key):
        try:
            asked.append(opening.open_ask(ada, wanted(episode, group_key=group_key))[0])
        finally:
            connection.close()

    monkeypatch.setattr(arriving, "arrival", slow_look)
    threads = []
    for n in range(3):
        task = "merge" if by == "task" else f"merge {n}"
        plan = EpisodeStart(key=f"g{n}", task=task, expert="plain", run=run.pk)
        group_key = "g" if by == "group_key" else None
        threads.append(threading.Thread(target=ask_in, args=(recording.start_episode(ada, plan)[0], group_key)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len({one.group for one in asked}) == (3 if by == "budget" else 1)
    assert sorted(one.status for one in asked) == (["fell_back"] * 2 + ["open"] if by == "budget" else ["open"] * 3)
