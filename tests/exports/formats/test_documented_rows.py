"""The rows in docs/exports.md are those of the formats: the same keys, and values of the same kinds."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from exports.formats import FORMATS
from tests.exports.records import FAILED, STEPS, record, task_record, walk

PAGE = Path(__file__).resolve().parents[3] / "docs" / "exports.md"
DOCUMENTED = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)]


def shape_of(row):
    """Which format a documented row is of."""
    version = str(row.get("schema_version", ""))
    named = next((name for name, one in FORMATS.items() if one.version == version), "")
    marks = {"input_ids": "tokens", "parallel_tool_calls": "openai", "tool_trace": "openenv", "scores": "inspect"}
    return named or next(name for key, name in marks.items() if key in row)


def same_kinds(told, real, where):
    if isinstance(told, dict):
        for name, value in told.items():
            assert name in real, f"{where}.{name}"
            same_kinds(value, real[name], f"{where}.{name}")
    elif real is not None and told is not None:
        assert type(told) is type(real), where


def test_every_format_has_a_documented_row():
    assert {shape_of(row) for row in DOCUMENTED} == set(FORMATS)


@pytest.mark.parametrize("told", DOCUMENTED, ids=shape_of)
def test_documented_row_is_a_row_of_its_format(told):
    shape = shape_of(told)
    if shape == "tokens":
        assert set(told) <= set(FORMATS[shape].features)
        return
    steps = [{**step, "arguments": {"into": 8}} if step["seq"] == 8 else step for step in STEPS]
    failed = [record(id="e2", results=FAILED, steps=steps)] if shape in ("dpo", "kto") else []
    if shape == "curriculum":
        same_kinds(told, walk(shape, task_record())[0][0], shape)
        return
    rows, _ = walk(shape, record(policy={"model": "m/1"}), *failed)
    added = {"epoch"} if shape == "inspect" else set()  # the writer of logs numbers the episodes of a task
    same_kinds({name: value for name, value in told.items() if name not in added}, rows[0], shape)
