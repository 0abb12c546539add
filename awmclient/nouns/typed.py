"""Asks that want a decision instead of words: an approval of calls, a choice, a form; and what an absence means.

Owns the shapes of what is asked and of what comes back, and the rules of a question that need no tools of an episode.
Leaves checks of a decision to the dashboard, which makes them before an answer is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    StrictBool,
    StrictInt,
    WithJsonSchema,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from awmclient.nouns.ask_kinds import ASK_KINDS, ask_kind
from awmclient.nouns.fields import WHOLE, Line, Object, Shape, bounded, too_large

AskKind = Literal["question", "approval", "choice", "form"]
DecidedBy = Literal["person", "model", "standing", "timeout"]
Verdict = Literal["approve", "edit", "reject"]
QUORUM_LEAST, QUORUM_MOST = 2, 5
DecidingRole = Literal["admin", "researcher", "expert"]
CALLS_MAX, OPTIONS_MAX = 20, 50
REASON_MAX = 2000
SPEC_VALUES, SPEC_LEVELS, SPEC_CHARACTERS = 20_000, 40, 100_000
"""The most that the calls of one ask, its schema, its default and what a decision writes can hold."""
TIMEOUT_REASON = "no decision before the deadline"
"""The reason of a call that was rejected because no one decided."""

Reason = Annotated[
    Any, bounded(REASON_MAX), WithJsonSchema({"type": "string", "maxLength": REASON_MAX, "description": "in words"})
]


class ProposedCall(Shape):
    """A call that waits for approval. Without a `schema`, an edit is checked against the tool of the episode."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=(), populate_by_name=True)

    id: Line
    name: Line
    arguments: Object = Field(default_factory=dict)
    input_schema: Object | None = Field(default=None, alias="schema")
    reason: Reason | None = None


class Option(Shape):
    """One of the answers to a choice."""

    id: Line
    label: Line
    description: Reason | None = None


class DefaultValue(Shape):
    """What the agent gets if no one answers: the ID of an option or a list of them, or the value of a form."""

    value: Any


OnTimeout = Literal["no_advice", "reject"] | DefaultValue


class Quorum(Shape):
    """How many different people approve the same calls before they are made, perhaps all of one role."""

    of: Annotated[StrictInt, Field(ge=QUORUM_LEAST, le=QUORUM_MOST), WHOLE]
    role: DecidingRole | None = None


class TypedAsk(Shape):
    """What an ask wants, as a step and the queue hold it."""

    kind: AskKind = "question"
    calls: Annotated[list[ProposedCall], Field(min_length=1, max_length=CALLS_MAX)] | None = None
    options: Annotated[list[Option], Field(min_length=1, max_length=OPTIONS_MAX)] | None = None
    many: StrictBool | None = None
    other: StrictBool | None = None
    response_schema: Annotated[Object, BeforeValidator(lambda schema: form_schema(schema))] | None = None
    on_timeout: OnTimeout | None = None
    quorum: Quorum | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> TypedAsk:
        if problem := _problem(self):
            raise PydanticCustomError("typed_ask", "{problem}", {"problem": problem})
        return self


TYPED_FIELDS = tuple(name for name in TypedAsk.model_fields if name != "kind")


class _Brief(Shape):
    """A shape without its absent fields, wherever it is written."""

    @model_serializer(mode="wrap")
    def _without_absent(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in write(self).items() if value is not None}

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> Any:
        # the document names the fields, not the function that writes them
        return handler({name: value for name, value in core_schema.items() if name != "serialization"})


class CallDecision(_Brief):
    """What becomes of one call. `arguments` are those that run: of an edit the new ones."""

    id: Line
    verdict: Verdict
    arguments: Object | None = None
    reason: Reason | None = None


class TypedDecision(_Brief):
    """A typed answer: `calls` of an approval, `chosen` and perhaps `other` of a choice, `value` of a form."""

    calls: Annotated[list[CallDecision], Field(max_length=CALLS_MAX)] | None = None
    chosen: Annotated[list[Line], Field(max_length=OPTIONS_MAX)] | None = None
    other: Reason | None = None
    value: Any = None


def typed_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the typed part of an ask as JSON, without what it leaves out; empty for a plain question.

    >>> typed_of({"kind": "choice", "options": [{"id": "a", "label": "A"}], "key": "k"})
    {'kind': 'choice', 'options': [{'id': 'a', 'label': 'A'}]}
    """
    typed_fields = {name: fields[name] for name in TypedAsk.model_fields if fields.get(name) is not None}
    if typed_fields.get("kind", "question") == "question":
        return {}
    return TypedAsk.model_validate(typed_fields).model_dump(by_alias=True, exclude_none=True)


def decision_on_timeout(typed: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the decision that silence means; None for *no advice*. It is never an approval.

    >>> decision_on_timeout({"kind": "choice", "on_timeout": {"value": "b"}})
    {'chosen': ['b']}
    """
    on_timeout = typed.get("on_timeout")
    if on_timeout == "reject":
        return {"calls": [rejected(call) for call in typed["calls"]]}
    if not isinstance(on_timeout, Mapping):
        return None
    value = on_timeout["value"]
    if ask_kind(typed).is_form:
        return {"value": value}
    return {"chosen": value if isinstance(value, list) else [value]}


def rejected(call: Mapping[str, Any], reason: str = TIMEOUT_REASON) -> dict[str, Any]:
    return {"id": call["id"], "verdict": "reject", "arguments": call.get("arguments") or {}, "reason": reason}


def form_schema(schema: Any) -> Any:
    """Return the schema of a form, which is an object with fields. Raises for one that is too large.

    The dashboard refuses keywords that it could not check, before it opens the ask.
    """
    if not isinstance(schema, dict):
        problem = "no object"
    elif why := too_large(schema, SPEC_VALUES, SPEC_LEVELS, SPEC_CHARACTERS):
        problem = f"the schema {why}"
    elif "$ref" not in schema and (schema.get("type") != "object" or "properties" not in schema):
        problem = "the schema of a form is an object with `properties`"
    else:
        return schema
    raise PydanticCustomError("form_schema", "{problem}", {"problem": problem})


def _problem(ask: TypedAsk) -> str:
    """Return why an ask is not whole; empty if it is."""
    parts = ASK_KINDS[ask.kind].fields
    set_fields = [name for name in TYPED_FIELDS if name != "on_timeout" and getattr(ask, name) is not None]
    if stray := next((name for name in set_fields if name not in parts), ""):
        return f"{stray}: an ask of kind {ask.kind} has no such field"
    if parts and getattr(ask, parts[0]) is None:
        return f"{parts[0]}: an ask of kind {ask.kind} needs it"
    whole = [call.model_dump() for call in ask.calls or []]
    default = ask.on_timeout.value if isinstance(ask.on_timeout, DefaultValue) else None
    for name, what, value in (("calls", "the list", whole), ("on_timeout.value", "this", default)):
        if why := too_large(value, SPEC_VALUES, SPEC_LEVELS, SPEC_CHARACTERS):
            return f"{name}: {what} {why}"
    for name in ("calls", "options"):
        ids = [one.id for one in getattr(ask, name) or []]
        if len(set(ids)) < len(ids):
            return f"{name}: two have the same id"
    return _problem_of_timeout(ask)


def _problem_of_timeout(ask: TypedAsk) -> str:
    on_timeout, kind = ask.on_timeout, ASK_KINDS[ask.kind]
    if on_timeout is None or on_timeout == "no_advice":
        return ""
    if on_timeout == "reject":
        return "" if kind.is_approval else f"on_timeout: an ask of kind {ask.kind} has no calls to reject"
    if not kind.may_have_default:
        return "on_timeout: nothing is approved by silence; use no_advice or reject" if kind.is_approval else (
            "on_timeout: a question has no default"
        )  # fmt: skip
    value = on_timeout.value
    if kind.is_form:
        return "" if isinstance(value, dict) else "on_timeout.value: the value of a form is an object"
    chosen = value if isinstance(value, list) else [value]
    option_ids = {one.id for one in ask.options or []}
    if not chosen or not all(isinstance(one, str) and one in option_ids for one in chosen):
        return "on_timeout.value: give the ID of an option, or a list of IDs"
    return "" if ask.many or len(chosen) == 1 else "on_timeout.value: one option can be chosen"
