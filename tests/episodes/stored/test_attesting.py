"""Outcomes that the environment server attests: who believes which statement, and what stays the loop's own word."""

from __future__ import annotations

import tracemalloc

import pytest

from awmclient.schema import EpisodeStart, Finish, StepBatch
from awmenv.attesting import Trail, sha256_of, signed
from episodes.models import EpisodeEvent, VerifierOutcome
from episodes.record import ending, recording
from episodes.stored import attesting, settled
from episodes.stored.packs import find_pack, verifier_text

KEY = "k" * 40
SCENARIO = "helpdesk_1"
CALLS = [
    {
        "seq": 1,
        "kind": "tool_call",
        "name": "find",
        "arguments": {"open": True},
        "result": [{"id": 7, "n": 1.0}],
    },
    {"seq": 2, "kind": "tool_call", "name": "verify", "arguments": {}, "error": "Unknown tool: verify"},
    {"seq": 3, "kind": "tool_call", "name": "merge", "arguments": {"b": 1, "a": "\u0000\ud800"}, "error": "no such id"},
]


@pytest.fixture(autouse=True)
def key(settings):
    settings.ATTEST_KEY = KEY


def statement(**more):
    """What a server says of a session in which exactly these calls were made."""
    trail = Trail()
    trail.add("find", {"open": True}, [{"n": 1.0, "id": 7}])
    trail.add("merge", {"a": "\u0000\ud800", "b": 1}, error="no such id")
    return {
        "session": "s1", "scenario": SCENARIO, "task_idx": 0, "mode": "code", "database_sha256": "d" * 64,
        "task_sha256": sha256_of(find_pack(SCENARIO).tasks(SCENARIO)[0]),
        "verifier_sha256": sha256_of(verifier_text(SCENARIO, 0)), "trail_sha256": trail.sha256(), "calls": trail.calls,
        "final_answer_sha256": sha256_of("Merged."), "reward_type": "complete", "reward": 1.0, **more,
    }  # fmt: skip


def finished(actor, name, attestation, steps=CALLS):
    """An episode of an external loop that ends with this attestation; what is kept of it, and the reason if any."""
    start = EpisodeStart(key=name, task="Merge.", scenario=SCENARIO, task_idx=0)
    episode, _ = recording.start_episode(actor, start)
    recording.append_steps(actor, episode.pk, StepBatch.model_validate({"steps": steps}).steps)
    outcome = {"reward_type": "complete", "reward": 1.0, "attestation": attestation}
    end = Finish(stop_reason="done", final_answer="Merged.", outcome=outcome)
    ending.finish(actor, episode.pk, end)
    ending.finish(actor, episode.pk, end)  # the same again changes nothing
    kept = dict(VerifierOutcome.objects.filter(episode=episode).values_list("source", "reward_type"))
    why = EpisodeEvent.objects.filter(episode=episode, verb=settled.NOT_ATTESTED).values_list("reason", flat=True)
    return kept, list(why)


def test_signed_statement_about_the_recorded_calls_is_attested(ada):
    kept, why = finished(ada, "a", signed(KEY, statement()))
    assert kept == {"reported": "complete", "attested": "complete"} and why == []
    stored = VerifierOutcome.objects.get(source="attested")
    assert stored.session == "s1" and stored.details["attested"]["calls"] == 2


@pytest.mark.parametrize(
    ("attestation", "words"),
    [
        (signed("x" * 40, statement()), "the signature is not by"),
        ({**signed(KEY, statement()), "statement": "{}"}, "the signature is not by"),
        ({"statement": "é", "signature": "é"}, "the signature is not by"),
        ({"statement": 1}, "no statement and signature"),
        (signed(KEY, {"session": "s1"}), "another version"),
        (signed(KEY, statement(task_idx=1)), "another task"),
        (signed(KEY, statement(version=1)), "another version"),
        (signed(KEY, statement(task_sha256="0" * 64)), "the task is not the one"),
        (signed(KEY, statement(verifier_sha256="0" * 64)), "the verifier is not the one"),
        (signed(KEY, statement(mode="other")), "the verifier is not the one"),
        (signed(KEY, statement(final_answer_sha256="")), "the final answer"),
    ],
)
def test_invalid_attestation_leaves_the_outcome_reported(ada, attestation, words):
    kept, why = finished(ada, "a", attestation)
    assert kept == {"reported": "complete"} and len(why) == 1 and words in why[0]


@pytest.mark.parametrize("edit", ["result", "arguments", "order", "missing"])
def test_edited_steps_are_not_attested(ada, edit):
    steps = [dict(step) for step in CALLS]
    if edit == "order":
        steps[0], steps[2] = {**steps[2], "seq": 1}, {**steps[0], "seq": 3}
    elif edit == "missing":
        steps = steps[:2]
    else:
        steps[0][edit] = {"open": False}
    kept, why = finished(ada, "a", signed(KEY, statement()), steps)
    assert kept == {"reported": "complete"} and "recorded calls and results" in why[0]


@pytest.mark.parametrize("name", [" ASK_expert", "Verify "])
def test_near_name_stays_in_the_trail_if_the_server_counted(ada, name):
    hidden = {**CALLS[0], "seq": 4, "name": name}
    kept, why = finished(ada, "a", signed(KEY, statement()), [*CALLS, hidden])
    assert kept == {"reported": "complete"} and "recorded calls and results" in why[0]
    trail = Trail()
    for step in (CALLS[0], CALLS[2], hidden):
        trail.add(step["name"], step["arguments"], step.get("result"), step.get("error"))
    assert trail.calls == 3
    counted = statement(session="s2", trail_sha256=trail.sha256())
    assert "attested" in finished(ada, "b", signed(KEY, counted), [*CALLS, hidden])[0]
    assert "attested" not in finished(ada, "c", signed(KEY, {**counted, "session": "s3"}))[0]


def test_near_name_that_a_loop_answered_costs_no_statement(ada):
    answered = {"seq": 4, "kind": "tool_call", "name": "Verify ", "arguments": {}, "error": "Unknown tool: Verify "}
    assert "attested" in finished(ada, "a", signed(KEY, statement()), [*CALLS, answered])[0]


def test_checking_a_statement_reads_the_steps_in_batches(ada, monkeypatch):
    """Three times the steps take no more memory."""
    monkeypatch.setattr("episodes.stored.attesting.BATCH", 1)

    def most(steps):
        start = EpisodeStart(key=f"big{steps}", task="Merge.", scenario=SCENARIO, task_idx=0)
        episode, _ = recording.start_episode(ada, start)
        for seq in range(1, steps + 1):
            batch = StepBatch.model_validate({"steps": [{**CALLS[0], "seq": seq, "result": "r" * 1_000_000}]})
            recording.append_steps(ada, episode.pk, batch.steps)
        tracemalloc.start()
        try:
            attesting._trails(episode)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    few, many = most(4), most(12)
    assert many < 1.3 * few, (few, many)


def test_session_counts_for_one_episode(ada):
    attestation = signed(KEY, statement())
    assert "attested" in finished(ada, "a", attestation)[0]
    kept, why = finished(ada, "b", attestation)
    assert kept == {"reported": "complete"} and why == ["the session was used for another episode"]
