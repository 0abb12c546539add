"""Rows with pictures: contents are lists of parts, and `images` names the files in the order of their parts. Pure.

The form in which trainers read conversations with pictures. `datasets` reads the files of `images` as pictures: in JSON
Lines by their path, in Parquet from the bytes that its writer puts beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from awmclient.words.conversation import PromptMessage
from awmclient.words.shown import in_parts
from exports.formats.columns import MESSAGES, TEXT
from exports.record import Record, StoredPicture
from exports.rules.shaping import Shaped, TrainingLine

CONTENT = {"feature": {"type": TEXT, "text": TEXT}, "_type": "List"}
IMAGES = {"feature": {"_type": "Image"}, "_type": "List"}
SIDES = ("messages", "prompt", "completion", "chosen", "rejected")
"""Columns of messages, in the order in which they are read."""
PARQUET_ROW_BYTES = 64 * 1024 * 1024
"""Pictures of a row in Parquet, which has them inside: a writer and a reader have a row in memory."""


def features_of(features: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a format whose rows have pictures."""
    feature: Any = MESSAGES["feature"]
    messages = {**MESSAGES, "feature": {**feature, "content": CONTENT}}
    return {**{name: messages if name in SIDES else one for name, one in features.items()}, "images": IMAGES}


def with_pictures(record: Record, shaped: Shaped) -> Shaped:
    """Return the lines of an episode with its pictures. Those that calls returned have a line of their own."""
    if not record.pictures:
        return shaped
    messages = [(line.message, _shown(line, record)) for line in shaped.lines]
    lines = (_line(shaped, place, message) for place, message in in_parts(messages))
    return replace(shaped, lines=tuple(lines))


def _shown(line: TrainingLine, record: Record) -> list[dict[str, Any]]:
    stored = [(part, record.pictures.get(part["blob"])) for part in line.said.pictures]
    return [{**part, "path": one.path, "bytes": one.size} for part, one in stored if one is not None]


def _line(shaped: Shaped, place: int, message: dict[str, Any]) -> TrainingLine:
    if place < 0:
        return TrainingLine(message, 0, PromptMessage(message, "result"))
    line = shaped.lines[place]
    return line if line.message is message else replace(line, message=message)


def as_row(value: Mapping[str, Any], version: str) -> tuple[dict[str, Any], list[StoredPicture]]:
    """Return a row in this form, and the pictures that it names."""
    pictures: list[StoredPicture] = []
    sides = {name: [_message(one, pictures) for one in value[name]] for name in SIDES if name in value}
    images = [one.path for one in pictures]
    return {**value, **sides, "images": images, "schema_version": version}, pictures


def _message(message: Mapping[str, Any], pictures: list[StoredPicture]) -> dict[str, Any]:
    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": [{"type": "text", "text": content}]}
    shown = [part for part in content if part["type"] == "image"]
    pictures += [StoredPicture(part["path"], part["bytes"]) for part in shown]
    return {**message, "content": [{"type": "image"} if part["type"] == "image" else part for part in content]}
