"""Arguments that cannot be read are kept as written; those that no schema names are refused or noted."""

import pytest

from awmclient.asking.gates import reached_world
from awmclient.choosing.chat import ChatPolicy
from awmclient.loop.rollout import rollout
from awmclient.testing import FakeEnv, MemoryDashboard
from awmclient.words.arguments import unknown_arguments
from awmclient.words.toolcalls import Call
from tests.awmclient.openai_server import OpenAIServer, answering, tool_call


class Strict(FakeEnv):
    """Its tools say that they have no other arguments."""

    async def list_tools(self):
        closed = {"additionalProperties": False}
        tools = await super().list_tools()
        return [tool.model_copy(update={"input_schema": {**tool.input_schema, **closed}}) for tool in tools]


async def play(*replies, env):
    left, dash = list(replies), MemoryDashboard()
    server = OpenAIServer(lambda body: left.pop(0))
    with answering(server):
        result = await rollout(ChatPolicy(server.base_url, model="toy"), env, dash, task="Look")
    return result, dash.steps(result.episode), server.bodies


@pytest.mark.parametrize("said", [None, "I look."])
async def test_malformed_arguments_are_recorded_and_sent_as_written(said):
    broken = {**tool_call("get_item", {}), "content": said}
    broken["tool_calls"][0]["function"]["arguments"] = '{"item": "mug"'
    _, steps, bodies = await play(broken, "I stop.", env=FakeEnv())
    written = '{"name": "get_item", "arguments": {"item": "mug"}'
    content = f"{said}\n\n{written}" if said else written
    assert steps[2]["content"] == content and steps[3]["meta"] == {"unread_call": True}
    assert bodies[1]["messages"][-2] == {"role": "assistant", "content": content}
    assert "The text of the arguments of get_item is not valid JSON" in bodies[1]["messages"][-1]["content"]


async def test_a_closed_schema_refuses_unknown_arguments():
    env = Strict()
    _, steps, bodies = await play(tool_call("get_item", {"item": "mug", "color": "red"}), "I stop.", env=env)
    call = next(step for step in steps if step["kind"] == "tool_call")
    assert call["error"] == "Unknown argument of get_item: color. It takes: item. Nothing was called."
    assert (call["reward_type"], reached_world(call)) == ("invalid_args", False) and "get_item" not in env.calls
    assert bodies[1]["messages"][-1]["content"] == f"Error: {call['error']}"


async def test_other_schemas_have_unknown_arguments_noted():
    env = FakeEnv()
    _, steps, _ = await play(tool_call("get_item", {"item": "mug", "color": "red"}), "I stop.", env=env)
    call = next(step for step in steps if step["kind"] == "tool_call")
    assert call["meta"]["unknown_arguments"] == ["color"] and "error" not in call and reached_world(call)
    _, steps, _ = await play(tool_call("get_item", {"item": "mug"}), "I stop.", env=Strict())
    assert "meta" not in next(step for step in steps if step["kind"] == "tool_call")


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object", "properties": {}},
        {"properties": {"a": {}}, "additionalProperties": True},
        {"properties": {"a": {}}, "additionalProperties": {"type": "string"}},
        {"properties": {"a": {}}, "patternProperties": {"b": {}}},
        {"properties": {"a": {}}, "anyOf": [{"required": ["b"]}]},
    ],
)
async def test_schemas_that_allow_others_know_every_argument(schema):
    (tool, *_) = await FakeEnv().list_tools()
    tool = tool.model_copy(update={"input_schema": schema})
    assert unknown_arguments([tool], Call(tool.name, {"b": 1})) is None


async def test_what_is_seen_first_is_written_as_results_are():
    class Board(FakeEnv):
        async def reset(self, **arguments):
            came = await super().reset(**arguments)
            object.__setattr__(came, "first_seen", {"message": "Grün", "left": [1, 2]})
            return came

    _, steps, _ = await play("I stop.", env=Board())
    assert steps[1]["content"].endswith('What you see first:\n{"message": "Grün", "left": [1, 2]}')
