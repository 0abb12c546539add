"""Rows for supervised fine-tuning: whole conversations (`sft`), one row per turn (`steps`). Pure.

Arguments of calls stay JSON objects (several chat templates double-encode strings) in the order in which the agent
wrote them. An assistant's content is "" and never null (one template fails on null).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from awmclient.words.thinking import MODES, ReasoningMode, first_sent
from exports.formats.columns import JSON_LIST, MESSAGES, SOURCE, TEXT, TEXT_LIST, WHOLE, sha256, source
from exports.record import LeftOut, Record
from exports.rules.leakage import Ground
from exports.rules.shaping import REASONING, Shaped

SFT, STEPS = "awmweb.sft/6", "awmweb.steps/4"
SFT_FEATURES: dict[str, Any] = {
    "messages": MESSAGES,
    "tools": JSON_LIST,
    "loss": {"feature": WHOLE, "_type": "List"},
    "reasoning_loss": {"feature": WHOLE, "_type": "List"},
    "root_id": TEXT,
    "privilege": TEXT,
    "acted_by": TEXT_LIST,
    **SOURCE,
}
STEPS_FEATURES: dict[str, Any] = {
    "prompt": MESSAGES,
    "completion": MESSAGES,
    "tools": JSON_LIST,
    "seq": WHOLE,
    "acted_by": TEXT,
    "reasoning_loss": WHOLE,
    **SOURCE,
}
PROMPT_BYTES = 64 * 1024 * 1024
"""Total size of the prompts of one episode in `steps`, in Parquet with their pictures. Later turns are left out."""


def sft(record: Record, shaped: Shaped, ground: Ground) -> Iterator[dict[str, Any]]:
    """Yield one row for the episode. `loss` has one number per message, 1 if the agent is trained on it, and
    `reasoning_loss` the same for its reasoning. `acted_by` names the person who acted, "" for the agent.
    """
    messages, tools = shaped.messages, list(shaped.tools)
    losses = {"loss": [line.loss for line in shaped.lines]}
    losses["reasoning_loss"] = [line.reasoning_loss for line in shaped.lines]
    actors = {"acted_by": [line.acted_by for line in shaped.lines]}
    about = {"root_id": record.root or record.id, "privilege": record.knowledge}
    about |= source(SFT, record, ground, messages)
    sha = sha256([messages, tools])
    yield {"messages": messages, "tools": tools, **losses, **actors, **about, "content_sha256": sha}


def steps(record: Record, shaped: Shaped, ground: Ground) -> Iterator[dict[str, Any] | LeftOut]:
    """Yield one row per turn with loss: everything before it is the prompt, the turn is the completion. The prompt has
    the reasoning that its endpoint got back, as far as the record says how much that was.
    """
    messages, tools, spent, seen = shaped.messages, list(shaped.tools), 0, 0
    mode = _mode_of(record)
    about = source(STEPS, record, ground, messages)
    for place, line in enumerate(shaped.lines):
        # the first message of all has no prompt
        if line.loss and place:
            # prompts grow with the square of the turns
            spent += seen
            if spent > PROMPT_BYTES:
                yield LeftOut("prompts_too_large")
                continue
            row = {"prompt": _prompt(messages[:place], mode), "completion": [line.message], "tools": tools}
            digest = sha256([row["prompt"], row["completion"], tools])
            where: dict[str, Any] = {"seq": line.said.seqs[-1] if line.said.seqs else 0, "acted_by": line.acted_by}
            where["reasoning_loss"] = line.reasoning_loss
            yield {**row, **where, **about, "content_sha256": digest}
        seen += _size_of(line.message, ground.recipe.parquet)


def _size_of(message: Mapping[str, Any], has_bytes: bool) -> int:
    """Return the size of a message: characters count as bytes, and 100 as its rest, or as the name of a picture."""
    content = message["content"]
    parts: list[dict[str, Any]] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    sizes = (len(one["text"]) if one["type"] == "text" else 100 + has_bytes * one["bytes"] for one in parts)
    return sum(sizes) + len(message.get(REASONING, "")) + 100


def _mode_of(record: Record) -> ReasoningMode:
    """Return how much reasoning the agent's endpoint got back; an external loop that does not say so kept all of it."""
    mode = record.policy.get("reasoning")
    if mode in MODES:
        return cast(ReasoningMode, mode)
    # awmweb's own loop sends reasoning only if its policy says so
    return "none" if record.policy.get("awmweb") == "model" else "all"


def _prompt(messages: Sequence[dict[str, Any]], mode: ReasoningMode) -> list[dict[str, Any]]:
    since = first_sent(messages, mode)
    return [
        {name: value for name, value in message.items() if name != REASONING}
        if place < since and REASONING in message
        else message
        for place, message in enumerate(messages)
    ]
