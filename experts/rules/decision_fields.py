"""The decision of a typed ask as plain fields of a form, for pages whose scripts do not run. Pure.

`fields_of` says which fields a page has, filled from a draft; `draft_of` returns what was typed as such a draft, for a
form that is shown again; `decision_of` returns the decision. The agent wrote names, options and schemas: only a bounded
part is read, and fields and options are sent by their place, because a page shows some signs as codes.
`decisions.py` checks the decision as it checks those of scripts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from awmclient.nouns.ask_kinds import ask_kind
from people.errors import Invalid
from people.requests.forms import number_in
from people.text.json_text import parse_typed
from people.text.plain_text import clean, cleaned, with_line_ends, writable

MARK = "plain"
"""Names the field that says that a form was sent without scripts, which remove it."""
VERDICTS = [("approve", "Approve"), ("edit", "Edit"), ("reject", "Reject")]
FIELDS_MAX, OPTIONS_MAX, HELP_CHARS = 100, 500, 300
TYPES = ("string", "integer", "number", "boolean", "array", "object")
WORDS = {
    "integer": "a whole number",
    "number": "a number, such as 0.5",
    "boolean": "true or false",
    "array": "a list in JSON, such as [1, 2]",
    "object": 'an object in JSON, such as {"a": 1}',
}
Post = Callable[[str], list[str]]
"""Returns the values of a field by its name."""


@dataclass(frozen=True)
class Field:
    """One value of a call or of a form."""

    name: str
    label: str
    text: str
    required: bool
    help: str
    options: list[str] | None = None
    """What can be chosen; None where a text is typed."""


@dataclass(frozen=True)
class CallFields:
    """One call to decide."""

    place: int
    call: Mapping[str, Any]
    verdict: str
    reason: str
    lines: list[tuple[str, str]]
    fields: list[Field]
    left: int
    """Arguments without a field."""


@dataclass(frozen=True)
class Fields:
    """The plain fields of a decision."""

    kind: str
    calls: list[CallFields] = field(default_factory=list)
    options: list[tuple[Mapping[str, Any], bool]] = field(default_factory=list)
    """Each option, and whether it is chosen."""
    many: bool = False
    takes_other: bool = False
    other: str = ""
    fields: list[Field] = field(default_factory=list)
    left: int = 0
    verdicts: ClassVar = VERDICTS


def fields_of(typed: Mapping[str, Any], draft: Mapping[str, Any] | None) -> Fields:
    """Return the fields of a typed ask, filled from a draft or an earlier decision."""
    # a draft is what a program or an earlier version has stored, and can have any shape
    filled = _dict(draft)
    if ask_kind(typed).is_approval:
        calls_by_id = {str(one.get("id")): one for one in map(_dict, _list(filled.get("calls")))}
        calls = [_call(place, one, calls_by_id.get(one["id"], {})) for place, one in enumerate(typed["calls"])]
        return Fields("approval", calls=calls)
    if ask_kind(typed).is_choice:
        chosen = _list(filled.get("chosen"))
        options = [(one, one["id"] in chosen) for one in typed["options"]]
        return Fields(
            "choice",
            options=options,
            many=bool(typed.get("many")),
            takes_other=bool(typed.get("other")),
            other=str(filled.get("other") or ""),
        )
    schema = typed["response_schema"]
    texts = _dict(filled.get("texts")) or _texts(_dict(filled.get("value")) or _defaults(schema))
    shown, left = _shape(schema, {})
    return Fields("form", fields=_fields(shown, schema, texts, "field"), left=left)


def draft_of(typed: Mapping[str, Any], post: Post) -> dict[str, Any]:
    """Return what was typed, as drafts have it: texts, right or not."""
    if ask_kind(typed).is_approval:
        return {"calls": [_call_draft(n, call, post) for n, call in enumerate(typed["calls"])]}
    if ask_kind(typed).is_choice:
        by_place = {str(place): one["id"] for place, one in enumerate(typed["options"])}
        return {"chosen": [by_place[one] for one in post("chosen") if one in by_place], "other": _sent(post, "other")}
    shown, _ = _shape(typed["response_schema"], {})
    return {"texts": {name: _field_text(post, f"field:{n}", one) for n, (name, one) in enumerate(shown.items())}}


def decision_of(typed: Mapping[str, Any], post: Post) -> dict[str, Any]:
    """Return the decision of the fields. Raises `Invalid` with the field whose text is no value."""
    draft = draft_of(typed, post)
    if ask_kind(typed).is_approval:
        both = zip(typed["calls"], draft["calls"], strict=True)
        return {"calls": [_decided(number, call, said) for number, (call, said) in enumerate(both, 1)]}
    if ask_kind(typed).is_choice:
        return {"chosen": draft["chosen"]} | ({"other": draft["other"]} if draft["other"].strip() else {})
    shown, _ = _shape(typed["response_schema"], {})
    return {"value": _values(shown, draft["texts"], {}, "")}


def _call(place: int, call: Mapping[str, Any], draft: Mapping[str, Any]) -> CallFields:
    arguments = call.get("arguments") or {}
    shown, left = _shape(call.get("schema"), arguments)
    texts = _dict(draft.get("texts")) or _texts(_dict(draft.get("arguments")) or arguments)
    lines = [(clean(name), clean(in_words(value))) for name, value in arguments.items()]
    fields = _fields(shown, call.get("schema"), texts, f"arg:{place}")
    verdict, reason = str(draft.get("verdict") or ""), str(draft.get("reason") or "")
    return CallFields(place, call, verdict, reason, lines, fields, left)


def _call_draft(place: int, call: Mapping[str, Any], post: Post) -> dict[str, Any]:
    shown, _ = _shape(call.get("schema"), call.get("arguments") or {})
    texts = {name: _field_text(post, f"arg:{place}:{n}", one) for n, (name, one) in enumerate(shown.items())}
    fields = {"id": call["id"], "verdict": _sent(post, f"call:{place}"), "reason": _sent(post, f"why:{place}")}
    return fields | {"texts": texts}


def _decided(number: int, call: Mapping[str, Any], draft: Mapping[str, Any]) -> dict[str, Any]:
    verdict = draft["verdict"]
    decided = {"id": call["id"], "verdict": verdict}
    if verdict not in ("approve", "edit", "reject"):
        raise Invalid(f"Decide call {number}: {clean(call['name'])}.")
    if verdict == "reject":
        return decided | {"reason": draft["reason"]}
    if verdict == "approve":
        return decided
    arguments = call.get("arguments") or {}
    shown, _ = _shape(call.get("schema"), arguments)
    # what has no field stays as it was proposed
    kept = {name: value for name, value in arguments.items() if name not in shown}
    return decided | {"arguments": kept | _values(shown, draft["texts"], arguments, f"Call {number}: ")}


def _values(
    shown: Mapping[str, Mapping[str, Any]], texts: Mapping[str, str], arguments: Mapping[str, Any], where: str
) -> dict[str, Any]:
    """Return the values of texts; one that was not changed stays as it is, digit by digit."""
    made = {}
    for name, schema in shown.items():
        text = texts.get(name, "")
        if name in arguments and text in _unchanged(arguments[name]):
            made[name] = arguments[name]
        elif text.strip() or (text and type_of(schema) == "string"):
            made[name] = _value(text, schema, f"{where}{clean(name)}")
    return made


def _unchanged(value: Any) -> tuple[str, str]:
    """Return the texts that a field sends for a value that no one touched: as it is, and as a page shows it."""
    text = in_words(value)
    return with_line_ends(text), with_line_ends(cleaned(writable(text).encode()).decode())


def _value(text: str, schema: Mapping[str, Any], name: str) -> Any:
    kind = type_of(schema)
    if kind == "enum":
        matches = [one for one in schema["enum"] if in_words(one) == text]
        if not matches:
            raise Invalid(f"{name} must be one of its {len(schema['enum'])} choices.")
        return matches[0]
    if kind == "string":
        return text
    value = parse_typed(text.strip(), name)
    fits = {
        "integer": isinstance(value, int | float) and not isinstance(value, bool) and value == int(value),
        "number": isinstance(value, int | float) and not isinstance(value, bool),
        "boolean": isinstance(value, bool),
        "array": isinstance(value, list),
        "object": isinstance(value, dict),
    }[kind]
    if not fits:
        raise Invalid(f"{name} must be {WORDS[kind]}.")
    return value


def type_of(schema: Mapping[str, Any]) -> str:
    """Return the type of a field; of a union the first that is not null."""
    if isinstance(schema.get("enum"), list):
        return "enum"
    forms = schema.get("anyOf") or schema.get("oneOf")
    kinds = [schema.get("type"), *(one.get("type") for one in _list(forms)[:FIELDS_MAX] if isinstance(one, dict))]
    flat = [kind for one in kinds for kind in (one[:FIELDS_MAX] if isinstance(one, list) else [one])]
    return next((kind for kind in flat if isinstance(kind, str) and kind in TYPES), "string")


def in_words(value: Any) -> str:
    """Return a value as a field shows it: texts as they are, others as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _shape(schema: Any, beside: Mapping[str, Any]) -> tuple[dict[str, Mapping[str, Any]], int]:
    """Return the fields of a schema and of values beside it, the required ones first if there are many, and how many
    have none."""
    named = schema.get("properties") if isinstance(schema, dict) else None
    fields = dict(named) if isinstance(named, dict) else {}
    kinds = {bool: "boolean", int: "number", float: "number", list: "array", dict: "object"}
    fields |= {name: {"type": kinds.get(type(one), "string")} for name, one in beside.items() if name not in fields}
    names = list(fields)
    if len(names) > FIELDS_MAX:
        needed = _required(schema)
        names = sorted(names, key=lambda name: name not in needed)[:FIELDS_MAX]
    return {name: fields[name] if isinstance(fields[name], dict) else {} for name in names}, len(fields) - len(names)


def _fields(shown: Mapping[str, Mapping[str, Any]], schema: Any, texts: Mapping[str, Any], prefix: str) -> list[Field]:
    needed = _required(schema)
    made = []
    for n, (name, spec) in enumerate(shown.items()):
        text = texts.get(name, "")
        options = _options(spec)
        help_ = spec.get("description") if isinstance(spec.get("description"), str) else ""
        hint = "; ".join(filter(None, (clean(help_)[:HELP_CHARS].rstrip("."), WORDS.get(type_of(spec), ""))))
        made.append(Field(f"{prefix}:{n}", clean(name), str(text), name in needed, hint, options))
    return made


def _options(schema: Mapping[str, Any]) -> list[str] | None:
    kind = type_of(schema)
    if kind == "boolean":
        return ["true", "false"]
    return [in_words(one) for one in schema["enum"]] if kind == "enum" and len(schema["enum"]) <= OPTIONS_MAX else None


def _required(schema: Any) -> set[str]:
    listed = _list(schema.get("required")) if isinstance(schema, dict) else []
    return {one for one in listed if isinstance(one, str)}


def _defaults(schema: Any) -> dict[str, Any]:
    shown, _ = _shape(schema, {})
    return {name: one["default"] for name, one in shown.items() if "default" in one}


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: in_words(value) for name, value in values.items()}


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _field_text(post: Post, name: str, schema: Mapping[str, Any]) -> str:
    """Return the text of a field, or of the option that was chosen by its place."""
    text, options = _sent(post, name), _options(schema)
    if options is None:
        return text
    place = number_in(text, len(options) - 1) if options else None
    return "" if place is None else options[place]


def _sent(post: Post, name: str) -> str:
    # browsers send the lines of a field with CR and LF
    return with_line_ends(next(iter(post(name)), ""))
