"""The decision of a typed ask as plain fields of a form, for pages whose scripts do not run. Pure.

`fields_of` says which fields a page has, filled from a draft; `draft_of` returns what was typed as such a draft, for a
form that is shown again; `decision_of` returns the decision. The agent wrote names, options and schemas: only a bounded
part is read, and fields and options are sent by their place, because a page shows some signs as codes.
`decisions.py` checks the decision as it checks those of scripts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from awmclient.nouns.ask_kinds import ask_kind
from episodes.closed_schemas import followed
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
MISSING: Any = object()
"""A field that begins with no value; JSON has none that is this."""
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
    titles: list[str] = field(default_factory=list)
    """What the first of its options are called."""

    def choices(self) -> list[tuple[str, str]]:
        """Return each option with its title, or with itself."""
        titles = dict(enumerate(self.titles))
        return [(option, titles.get(place) or option) for place, option in enumerate(self.options or [])]


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
    breaks: list[str]
    """Where its arguments do not fit its tool's schema."""


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


def form_of_tool(tool: dict[str, Any] | None) -> dict[str, Any]:
    """Return a form for the arguments of a tool, with the names that errors name, of which titles are mostly made."""
    schema = dict((tool or {}).get("input_schema") or {})
    if isinstance(named := schema.get("properties"), dict):
        schema["properties"] = {
            name: {word: value for word, value in spec.items() if word != "title"} if isinstance(spec, dict) else spec
            for name, spec in named.items()
        }
    return {"kind": "form", "response_schema": schema}


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
    schema, value = typed["response_schema"], _in_order(filled.get("value"))
    texts = _dict(filled.get("texts")) or _texts(value or _defaults(schema))
    shown, left = _shape(schema, value)
    return Fields("form", fields=_fields(shown, schema, texts, "field", value or _defaults(schema)), left=left)


def draft_of(typed: Mapping[str, Any], post: Post, begun: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return what was typed, as drafts have it: texts, right or not, beside the values that the fields began with.

    `begun` is the draft from which `fields_of` made these fields.
    """
    filled = _dict(begun)
    if ask_kind(typed).is_approval:
        decided = {str(one.get("id")): one for one in map(_dict, _list(filled.get("calls")))}
        return {"calls": [_call_draft(n, call, post, decided) for n, call in enumerate(typed["calls"])]}
    if ask_kind(typed).is_choice:
        by_place = {str(place): one["id"] for place, one in enumerate(typed["options"])}
        return {"chosen": [by_place[one] for one in post("chosen") if one in by_place], "other": _sent(post, "other")}
    schema, value = typed["response_schema"], _in_order(filled.get("value"))
    shown, _ = _shape(schema, value)
    begun_with = value or _defaults(schema)
    texts = {
        name: _field_text(post, f"field:{n}", spec, begun_with.get(name, MISSING))
        for n, (name, spec) in enumerate(shown.items())
    }
    return {"texts": texts} | ({"value": value} if value else {})


def drafted(typed: Mapping[str, Any], draft: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a draft in the form of a decision, right or not, so that its words can be shown."""
    filled = _dict(draft)
    if ask_kind(typed).is_approval:
        proposed = {one["id"]: one.get("arguments") or {} for one in typed["calls"]}
        decided = {str(one.get("id")): one for one in map(_dict, _list(filled.get("calls")))}
        theirs = [(proposed[pk], call) for pk, call in decided.items() if pk in proposed]
        return {"calls": [{**call, "arguments": _typed_in(arguments, call)} for arguments, call in theirs]}
    if ask_kind(typed).is_choice:
        return {"chosen": [str(one) for one in _list(filled.get("chosen"))], "other": str(filled.get("other") or "")}
    texts = {_name_of(key): text for key, text in _dict(filled.get("texts")).items() if text}
    return {"value": texts or dict(_leaves(filled.get("value")))}


def _typed_in(proposed: Mapping[str, Any], draft: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call, with the texts of an edit in the place of those that it changed."""
    begun = _dict(draft.get("arguments")) or dict(proposed)
    texts = _dict(draft.get("texts")) if draft.get("verdict") == "edit" else {}
    changed = {name: text for name, text in texts.items() if text not in _unchanged(begun.get(name, ""))}
    return {**begun, **changed}


def _leaves(value: Any, *path: str) -> Iterator[tuple[str, str]]:
    """Yield the values of a form with their names, as a draft has them."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _leaves(part, *path, name)
    elif isinstance(value, list) and any(isinstance(part, dict) for part in value):
        for place, part in enumerate(value, 1):
            yield from _leaves(part, *path, str(place))
    elif path:
        yield " › ".join(path), in_words(value)


def _name_of(key: str) -> str:
    """Return the name of a field of a draft; one within others has a path in JSON as its key (`form-plan.js`)."""
    try:
        path = _list(parse_typed(key, "The key")) if key.startswith("[") else [key]
    except Invalid:
        path = [key]
    return " › ".join("no value" if part is None else str(part + 1 if isinstance(part, int) else part) for part in path)


def decision_of(typed: Mapping[str, Any], post: Post, begun: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the decision of the fields; what no one changed stays as it was in `begun`, the draft of `fields_of`.

    Raises `Invalid` with the field whose text is no value.
    """
    draft = draft_of(typed, post, begun)
    if ask_kind(typed).is_approval:
        both = zip(typed["calls"], draft["calls"], strict=True)
        return {"calls": [_decided(number, call, said) for number, (call, said) in enumerate(both, 1)]}
    if ask_kind(typed).is_choice:
        return {"chosen": draft["chosen"]} | ({"other": draft["other"]} if draft["other"].strip() else {})
    schema, value = typed["response_schema"], draft.get("value", {})
    shown, _ = _shape(schema, value)
    kept = {name: one for name, one in value.items() if name not in shown}
    return {"value": kept | _values(shown, draft["texts"], value or _defaults(schema), "")}


def _call(place: int, call: Mapping[str, Any], draft: Mapping[str, Any]) -> CallFields:
    arguments = call.get("arguments") or {}
    shown, left = _shape(call.get("schema"), arguments)
    texts = _dict(draft.get("texts")) or _texts(_dict(draft.get("arguments")) or arguments)
    lines = [(clean(name), clean(in_words(value))) for name, value in arguments.items()]
    begun = _dict(draft.get("arguments")) or arguments
    fields = _fields(shown, call.get("schema"), texts, f"arg:{place}", begun)
    verdict, reason = str(draft.get("verdict") or ""), str(draft.get("reason") or "")
    breaks = [broken["words"] for broken in call.get("breaks") or []]
    return CallFields(place, call, verdict, reason, lines, fields, left, breaks)


def _call_draft(
    place: int, call: Mapping[str, Any], post: Post, decided: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    arguments, changed = call.get("arguments") or {}, _dict(decided.get(call["id"], {}).get("arguments"))
    shown, _ = _shape(call.get("schema"), arguments)
    texts = {
        name: _field_text(post, f"arg:{place}:{n}", spec, (changed or arguments).get(name, MISSING))
        for n, (name, spec) in enumerate(shown.items())
    }
    fields = {"id": call["id"], "verdict": _sent(post, f"call:{place}"), "reason": _sent(post, f"why:{place}")}
    return fields | {"texts": texts} | ({"arguments": changed} if changed else {})


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
    begun = _dict(draft.get("arguments")) or arguments
    return decided | {"arguments": kept | _values(shown, draft["texts"], begun, f"Call {number}: ")}


def _values(
    shown: Mapping[str, Mapping[str, Any]],
    texts: Mapping[str, str],
    begun: Mapping[str, Any],
    where: str,
) -> dict[str, Any]:
    """Return the values of texts; one that is still the text of a value that it began with stays that value."""
    made = {}
    for name, schema in shown.items():
        text = texts.get(name, "")
        if name in begun and text in _unchanged(begun[name]):
            made[name] = begun[name]
        elif text.strip() or (text and type_of(schema) == "string"):
            made[name] = _value(text, schema, f"{where}{clean(name)}", begun.get(name, MISSING))
    return made


def _unchanged(value: Any) -> tuple[str, str]:
    """Return the texts that a field sends for a value that no one touched: as it is, and as a page shows it."""
    text = in_words(value)
    return with_line_ends(text), with_line_ends(cleaned(writable(text).encode()).decode())


def _value(text: str, schema: Mapping[str, Any], name: str, begun: Any) -> Any:
    """Return the value of a text: of the type that the field's value had, if the schema allows that and it fits."""
    kind, had = type_of(schema), _types_of_value(begun)
    like = kind if kind == "enum" else next((one for one in _types_of(schema) if one in had), kind)
    if like == kind:
        return _value_as(text, kind, schema, name)
    try:
        return _value_as(text, like, schema, name)
    except Invalid:
        return _value_as(text, kind, schema, name)


def _value_as(text: str, kind: str, schema: Mapping[str, Any], name: str) -> Any:
    if kind == "enum":
        matches = [one for one in schema["enum"] if in_words(one) == text]
        if not matches:
            raise Invalid(f"{name} must be one of its {len(schema['enum'])} choices.")
        return matches[0]
    if kind == "string":
        return text
    value = parse_typed(text.strip(), name)
    fits = {
        "integer": _is_number(value) and value == int(value),
        "number": _is_number(value),
        "boolean": isinstance(value, bool),
        "array": isinstance(value, list),
        "object": isinstance(value, dict),
    }[kind]
    if not fits:
        raise Invalid(f"{name} must be {WORDS[kind]}.")
    return value


def type_of(schema: Mapping[str, Any]) -> str:
    """Return the type of a field; of a union the first that is not null."""
    return "enum" if isinstance(schema.get("enum"), list) else next(iter(_types_of(schema)), "string")


def _types_of(schema: Mapping[str, Any]) -> list[str]:
    """Return the types that a schema lets pass, in its order."""
    forms = schema.get("anyOf") or schema.get("oneOf")
    kinds = [schema.get("type"), *(one.get("type") for one in _list(forms)[:FIELDS_MAX] if isinstance(one, dict))]
    flat = [kind for one in kinds for kind in (one[:FIELDS_MAX] if isinstance(one, list) else [one])]
    return [kind for kind in flat if isinstance(kind, str) and kind in TYPES]


def _types_of_value(value: Any) -> tuple[str, ...]:
    return ("integer", "number") if _is_number(value) else (_KINDS.get(type(value), ""),)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_KINDS = {bool: "boolean", int: "number", float: "number", list: "array", dict: "object", str: "string"}


def in_words(value: Any) -> str:
    """Return a value as a field shows it: texts as they are, others as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _shape(schema: Any, beside: Mapping[str, Any]) -> tuple[dict[str, Mapping[str, Any]], int]:
    """Return the fields of a schema and of values beside it, the required ones first if there are many, and how many
    have none."""
    named = followed(schema, schema).get("properties")
    fields = dict(named) if isinstance(named, dict) else {}
    fields |= {name: {"type": _KINDS.get(type(one), "string")} for name, one in beside.items() if name not in fields}
    names = list(fields)
    if len(names) > FIELDS_MAX:
        needed = _required(schema)
        names = sorted(names, key=lambda name: name not in needed)[:FIELDS_MAX]
    return {name: _drawn(fields[name], schema) for name in names}, len(fields) - len(names)


def _drawn(schema: Any, root: Any) -> dict[str, Any]:
    """Return the schema of a field without references, and a choice of constants as an enum with titles."""
    drawn = followed(schema, root)
    parts = [followed(one, root) for one in _list(drawn.get("oneOf") or drawn.get("anyOf"))[:OPTIONS_MAX]]
    choices = [_choices(part) for part in parts]
    if not choices or not all(choices):
        return drawn
    flat = [one for some in choices for one in some]
    return {**drawn, "enum": [value for value, _ in flat], "enumNames": [title for _, title in flat]}


def _choices(part: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """Return the values that a part of a union names, with their titles; none if it is no list of values."""
    if "const" in part:
        return [(part["const"], part.get("title"))]
    if part.get("type") == "null":
        return [(None, "No value")]
    titles = dict(enumerate(_list(part.get("enumNames"))))
    return [(value, titles.get(n)) for n, value in enumerate(_list(part.get("enum"))[:OPTIONS_MAX])]


def _fields(
    shown: Mapping[str, Mapping[str, Any]],
    schema: Any,
    texts: Mapping[str, Any],
    prefix: str,
    begun: Mapping[str, Any],
) -> list[Field]:
    needed = _required(schema)
    made = []
    for n, (name, spec) in enumerate(shown.items()):
        text = texts.get(name, "")
        options = _options(spec, begun.get(name, MISSING))
        help_ = spec.get("description") if isinstance(spec.get("description"), str) else ""
        hint = "; ".join(filter(None, (clean(help_)[:HELP_CHARS].rstrip("."), WORDS.get(type_of(spec), ""))))
        titles = [clean(one) if isinstance(one, str) else "" for one in _list(spec.get("enumNames"))]
        label = clean(spec["title"])[:HELP_CHARS] if isinstance(spec.get("title"), str) else clean(name)
        made.append(Field(f"{prefix}:{n}", label, str(text), name in needed, hint, options, titles))
    return made


def _options(schema: Mapping[str, Any], value: Any) -> list[str] | None:
    """Return the options of a field, and the value that it begins with; None for a field of text."""
    kind = type_of(schema)
    if kind == "boolean":
        options = ["true", "false"]
    elif kind == "enum" and len(schema["enum"]) <= OPTIONS_MAX:
        options = [in_words(one) for one in schema["enum"]]
    else:
        return None
    return options if value in (MISSING, "") or in_words(value) in options else [*options, in_words(value)]


def _required(schema: Any) -> set[str]:
    listed = _list(followed(schema, schema).get("required"))
    return {one for one in listed if isinstance(one, str)}


def _defaults(schema: Any) -> dict[str, Any]:
    shown, _ = _shape(schema, {})
    return {name: one["default"] for name, one in shown.items() if "default" in one}


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: in_words(value) for name, value in values.items()}


def _in_order(value: Any) -> dict[str, Any]:
    # fields are sent by their place, and a stored object has no order that stays
    return dict(sorted(_dict(value).items()))


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _field_text(post: Post, name: str, schema: Mapping[str, Any], begun: Any) -> str:
    """Return the text of a field, or of the option that was chosen by its place."""
    text, options = _sent(post, name), _options(schema, begun)
    if options is None:
        return text
    place = number_in(text, len(options) - 1) if options else None
    return "" if place is None else options[place]


def _sent(post: Post, name: str) -> str:
    # browsers send the lines of a field with CR and LF
    return with_line_ends(next(iter(post(name)), ""))
