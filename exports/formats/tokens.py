"""Rows as token ids of one tokenizer, with labels that carry the loss of each message (`tokens`). Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from exports.formats.columns import SOURCE, WHOLE, sha256, source
from exports.record import Record
from exports.rules.leakage import Ground
from exports.rules.shaping import Shaped

VERSION = "awmweb.tokens/1"
FEATURES: dict[str, Any] = {
    "input_ids": {"feature": WHOLE, "_type": "List"},
    "labels": {"feature": WHOLE, "_type": "List"},
    **SOURCE,
}


def rows(record: Record, shaped: Shaped, ground: Ground) -> Iterator[dict[str, Any]]:
    """Yield one row for the episode; none where no token of it would be learned."""
    assert ground.tokenizer is not None
    losses, thoughts = [line.loss for line in shaped.lines], [line.reasoning_loss for line in shaped.lines]
    encoded = ground.tokenizer.encode(shaped.messages, shaped.tools, losses, thoughts)
    # -100 is the only label below 0
    if encoded is None or not any(label >= 0 for label in encoded[1]):
        return
    ids, labels = encoded
    row = {"input_ids": ids, "labels": labels}
    yield {**row, **source(VERSION, record, ground, shaped.messages), "content_sha256": sha256([ids, labels])}
