"""The scripted policy truly follows the advice it gets."""

import pytest

from awmclient.choosing.scripted import ScriptedPolicy
from awmclient.loop.rollout import rollout
from awmclient.schema import Advice, ToolCall
from awmclient.testing import FakeEnv, MemoryDashboard

ASK = {
    "say": "No rule to be found.",
    "ask": {"question": "Which discount?", "context": "searched the items"},
    "listen": {"rate": r"(\d+(?:\.\d+)?)\s*%", "item": r"\b(mug|pen)\b"},
    "advised": [
        {"call": {"name": "set_price", "arguments": {"item": "{{item}}", "price": "{{rate}}"}}},
        {"answer": "Set {{item}} by {{rate}} percent."},
    ],
    "unadvised": [{"answer": "Left it as it was."}],
    "after": [{"answer": "Done as told."}],
}
SCRIPT = [{"say": "I look first.", "call": {"name": "list_items"}}, ASK]


async def played(expert, script=SCRIPT, mode="plain"):
    env, dash = FakeEnv(), MemoryDashboard(expert)
    result = await rollout(ScriptedPolicy(script), env, dash, task="Discount", expert=mode, ask_deadline_s=1)
    return env, result, dash.steps(result.episode)


async def test_words_of_the_advice_decide_what_is_done():
    env, result, _ = await played(lambda question: "Give the mug 7 %, please.")
    assert env.prices["mug"] == 7.0
    assert result.final_answer == "Set mug by 7 percent."


async def test_other_advice_leads_to_another_act():
    env, _, _ = await played(lambda question: "The pen, by 2.5%.")
    assert env.prices == {"mug": 10.0, "pen": 2.5}


async def test_tool_calls_in_the_advice_are_made_as_they_are():
    call = ToolCall(name="set_price", arguments={"item": "pen", "price": 1.5})
    env, result, steps = await played(lambda question: Advice(text="so:", source="human", tool_calls=[call]))
    assert env.prices["pen"] == 1.5
    assert result.final_answer == "Done as told."
    assert [step["name"] for step in steps if step["kind"] == "tool_call"] == ["list_items", "set_price"]


@pytest.mark.parametrize(
    "text",
    [
        "Call set_price(item='mug', price=8).",
        '```json\n{"name": "set_price", "arguments": {"item": "mug", "price": 8}}\n```',
    ],
)
async def test_calls_written_into_the_words_are_made(text):
    env, result, _ = await played(lambda question: text)
    assert env.prices["mug"] == 8.0 and result.final_answer == "Done as told."


@pytest.mark.parametrize("expert", [None, lambda question: "I do not know."])
async def test_without_usable_advice_the_other_way_is_taken(expert):
    env, result, _ = await played(expert)
    assert env.prices == {"mug": 10.0, "pen": 2.0}
    assert result.final_answer == "Left it as it was."


async def test_ask_without_expert_is_an_unknown_tool():
    env, result, steps = await played(None, mode="off")
    refused = next(step for step in steps if step.get("name") == "ask_expert")
    assert refused["error"] == "Unknown tool: ask_expert"
    assert "ask_expert" not in env.calls
    assert result.final_answer == "Left it as it was."


async def test_a_script_without_an_answer_gives_up():
    _, result, _ = await played(None, [{"call": {"name": "list_items"}}])
    assert (result.stop_reason, result.final_answer) == ("gave_up", None)


async def test_the_same_seed_paces_alike_and_another_does_not():
    def pauses(seed):
        policy = ScriptedPolicy([], seed=seed)
        return [policy._chance.random() for _ in range(5)]

    assert pauses("a") == pauses("a") != pauses("b")
