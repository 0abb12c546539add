"""The one reader of YAML: values of JSON alone, within bounds, whatever a text holds; nothing else reads YAML."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
import yaml

from people.text import yaml_text
from people.text.yaml_text import BadYaml
from tests.test_layers import APPS

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None), ("a:", {"a": None}), ("a: off\nb: no\nc: 'true'", {"a": "off", "b": "no", "c": "true"}),
        ("[1, -2, 0.5, 1e3, .5, true, null]", [1, -2, 0.5, 1000.0, 0.5, True, None]), ("2024-01-01", "2024-01-01"),
        ("12:30:00", "12:30:00"), ("9" * 5000, "9" * 5000), (".inf", ".inf"), (".nan", ".nan"), ("1e999", "1e999"),
        ("{1: a, true: b}", {"1": "a", "true": "b"}), ("a: &x 1", {"a": 1}), ("- |\n  a\n  b\n", ["a\nb\n"]),
    ],
)  # fmt: skip
def test_value_is_one_of_json(text, value):
    assert yaml_text.read(text) == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: &x [1]\nb: *x", "line 2: an alias"), ("a: {<<: {b: 1}}", "a merge key"), ("a: !!python/x {}", "a tag"),
        ("!!timestamp 2024-01-01", "a tag"), ("a: 1\na: 2", "line 2: 'a' twice"), ("? [1]\n: 2", "a name that is not"),
        ("a: 1\n---\nb: 2", "a second document"), ("[" * 40 + "]" * 40, "levels"), ("[" * 50_000, "levels"),
        ("x" * 1_000_001, "characters"), ("[" + "1," * 100_001 + "]", "values"), ("a: [", "line 2"),
        ("\ud800", "surrogate"), ("a: \x00", "not allowed|control"), ("*x", "alias"),
    ],
)  # fmt: skip
def test_anything_else_is_refused(text, words):
    with pytest.raises(BadYaml, match=words):
        yaml_text.read(text)


def test_what_we_write_is_read_again():
    value = {"a": ["no", "1", "2024-01-01", "", "~", 1.5, -3, None, True, "x: y", "é\n"], "b": {"c": {}}}
    assert yaml_text.read(yaml.safe_dump(value, allow_unicode=True)) == value
    assert yaml_text.read(json.dumps(value)) == value


def test_no_other_module_reads_yaml():
    readers = {"load", "safe_load", "full_load", "unsafe_load", "load_all", "safe_load_all", "parse", "compose"}
    found = set()
    for app in {*APPS, "awmweb", "awmenv", "awmclient"}:
        for file in (ROOT / app).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Attribute) and node.attr in readers and ast.unparse(node.value) == "yaml":
                    found.add(str(file.relative_to(ROOT)))
    assert found == {"people/text/yaml_text.py"}
