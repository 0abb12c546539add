"""The policy that keeps tokens: a turn without its end is cut off, and no answer."""

from __future__ import annotations

from types import SimpleNamespace

from awmclient.rollout import rollout
from awmclient.testing import FakeEnv, MemoryDashboard
from examples.grpo.turns import TokenPolicy

END = 0
WORDS = {1: "I close the", 2: "Done.", END: ""}


class Chat:
    """Stands in for a template: a prompt is one token, and what follows a turn another."""

    end = END
    tokenizer = SimpleNamespace(decode=lambda ids, skip_special_tokens: " ".join(WORDS[one] for one in ids).strip())

    def opening(self, messages, tools):
        return [7]

    def following(self, messages):
        self.told = [one["content"] for one in messages]
        return [8]


async def test_cut_turn_is_no_answer_and_the_model_reads_so():
    drawn, chat = iter([[1], [2, END]]), Chat()

    async def draw(context):
        return next(drawn), []

    policy, dash = TokenPolicy(chat, draw, 100), MemoryDashboard()
    ended = await rollout(policy, FakeEnv(), dash, task="Close it")
    assert (ended.stop_reason, ended.final_answer) == ("done", "Done.")
    assert "cut off" in chat.told[0]
    assert policy.drawn.mask == [1, 0, 0, 1, 1], "the end that was not drawn is not learned"


async def test_two_cut_turns_end_the_rollout_as_cut_off():
    async def draw(context):
        return [1], []

    ended = await rollout(TokenPolicy(Chat(), draw, 100), FakeEnv(), MemoryDashboard(), task="Close it")
    assert (ended.stop_reason, ended.final_answer) == ("cut_off", None)
