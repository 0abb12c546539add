"""What is trained is what was read: messages that a chat model got over HTTP against those of its export."""

from __future__ import annotations

import asyncio
import json

import pytest
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from starlette.responses import Response

from awmclient.choosing.chat import ChatPolicy
from awmclient.loop.rollout import rollout
from awmclient.schema import Advice, ToolCall, ToolSpec
from awmclient.testing import FakeResult, MemoryDashboard
from awmclient.words.conversation import for_openai, messages
from episodes.stored.entries import entry_of, read
from exports.record import EpisodeResult
from exports.writers.jsonl import line
from tests.awmclient.openai_server import OpenAIServer, answering
from tests.exports.records import record, walk
from tests.exports.schemas import ATIF, atif_problem

texts = st.text(st.characters(codec=None) | st.sampled_from("\x00\ud800\u2028\\\"'{}[]<>:,\n\t漢"), max_size=30)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
arguments = st.dictionaries(texts, values, max_size=4)
results = st.builds(FakeResult, tool_result=values) | st.builds(FakeResult, error=texts, reward=st.just(-1.0))
ids = st.none() | st.sampled_from(["call00001", "call00002", "x", ""])


@st.composite
def calls(draw):
    """One call as a model writes it; perhaps one that cannot be read."""
    name = draw(st.sampled_from(["look", "change", "ask_expert", "no\x00such"]))
    given = draw(arguments | st.just({"question": "Which one?"}))
    text = json.dumps(given) if draw(st.integers(0, 9)) else "{not json"
    call = {"type": "function", "function": {"name": name, "arguments": text}}
    call_id = draw(ids)
    return call if call_id is None else {**call, "id": call_id}


@st.composite
def replies(draw):
    """An assistant message: words, calls, both, or a call in text."""
    said = draw(
        st.sampled_from(["", "I look.", '<tool_call>{"name": "look", "arguments": {"b": 1, "a": 2}}</tool_call>'])
    )
    many = draw(st.lists(calls(), max_size=3))
    message = {"role": "assistant", "content": draw(st.sampled_from([said, None]))}
    return {**message, "tool_calls": many} if many else message


class OddWorld:
    """Answers every call with the next of some odd results."""

    def __init__(self, given):
        self.results = given

    async def reset(self, **_arguments):
        return FakeResult(reward_type="reset_ok")

    async def list_tools(self):
        schema = {"type": "object", "properties": {"b": {}, "a": {}}}
        return [ToolSpec(name="look", description="Look \u2028 \x00.", input_schema=schema), ToolSpec(name="change")]

    async def call_tool(self, _name, _arguments):
        return self.results.pop(0) if self.results else FakeResult("nothing")

    async def done(self):
        return FakeResult()


said_next: list[dict] = []


def reply(_body):
    """The next scripted message as ASCII JSON, which carries halves of pairs as models' servers may."""
    message = said_next.pop(0) if said_next else {"role": "assistant", "content": "Done."}
    return Response(json.dumps({"choices": [{"index": 0, "message": message}]}), media_type="application/json")


@pytest.fixture(scope="module")
def endpoint():
    server = OpenAIServer(reply)
    with answering(server):
        yield server


ADVICE = [
    Advice(text="Into 7 \ud800.", source="human", author="Mina Park", tool_calls=[ToolCall(name="look")]),
    Advice(text="", source="fallback", reason="budget"),
    Advice(text="By a model", source="llm", author="m", privilege="blind", reason="prepared"),
]


def stored(steps):
    """The steps as the dashboard stores them and reads them back."""
    return [read(entry_of(step, timezone.now()).text) for step in steps]


@settings(max_examples=60)
@given(
    said=st.lists(replies(), min_size=1, max_size=5),
    came=st.lists(results, max_size=12),
    advice=st.sampled_from(ADVICE),
    briefing=st.none() | st.builds(dict, text=texts.filter(str.strip), author=st.just("Mina Park")),
)
def test_a_models_messages_equal_the_exported_ones_byte_for_byte(endpoint, said, came, advice, briefing):
    said_next[:] = said
    endpoint.bodies.clear()
    dash = MemoryDashboard(expert=lambda _question: advice)
    told = {"task": "Merge.", "expert": "plain", "briefing": briefing}
    done = asyncio.run(rollout(ChatPolicy(endpoint.base_url, model="m"), OddWorld(came), dash, **told))
    assert done.fault is None and done.stop_reason is not None, done.detail
    steps = stored(dash.steps(done.episode))
    entry = dash.book.entry(done.episode)
    one = record(steps=steps, tools=[tool.model_dump() for tool in entry.plan.tools], results=COMPLETE)
    (rows, counts), heard = walk("sft", one, include=["gave_up"]), endpoint.bodies[-1]
    if not rows:
        assert counts.left_out == {"no_conversation": 1} and not any(said.part == "assistant" for said in one.said)
        return
    (row,) = rows
    exported = [for_openai(message) for message in row["messages"]]
    named = [call["id"] for message in heard["messages"] for call in message.get("tool_calls", ())]
    assert len(set(named)) == len(named)
    assert b"".join(map(line, exported)).startswith(b"".join(map(line, heard["messages"])))
    assert line({"tools": row["tools"]}) == line({"tools": heard["tools"]})
    for openai in walk("openai", one)[0]:
        bare = [{name: part for name, part in message.items() if name != "weight"} for message in openai["messages"]]
        assert bare == exported
    for trajectory in walk("atif", one, include=["gave_up"])[0]:
        crossed = json.loads(line(trajectory))
        assert not list(Draft202012Validator(ATIF).iter_errors(crossed)) and atif_problem(crossed) is None
    for episode in walk("openenv", one, include=["gave_up"])[0]:
        assert line(episode["messages"]) == line(row["messages"])


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["call00002", None, "call00001"], ["call00002", "call00002_2", "call00001"]),
        ([None, "call00001", None], ["call00001", "call00001_2", "call00003"]),
        (["x", "x", "x", "x_2"], ["x", "x_2", "x_3", "x_2_2"]),
    ],
)
def test_ids_of_calls_are_unique_and_stay_as_read(given, wanted):
    steps = [
        {"kind": "tool_call", "name": "look", "result": 1, "turn": at, "call_id": one} for at, one in enumerate(given)
    ]
    for end in range(1, len(steps) + 1):
        said = messages(steps[:end])
        assert [message["tool_calls"][0]["id"] for message in said[::2]] == wanted[:end]
        assert [message["tool_call_id"] for message in said[1::2]] == wanted[:end]


COMPLETE = {"verified": EpisodeResult("complete", 1.0, "verified")}
