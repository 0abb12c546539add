"""Pure functions that read suggested calls and check them against the agent's tools and schemas.

Called by people's forms and by `llm.py`, never while a row is locked.
"""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter, ValidationError

from awmclient.schema import ToolCall
from episodes.tool_schemas import Checker
from people.errors import Invalid
from people.text.json_text import parse_typed
from people.text.plain_text import clean

CALLS = TypeAdapter(list[ToolCall])


def calls_of(text: str) -> list[ToolCall] | None:
    """Return the calls of a form, from the JSON of its builder."""
    if not text or text == "[]":
        return None
    try:
        return CALLS.validate_python(parse_typed(text, "The suggested calls"))
    except ValidationError as error:
        raise Invalid("The suggested calls are not readable; remove them and add them again.") from error


def refuse_unfit(calls: list[ToolCall] | None, tools: list[dict[str, Any]]) -> None:
    """Raise for a suggested call without a matching tool or schema.

    Checks only what can be checked quickly.
    """
    schemas = {tool.get("name"): tool.get("input_schema") for tool in tools if isinstance(tool, dict)}
    # one budget of steps for all calls of an answer
    checker = Checker()
    for call in calls or []:
        if call.name not in schemas:
            raise Invalid(f"The agent has no tool {clean(call.name)}.")
        if problem := checker.misfit(call.arguments, schemas[call.name]):
            raise Invalid(f"{clean(call.name)}: {clean(problem[:300])}.")
