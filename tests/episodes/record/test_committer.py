"""Many appends in one transaction: the rules of one append hold for each, and no batch pays for its neighbour."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest
from django.db import OperationalError, connection, transaction
from django.utils import timezone

from awmclient.schema import EpisodeStart, Finish, StepBatch
from episodes.errors import EpisodeEnded, SeqGap, StepConflict
from episodes.models import Episode, Step
from episodes.record import committer, ending, recording
from episodes.record.appending import Held, append_together
from episodes.record.committer import AppendRequest, Committer, commit
from episodes.stored.entries import entries_of, entries_of_batch
from people.access import bearer
from people.errors import Busy, NotFound, Unauthenticated, WrongScope
from people.models import ApiToken
from people.record.members import issue_token

WAIT_S = 10


def entries(*numbers, word="looked around"):
    return entries_of(
        StepBatch.model_validate({"steps": [{"seq": n, "kind": "note", "content": word} for n in numbers]}).steps
    )


@pytest.fixture
def loop():
    one = asyncio.new_event_loop()
    yield one
    one.close()


@pytest.fixture
def start(ada):
    return lambda key: recording.start_episode(ada, EpisodeStart(key=key, task="t"))[0].pk


@pytest.fixture
def append(ada, loop):
    def make(episode, *numbers, actor=ada, word="looked around"):
        return AppendRequest(actor, episode, entries(*numbers, word=word), loop, loop.create_future(), 100)

    return make


def kinds(outcomes):
    return [one if isinstance(one, int) else type(one) for one in outcomes]


def numbers(episode):
    return list(Step.objects.filter(episode=episode).order_by("seq").values_list("seq", flat=True))


def test_grouped_batches_are_stored_in_one_commit(start, append):
    one, two = start("one"), start("two")
    assert commit([append(one, 1, 2), append(two, 1), append(one, 3)]) == [2, 1, 3]
    assert (numbers(one), numbers(two)) == ([1, 2, 3], [1])
    stored = Episode.objects.get(pk=one)
    assert (stored.last_seq, stored.strip) == (3, "ttt")


def test_a_bad_batch_fails_alone(start, append, max_):
    one, two = start("one"), start("two")
    group = [
        append(one, 1),
        append(two, 2),
        append("nothing", 1),
        append("\x00", 1),
        append(two, 1, actor=max_),
        append(one, 1, word="another"),
        append(two, 1),
        append(one, 2),
    ]
    assert kinds(commit(group)) == [1, SeqGap, NotFound, NotFound, NotFound, StepConflict, 1, 2]
    assert (numbers(one), numbers(two)) == ([1, 2], [1])


def test_repeated_batch_is_idempotent(start, append):
    one = start("one")
    assert commit([append(one, 1, 2), append(one, 1, 2), append(one, 2, 3)]) == [2, 2, 3]
    assert commit([append(one, 1, 2, 3)]) == [3]
    assert numbers(one) == [1, 2, 3]


def test_a_repeat_of_old_steps_moves_nothing_back(start, append):
    one = start("one")
    commit([append(one, 1, 2, 3)])
    assert commit([append(one, 1)]) == [1]
    assert commit([append(one, 2), append(one, 4)]) == [2, 4]
    assert Episode.objects.get(pk=one).last_seq == 4


def test_an_ended_episode_takes_repeats_and_nothing_new(start, append, ada):
    one = start("one")
    commit([append(one, 1)])
    ending.finish(ada, one, Finish(stop_reason="done"))
    assert kinds(commit([append(one, 1), append(one, 2)])) == [1, EpisodeEnded]
    assert numbers(one) == [1]


def test_token_revoked_while_batch_waits_writes_nothing(project, ada, start, append):
    one, two = start("one"), start("two")
    revoked, _ = issue_token(ada, "mine", "agent")
    over, _ = issue_token(ada, "short", "agent", timezone.now() + timedelta(days=1))
    reader, _ = issue_token(ada, "reads", "export")
    ApiToken.objects.filter(pk=revoked.pk).update(revoked_at=timezone.now())
    ApiToken.objects.filter(pk=over.pk).update(ends_at=timezone.now())
    group = [append(one, 1, actor=bearer(token)) for token in (revoked, over, reader)] + [append(two, 1)]
    assert kinds(commit(group)) == [Unauthenticated, Unauthenticated, WrongScope, 1]
    assert (numbers(one), numbers(two)) == ([], [1])


def test_lost_episode_continues_in_batch_order(start, append, settings):
    one, two = start("one"), start("two")
    ending.lose_silent(timezone.now() + timedelta(seconds=settings.AWMWEB_HEARTBEAT_S + 1))
    assert commit([append(one, 1), append(one, 2)]) == [1, 2]
    assert Episode.objects.get(pk=one).state == "running"
    assert Episode.objects.get(pk=two).state == "failed"


def test_a_queued_episode_begins_with_its_first_step(ada, append):
    episode, _ = recording.start_episode(ada, EpisodeStart(key="queued", task="t"), state="queued")
    commit([append(episode.pk, 1)])
    stored = Episode.objects.get(pk=episode.pk)
    assert stored.state == "running" and stored.started_at is not None


def test_a_sign_of_life_is_noted_at_the_latest_a_second_late(start, append):
    one = start("one")
    Episode.objects.filter(pk=one).update(heartbeat_at=timezone.now() - timedelta(seconds=30))
    commit([append(one, 1)])
    assert timezone.now() - Episode.objects.get(pk=one).heartbeat_at < timedelta(seconds=5)


def test_every_kind_of_step_is_stored_as_recording_stores_it(ada, start, append, loop):
    odd = "null \x00, half a pair \ud800, tab \t, line \n, back \\N \\ slash"
    batch = {
        "steps": [
            {"seq": 1, "kind": "tool_call", "name": "x", "arguments": {odd: [1, 1.0, None]}, "result": odd, "turn": 1},
            {"seq": 2, "kind": "action", "action": {"a": odd}, "observation": None, "reward": 1.5, "done": True},
            {"seq": 3, "kind": "message", "role": "user", "content": odd, "at": "2026-11-21T10:00:00+02:00"},
            {"seq": 4, "kind": "note", "content": "", "at": "2026-11-21T10:00:00", "meta": {"at": odd}},
            {"seq": 5, "kind": "note", "content": "", "meta": {"logprobs": [1e-7, -0.0, 1e22], "whole": 2**70}},
            {"seq": 6, "kind": "nudge", "content": "x" * 50_000, "at": None, "state_diff": {"t": {"added": [{}]}}},
        ]
    }
    steps = StepBatch.model_validate(batch).steps
    one, two = start("one"), start("two")
    recording.append_steps(ada, one, steps)
    fast = entries_of_batch(batch["steps"], steps)
    assert commit([AppendRequest(ada, two, fast, loop, loop.create_future(), 100)]) == [6]
    rows = [list(Step.objects.filter(episode=pk).values_list("seq", "kind", "body", "cut")) for pk in (one, two)]
    assert rows[0] == rows[1]
    times = [dict(Step.objects.filter(episode=pk, seq__in=(3, 4)).values_list("seq", "at")) for pk in (one, two)]
    assert times[0] == times[1]
    assert Episode.objects.get(pk=one).strip == Episode.objects.get(pk=two).strip == "uutttt"


def test_absent_database_fails_all_writes_and_loses_nothing(start, append, monkeypatch):
    one = start("one")

    def away(group):
        raise OperationalError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(committer, "append_together", away)
        assert kinds(commit([append(one, 1), append(one, 2)])) == [OperationalError, OperationalError]
    assert commit([append(one, 1), append(one, 2)]) == [1, 2]


@pytest.mark.django_db(transaction=True)
def test_a_batch_that_breaks_the_transaction_breaks_only_its_own(project, ada, start, append):
    one, two = start("one"), start("two")
    bad = append(two, 1)
    bad.entries[0].kind = "no such kind"
    outcomes = commit([append(one, 1), bad, append(one, 2)])
    assert (outcomes[0], outcomes[2]) == (1, 2) and isinstance(outcomes[1], Exception)
    assert (numbers(one), numbers(two)) == ([1, 2], [])


def test_a_full_queue_is_refused_at_once(start, ada, monkeypatch):
    one = start("one")
    monkeypatch.setattr(committer, "WAITING_APPENDS", 2)
    full = Committer()
    monkeypatch.setattr(full, "_start", lambda: None)

    async def fill():
        for number in (1, 2):
            full.submit(ada, one, entries(number))
        with pytest.raises(Busy):
            full.submit(ada, one, entries(3))

    asyncio.run(fill())


@pytest.mark.django_db(transaction=True)
def test_locked_episode_does_not_block_other_episodes(project, ada, start, append):
    held, free = start("held"), start("free")
    locked, done = threading.Event(), threading.Event()

    def hold():
        with transaction.atomic():
            Episode.objects.select_for_update().get(pk=held)
            locked.set()
            done.wait(WAIT_S)
        connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    assert locked.wait(WAIT_S)
    outcomes = commit([append(held, 1), append(free, 1)])
    done.set()
    holder.join()
    assert kinds(outcomes) == [Held, 1]
    assert commit([append(held, 1)]) == [1]


@pytest.mark.django_db(transaction=True)
def test_concurrent_writes_are_answered_after_the_commit(project, ada, start):
    episodes = [start(f"e{number}") for number in range(8)]
    one = Committer()

    async def load():
        async def write(episode):
            return [await one.submit(ada, episode, entries(number)) for number in range(1, 21)]

        return await asyncio.wait_for(asyncio.gather(*map(write, episodes)), WAIT_S * 3)

    assert asyncio.run(load()) == [list(range(1, 21))] * 8
    assert [numbers(episode) for episode in episodes] == [list(range(1, 21))] * 8


@pytest.mark.django_db(transaction=True)
def test_concurrent_appends_and_answers_do_not_deadlock(project, ada, start):
    """An episode is locked first by everybody, so nobody waits in a circle."""
    episodes = [start(f"e{number}") for number in range(6)]
    one, stop, broken = Committer(), threading.Event(), []

    def others():
        try:
            while not stop.is_set():
                for episode in reversed(episodes):
                    recording.heartbeat(ada, episode)
        except Exception as error:
            broken.append(error)
        finally:
            connection.close()

    async def load():
        async def write(episode):
            return [await one.submit(ada, episode, entries(number)) for number in range(1, 31)]

        return await asyncio.wait_for(asyncio.gather(*map(write, episodes)), WAIT_S * 3)

    other = threading.Thread(target=others)
    other.start()
    try:
        answers = asyncio.run(load())
    finally:
        stop.set()
        other.join()
    assert broken == [] and answers == [list(range(1, 31))] * 6


@pytest.mark.django_db(transaction=True)
def test_writer_survives_a_broken_connection(project, ada, start, monkeypatch):
    episode, one = start("one"), Committer()
    broke, really_close = threading.Event(), committer.close_old_connections

    def close():
        if not broke.is_set():
            broke.set()
            raise OperationalError("broken")
        really_close()

    monkeypatch.setattr(committer, "close_old_connections", close)

    async def write(number):
        return await asyncio.wait_for(one.submit(ada, episode, entries(number)), WAIT_S)

    assert asyncio.run(write(1)) == 1
    assert broke.wait(WAIT_S), "the writer keeps its connection after the answer"
    assert asyncio.run(write(2)) == 2


@pytest.mark.django_db(transaction=True)
def test_writer_reconnects_after_the_database_closes(project, ada, start, monkeypatch):
    episode, one = start("one"), Committer()
    monkeypatch.setattr(committer, "append_together", lambda group: [_end_session(), *append_together(group)][1:])

    async def write():
        return await asyncio.wait_for(one.submit(ada, episode, entries(1)), WAIT_S)

    with pytest.raises(OperationalError):
        asyncio.run(write())
    monkeypatch.undo()
    assert asyncio.run(write()) == 1


def _end_session():
    """What a restart of the database does to whoever is connected."""
    other = connection.copy()
    with connection.cursor() as mine, other.cursor() as cursor:
        mine.execute("SELECT pg_backend_pid()")
        cursor.execute("SELECT pg_terminate_backend(%s)", mine.fetchone())
    other.close()


@pytest.mark.django_db(transaction=True)
def test_two_web_processes_append_to_an_episode_in_order(project, ada, start, append):
    """Two processes hold what they believe to be the next step: one stands, the other hears that it is another one."""
    episode = start("one")
    first, second = append(episode, 1), append(episode, 1, word="looked elsewhere")
    answers = []
    threads = [threading.Thread(target=lambda one=one: answers.append(_committed(one))) for one in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert sorted(map(str, kinds(answers))) == ["1", str(StepConflict)] and numbers(episode) == [1]


def _committed(append):
    """As the writer does it: what is held comes again."""
    try:
        while isinstance(outcome := commit([append])[0], Held):
            pass
        return outcome
    finally:
        connection.close()


def test_step_keeps_argument_order_and_ignores_it_in_repeats(ada, start):
    one = start("one")

    def append(**arguments):
        step = {"seq": 1, "kind": "tool_call", "name": "x", "arguments": arguments}
        return recording.append_steps(ada, one, StepBatch.model_validate({"steps": [step]}).steps)

    assert append(status="draft", name=1) == append(name=1, status="draft") == 1
    assert '{"status":"draft","name":1}' in Step.objects.get(episode=one).body
    with pytest.raises(StepConflict):
        append(status="draft", name=2)
    with pytest.raises(StepConflict):
        append(status=True, name="aft")
