"""Tools as an agent sees them, and the bounds of their schemas."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from awmclient.nouns.fields import Line, Object, Shape, Text, too_large
from awmclient.nouns.values import ASK_TOOL


class ToolSpec(Shape):
    """A tool as the agent sees it: `name`, a description and the JSON Schema of its arguments.

    Taken in three forms, kept in this one: also as OpenAI has it, `{"type": "function", "function": {"name",
    "description", "parameters"}}`, and as MCP lists it, with `inputSchema`. What those say beside (`strict`, `title`,
    `annotations`) is let go.
    """

    name: Line
    description: Text = ""
    input_schema: Object = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _in_one_form(cls, spec: Any) -> Any:
        if not isinstance(spec, dict):
            return spec
        if spec.get("type") == "function" and isinstance(spec.get("function"), dict):
            source, schema = spec["function"], "parameters"
        elif "inputSchema" in spec:
            source, schema = spec, "inputSchema"
        else:
            return spec
        parts = {
            "name": source.get("name"),
            "description": source.get("description"),
            "input_schema": source.get(schema),
        }
        return {name: value for name, value in parts.items() if value is not None}


class ToolCall(Shape):
    """One call of a tool: its name and its arguments as an object, never as a JSON string."""

    name: Line
    arguments: Object = Field(default_factory=dict)


class OfferedTools(Shape):
    """Which tools of its environment an episode offers: all of its `own`, and others up to `per_task` in all.

    `draw` decides the others. Each name has a number of its own, so that a further tool moves no other one.

    >>> OfferedTools(per_task=2, own=["close"], draw="seed 1").names(["close", "find", "list"])
    ['close', 'find']
    """

    per_task: int
    own: list[str] = []
    draw: str = ""

    @classmethod
    def of(cls, stored: Any) -> Self | None:
        """Return what an episode's policy has of it; None for anything else."""
        try:
            return cls.model_validate(stored)
        except ValidationError:
            return None

    def names(self, listed: Sequence[str]) -> list[str]:
        """Return the names that are offered, in the order of the list."""
        own = {name for name in listed if name in self.own}
        others = sorted((name for name in listed if name not in own), key=self._number)
        offered = own.union(others[: max(0, self.per_task - len(own))])
        return [name for name in listed if name in offered]

    def _number(self, name: str) -> bytes:
        return hashlib.sha256(f"{self.draw}\n{name}".encode()).digest()


MAX_TOOLS = 500
SCHEMA_VALUES, SCHEMA_LEVELS, SCHEMA_CHARACTERS = 20_000, 100, 250_000
ALL_SCHEMAS = 40_000, 1_000_000
"""Values and characters in the schemas of all tools together."""


def tools_problem(tools: Sequence[ToolSpec]) -> str:
    """Return why these tools cannot be accepted, in words; empty if they can.

    Schemas are untrusted, and all code that shows or checks a call relies on these bounds.
    """
    if len(tools) > MAX_TOOLS:
        return f"There are {len(tools)} tools, more than {MAX_TOOLS}."
    schemas = [tool.input_schema for tool in tools]
    # One level more, for the list around the schemas.
    if not too_large(schemas, SCHEMA_VALUES, SCHEMA_LEVELS + 1, SCHEMA_CHARACTERS):
        return ""  # the usual case: all of them together are within the bounds of one
    for tool in tools:
        if why := too_large(tool.input_schema, SCHEMA_VALUES, SCHEMA_LEVELS, SCHEMA_CHARACTERS):
            return f"The schema of the tool {tool.name} {why}."
    why = too_large(schemas, ALL_SCHEMAS[0], SCHEMA_LEVELS + 1, ALL_SCHEMAS[1])
    return f"The list of the tools' schemas {why}." if why else ""


def _bounded_tools(tools: list[ToolSpec]) -> list[ToolSpec]:
    if problem := tools_problem(tools):
        raise PydanticCustomError("tools", "{problem}", {"problem": problem})
    return tools


ASK_SPEC = ToolSpec(
    name=ASK_TOOL,
    description=(
        "Ask an expert one question. Try by yourself first; ask when a rule or a preference is not to be found with "
        "the other tools, or when an error comes back twice. The answer may take minutes; it may also be that nobody "
        "answers."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "question": {"type": "string", "description": "one clear question"},
            "context": {"type": "string", "description": "what was tried and what came back"},
        },
        "required": ["question"],
    },
)
"""The virtual tool: the rollout loop offers it, no environment lists it."""
