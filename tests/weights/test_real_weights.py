"""SmolLM2 of the package: served, spoken to, converted and served again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from awmweb.weights.serving import packaged
from tests.running import ROOT
from tests.weights.conftest import served, serving

PRICE = {
    "type": "function",
    "function": {
        "name": "set_price",
        "description": "Set the price of an item.",
        "parameters": {"type": "object", "properties": {"item": {"type": "string"}, "price": {"type": "number"}}},
    },
}
GREEDY = {"temperature": 0, "max_tokens": 24}


def complete(url: str, **more) -> dict:
    body = {"model": "local", "messages": [{"role": "user", "content": "What does a librarian do?"}], **GREEDY, **more}
    return httpx.post(f"{url}/chat/completions", json=body, timeout=None).raise_for_status().json()


@pytest.mark.llm
def test_tools_are_in_the_prompt_that_the_model_reads(smollm2):
    plain, offered = complete(smollm2), complete(smollm2, tools=[PRICE])
    assert plain["choices"][0]["finish_reason"] == "length" and plain["usage"]["completion_tokens"] == 24
    assert offered["usage"]["prompt_tokens"] > plain["usage"]["prompt_tokens"] + 40


@pytest.mark.llm
def test_stopped_server_waits_for_no_reply():
    """One that goes on for thousands of tokens ends with it, in the middle."""
    body = {"model": "local", "messages": [{"role": "user", "content": "Count."}], "ignore_eos": True, "stream": True}
    with serving("smollm2") as (url, process):
        with (
            pytest.raises(httpx.RemoteProtocolError),
            httpx.stream("POST", f"{url}/chat/completions", json=body, timeout=None) as reply,
        ):
            lines = reply.iter_lines()
            assert next(lines).startswith("data: ")
            process.terminate()
            list(lines)
        assert process.wait() == 0


@pytest.mark.llm
@pytest.mark.parametrize(("kind", "size"), [("f16", 271), ("q8_0", 145)])
def test_weights_there_and_back_say_the_same(smollm2, merged: Path, tmp_path: Path, kind: str, size: int):
    """Its weights of four bits, written as full numbers, converted, and served: no row of a head is out of place.

    Sums are rounded in other places, so the words part after a while.
    """
    out = tmp_path / "after.gguf"
    command = [sys.executable, "manage.py", "model", "convert", str(merged), str(out), "--like", str(packaged())]
    command += ["--type", kind]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == f"Wrote {out}: 272 arrays, {size} MB.\n", done
    with served(str(out)) as again:
        words = [complete(url)["choices"][0]["message"]["content"] for url in (smollm2, again)]
    assert words[0][:25] == words[1][:25] and "librarian" in words[0]
