"""A turn that was cut off, filtered or left blank is no answer: the model is told once, then the episode ends."""

import pytest

from awmclient.choosing.chat import ChatPolicy
from awmclient.loop.rollout import rollout
from awmclient.policies import Turn
from awmclient.record.progress import LoopProgress
from awmclient.testing import FakeEnv, MemoryDashboard
from awmclient.words.conversation import conversation
from awmclient.words.endings import CUT, FILTERED, REPLIES
from tests.awmclient.openai_server import OpenAIServer, answering, tool_call

CUT_WORDS = {"role": "assistant", "content": "The mug co", "finish_reason": "length"}
BLANK = {"role": "assistant", "content": " \n"}
FILTERED_WORDS = {"role": "assistant", "content": "", "finish_reason": "content_filter"}
CUT_CALL = {**tool_call("set_price", {"item": "mug", "price": 1}), "finish_reason": "length"}


async def play(*replies, **options):
    """The result, the recorded steps and the requests of a rollout with these replies."""
    left, env, dash = list(replies), FakeEnv(), MemoryDashboard()
    server = OpenAIServer(lambda body: left.pop(0))
    with answering(server):
        policy = ChatPolicy(server.base_url, model="toy")
        result = await rollout(policy, env, dash, task="Price the mug", **options)
    assert env.prices["mug"] != 1
    return result, dash.steps(result.episode), server.bodies


def wrote(steps):
    return [step for step in steps if step.get("role") == "assistant"]


@pytest.mark.parametrize(
    ("reply", "ending"), [(CUT_WORDS, "cut_off"), (CUT_CALL, "cut_off"), (BLANK, "empty"), (FILTERED_WORDS, "filtered")]
)
async def test_the_model_is_told_once_and_can_still_answer(reply, ending):
    result, steps, bodies = await play(reply, "The mug costs 9.")
    assert (result.stop_reason, result.final_answer) == ("done", "The mug costs 9.")
    assert bodies[1]["messages"][-1] == {"role": "user", "content": REPLIES[ending]}
    assert [step["kind"] for step in steps[2:]] == ["message", "nudge", "message"]
    assert wrote(steps)[0].get("finish_reason") == reply.get("finish_reason", "stop")
    assert wrote(steps)[1]["finish_reason"] == "stop"


@pytest.mark.parametrize(("reply", "ending"), [(CUT_WORDS, "cut_off"), (CUT_CALL, "cut_off"), (BLANK, "empty")])
async def test_the_second_in_a_row_ends_the_episode(reply, ending):
    result, steps, bodies = await play(reply, reply)
    assert (result.stop_reason, result.final_answer, result.fault, len(bodies)) == (ending, None, None, 2)
    assert [turn.refused for turn in conversation(steps) if turn.part == "assistant"] == [True, True]
    assert LoopProgress.after(steps).end == (ending, None)


async def test_a_filter_of_the_endpoint_is_no_failure_of_the_agent():
    result, steps, _ = await play(FILTERED_WORDS, FILTERED_WORDS)
    assert (result.stop_reason, result.fault) == (None, "model") and "content filter" in result.detail
    assert [step["finish_reason"] for step in wrote(steps)] == ["content_filter"] * 2


async def test_words_of_a_cut_call_are_recorded_and_read_by_the_model():
    _, steps, bodies = await play(CUT_CALL, "I stop.")
    written = '{"name": "set_price", "arguments": {"item": "mug", "price": 1}}'
    assert wrote(steps)[0]["content"] == written and "calls" not in wrote(steps)[0]
    assert bodies[1]["messages"][-2] == {"role": "assistant", "content": written}


async def test_a_call_between_two_cut_turns_begins_the_count_again():
    result, _, _ = await play(CUT_WORDS, tool_call("list_items", {}), CUT_WORDS, "Done.")
    assert result.stop_reason == "done"


@pytest.mark.parametrize("word", sorted(CUT | FILTERED))
def test_words_of_servers_are_read_in_any_case(word):
    assert Turn(answer="So", finish_reason=word.upper()).ending == ("cut_off" if word in CUT else "filtered")


def test_other_words_of_servers_end_an_answer():
    assert [Turn(answer="So", finish_reason=word).ending for word in ("stop", "eos_token", "", None)] == [None] * 4
