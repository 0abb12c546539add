"""Appending, ending and losing episodes."""

from __future__ import annotations

import threading
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone
from pydantic import ValidationError

from awmclient.record.observations import result_of
from awmclient.schema import EpisodeStart, Finish, Outcome, StepBatch
from episodes.errors import EpisodeEnded, SeqGap, StepConflict
from episodes.models import Episode, Step
from episodes.record import ending, recording
from episodes.visible import trajectory
from people.access import bearer
from people.errors import Invalid, KeyConflict, NotFound, WrongScope
from people.record.members import issue_token
from tests.reading import steps_read_by


def steps(*bodies):
    return StepBatch.model_validate({"steps": [{"kind": "note", **body} for body in bodies]}).steps


def note(seq, content="looked around"):
    return {"seq": seq, "content": content}


@pytest.fixture
def episode(ada):
    return recording.start_episode(ada, EpisodeStart(key="one", task="close the ticket", expert="plain"))[0]


def test_steps_round_trip_with_nul_and_lone_surrogates(ada, episode):
    odd = "null \x00, half a pair \ud800, emoji \U0001f600"
    body = {"seq": 1, "kind": "tool_call", "name": "x", "arguments": {odd: [1, 1.0, None]}, "result": odd}
    recording.append_steps(ada, episode.pk, steps(body))
    (stored,) = steps_read_by(ada, episode.pk)
    assert stored["arguments"] == {odd: [1, 1.0, None]} and stored["result"] == odd
    assert isinstance(stored["arguments"][odd][1], float)


@pytest.mark.parametrize(
    ("diff", "problem"),
    [
        ({"orders": [{"id": 1}]}, "orders: expected an object with `added`, `changed`, `removed` or `more`, not a"),
        ({"orders": {"updated": [{"id": 1}]}}, "orders.updated: expected `added`"),
        ({"orders": {"added": {"id": 1}}}, "orders.added: expected a list of objects"),
        ({"orders": {"removed": [1]}}, "orders.removed: expected a list of objects"),
        ({"orders": {"more": "2"}}, "orders.more: expected a count"),
    ],
)
def test_state_diff_of_another_shape_is_refused_by_place(ada, episode, diff, problem):
    """It would be drawn as a call that only reads."""
    call = {"seq": 1, "kind": "tool_call", "name": "x", "arguments": {}, "result": 1}
    header = {"HTTP_AUTHORIZATION": f"Bearer {issue_token(ada, 'loop', 'agent')[1]}"}
    body = {"data": {"steps": [{**call, "state_diff": diff}]}, "content_type": "application/json"}
    answer = Client().post(f"/api/v1/episodes/{episode.pk}/steps", **body, **header)
    assert answer.status_code == 422 and problem in answer.json()["error"]["message"], answer.content
    assert "state_diff" in answer.json()["error"]["message"]
    env = SimpleNamespace(tool_result=1, error=None, reward_type=None, state_diff=diff)
    assert "state_diff" not in result_of(env), "what another server reports costs no episode"
    whole = {"orders": {"added": [{"id": 1}], "changed": [{"key": 1, "before": {}, "after": {}}], "more": 3}}
    recording.append_steps(ada, episode.pk, steps({**call, "state_diff": whole}))
    episode.refresh_from_db()
    assert episode.strip == "w"


def test_the_same_batch_again_is_a_quiet_yes(ada, episode):
    batch = steps(note(1), note(2))
    assert recording.append_steps(ada, episode.pk, batch) == 2
    assert recording.append_steps(ada, episode.pk, batch) == 2
    assert Step.objects.filter(episode=episode).count() == 2


def test_a_batch_that_overlaps_what_stands_adds_only_the_rest(ada, episode):
    recording.append_steps(ada, episode.pk, steps(note(1), note(2)))
    assert recording.append_steps(ada, episode.pk, steps(note(2), note(3))) == 3


def test_a_batch_without_steps_is_refused_and_moves_nothing(ada, episode):
    recording.append_steps(ada, episode.pk, steps(note(1)))
    with pytest.raises(Invalid):
        recording.append_steps(ada, episode.pk, [])
    assert Episode.objects.get(pk=episode.pk).last_seq == 1


def test_conflicting_step_number_rejects_the_whole_batch(ada, episode):
    recording.append_steps(ada, episode.pk, steps(note(1)))
    with pytest.raises(StepConflict):
        recording.append_steps(ada, episode.pk, steps(note(1, "something else"), note(2)))
    assert Step.objects.filter(episode=episode).count() == 1


@pytest.mark.parametrize("numbers", [(2,), (1, 3), (1, 1), (2, 1)])
def test_a_gap_is_refused_whole(ada, episode, numbers):
    with pytest.raises(SeqGap):
        recording.append_steps(ada, episode.pk, steps(*[note(n) for n in numbers]))
    assert not Step.objects.filter(episode=episode).exists()


def test_step_after_the_end_is_refused_unless_a_repeat(ada, episode):
    recording.append_steps(ada, episode.pk, steps(note(1)))
    ending.finish(ada, episode.pk, Finish(stop_reason="done"))
    assert recording.append_steps(ada, episode.pk, steps(note(1))) == 1
    with pytest.raises(EpisodeEnded):
        recording.append_steps(ada, episode.pk, steps(note(2)))


def test_repeated_finish_is_idempotent_and_another_is_refused(ada, episode):
    ending.finish(ada, episode.pk, Finish(stop_reason="done", final_answer="7"))
    ending.finish(ada, episode.pk, Finish(stop_reason="done", final_answer="7"))
    with pytest.raises(EpisodeEnded):
        ending.finish(ada, episode.pk, Finish(stop_reason="gave_up"))


def test_the_same_end_with_another_reported_outcome_is_refused(ada, episode):
    mine = {"reward_type": "mine", "reward": 1, "details": {"why": "\x00"}}
    ending.finish(ada, episode.pk, Finish(stop_reason="done", outcome=mine))
    ending.finish(ada, episode.pk, Finish(stop_reason="done", outcome=mine))
    for other in ({**mine, "reward": 0}, None):
        with pytest.raises(EpisodeEnded):
            ending.finish(ada, episode.pk, Finish(stop_reason="done", outcome=other))


def test_append_of_one_episode_is_planned_once(ada, episode):
    """Planning it takes PostgreSQL twice as long as doing it."""
    for number in range(1, 16):
        recording.append_steps(ada, episode.pk, steps(note(number)))
    with connection.cursor() as cursor:
        cursor.execute("SELECT generic_plans > 0 FROM pg_prepared_statements WHERE statement LIKE '%string_to_table%'")
        assert cursor.fetchall() == [(True,)]


def test_the_verifiers_word_repeated_is_one_outcome_and_one_step(ada, episode):
    ending.finish(ada, episode.pk, Finish(stop_reason="done"))
    first = ending.record_outcome(ada, episode.pk, Outcome(reward_type="complete", reward=1.0))
    again = ending.record_outcome(ada, episode.pk, Outcome(reward_type="complete", reward=1.0))
    assert (first, again, episode.outcomes.count()) == (True, False, 1)
    assert len(trajectory.steps_of(episode)) == 1


def test_a_stranger_finds_no_episode(max_, episode):
    with pytest.raises(NotFound):
        recording.append_steps(max_, episode.pk, steps(note(1)))
    with pytest.raises(NotFound):
        steps_read_by(max_, episode.pk)


def test_an_expert_token_may_not_record(project, ada, episode):
    token, _ = issue_token(ada, "desk", "expert")
    with pytest.raises(WrongScope):
        recording.append_steps(bearer(token), episode.pk, steps(note(1)))


def test_episode_key_with_another_body_is_a_conflict(ada, episode):
    again, made = recording.start_episode(ada, EpisodeStart(key="one", task="close the ticket", expert="plain"))
    assert (again.pk, made) == (episode.pk, False)
    with pytest.raises(KeyConflict):
        recording.start_episode(ada, EpisodeStart(key="one", task="close another ticket"))


def test_two_projects_may_use_the_same_key(ada, max_, episode):
    other, made = recording.start_episode(max_, EpisodeStart(key="one", task="theirs"))
    assert made and other.pk != episode.pk


def test_silent_loop_is_lost_and_reopens_when_it_reports(ada, episode, settings):
    later = timezone.now() + timedelta(seconds=settings.AWMWEB_HEARTBEAT_S + 1)
    assert ending.lose_silent(later) == 1
    episode.refresh_from_db()
    assert (episode.state, episode.fault) == ("failed", "worker")
    recording.append_steps(ada, episode.pk, steps(note(1)))
    episode.refresh_from_db()
    assert (episode.state, episode.fault, episode.ended_at) == ("running", "", None)
    assert [event.verb for event in episode.events.order_by("pk")] == ["started", "failed", "reopened"]


def test_lost_episode_that_was_cancelled_is_not_reopened(ada, episode, settings):
    ending.lose_silent(timezone.now() + timedelta(seconds=settings.AWMWEB_HEARTBEAT_S + 1))
    for _ in range(2):
        ending.cancel(ada, episode.pk, "enough")
    with pytest.raises(EpisodeEnded):
        recording.append_steps(ada, episode.pk, steps(note(1)))
    episode.refresh_from_db()
    assert (episode.state, episode.fault, episode.last_seq) == ("failed", "worker", 0)
    assert [event.verb for event in episode.events.order_by("pk")] == ["started", "failed", "closed"]


def test_an_episode_that_really_failed_is_not_reopened(ada, episode):
    ending.fail(ada, episode.pk, "environment", "the server is gone")
    with pytest.raises(EpisodeEnded):
        recording.append_steps(ada, episode.pk, steps(note(1)))


def test_a_stored_step_cannot_be_saved_again(ada, episode):
    recording.append_steps(ada, episode.pk, steps(note(1)))
    row = Step.objects.get(episode=episode)
    row.body = "{}"
    with pytest.raises(TypeError):
        row.save()


def test_the_outcome_comes_once_and_agents_never_read_its_step(project, ada, episode):
    recording.append_steps(ada, episode.pk, steps(note(1)))
    ending.finish(ada, episode.pk, Finish(stop_reason="done"))
    ending.record_outcome(ada, episode.pk, Outcome(reward_type="complete", reward=1.0))
    token, _ = issue_token(ada, "loop", "agent")
    assert [step["kind"] for step in steps_read_by(ada, episode.pk)] == ["note", "verification"]
    assert [step["kind"] for step in steps_read_by(bearer(token), episode.pk)] == ["note"]
    assert "complete" not in trajectory.view_of(Episode.objects.get(pk=episode.pk)).model_dump_json()


@pytest.mark.django_db(transaction=True)
def test_two_writers_of_the_same_number_leave_one_step(project, ada):
    episode, _ = recording.start_episode(ada, EpisodeStart(key="race", task="race"))
    results = []

    def write(content):
        try:
            results.append(recording.append_steps(ada, episode.pk, steps(note(1, content))))
        except StepConflict:
            results.append("conflict")
        finally:
            connection.close()

    writers = [threading.Thread(target=write, args=(word,)) for word in ("a", "b", "c", "d")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(map(str, results)) == ["1", "conflict", "conflict", "conflict"]
    assert Step.objects.filter(episode=episode).count() == 1


def test_finish_stores_the_fault_that_its_loop_names(ada, episode):
    end = Finish(stop_reason="error", fault="environment", detail="lost\x00 \ud800" + "x" * 3000)
    for _ in range(2):
        ending.finish(ada, episode.pk, end)
    found = Episode.objects.get(pk=episode.pk)
    assert (found.state, found.stop_reason, found.fault) == ("failed", "error", "environment")
    assert found.fault_detail == "lost ?" + "x" * 3000
    last = found.events.order_by("pk").last()
    assert (last.verb, last.reason[:20]) == ("failed", "environment: lost ?x")
    assert trajectory.view_of(found).fault == "environment"
    for other in ({}, {"fault": "policy"}, {"fault": "environment", "detail": "other"}):
        with pytest.raises(EpisodeEnded):
            ending.finish(ada, episode.pk, Finish(stop_reason="error", **other))


def test_finish_without_a_fault_fails_with_none(ada, episode):
    for _ in range(2):
        ending.finish(ada, episode.pk, Finish(stop_reason="error"))
    found = Episode.objects.get(pk=episode.pk)
    assert (found.state, found.fault, found.fault_detail) == ("failed", "", "")
    assert found.events.order_by("pk").last().reason == "error"


@pytest.mark.parametrize(
    "wrong",
    [
        {"stop_reason": "done", "fault": "environment"},
        {"stop_reason": "error", "detail": "lost"},
        {"stop_reason": "error", "fault": "environment", "detail": "x" * 4001},
        *({"stop_reason": "error", "fault": fault} for fault in ("worker", "dashboard", "agent")),
    ],
)
def test_finish_takes_only_faults_a_loop_can_name(wrong):
    with pytest.raises(ValidationError):
        Finish.model_validate(wrong)
