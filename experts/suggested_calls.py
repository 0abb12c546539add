"""Pure: reading suggested calls, and whether one names a tool that the agent has and fits its schema.

Called by the forms of people and by `llm.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import SchemaError, ValidationError
from pydantic import TypeAdapter

from awmclient.schema import ToolCall
from people.errors import BadJson, Invalid
from people.http import parse_json
from people.plain_text import clean

CALLS = TypeAdapter(list[ToolCall])


def calls_of(text: str) -> list[ToolCall] | None:
    """The calls of a form, as the JSON that its builder wrote."""
    if not text or text == "[]":
        return None
    try:
        return CALLS.validate_python(parse_json(text.encode("utf-8", "surrogatepass")))
    except (ValueError, BadJson) as error:
        raise Invalid("The suggested calls are not readable; remove them and add them again.") from error


def _not_checked(*given: object) -> Iterator[ValidationError]:
    return iter(())


# A tool's schema is the agent's word. References could make us fetch an address or walk a maze without end, patterns
# could hold the process for hours; both are left to the environment, which checks every call anyway.
FITS = validators.extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    dict.fromkeys(
        ("$ref", "$dynamicRef", "pattern", "patternProperties", "unevaluatedProperties", "unevaluatedItems"),
        _not_checked,
    )
    | {"additionalProperties": lambda fits, value, instance, schema: _additional(fits, value, instance, schema)},
)


def _additional(fits: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if "patternProperties" in schema:
        return iter(())
    return Draft202012Validator.VALIDATORS["additionalProperties"](fits, value, instance, schema) or iter(())


def refuse_unfit(calls: list[ToolCall] | None, tools: list[dict[str, Any]]) -> None:
    """A suggested call must name a tool the agent has and fit its schema, if that schema is one."""
    schemas = {tool.get("name"): tool.get("input_schema") or {} for tool in tools}
    for call in calls or []:
        if call.name not in schemas:
            raise Invalid(f"The agent has no tool {call.name}.")
        try:
            Draft202012Validator.check_schema(schemas[call.name])
            problem = next(FITS(schemas[call.name]).iter_errors(call.arguments), None)
        except (SchemaError, ArithmeticError, RecursionError):
            continue  # the agent's own schema is broken; the call is then its business
        if problem is not None:
            raise Invalid(f"{call.name}: {clean(problem.message)[:300]}")
