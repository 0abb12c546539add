"""Suggested calls against the schemas of tools: what is said of a misfit, and that no schema holds anybody up."""

from __future__ import annotations

import json
import time

import pytest
from django.db import connection
from django.test import Client
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from awmclient.choosing.scripted import ScriptedPolicy
from awmclient.errors import EnvironmentFault
from awmclient.loop.rollout import rollout
from awmclient.schema import (
    MAX_TOOLS,
    SCHEMA_CHARACTERS,
    SCHEMA_LEVELS,
    SCHEMA_VALUES,
    AskOpen,
    EpisodeStart,
    ToolCall,
    ToolSpec,
    tools_problem,
)
from awmclient.testing import FakeEnv, MemoryDashboard
from episodes.closed_schemas import problem_of_form
from episodes.models import Episode
from episodes.record import recording
from episodes.show import wall
from episodes.tool_schemas import Checker
from experts import llm
from experts.record import advising, opening
from experts.rules import suggested_calls
from experts.rules.model_replies import ModelAnswer
from experts.rules.suggested_calls import calls_of, refuse_unfit
from people.errors import Invalid
from tests.browsing import as_person, html
from tests.people_by_name import token


@pytest.mark.parametrize(
    ("value", "schema", "words"),
    [
        ({"a": 7}, {"properties": {"a": {"type": "integer"}}}, ""),
        ({"a": "7"}, {"properties": {"a": {"type": "integer"}}}, "a is not of type integer"),
        ({"a": True}, {"properties": {"a": {"type": ["integer", "null"]}}}, "a is not of type integer or null"),
        ({"a": 7.0}, {"properties": {"a": {"type": "integer"}}}, ""),
        ({}, {"required": ["a"]}, "a is missing"),
        ({"a": {}}, {"properties": {"a": {"required": ["b"]}}}, "a.b is missing"),
        ({"a": [1, "x"]}, {"properties": {"a": {"items": {"type": "integer"}}}}, "a[1] is not of type integer"),
        ({"a": 1}, {"additionalProperties": False, "properties": {"b": {}}}, "a is not taken"),
        ({"a": 1}, {"additionalProperties": False, "patternProperties": {"a+": {}}}, ""),
        ({"a": "y"}, {"properties": {"a": {"enum": ["x", 1]}}}, "a must be one of x, 1"),
        ({"a": True}, {"properties": {"a": {"enum": [1, 0]}}}, "a must be one of 1, 0"),
        ({"a": 1.0}, {"properties": {"a": {"enum": [1, 0]}}}, ""),
        (
            {"a": 9},
            {"properties": {"a": {"enum": list(range(9))}}},
            "a must be one of 0, 1, 2, 3, 4, 5, 6, 7 or 1 others",
        ),
        ({"a": 9}, {"properties": {"a": {"maximum": 5}}}, "a must be at most 5"),
        ({"a": 5}, {"properties": {"a": {"exclusiveMaximum": 5}}}, "a must be less than 5"),
        ({"a": "xy"}, {"properties": {"a": {"minLength": 3}}}, "a must be at least 3 characters long"),
        ({"a": [1, 1.0]}, {"properties": {"a": {"uniqueItems": True}}}, "a must be a list without repeats"),
        ({"a": [1, True, [1], [True]]}, {"properties": {"a": {"uniqueItems": True}}}, ""),
        (
            {"a": []},
            {"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}},
            "a is not of type string or is not of type null",
        ),
        ({"a": 1}, {"properties": {"a": {"oneOf": [{"type": "integer"}, {"pattern": "x"}]}}}, "a must fit only one of"),
        ({"a": "b"}, {"properties": {"a": {"pattern": "^a"}}}, "a must match the pattern ^a"),
        ({"a": "\ud800"}, {"properties": {"a": {"pattern": "^a"}}}, "a must match the pattern ^a"),
        ({"a": 1.15}, {"properties": {"a": {"multipleOf": 0.01}}}, ""),
        ({"a": 1.155}, {"properties": {"a": {"multipleOf": 0.01}}}, "a must be a multiple of 0.01"),
        (
            {"a": {"b": 1}},
            {"$defs": {"x": {"required": ["c"]}}, "properties": {"a": {"$ref": "#/$defs/x"}}},
            "a.c is missing",
        ),
        ({"a": {"a": {"b": 1}}}, {"properties": {"a": {"$ref": "#"}, "b": False}}, "a.a.b is not taken"),
        ({"a": 1}, {"if": {"required": ["a"]}, "then": {"required": ["b"]}}, "b is missing"),
        ({"a": 1}, {"properties": {"a": {"not": {"const": 1}}}}, "a is a value that is not taken"),
        ({"a": 1, "b": 1}, {"properties": {"a": {}}, "unevaluatedProperties": False}, "this has fields that are not"),
        ({"a": 1}, {"dependentRequired": {"a": ["b"]}}, "b is required beside another field"),
        ({"A": 1}, {"propertyNames": {"pattern": "^[a-z]+$"}}, "A is not taken as a name"),
        ({"b1": "x"}, {"patternProperties": {"^b": {"type": "integer"}}}, "b1 is not of type integer"),
        ({"a": [1, 2]}, {"properties": {"a": {"contains": {"const": 3}}}}, "a must be a list with an entry that fits"),
        # another dialect would run patterns of its own
        (
            {"a": "b"},
            {"properties": {"a": {"$schema": "http://json-schema.org/draft-04/schema#", "pattern": "^a"}}},
            "a must match the pattern ^a",
        ),
        ({"a": 1}, {"allOf": [{"required": ["a"]}, {"required": ["b"]}]}, "b is missing"),
        ({"a": 1}, {"$ref": "#/nowhere", "pattern": "(a)\\1", "if": {}, "else": False}, ""),
        ({"a": 1}, {"$ref": "file:///etc/passwd", "$dynamicRef": "#x", "x-note": {"not": {}}}, ""),
        ({"a": 1}, {"type": "no such type", "required": 7, "properties": [1], "minimum": "x", "enum": 5}, ""),
        ({"a": 1}, 7, ""),
        ({"a": 1}, None, ""),
        ({"a": 1}, False, "this is not taken"),
        ({"a": float("inf")}, {"properties": {"a": {"type": "integer"}}}, "a is not of type integer"),
    ],
)
def test_a_misfit_names_the_place_and_what_is_wanted(value, schema, words):
    assert Checker().misfit(value, schema).startswith(words) if words else not Checker().misfit(value, schema)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.5, 1.0, -2.0])
    | st.sampled_from(["", "a", "bb"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null"])
COUNTS = st.integers(0, 3)
PLAIN = {
    "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
    "enum": st.lists(VALUES, min_size=1, max_size=3),
    "const": VALUES,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), st.integers(-2, 2)),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), COUNTS),
    "uniqueItems": st.booleans(),
    "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
}


def _schema(inner):
    parts = st.lists(inner, min_size=1, max_size=2)
    more = {
        "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        **dict.fromkeys(("additionalProperties", "items"), inner),
        **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), parts),
        **dict.fromkeys(("not", "if", "then", "else", "contains", "unevaluatedProperties", "unevaluatedItems"), inner),
    }
    return st.fixed_dictionaries({}, optional={**PLAIN, **more})


SCHEMAS = st.recursive(st.booleans() | st.fixed_dictionaries({}, optional=PLAIN), _schema, max_leaves=5)


@settings(max_examples=150)
@given(VALUES, SCHEMAS)
def test_the_checker_says_what_the_specifications_own_says(value, schema):
    assert (Checker().misfit(value, schema) == "") == Draft202012Validator(schema).is_valid(value)


def nested(depth, schema):
    for _ in range(depth):
        schema = {"anyOf": [{"type": "null"}, schema, {"allOf": [schema]}]}
    return schema


def doubling(levels, **also):
    names = {f"d{n}": {"allOf": [{"$ref": f"#/properties/x/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/properties/x/$defs/d0", "$defs": {**names, f"d{levels}": {}}, **also}


MANY = 5_000
PAIRS = [[one, other] for one in range(70) for other in range(70)]
HOSTILE = {
    "types that are objects": ({"type": [{"a": n} for n in range(MANY)]}, 1),
    "types of one property": ({"type": ["integer"] * MANY + ["text"]}, "x"),
    "a long list without repeats": ({"uniqueItems": True}, [[n, [n]] for n in range(50_000)]),
    "a long list of long choices": ({"items": {"enum": PAIRS}}, [[1, 2]] * 50_000),
    "a long list of forms": ({"items": {"anyOf": [{"type": "null"}] * MANY + [{}]}}, [1] * 50_000),
    "forms in forms": (nested(14, {"type": "integer"}), "x"),
    "everything is needed": ({"required": [f"a{n}" for n in range(MANY)]}, {f"a{n}": n for n in range(MANY)}),
    "objects of objects": (
        {"additionalProperties": {"additionalProperties": {}}},
        {str(n): {"x": 1} for n in range(50_000)},
    ),
    "a deep list": ({"const": 1}, json.loads("[" * 800 + "]" * 800)),
    "references that double": (doubling(40), 1),
    "references that double, looked through for fields": (doubling(40, unevaluatedProperties=False), {"a": 1}),
    "a reference to itself": ({"$ref": "#/properties/x"}, 1),
    "entries that were looked at": ({"prefixItems": [{}], "items": {}, "unevaluatedItems": {}}, [1] * 50_000),
    "a pattern that backtracks": ({"pattern": "^(a|a)*(a+)+$"}, "a" * 100_000 + "b"),
    "names by patterns of another part": (
        {"allOf": [{"patternProperties": {"^(a+)+$": {}}}], "unevaluatedProperties": False},
        {"a" * 35 + "b": 1},
    ),
    "names by patterns": (
        {"patternProperties": {f"(a{n})*$": {} for n in range(200)}},
        {f"b{n}": 1 for n in range(MANY)},
    ),
    "named fields in each entry": (
        {"items": {"properties": {f"a{n}": {} for n in range(MANY)}}},
        [{"b": 1}] * 20_000,
    ),
    "long words written into each error": ({"anyOf": [{"type": "integer"}] * MANY}, "y" * 1_000_000),
    "forms that are all right": ({"oneOf": [{"description": "x" * 100_000}] * 50}, ["y" * 1000] * 100),
    "long words": ({"enum": ["x" * 100_000] * 50}, "y" * 1_000_000),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_schema_and_no_value_takes_more_than_a_moment(name):
    schema, value = HOSTILE[name]
    tools = [{"name": "t", "input_schema": {"properties": {"x": schema}}}]
    calls = [ToolCall(name="t", arguments={"x": value})] * 20
    started = time.process_time()
    try:
        refuse_unfit(calls, tools)
    except Invalid as unfit:
        assert len(unfit.message) < 400
    assert time.process_time() - started < 1


@pytest.mark.parametrize("ref", ["#%2Fproperties%2Fa", "#/unevaluatedProperties", "#/$defs/50%", "#a"])
def test_reference_that_is_read_in_two_ways_is_left_out(ref):
    schema = {
        "$defs": {"50%": {"type": "integer"}},
        "properties": {"a": {}, "b": {"$ref": ref}},
        "patternProperties": {"^x": {}},
        "unevaluatedProperties": {},
    }
    assert Checker().misfits({"b": "x"}, schema) == []
    assert problem_of_form(schema)


def test_a_value_too_deep_to_be_checked_counts_as_not_checked():
    schema, value = {"type": "integer"}, "x"
    for _ in range(900):
        schema, value = {"items": schema}, [value]
    checker = Checker()
    assert checker.misfit(value, schema) == "" and checker.is_spent


def test_a_spent_budget_lets_the_rest_through():
    checker = Checker(steps=100)
    assert checker.misfit([1] * 200, {"items": {"type": "integer"}}) == ""
    assert checker.misfit("x", {"type": "integer"}) == ""
    assert Checker().misfit("x", {"type": "integer"}) == "this is not of type integer"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("[" * 100_000, "nest deeper than 128 levels"),
        ("NaN", "NaN is not JSON"),
        ("1e999", "the number 1e999 is out of range"),
        ("0.12345678901234567890", r"has more digits than a number keeps \(0.12345678901234568\)"),
        ('{"a": 1, "a": 2}', 'the name "a" comes twice'),
        ("{,}", r"not valid JSON \(line 1, column 36\)"),
    ],
)
def test_calls_whose_values_would_change_are_refused_by_name(value, words):
    with pytest.raises(Invalid, match=words):
        calls_of(f'[{{"name": "t", "arguments": {{"x": {value}}}}}]')
    with pytest.raises(Invalid, match="not readable"):
        calls_of('[{"arguments": {}}]')


def test_calls_keep_whole_numbers_and_short_decimals():
    (call,) = calls_of('[{"name": "t", "arguments": {"id": 9007199254740993, "price": 10.10, "e": 1e300}}]')
    assert call.arguments == {"id": 9007199254740993, "price": 10.1, "e": 1e300}


def deep(levels):
    schema = {}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


TOO_LARGE = {
    "nests deeper": deep(SCHEMA_LEVELS),
    "too many values": {"enum": list(range(SCHEMA_VALUES))},
    "too much text": {"description": "x" * (SCHEMA_CHARACTERS + 1)},
}


@pytest.mark.parametrize("why", TOO_LARGE)
@pytest.mark.django_db
def test_a_schema_beyond_all_reason_is_refused_at_the_door(project, why):
    _, secret = token(project, "agent")
    body = {"key": "k", "task": "t", "tools": [{"name": "fine"}, {"name": "merge", "input_schema": TOO_LARGE[why]}]}
    answer = Client().post(
        "/api/v1/episodes",
        json.dumps(body),
        content_type="application/json",
        headers={"Authorization": f"Bearer {secret}"},
    )
    assert answer.status_code == 422 and not Episode.objects.exists()
    told = answer.json()["error"]["message"]
    assert "The schema of the tool merge" in told and why in told


def test_more_tools_than_an_episode_can_have_are_a_problem():
    """A loop asks this of what its environment lists; nothing checks the number once more for a built-in episode."""
    tools = [ToolSpec(name=f"tool{number}") for number in range(MAX_TOOLS + 1)]
    assert tools_problem(tools) == "There are 501 tools, more than 500."
    assert not tools_problem(tools[:-1])


def test_schemas_that_are_large_together_are_refused():
    tools = [{"name": f"t{n}", "input_schema": {"enum": list(range(9_000))}} for n in range(5)]
    EpisodeStart(key="k", task="t", tools=tools[:4])
    with pytest.raises(ValueError, match="schemas holds too many values"):
        EpisodeStart(key="k", task="t", tools=tools)


async def test_environment_with_a_reserved_tool_name_is_refused():
    class Odd(FakeEnv):
        async def list_tools(self):
            return [ToolSpec(name="odd", input_schema=TOO_LARGE["too many values"])]

    dash = MemoryDashboard()
    result = await rollout(ScriptedPolicy([]), Odd(), dash, task="Look")
    assert (result.fault, result.detail) == (
        EnvironmentFault.fault,
        "The schema of the tool odd holds too many values.",
    )
    assert dash.book.entry(result.episode).fault == "environment"


def test_a_page_shows_so_much_of_a_schema_and_says_how_much_more():
    names = [f"a{n}" for n in range(20_000)]
    schema = {"properties": {name: {"enum": names, "description": "x"} for name in names[:300]}, "required": names}
    started = time.process_time()
    [tool] = wall.tools_of(Episode(tools=[{"name": "t", "input_schema": schema}]))
    assert time.process_time() - started < 0.5
    assert (len(tool["arguments"]), tool["more"], tool["arguments"][0]["required"]) == (100, 200, True)
    assert tool["arguments"][0]["type"].endswith("a19 | … 20000 in all")


@pytest.mark.django_db(transaction=True)
def test_nothing_is_locked_while_calls_are_checked(ada, edo, monkeypatch):
    """Over every way to suggest one: the form, one answer for many, better words, and a model."""
    locked = []

    class Watched(Checker):
        def misfits(self, value, schema, most=20):
            locked.append(connection.in_atomic_block)
            return super().misfits(value, schema, most)

    monkeypatch.setattr(suggested_calls, "Checker", Watched)
    tools = [{"name": "merge", "input_schema": {"properties": {"into": {"type": "integer"}}}}]
    asks = []
    for key in ("one", "two"):
        plan = EpisodeStart(key=key, task="merge", expert="plain", tools=tools)
        episode, _ = recording.start_episode(ada, plan)
        asks.append(opening.open_ask(ada, AskOpen(key="q", episode=episode.pk, seq=1, question="Into which one?"))[0])
    first, second = asks
    client = as_person(edo)
    client.post(f"/asks/{first.pk}/claim")
    lease = html(client.get(f"/asks/{first.pk}/")).split('name="lease_token" value="')[1].split('"')[0]
    calls = json.dumps([{"name": "merge", "arguments": {"into": 7}}])
    body = {"text": "So.", "tool_calls": calls, "lease_token": lease, "nonce": "n", "then": "watch", "with": second.pk}
    client.post(f"/asks/{first.pk}/answer", body)
    client.post(f"/asks/{first.pk}/amend", {"text": "Or so.", "tool_calls": calls, "nonce": "m"})
    assert [one.status for one in (first.__class__.objects.filter(pk__in=[first.pk, second.pk]))] == ["answered"] * 2
    llm._fitting(first, ModelAnswer("So.", [ToolCall(name="merge", arguments={"into": 7})]))
    assert len(locked) >= 4 and not any(locked)
    assert advising.Advice.objects.filter(ask=first).count() == 2


def test_refusal_names_what_each_suggested_call_breaks():
    shape = {"properties": {"into": {"type": "integer"}, "code": {"pattern": "^A"}}}
    calls = calls_of('[{"name": "merge", "arguments": {"into": "x", "code": "B"}}, {"name": "fly", "arguments": {}}]')
    with pytest.raises(suggested_calls.UnfitCalls) as refused:
        refuse_unfit(calls, [{"name": "merge", "input_schema": shape}])
    for words in ("merge: into is not of type integer; code must match", "no tool fly."):
        assert words in refused.value.message
    assert [(place["call"], place["path"]) for place in refused.value.fields()] == [("0", ("into",)), ("0", ("code",))]
