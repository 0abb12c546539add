"""Token traces as the meta of turns: the same ids, and the reason of what cannot be trained on."""

from __future__ import annotations

import pytest
from openenv.core.harness import TrainingTrace, TrainingTurn
from openenv.core.harness.capture.runner import CaptureServer

from awmclient.choosing.captures import CapturedPolicy, CapturedTurn, CaptureMarks, CaptureSession, turns_of
from awmclient.choosing.chat import ChatPolicy
from awmclient.loop.rollout import rollout
from awmclient.policies import Turn, View
from awmclient.testing import FakeEnv, MemoryDashboard
from tests.awmclient.openai_server import answering, tool_call
from tests.awmclient.token_engine import TokenEngine, rendered, tokens, words
from tests.running import free_ports

SAMPLED, CHANCES = [7, 8, 9], [-0.5, -0.25, 0.0]


def entry(**more):
    whole = {"prompt_token_ids": [1, 2], "completion_token_ids": SAMPLED, "per_token_logps": CHANCES}
    return {**whole, "loss_mask": [0, 0, 1, 1, 1], "metadata": {"node_id": "n1"}, **more}


def test_training_trace_becomes_meta_with_the_same_ids():
    given = {"prompt_token_ids": [1, 2], "completion_token_ids": SAMPLED, "per_token_logps": CHANCES}
    trace = TrainingTrace(turns=[TrainingTurn(node_id="n1", **given, loss_mask=[0, 0, 1, 0, 1])])
    [turn] = turns_of(trace)
    ids = {"prompt_ids": [1, 2], "completion_ids": SAMPLED, "logprobs": CHANCES}
    assert turn.meta == {**ids, "completion_mask": [1, 0, 1], "capture": {"node": "n1", "trainable": True}}
    [bare] = turns_of([entry()])
    assert "completion_mask" not in bare.meta


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"completion_token_ids": []}, "the engine returned no token IDs"),
        ({"prompt_token_ids": [1, -2]}, "a token ID is no whole number of 0 or more"),
        ({"per_token_logps": [-0.5]}, "1 log-probabilities for 3 tokens"),
        ({"per_token_logps": [-0.5, 0.1, -1.0]}, "a log-probability is no number of 0 or less"),
        ({"loss_mask": [0, 0, 1]}, "the loss mask has another length than its tokens"),
        ({"loss_mask": [0] * 5}, "the capture masks the whole turn"),
    ],
)
def test_untrainable_entry_says_why(more, reason):
    [turn] = turns_of([entry(**more)])
    assert turn.meta["capture"] == {"node": "n1", "trainable": False, "reason": reason}


def test_entry_with_token_texts_has_their_ids():
    texts = {"completion_token_ids": None, "completion_tokens": ["token_id:7", "token_id:8", "token_id:9"]}
    assert turns_of([entry(**texts)])[0].completion_ids == SAMPLED
    assert turns_of([entry(**texts | {"completion_tokens": ["a", "b", "c"]})])[0].completion_ids == []


def test_marks_tell_new_turns_and_changed_ones_once():
    marks, first = CaptureMarks(), CapturedTurn("n1")
    assert marks.fresh([first]) == [first] and marks.changed([first]) == {}
    again = [CapturedTurn("n2")]
    assert marks.fresh(again) == again
    assert marks.changed(again) == {
        "n1": {"node": "n1", "trainable": False, "reason": "the capture has left the turn out"}
    }
    assert marks.changed(again) == {} and marks.changed([first, *again])["n1"]["trainable"]


class Says:
    """A policy that calls no model."""

    async def act(self, view):
        return Turn(content="", meta={"own": 1}, answer="Done.")


async def test_policy_without_a_captured_call_keeps_its_turn():
    turn = await CapturedPolicy(Says(), list).act(View("", ()))
    assert turn == Turn(meta={"own": 1}, answer="Done.")


@pytest.fixture
def engine():
    said = iter([tool_call("get_item", {"item": "mug"}), "Twelve left."])
    return TokenEngine(lambda body: next(said))


@pytest.fixture
def capture(engine):
    """openenv's capture server in front of the engine."""
    with answering(engine):
        server = CaptureServer(llm_url=engine.url, model="small", port=free_ports(1)[0])
        server.start()
        yield server
        server.stop()


async def played(capture):
    session = CaptureSession.start(f"http://127.0.0.1:{capture.port}")
    policy = CapturedPolicy(ChatPolicy(session.base_url, model="small", api_key=session.id), session.turns)
    done = await rollout(policy, FakeEnv(), MemoryDashboard(), task="How many are left?")
    assert done.fault is None, done.detail
    return done.steps, session


async def test_loop_behind_the_capture_server_records_token_ids(capture, engine):
    steps, session = await played(capture)
    said = [step for step in steps if step.get("role") == "assistant"]
    assert [words(step["meta"]["completion_ids"]) for step in said] == [
        '[{"name": "get_item", "arguments": {"item": "mug"}}]<end>\n', "Twelve left.<end>\n"
    ]  # fmt: skip
    sent = "".join(map(rendered, engine.bodies[-1]["messages"])) + "<assistant>"
    assert said[-1]["meta"]["prompt_ids"] == tokens(sent)
    for step in said:
        assert step["meta"]["logprobs"] == [-one / 1000 for one in step["meta"]["completion_ids"]]
        assert step["meta"]["capture"]["trainable"] is True
    nodes = [one.node for one in session.turns()]
    assert [step["meta"]["capture"]["node"] for step in said] == nodes


async def test_turn_that_the_capture_rejects_has_its_reason(capture, engine):
    engine.spoils = (1,)
    steps, _ = await played(capture)
    first, second = [step["meta"]["capture"] for step in steps if step.get("role") == "assistant"]
    assert first["trainable"] is True
    assert second["trainable"] is False and "no_logprobs: turn 1" in second["reason"]


async def test_capture_without_token_ids_refuses_every_turn(engine):
    with answering(engine):
        server = CaptureServer(llm_url=engine.url, model="small", port=free_ports(1)[0], capture_level="text")
        server.start()
        try:
            steps, _ = await played(server)
        finally:
            server.stop()
    marks = [step["meta"]["capture"] for step in steps if step.get("role") == "assistant"]
    assert len(marks) == 2 and not any("prompt_ids" in step.get("meta", {}) for step in steps)
    assert {one["reason"] for one in marks} == {"the endpoint returned no token IDs (capture level text)"}
