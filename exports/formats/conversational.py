"""Rows for supervised fine-tuning: whole conversations (`sft`), one row per turn (`steps`). Pure.

Arguments of calls stay JSON objects (several chat templates double-encode strings) in the order in which the agent
wrote them. An assistant's content is "" and never null (one template fails on null).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from exports.formats.columns import JSON_LIST, MESSAGES, SOURCE, WHOLE, sha256, source
from exports.record import Record
from exports.rules.leakage import Ground
from exports.rules.shaping import Shaped

SFT, STEPS = "awmweb.sft/2", "awmweb.steps/1"
SFT_FEATURES: dict[str, Any] = {
    "messages": MESSAGES,
    "tools": JSON_LIST,
    "loss": {"feature": WHOLE, "_type": "List"},
    **SOURCE,
}
STEPS_FEATURES: dict[str, Any] = {
    "prompt": MESSAGES,
    "completion": MESSAGES,
    "tools": JSON_LIST,
    "seq": WHOLE,
    **SOURCE,
}
PROMPT_BYTES = 64 * 1024 * 1024
"""Total size of the prompts of one episode in `steps`. Later turns of a very long episode are left out."""


def sft(record: Record, shaped: Shaped, ground: Ground) -> Iterator[dict[str, Any]]:
    """Yield one row for the episode. `loss` has one number per message: 1 if the agent is trained on it."""
    messages = shaped.messages
    row = {"messages": messages, "tools": list(shaped.tools), "loss": [line.loss for line in shaped.lines]}
    yield {**row, **source(SFT, record, ground, messages), "content_sha256": sha256([messages, row["tools"]])}


def steps(record: Record, shaped: Shaped, ground: Ground) -> Iterator[dict[str, Any]]:
    """Yield one row per turn with loss: everything before it is the prompt, the turn is the completion."""
    messages, tools, spent, seen = shaped.messages, list(shaped.tools), 0, 0
    about = source(STEPS, record, ground, messages)
    for place, line in enumerate(shaped.lines):
        if line.loss and place:
            spent += seen
            if spent > PROMPT_BYTES:
                return
            row = {"prompt": messages[:place], "completion": [line.message], "tools": tools}
            digest = sha256([row["prompt"], row["completion"], tools])
            yield {**row, "seq": line.said.seqs[-1] if line.said.seqs else 0, **about, "content_sha256": digest}
        seen += len(line.message["content"]) + 100
