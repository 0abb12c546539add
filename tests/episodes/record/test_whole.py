"""Finished episodes in one piece."""

from __future__ import annotations

import pytest

from awmclient.schema import EpisodeStart, RunStart, WholeEpisode
from episodes.errors import SeqGap
from episodes.models import Episode, EpisodeEvent, Step, VerifierOutcome
from episodes.record import ending, recording
from episodes.record import whole as writing
from episodes.record.whole import record_whole
from people.access import bearer
from people.errors import KeyConflict, NotFound, WrongScope
from people.record.members import issue_token
from tests.reading import steps_read_by

AT = "2026-11-01T10:00:00Z"


def whole(key, *, contents=("looked", "left"), start=None, **finish):
    said = [{"seq": seq, "kind": "note", "content": text, "at": AT} for seq, text in enumerate(contents, 1)]
    episode = {"key": key, "task": "close the ticket", **(start or {})}
    return WholeEpisode.model_validate({"episode": episode, "steps": said, "finish": {"stop_reason": "done"} | finish})


def facts(episode):
    """Return what a record says, without when it was written and by which ids."""
    row = Episode.objects.get(pk=episode.pk)
    skipped = ("id", "key", "created_at", "started_at", "heartbeat_at", "ended_at", "body_digest")
    row_facts = {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}
    told = list(EpisodeEvent.objects.filter(episode=row).order_by("pk").values_list("verb", "actor", "reason"))
    judged = list(VerifierOutcome.objects.filter(episode=row).values_list("source", "reward_type", "reward", "details"))
    return {name: value for name, value in row_facts.items() if name not in skipped}, told, judged


@pytest.mark.parametrize(
    "finish",
    [
        {"final_answer": "closed", "outcome": {"reward_type": "match", "reward": 0.5, "details": {"a": 1}}},
        {"stop_reason": "error", "fault": "policy", "detail": "no \x00 answer"},
        {"stop_reason": "max_steps"},
    ],
)
def test_whole_episode_is_stored_as_live_calls_store_it(ada, finish):
    start = {"arm": "a", "policy": {"kind": "scripted"}, "training_step": 3, "expert": "plain"}
    one = whole("whole", start=start, **finish)
    (found,) = record_whole(ada, [one])
    live, _ = recording.start_episode(ada, EpisodeStart.model_validate({**one.episode.model_dump(), "key": "live"}))
    recording.append_steps(ada, live.pk, one.steps)
    ending.finish(ada, live.pk, one.finish)
    assert facts(found.episode) == facts(live)
    assert steps_read_by(ada, found.episode.pk) == steps_read_by(ada, live.pk)


def test_refused_episode_leaves_its_neighbors_recorded(ada):
    run, _ = recording.start_run(ada, RunStart(name="night"))
    gap = whole("gap")
    gap.steps[1].seq = 7
    given = [whole("a", start={"run": run.pk}), gap, whole("run", start={"run": "none"}), whole("b")]
    first, second, third, fourth = record_whole(ada, given)
    assert isinstance(second, SeqGap) and isinstance(third, NotFound)
    assert [first.episode.key, fourth.episode.key] == ["a", "b"] and first.episode.run == run
    assert set(Episode.objects.values_list("key", flat=True)) == {"a", "b"} and Step.objects.count() == 4


def test_same_batch_again_is_known_and_another_body_refused(ada):
    given = [whole("a"), whole("b")]
    record_whole(ada, given)
    again = record_whole(ada, [*given, whole("a", start={"arm": "other"}), whole("b", contents=("looked", "ran"))])
    assert [one.known for one in again[:2]] == [True, True]
    assert isinstance(again[2], KeyConflict) and again[3].code == "step_conflict"
    assert Step.objects.count() == 4


def test_key_that_comes_twice_in_a_batch_is_recorded_once(ada):
    first, second = record_whole(ada, [whole("a"), whole("a")])
    assert not first.known and second.known and first.episode.pk == second.episode.pk


def test_live_episode_that_lost_its_loop_is_completed_whole(ada):
    one = whole("a")
    live, _ = recording.start_episode(ada, one.episode)
    recording.append_steps(ada, live.pk, one.steps[:1])
    (found,) = record_whole(ada, [one])
    assert found.known and found.episode.pk == live.pk
    assert Episode.objects.get().state == "finished" and Step.objects.count() == 2


def test_agent_gets_no_informed_expert_by_a_whole_episode(ada):
    agent = bearer(issue_token(ada, "loop", "agent")[0])
    (refused,) = record_whole(agent, [whole("a", start={"expert": "informed"})])
    assert isinstance(refused, WrongScope) and not Episode.objects.exists()


def test_key_that_another_request_uses_meanwhile_fails_alone(ada, monkeypatch):
    sort_out = writing._sort_out

    def late(*given):
        new = sort_out(*given)
        recording.start_episode(ada, EpisodeStart(key="taken", task="another"))
        return new

    monkeypatch.setattr(writing, "_sort_out", late)
    refused, kept = record_whole(ada, [whole("taken"), whole("kept")])
    assert isinstance(refused, KeyConflict) and not kept.known
    assert Episode.objects.get(key="kept").state == "finished" and Step.objects.count() == 2


def test_api_answers_each_episode_in_its_place(ada, client):
    bearer_of = {"HTTP_AUTHORIZATION": f"Bearer {issue_token(ada, 'loop', 'agent')[1]}"}
    asks = {"seq": 1, "kind": "ask", "question": "which?"}
    given = [
        whole("a").model_dump(exclude_unset=True),
        {"key": "b", "task": "t", "steps": [asks], "stop_reason": "done"},
    ]
    given[0]["steps"] = [{**step, "at": AT} for step in given[0]["steps"]]
    said = {"data": {"episodes": [*given, 7]}, "content_type": "application/json", **bearer_of}
    first, second, third = client.post("/api/v1/episodes/whole", **said).json()["results"]
    assert first["id"] in first["url"] and not first["known"]
    assert second["error"]["code"] == third["error"]["code"] == "invalid"
    assert "steps.0" in second["error"]["message"]
    assert client.post("/api/v1/episodes/whole", **said).json()["results"][0] == {**first, "known": True}
    too_many = {**said, "data": {"episodes": [given[0]] * 65}}
    assert client.post("/api/v1/episodes/whole", **too_many).status_code == 422


def test_fields_may_stand_beside_the_steps():
    flat = {"key": "a", "task": "t", "steps": [], "stop_reason": "done", "final_answer": "x"}
    nested = {"episode": {"key": "a", "task": "t"}, "steps": [], "finish": {"stop_reason": "done", "final_answer": "x"}}
    assert WholeEpisode.model_validate(flat) == WholeEpisode.model_validate(nested)


def test_episode_without_steps_is_recorded(ada):
    found, again = record_whole(ada, [whole("a", contents=())]), record_whole(ada, [whole("a", contents=())])
    assert found[0].episode.last_seq == 0 and again[0].known
    assert Episode.objects.get().state == "finished"
