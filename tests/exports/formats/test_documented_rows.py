"""The examples in docs/exports.md hold: rows have the keys, kinds of values and tags of their formats; recipes, bodies
and commands are accepted."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml
from django.core.management import get_commands, load_command_class

from experts.models.asks import TAGS
from experts.record.tagging import TAG_VALUES
from exports.formats import FORMATS
from exports.recipe import Recipe
from tests.exports.formats.test_pictured_rows import pictured_walk, seen
from tests.exports.records import FAILED, STEPS, record, task_record, walk

PAGE = Path(__file__).resolve().parents[3] / "docs" / "exports.md"
TEXT = PAGE.read_text(encoding="utf-8")
DOCUMENTED = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", TEXT, re.S)]
RECIPES = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(format:.*?)```", TEXT, re.S)]
BODIES = [json.loads(body) for body in re.findall(r"^POST /api/v1/exports\s+({.*?})\s+202", TEXT, re.M)]
COMMANDS = re.findall(r"^(?:\$ )?\.venv/bin/python manage\.py (.*?)(?:\s+#.*)?$", TEXT, re.M)


def shape_of(row):
    """Which format a documented row is of."""
    version = str(row.get("schema_version", ""))
    named = next((name for name, one in FORMATS.items() if version and version in (one.version, one.pictured)), "")
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
    if told.get("schema_version") == FORMATS[shape].pictured:
        rows, _ = pictured_walk(shape, seen())
    else:
        rows, _ = walk(shape, record(policy={"model": "m/1"}), *failed)
    added = {"epoch"} if shape == "inspect" else set()  # the writer of logs numbers the episodes of a task
    same_kinds({name: value for name, value in told.items() if name not in added}, rows[0], shape)


def test_documented_tags_are_tags_of_questions():
    told = [tag for row in DOCUMENTED for tag in row.get("tags", ())]
    assert told and set(told) <= {f"{label}={value}" for label in TAGS for value in TAG_VALUES}


@pytest.mark.parametrize("told", [*RECIPES, *BODIES], ids=lambda told: told["format"])
def test_documented_recipe_is_accepted(told):
    assert Recipe.model_validate(told).format == told["format"]


@pytest.mark.parametrize("line", COMMANDS, ids=lambda line: " ".join(line.split()[:2]))
def test_documented_command_is_accepted(line):
    name, *options = shlex.split(line)
    parser = load_command_class(get_commands()[name], name).create_parser("manage.py", name)
    assert parser.parse_args(options)


def test_examples_of_each_kind_are_found():
    assert RECIPES and BODIES and len(COMMANDS) >= 4
