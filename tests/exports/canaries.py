"""Canaries for exports: a text of its own in every field that a stranger can write, found from the record's schema.

A field that is added to a shape is planted by itself. A field of a type that `planted` does not know fails the tests.
"""

from __future__ import annotations

import json
import types
import typing
import zipfile
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel

from awmclient import schema
from awmclient.nouns.fields import Number
from exports.recipe import KINDS

KINDS_OF_STEPS = (schema.Message, schema.ToolCallStep, schema.Action, schema.Nudge, schema.Note, schema.Briefing)
NO_TEXT = (int, float, bool, datetime)
GIVEN = {"seed": 5, "task_idx": 3, "reward": 1.0, "training_step": 1}
"""Numbers, also those whose type says only that a check follows."""


def planted(shape: type[BaseModel], text, path="", without=()):
    """A value of this shape, with `text(path)` in each of its texts. Numbers and times are left out or given."""
    value = {}
    for name, field in shape.model_fields.items():
        if name in without:
            continue
        said = _value(field.annotation, text, f"{path or shape.__name__}.{name}", name)
        if said is not None:
            value[name] = said
    return value


def _value(kind, text, path, name):
    if name in GIVEN:
        return GIVEN[name]
    if name == "state_diff":
        return {text(f"{path}.name"): {"added": [{text(f"{path}.name"): text(f"{path}.value")}]}}
    while typing.get_origin(kind) is typing.Annotated:
        kind = typing.get_args(kind)[0]
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        (kind,) = [one for one in inner if one is not types.NoneType]
        return _value(kind, text, path, name)
    if kind in NO_TEXT:
        return None
    if kind in (str, typing.Any):
        return text(path)
    if origin is typing.Literal:
        return inner[0]
    if origin is dict or kind is dict:
        return {text(f"{path}.name"): 1.0 if Number in inner else text(f"{path}.value")}
    if origin is list:
        return [_value(inner[0], text, path, name)]
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return planted(kind, text, path)
    raise AssertionError(f"Say in tests/exports/canaries.py how a canary gets into {path}: {kind}")


def recipes(tokenizer="plain"):
    """One recipe for each format, with each mode of advice, and Parquet where there is one."""
    for name, kind in KINDS.items():
        about = {"format": name, **({"tokenizer": tokenizer} if kind.takes_tokenizer else {})}
        if kind.is_curriculum:
            yield about
            continue
        for advice in ("keep", "keep_masked", "drop", "distil"):
            yield {**about, "advice": advice}
        yield from ({**about, "parquet": True} for _ in range(kind.is_table))


def everything(folder: Path, decode) -> dict[str, str]:
    """All text of a dataset's files by name, also of what is packed in them or stands there as token IDs."""
    found = {}
    for file in sorted(one for one in folder.rglob("*") if one.is_file()):
        name = str(file.relative_to(folder))
        if file.suffix == ".eval":
            with zipfile.ZipFile(file) as log:
                found[name] = "\n".join([*log.namelist(), *(log.read(one).decode() for one in log.namelist())])
        elif file.suffix == ".parquet":
            import pyarrow.parquet as pq

            rows = pq.read_table(file).to_pylist()
            found[name] = json.dumps(rows, ensure_ascii=False, default=str) + "".join(map(decode, _ids(rows)))
        else:
            found[name] = file.read_bytes().decode(errors="surrogateescape")  # pictures are no text
            if file.parent.name == "data" and '"input_ids"' in found[name]:
                found[name] += "".join(map(decode, _ids(map(json.loads, found[name].splitlines()))))
    return found


def _ids(rows):
    return [row["input_ids"] for row in rows if "input_ids" in row]
