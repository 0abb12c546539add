"""What a model thought before its message: read, recorded, and sent back as its endpoint wants it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awmclient.choosing.chat import ChatPolicy, EndpointConfig
from awmclient.choosing.testing import check_endpoint
from awmclient.loop.rollout import rollout
from awmclient.schema import REASONING_MAX, STEP
from awmclient.testing import FakeEnv, MemoryDashboard
from awmclient.words.conversation import conversation, messages
from awmclient.words.thinking import MODES, behind_thoughts, read_reasoning, with_reasoning
from tests.awmclient.openai_server import OpenAIServer, error, tool_call

DETAILS = [{"type": "reasoning.text", "text": "It ", "signature": "s1"}, {"type": "reasoning.text", "text": "is 9."}]
PARTS = [{"type": "thinking", "thinking": "It is 9.", "signature": "abc"}, {"type": "text", "text": "Nine."}]


@pytest.mark.parametrize(
    ("message", "content", "reasoning"),
    [
        ({"content": "Nine."}, "Nine.", None),
        ({"content": None, "reasoning": None}, "", None),
        (
            {"content": "Nine.", "reasoning_content": "It is 9."},
            "Nine.",
            {"text": "It is 9.", "form": "field", "name": "reasoning_content"},
        ),
        (
            {"content": "Nine.", "reasoning": "It is 9."},
            "Nine.",
            {"text": "It is 9.", "form": "field", "name": "reasoning"},
        ),
        (
            {"content": "Nine.", "reasoning": "It is 9.", "reasoning_details": DETAILS},
            "Nine.",
            {"text": "It is 9.", "form": "field", "name": "reasoning_details", "parts": DETAILS},
        ),
        (
            {"content": "", "reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]},
            "",
            {
                "text": "",
                "form": "field",
                "name": "reasoning_details",
                "parts": [{"type": "reasoning.encrypted", "data": "x"}],
            },
        ),
        ({"content": PARTS}, "Nine.", {"text": "It is 9.", "form": "parts", "parts": PARTS[:1]}),
        ({"content": [{"type": "text", "text": "Ni"}, {"type": "text", "text": "ne."}]}, "Nine.", None),
    ],
)
def test_reasoning_is_read_wherever_an_endpoint_puts_it(message, content, reasoning):
    assert read_reasoning(message) == (content, reasoning)
    if reasoning is not None:
        STEP.validate_python({"seq": 1, "kind": "message", "role": "assistant", "content": "", "reasoning": reasoning})


def test_tags_are_read_only_where_a_setting_says_so():
    said = "<think>\nIt is 9.\n</think>\n\nNine."
    assert read_reasoning({"content": said}) == (said, None)
    assert read_reasoning({"content": said}, tags=True) == ("Nine.", {"text": "\nIt is 9.\n", "form": "tags"})
    # a template can have opened the tag in the prompt
    opened = read_reasoning({"content": "It is 9.</think>Nine."}, tags=True)
    assert opened == ("Nine.", {"text": "It is 9.", "form": "tags"})
    assert read_reasoning({"content": "<think>\n\n</think>\n\nNine."}, tags=True) == ("Nine.", None)


def test_reasoning_above_its_limit_is_cut_and_says_so():
    _, found = read_reasoning({"content": [{"type": "thinking", "thinking": "x" * (REASONING_MAX + 5)}]})
    assert found["text"].endswith(f"[cut: {REASONING_MAX + 5} characters]") and "parts" not in found


@pytest.mark.parametrize("message", [{"reasoning_content": "why"}, {"reasoning_details": DETAILS}, {"content": PARTS}])
def test_reasoning_goes_back_unchanged_in_the_form_it_came(message):
    said = {"role": "assistant", "content": "Nine.", **message}
    content, reasoning = read_reasoning(said)
    assert with_reasoning({"role": "assistant", "content": content}, reasoning) == said


texts = st.text(st.characters(codec=None) | st.sampled_from("<>/think\x00\ud800"), min_size=1, max_size=40)


@given(texts, texts, st.sampled_from(["reasoning_content", "reasoning", "tags"]))
def test_odd_reasoning_survives_every_form(text, content, field):
    text, content = text.replace("</think>", ""), content.lstrip("\n")
    sent = with_reasoning({"role": "assistant", "content": content}, {"text": text, "form": "field"}, field)
    again, found = read_reasoning(sent, tags=field == "tags")
    if text.strip() or field != "tags":
        assert (again, found["text"]) == (content, text)


def thinking(text, **more):
    return {"seq": 3, "kind": "message", "role": "assistant", "content": "", "reasoning": {"text": text}, **more}


STEPS = [
    {"kind": "message", "role": "user", "content": "Look."},
    thinking("first", turn=1, reasoning={"text": "first", "form": "field"}),
    {"kind": "tool_call", "name": "get_item", "arguments": {}, "result": "ok", "turn": 1},
    {"kind": "nudge", "content": "Go on.", "turn": 1},
    thinking("second", turn=2, reasoning={"text": "second", "form": "field"}),
    {"kind": "tool_call", "name": "get_item", "arguments": {}, "result": "ok", "turn": 2},
]


@pytest.mark.parametrize(
    ("mode", "sent"), [("none", []), ("all", ["first", "second"]), ("last_turn", ["second"])], ids=MODES
)
def test_as_much_goes_back_as_the_setting_says(mode, sent):
    found = [one["reasoning_content"] for one in messages(STEPS, mode) if "reasoning_content" in one]
    assert found == sent
    assert [one.message["role"] for one in conversation(STEPS)].count("assistant") == 2


def test_reasoning_recorded_before_it_had_a_field_is_found():
    old = {"kind": "message", "role": "assistant", "content": "Nine.", "meta": {"reasoning": "It is 9."}}
    assert messages([old], "all") == [{"role": "assistant", "content": "Nine.", "reasoning_content": "It is 9."}]


def strict(reply):
    """A reply that refuses a history whose turns of calls lack their reasoning, as endpoints of thinking models do."""

    def answer(body):
        turns = [one for one in body["messages"] if one["role"] == "assistant"]
        if any("reasoning" not in one for one in turns):
            return error(400, "assistant messages must carry their reasoning")
        return reply(len(turns))

    return answer


def looking(turn):
    call = {**tool_call("get_item", {"item": "mug"}), "reasoning": f"thought {turn}"}
    return call if turn < 2 else {"role": "assistant", "content": "Nine.", "reasoning": "done"}


async def test_endpoint_that_wants_its_reasoning_back_gets_it():
    server = OpenAIServer(strict(looking))
    await server.start()
    refused, kept = MemoryDashboard(), MemoryDashboard()
    endpoint = EndpointConfig(server.base_url, "toy", reasoning="all")
    lost = await rollout(ChatPolicy(EndpointConfig(server.base_url, "toy")), FakeEnv(), refused, task="Price?")
    done = await rollout(ChatPolicy(endpoint), FakeEnv(), kept, task="Price?")
    assert lost.fault == "model" and "must carry their reasoning" in lost.detail
    assert (done.stop_reason, done.final_answer) == ("done", "Nine.")
    thoughts = [step["reasoning"]["text"] for step in kept.steps(done.episode) if "reasoning" in step]
    assert thoughts == ["thought 0", "thought 1", "done"]
    # what is sent follows from the record alone, so a resumed episode sends the same
    last = server.bodies[-1]["messages"]
    before = [step for step in kept.steps(done.episode) if step.get("turn", 0) < 3]
    assert messages(before, "all") == last
    assert "must carry their reasoning" not in (await check_endpoint(endpoint)).message
    await server.kill()


async def test_probe_tells_that_reasoning_in_a_history_is_refused():
    def reply(body):
        extra = [name for one in body["messages"] for name in one if name not in ("role", "content")]
        return error(422, f"unknown field {extra[0]}") if extra else tool_call("ready", {"word": "yes"})

    server = OpenAIServer(reply)
    await server.start()
    assert (await check_endpoint(EndpointConfig(server.base_url, "toy"))).ok
    found = await check_endpoint(EndpointConfig(server.base_url, "toy", reasoning="all"))
    assert not found.ok and "unknown field reasoning_content" in found.message
    await server.kill()


@pytest.mark.parametrize(("name", "value"), [("REASONING", "some"), ("REASONING_FIELD", "content")])
def test_unknown_reasoning_setting_is_refused_by_name(name, value):
    given = {"X_BASE_URL": "http://127.0.0.1:1/v1", "X_MODEL": "toy", f"X_{name}": value}
    with pytest.raises(ValueError, match=f"X_{name} is none of"):
        EndpointConfig.from_environment("X_", given)
    good = EndpointConfig.from_environment("X_", given | {"X_REASONING": "last_turn", "X_REASONING_FIELD": "tags"})
    assert (good.reasoning, good.reasoning_field) == ("last_turn", "tags")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Yes.", "Yes."),
        ("<think>No?</think>\n\nYes.", "Yes."),
        ("<think>No?</think> <think>Hm.</think>Yes.", "Yes."),
        ('<think>{"a": 1}', ""),
        ('{"a": 1} is wrong.</think>Yes.', '{"a": 1} is wrong.</think>Yes.'),
        ('Not {"a": 1}.</think>{"a": 2}', '{"a": 2}'),
        ('{"a": "<think>in</think> tags"}', '{"a": "<think>in</think> tags"}'),
        ("Write <think>so</think>.", "Write <think>so</think>."),
    ],
)
def test_answer_is_what_follows_the_thoughts(text, said):
    assert behind_thoughts(text) == said


@pytest.mark.parametrize("start", ["<tool_call>", "", "```json\n"])
def test_tag_in_an_argument_ends_no_thought(start):
    content = start + '{"name": "post", "arguments": {"text": "a </think> b"}}'
    assert read_reasoning({"content": content}, tags=True) == (content, None)
