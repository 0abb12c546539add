"""Pure functions that read suggested calls and check them against the agent's tools and schemas.

Called by people's forms and by `llm.py`, never while a row is locked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from awmclient.schema import ToolCall
from episodes.tool_schemas import Checker, MisfitPlace
from experts.rules.decisions import fields_at
from people.errors import Invalid
from people.text.json_text import parse_typed
from people.text.plain_text import clean

CALLS = TypeAdapter(list[ToolCall])
SHOWN = 3
"""The most places of one call, and calls, that are named."""
WORDS_MAX = 380


class UnfitCalls(Invalid):
    """Suggested calls that the agent's tools refuse."""

    def __init__(self, message: str, places: Sequence[tuple[str, MisfitPlace]]) -> None:
        """Prepare a refusal; each place is in the call with a number from 0 on."""
        super().__init__(message)
        self.places = places

    def fields(self) -> list[dict[str, Any]]:
        """Return the places for a page."""
        return fields_at(self.places)


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

    Checks only what can be checked quickly, and names all of it.
    """
    schemas = {tool.get("name"): tool.get("input_schema") for tool in tools if isinstance(tool, dict)}
    # one budget of steps for all calls of an answer
    checker, messages, places = Checker(), list[str](), list[tuple[str, MisfitPlace]]()
    for number, call in enumerate(calls or []):
        if len(messages) == SHOWN:
            messages.append(f"{len(calls or []) - number} more not checked.")
            break
        if call.name not in schemas:
            messages.append(f"The agent has no tool {clean(call.name)}.")
        elif misfits := checker.misfits(call.arguments, schemas[call.name], SHOWN):
            broken = "; ".join(clean(place.in_words()[:300]) for place in misfits)
            messages.append(f"{clean(call.name)}: {broken}.")
            places += [(str(number), place) for place in misfits]
    if messages:
        words = " ".join(messages)
        raise UnfitCalls(words if len(words) <= WORDS_MAX else f"{words[: WORDS_MAX - 1]}…", places)
