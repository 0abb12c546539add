"""The chat template that is served in place of one that drops tools, rendered as llama.cpp and transformers do."""

from __future__ import annotations

import json
from pathlib import Path

import jinja2
import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from awmweb.variables import endpoints
from awmweb.weights import LOCAL, WeightsError
from awmweb.weights.serving import CHATML, Weights, template_for

TOOL = {"type": "function", "function": {"name": "set_price", "parameters": {"type": "object"}}}
CALL = {"type": "function", "function": {"name": "set_price", "arguments": {"item": "mug"}}}


def rendered(*messages: dict, tools: list | None = None) -> str:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    environment.filters["tojson"] = json.dumps
    return environment.from_string(CHATML.read_text()).render(
        messages=[{"tool_calls": None, **message} for message in messages], tools=tools, add_generation_prompt=True
    )


def test_tools_are_in_the_prompt_and_each_call_is_in_it_once():
    text = rendered(
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Set it."},
        {"role": "assistant", "content": "", "tool_calls": [CALL, CALL]},
        {"role": "tool", "content": "done"},
        {"role": "tool", "content": "done, too"},
        tools=[TOOL],
    )
    system, rest = text.split("<|im_end|>\n", 1)
    assert system.startswith("<|im_start|>system\nBe brief.\n\n") and '"set_price"' in system
    call = '<tool_call>\n{"name": "set_price", "arguments": {"item": "mug"}}\n</tool_call>'
    assert rest == (
        "<|im_start|>user\nSet it.<|im_end|>\n"
        f"<|im_start|>assistant\n{call}\n{call}<|im_end|>\n"
        "<|im_start|>user\n<tool_response>\ndone\n</tool_response>\n"
        "<tool_response>\ndone, too\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_without_tools_and_words_for_the_system_nothing_is_added():
    assert rendered({"role": "user", "content": "Hi"}) == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize(
    ("own", "is_ours", "remark"),
    [
        ("{% if tools %}", False, "the model's own."),
        ("<|im_start|>{{ message }}", True, "because the model's own drops tools"),
        ("[INST]", False, "which drops tools. Name one with --template"),
        ("", False, "which drops tools"),
    ],
)
def test_a_template_that_drops_tools_is_replaced(own: str, is_ours: bool, remark: str):
    template, words = template_for(Weights("m", Path("m.gguf"), 1024, own), None)
    assert template == (CHATML.read_text() if is_ours else "") and remark in words


def test_a_template_of_the_operator_is_taken_as_it_is(tmp_path: Path):
    file = tmp_path / "own.jinja"
    with pytest.raises(WeightsError, match="No such file"):
        template_for(Weights("m", Path("m.gguf"), 1024, ""), file)
    file.write_text("mine")
    assert template_for(Weights("m", Path("m.gguf"), 1024, ""), file) == ("mine", f"Template: {file}.")


def test_the_model_of_this_machine_needs_a_name_only(monkeypatch):
    assert endpoints("agent", None, "local")["local"].base_url == LOCAL["BASE_URL"]
    monkeypatch.setenv("AWMWEB_EXPERT_LOCAL_BASE_URL", "http://127.0.0.1:9/v1")
    chosen = endpoints("expert", None, "local")["local"]
    assert (chosen.base_url, chosen.model, chosen.timeout_s) == ("http://127.0.0.1:9/v1", "local", 600)
