"""Arguments of a call that its tool's schema does not name. Pure.

A scenario's app ignores them, and a small model then takes a list of everything for the one row that it asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from awmclient.nouns.tools import ToolSpec
from awmclient.words.toolcalls import Call

UNKNOWN = "unknown_arguments"
"""The key in the `meta` of a call of the names that its tool's schema does not have."""
SHOWN = 20


@dataclass(frozen=True)
class UnknownArguments:
    """`names` that the schema does not have; `refused` if it says that there are no others, with `words` for the
    agent."""

    names: list[str]
    refused: bool
    words: str


def unknown_arguments(tools: Sequence[ToolSpec], call: Call) -> UnknownArguments | None:
    """Return the arguments that the schema of a call's tool does not name; None if there are none, if the tool is
    unknown, or if its schema allows others or names none.

    >>> tool = ToolSpec(name="find", input_schema={"properties": {"text": {}}, "additionalProperties": False})
    >>> unknown_arguments([tool], Call("find", {"name": "Hanna"})).words
    'Unknown argument of find: name. It takes: text. Nothing was called.'
    """
    schema = next((tool.input_schema for tool in tools if tool.name == call.name), {})
    properties, others = schema.get("properties"), schema.get("additionalProperties", None)
    is_open = others is not None and others is not False
    if not isinstance(properties, dict) or is_open or "patternProperties" in schema or "$ref" in schema:
        return None
    names = [name[:200] for name in call.arguments if name not in properties]
    if not names or any(word in schema for word in ("allOf", "anyOf", "oneOf")) or not (properties or others is False):
        return None
    takes = ", ".join([*properties][:SHOWN]) or "no arguments"
    noun = "argument" if len(names) == 1 else "arguments"
    listed = ", ".join(names[:SHOWN])
    words = f"Unknown {noun} of {call.name}: {listed}. It takes: {takes}. Nothing was called."
    return UnknownArguments(names[:SHOWN], others is False, words)
