"""Decisions in plain fields: what a page shows, what a post means, and hostile drafts, names and schemas."""

from __future__ import annotations

import pytest

from experts.rules.decision_fields import decision_of, draft_of, fields_of, type_of
from people.errors import Invalid
from people.text.plain_text import with_line_ends

BIG = 9007199254740993
SCHEMA = {
    "type": "object",
    "required": ["order"],
    "properties": {
        "order": {"type": "integer"},
        "why": {"enum": ["duplicate", 2, "\u202egoodwill"]},
        "urgent": {"type": ["null", "boolean"]},
        "lines": {"anyOf": [{"type": "array"}]},
        "note": {"type": "string", "description": "For the customer."},
    },
}
ARGUMENTS = {"order": BIG, "why": 2, "lines": [1], "note": "a\r\nb \u202e", "beside": {"a": None}}
CALL = {"id": "c", "name": "refund", "arguments": ARGUMENTS, "schema": SCHEMA}
APPROVAL = {"kind": "approval", "calls": [CALL]}


def posted(**fields):
    sent = {name.replace("_", ":"): value for name, value in fields.items()}
    return lambda name: [sent[name]] if name in sent else []


def as_shown(fields):
    """What a browser sends of a call's fields that no one touched."""
    chosen = {one.name: str(one.options.index(one.text)) for one in fields if one.options and one.text in one.options}
    return {
        one.name.replace(":", "_"): chosen.get(one.name, with_line_ends(one.text).replace("\n", "\r\n"))
        for one in fields
    }


def test_values_that_no_one_touched_stay_as_they_were_proposed():
    shown = as_shown(fields_of(APPROVAL, None).calls[0].fields)
    shown["arg_0_1"] = "0"
    [call] = decision_of(APPROVAL, posted(call_0="edit", **shown))["calls"]
    assert call["arguments"] == {**ARGUMENTS, "why": "duplicate"} and call["arguments"]["order"] == BIG


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("arg_0_0", " 7 ", 7),
        ("arg_0_0", "", None),
        ("arg_0_1", "2", "\u202egoodwill"),
        ("arg_0_2", "0", True),
        ("arg_0_3", '[{"a": 1.5}]', [{"a": 1.5}]),
        ("arg_0_4", "x\r\ny", "x\ny"),
        ("arg_0_4", " ", " "),
    ],
)
def test_texts_become_values_of_their_type(field, text, value):
    name = list(SCHEMA["properties"])[int(field[-1])]
    assert decision_of(APPROVAL, posted(call_0="edit", **{field: text}))["calls"][0]["arguments"].get(name) == value


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "Decide call 1: refund"),
        ({"call_0": "maybe"}, "Decide call 1"),
        ({"arg_0_0": "7.5"}, "Call 1: order must be a whole number"),
        ({"arg_0_0": "true"}, "whole number"),
        ({"arg_0_0": "x"}, "not valid JSON"),
        ({"arg_0_0": "1e999"}, "out of range"),
        ({"arg_0_3": "{}"}, "a list in JSON"),
        ({"arg_0_3": "[" * 5000}, "deeper|valid JSON"),
    ],
)
def test_text_that_is_no_value_is_refused_by_name_and_kept(fields, why):
    post = posted(**({"call_0": "edit"} | fields if "call_0" in fields or fields else fields))
    with pytest.raises(Invalid, match=why):
        decision_of(APPROVAL, post)
    [call] = fields_of(APPROVAL, draft_of(APPROVAL, post)).calls
    assert {one.text for one in call.fields} >= {text for name, text in fields.items() if name.startswith("arg")}


def test_verdicts_and_reasons_go_with_their_call():
    two = {"kind": "approval", "calls": [CALL, {**CALL, "id": "d"}]}
    post = posted(call_0="approve", call_1="reject", why_1="No.\r\nNever.")
    approve, reject = {"id": "c", "verdict": "approve"}, {"id": "d", "verdict": "reject", "reason": "No.\nNever."}
    assert decision_of(two, post) == {"calls": [approve, reject]}


def test_options_are_sent_by_place():
    choice = {"kind": "choice", "options": [{"id": "\u202e", "label": "a"}, {"id": "b", "label": "b"}], "other": True}
    assert decision_of(choice, posted(chosen="0", other=" ")) == {"chosen": ["\u202e"]}
    assert decision_of(choice, posted(chosen="7", other="else")) == {"chosen": [], "other": "else"}
    assert [chosen for _, chosen in fields_of(choice, {"chosen": ["b"]}).options] == [False, True]


def test_form_begins_with_its_defaults():
    form = {"kind": "form", "response_schema": {"properties": {"size": {"type": "integer", "default": 3}}}}
    [field] = fields_of(form, None).fields
    assert (field.text, field.required) == ("3", False)
    assert decision_of(form, posted(**{"field_0": "4"})) == {"value": {"size": 4}}


@pytest.mark.parametrize("draft", [[1], {"calls": 5}, {"calls": [1, {"id": []}, {"id": "c", "texts": 4}]}, "x", None])
def test_odd_drafts_show_what_was_proposed(draft):
    [call] = fields_of(APPROVAL, draft).calls
    assert call.verdict == "" and call.fields[0].text == str(BIG)
    choice = {"kind": "choice", "options": [{"id": "a", "label": "a"}]}
    assert not fields_of(choice, {"chosen": draft} if draft is not None else None).options[0][1]


@pytest.mark.parametrize("schema", [None, True, {"properties": []}, {"properties": {"a": 1}, "required": [[1], "a"]}])
def test_odd_schemas_have_fields_for_what_was_proposed(schema):
    [call] = fields_of({"kind": "approval", "calls": [{**CALL, "schema": schema}]}, None).calls
    assert {"order", "beside"} <= {one.label for one in call.fields}


def test_many_arguments_show_the_required_ones_and_keep_the_rest():
    names = [f"a{n}" for n in range(150)]
    schema = {"properties": {name: {"type": "string"} for name in names}, "required": ["a149"]}
    call = {**CALL, "arguments": dict.fromkeys(names, "x"), "schema": schema}
    [shown] = fields_of({"kind": "approval", "calls": [call]}, None).calls
    assert len(shown.fields) == 100 and shown.left == 50 and shown.fields[0].label == "a149"
    post = posted(call_0="edit", **{**as_shown(shown.fields), "arg_0_0": "y"})
    [said] = decision_of({"kind": "approval", "calls": [call]}, post)["calls"]
    assert said["arguments"] == {**call["arguments"], "a149": "y"}


def test_type_of_a_union_is_the_first_known_one():
    assert type_of({"type": ["null", "integer"]}) == "integer" and type_of({"oneOf": [3, {"type": "array"}]}) == "array"
    assert type_of({"type": 7}) == "string" and type_of({"enum": [1]}) == "enum"


MIXED = {"note": None, "code": 7, "flag": None, "kind": "x", "rate": 1.0, "empty": "", "deep": {"a": [None, 1.0]}}
UNIONS = {
    "type": "object",
    "properties": {
        "amount": {"type": "integer"},
        "note": {"type": ["string", "null"]},
        "code": {"type": ["string", "integer"]},
        "flag": {"type": ["boolean", "null"]},
        "kind": {"enum": ["a", "b"]},
    },
}


def test_a_form_leaves_values_that_no_one_touched():
    form, begun = {"kind": "form", "response_schema": UNIONS}, {"value": {"amount": 5, **MIXED}}
    sent = as_shown(fields_of(form, begun).fields)
    decided = decision_of(form, posted(**{**sent, "field_0": "6"}), begun)["value"]
    assert decided == {"amount": 6, **MIXED} and type(decided["code"]) is int and type(decided["rate"]) is float
    again = draft_of(form, posted(**{**sent, "field_0": "x"}), begun)
    sent = as_shown(fields_of(form, again).fields)
    assert decision_of(form, posted(**{**sent, "field_0": "6"}), again)["value"] == decided


def test_a_call_leaves_what_an_earlier_decision_said():
    call = {**CALL, "arguments": {"amount": 5, "code": "seven", "flag": True}, "schema": UNIONS}
    begun = {"calls": [{"id": "c", "verdict": "edit", "arguments": {"amount": 6, **MIXED}}]}
    [shown] = fields_of({"kind": "approval", "calls": [call]}, begun).calls
    post = posted(call_0="edit", **{**as_shown(shown.fields), "arg_0_0": "7"})
    [said] = decision_of({"kind": "approval", "calls": [call]}, post, begun)["calls"]
    names = ("note", "code", "flag", "kind")
    assert said["arguments"] == {"amount": 7} | {name: MIXED[name] for name in names}


@pytest.mark.parametrize(
    ("value", "text", "types", "made"),
    [
        (7, "8", ["string", "integer"], 8),
        (7, "A8", ["string", "integer"], "A8"),
        ("7", "8", ["integer", "string"], "8"),
    ],
)
def test_an_edited_value_of_a_union_keeps_its_type(value, text, types, made):
    call = {**CALL, "arguments": {"code": value}, "schema": {"properties": {"code": {"type": types}}}}
    [said] = decision_of({"kind": "approval", "calls": [call]}, posted(call_0="edit", arg_0_0=text))["calls"]
    assert said["arguments"]["code"] == made


def test_titled_options_and_references_are_plain_fields():
    schema = {
        "properties": {
            "dock": {"title": "Loading dock", "$ref": "#/$defs/dock"},
            "size": {"enum": [1, 2], "enumNames": ["Small", "Large"]},
        },
        "required": ["dock"],
        "$defs": {"dock": {"oneOf": [{"const": "d1", "title": "North"}, {"const": "d2"}, {"type": "null"}]}},
    }
    typed = {"kind": "form", "response_schema": schema}
    dock, size = fields_of(typed, None).fields
    assert (dock.label, dock.required) == ("Loading dock", True)
    assert dock.choices() == [("d1", "North"), ("d2", "d2"), ("null", "No value")]
    assert size.choices() == [("1", "Small"), ("2", "Large")]
    sent = {"field:0": ["2"], "field:1": ["1"]}
    assert decision_of(typed, lambda name: sent.get(name, [])) == {"value": {"dock": None, "size": 2}}
