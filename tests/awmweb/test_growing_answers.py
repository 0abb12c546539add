"""Answers may grow: what a newer dashboard adds is left out by an older client. Bodies refuse what they do not know."""

from __future__ import annotations

import ast
import json

import pytest

from awmclient.schema import Trajectory
from awmweb.urls import api
from tests.running import ROOT

LATER = "added_later"
OPEN = {"RunInterrupts"}
"""AG-UI's event: another protocol, which may grow."""
FORM = {"type": "object", "properties": {"amount": {"type": "number"}}}
"""What the schema of a form can be; any other object is refused there."""
OF_KIND = {"approval": "calls", "choice": "options", "form": "response_schema"}
"""The one field of a typed ask that its kind has."""
TEXTS = {"date-time": "2026-11-21T10:00:00Z", "binary": "x", "^[0-9a-f]{64}$": "0" * 64}


def answers():
    """The shapes of answers that the client has, by name: those of the calls, and the record of an export."""
    found = {Trajectory}
    for _, router in api._routers:
        for view in router.path_operations.values():
            for call in view.operations:
                models = (model for status, model in call.response_models.items() if status < 300 and model)
                found |= {model.model_fields["response"].annotation for model in models}
    return {one.__name__: one for one in found if isinstance(one, type) and one.__module__.startswith("awmclient.")}


def grown(schema, shapes, inside=()):
    """Return values of a schema, which have every field and together every choice, each with a field that is new."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        values = grown(shapes[name], shapes, (*inside, name)) if name not in inside else []
        return (
            [of_kind(value, kind) for value in values for kind in OF_KIND if value[OF_KIND[kind]]]
            if name == "TypedAsk"
            else values
        )
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return [value for one in schema[choice] for value in grown(one, shapes, inside)]
    if "const" in schema or "enum" in schema:
        return [schema["const"]] if "const" in schema else schema["enum"]
    kind = schema.get("type")
    if kind == "object" and "properties" in schema:
        fields = {name: grown(one, shapes, inside) or [None] for name, one in schema["properties"].items()}
        fields |= {name: [FORM] for name in fields if name == "response_schema"}
        most = max(map(len, fields.values()))
        return [{name: one[at % len(one)] for name, one in fields.items()} | {LATER: 1} for at in range(most)]
    if kind == "array":
        items = [schema["items"]] if "items" in schema else schema.get("prefixItems", [])
        return [list(values) for values in zip(*(grown(one, shapes, inside) for one in items), strict=True)]
    if kind == "string":
        return [TEXTS.get(schema.get("format") or schema.get("pattern", ""), "x")]
    return [{"integer": schema.get("minimum", 1), "number": 1.5, "boolean": True, "object": {}}.get(kind)]


def of_kind(value, kind):
    return {"kind": kind, OF_KIND[kind]: value[OF_KIND[kind]], LATER: 1}


def counted(value):
    """How many objects have the new field, at any level."""
    return json.dumps(value).count(f'"{LATER}"')


@pytest.mark.parametrize("name", sorted(answers()))
def test_answer_with_new_fields_at_every_level_is_read(name):
    shape = answers()[name]
    schema = shape.model_json_schema(by_alias=True)
    values = grown(schema, schema.get("$defs", {}))
    assert values and all(counted(value) for value in values)
    for value in values:
        assert counted(shape.read(value).model_dump(mode="json", by_alias=True)) == 0


def test_every_body_refuses_what_it_does_not_know():
    paths, shapes = api.get_openapi_schema()["paths"], api.get_openapi_schema()["components"]["schemas"]
    bodies = [
        content["application/json"]["schema"]
        for methods in paths.values()
        for said in methods.values()
        if "application/json" in (content := said.get("requestBody", {}).get("content", {}))
    ]
    names = {one["$ref"].rpartition("/")[2] for one in bodies if "$ref" in one}
    assert len(names) > 20 and {one for one in names if shapes[one].get("additionalProperties") is not False} == OPEN


def test_client_reads_every_answer_so_that_it_may_grow():
    read, others = set(), []
    for path in (ROOT / "awmclient").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr == "read" and ast.unparse(node.func.value) in answers():
                    read.add(ast.unparse(node.func.value))
                if node.func.attr == "model_validate" and "ire.send" in text:
                    others.append(f"{path.name}:{node.lineno}")
    assert others == [] and len(read) >= 9
