"""Rows as token ids (`tokens`): of one tokenizer, with labels that carry the loss of each message, or as they were
captured when the agent's model read and sampled them. Pure.

A captured row is a turn. Nothing is tokenized again, so nothing can be cut out of its ids either: a turn that a
redaction touched, or that the capture refuses, gives none.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from exports.formats.columns import NUMBER, SOURCE, WHOLE, sha256, source
from exports.record import LeftOut, NoRow, Record
from exports.rules.leakage import Ground
from exports.rules.redaction import marks_in
from exports.rules.shaping import Shaped, TrainingLine

VERSION = "awmweb.tokens/4"
IDS = {"feature": WHOLE, "_type": "List"}
FEATURES: dict[str, Any] = {
    "input_ids": IDS,
    "labels": IDS,
    "prompt_ids": IDS,
    "completion_ids": IDS,
    "logprobs": {"feature": NUMBER, "_type": "List"},
    "seq": WHOLE,
    **SOURCE,
}
IGNORED = -100
EPISODE_IDS = 16_000_000
"""Token ids of one episode's captured rows. Later turns of a very long episode are left out."""
_CODE = re.compile(r"([a-z][a-z0-9_]{2,40}): ")
_COUNTS = re.compile(r"\d+")


def rows(record: Record, shaped: Shaped, ground: Ground) -> Iterator[dict[str, Any] | LeftOut]:
    """Yield one row for the episode, or with captured ids one per turn; none where no token of it would be learned."""
    if ground.tokenizer is None:
        yield from _captured(record, shaped, ground)
        return
    losses, thoughts = [line.loss for line in shaped.lines], [line.reasoning_loss for line in shaped.lines]
    encoded = ground.tokenizer.encode(shaped.messages, shaped.tools, losses, thoughts)
    # -100 is the only label below 0
    if encoded is None or not any(label >= 0 for label in encoded[1]):
        return
    ids, labels = encoded
    row = {"input_ids": ids, "labels": labels, "prompt_ids": [], "completion_ids": [], "logprobs": [], "seq": 0}
    yield {**row, **source(VERSION, record, ground, shaped.messages), "content_sha256": sha256([ids, labels])}


def _captured(record: Record, shaped: Shaped, ground: Ground) -> Iterator[dict[str, Any] | LeftOut]:
    metas = {step.get("seq"): step["meta"] for step in record.steps if isinstance(step.get("meta"), Mapping)}
    refused, spent, gave, why = _Refusals(metas.values()), 0, False, ""
    hidden = _first_hidden(shaped, ground)
    about = source(VERSION, record, ground, shaped.messages)
    for place, line in enumerate(shaped.lines):
        meta = next((metas[seq] for seq in line.said.seqs if _is_captured(metas.get(seq))), None)
        if meta is None or not line.loss:
            continue
        reason = refused.of(meta) or ("not_trainable: a part of it is redacted" if place >= hidden else "")
        reason = reason or _problem(meta)
        spent += len(meta.get("prompt_ids") or ()) + len(meta.get("completion_ids") or ())
        if reason or spent > EPISODE_IDS:
            why = reason or "not_trainable: its episode has too many token IDs"
            yield LeftOut(why)
            continue
        gave = True
        prompt, sampled = meta["prompt_ids"], meta["completion_ids"]
        mask = meta.get("completion_mask") or [1] * len(sampled)
        labels = [IGNORED] * len(prompt) + [one if on else IGNORED for one, on in zip(sampled, mask, strict=True)]
        ids = {"input_ids": [*prompt, *sampled], "labels": labels, "prompt_ids": prompt, "completion_ids": sampled}
        row = {**ids, "logprobs": meta.get("logprobs") or [], "seq": line.said.seqs[0]}
        yield {**row, **about, "content_sha256": sha256([row["input_ids"], labels])}
    if not gave:
        raise NoRow(why.removeprefix("not_trainable: ") or "no token IDs were captured")


class _Refusals:
    """What the capture of an episode refuses: its last word on each turn, and on the whole of it."""

    def __init__(self, metas: Any) -> None:
        self._whole, self._of_node = "", dict[str, str]()
        for mark in (meta.get("capture") for meta in metas):
            if not isinstance(mark, Mapping):
                continue
            later = mark.get("changed")
            for capture in (mark, *(later.values() if isinstance(later, Mapping) else ())):
                self._note(capture)

    def _note(self, mark: Any) -> None:
        if not isinstance(mark, Mapping) or "trainable" not in mark:
            return
        reason = "" if mark["trainable"] is True else _named(mark.get("reason"))
        if "node" in mark:
            self._of_node[str(mark["node"])] = reason
        else:
            self._whole = reason

    def of(self, meta: Mapping[str, Any]) -> str:
        mark = meta.get("capture")
        node = str(mark.get("node")) if isinstance(mark, Mapping) else ""
        return self._whole or self._of_node.get(node, "")


def _named(reason: Any) -> str:
    """Return a reason in few words, so that a manifest can count it: the code of a finding, or its text without
    counts."""
    text = reason if isinstance(reason, str) and reason else "no reason given"
    code = _CODE.match(text)
    words = code[1] if code else _COUNTS.sub("N", " ".join(text.split()))
    return f"not_trainable: {words[:80]}"


def _is_captured(meta: Any) -> bool:
    return isinstance(meta, Mapping) and ("capture" in meta or "completion_ids" in meta)


def _problem(meta: Mapping[str, Any]) -> str:
    """Return what is wrong with the ids of a turn; those of a loop without a capture have no one else who looked."""
    prompt, sampled, chances = meta.get("prompt_ids"), meta.get("completion_ids"), meta.get("logprobs")
    mask = meta.get("completion_mask")
    if not _are_ids(prompt) or not _are_ids(sampled):
        return "not_trainable: its token IDs are no list of whole numbers"
    assert sampled is not None
    if chances is not None and (not _are_numbers(chances) or len(chances) != len(sampled)):
        return "not_trainable: its log-probabilities are no list of one number for each token"
    if mask is not None and (not isinstance(mask, list) or len(mask) != len(sampled) or not set(mask) <= {0, 1}):
        return "not_trainable: its mask is no list of 0 and 1 for each token"
    return ""


def _are_ids(value: Any) -> bool:
    # `type`, because `isinstance` takes `True` for an int
    return isinstance(value, list) and bool(value) and all(type(one) is int and 0 <= one < 1 << 31 for one in value)


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(type(one) in (int, float) and math.isfinite(one) for one in value)


def _first_hidden(shaped: Shaped, ground: Ground) -> int:
    """Return the place of the first line that a redaction touched. The ids of this turn and of all later ones hold
    what it removed."""
    lines: Sequence[TrainingLine] = shaped.lines
    if ground.recipe.redact == "off" and not ground.recipe.patterns:
        return len(lines)
    if marks_in(json.dumps(shaped.tools).encode()):
        return 0
    return next((place for place, line in enumerate(lines) if marks_in(json.dumps(line.message).encode())), len(lines))
