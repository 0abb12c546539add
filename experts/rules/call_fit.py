"""Where the arguments of proposed calls break their tool's own schema. Pure.

The agent wrote calls and schemas, so all calls of an ask share one budget of steps. `decisions.py` refuses edits that
do not fit; pages, Slack, standing answers and batches read what is proposed here, before anyone approves it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from episodes.tool_schemas import Checker
from people.text.plain_text import clean

SHOWN = 20
WORDS = 300
UNCHECKED = "this is too large to be checked"


@dataclass(frozen=True)
class Break:
    """One argument that does not fit: its name, empty where the words are about all of them, and why."""

    name: str
    words: str


def schemas_of(tools: Iterable[Any]) -> dict[Any, Any]:
    """Return the schemas of an episode's tools by name."""
    return {tool.get("name"): tool.get("input_schema") for tool in tools if isinstance(tool, dict)}


def schema_of(call: Mapping[str, Any], schemas: Mapping[Any, Any]) -> Any:
    """Return the schema of a call: its own, or that of the tool."""
    return call.get("schema") or schemas.get(call["name"])


def breaks_in(
    calls: Iterable[Mapping[str, Any]], tools: Iterable[Any], checker: Checker | None = None
) -> list[list[Break]]:
    """Return for each call where its arguments break its schema; none where they fit."""
    checker, schemas = checker or Checker(formats=True), schemas_of(tools)
    return [breaks_of(checker, call.get("arguments") or {}, schema_of(call, schemas)) for call in calls]


def breaks_of(checker: Checker, arguments: Mapping[str, Any], schema: Any) -> list[Break]:
    """Return where arguments break a schema, at most `SHOWN` places."""
    places = checker.misfits(arguments, schema, SHOWN)
    if not places and checker.is_spent:
        return [Break("", UNCHECKED)]
    return [Break(str(place.path[0]) if place.path else "", clean(place.in_words()[:WORDS])) for place in places]


def marked(call: Mapping[str, Any], breaks: list[Break]) -> dict[str, Any]:
    """Return a call as a form has it, with `breaks` as objects `{name, words}` if there are any."""
    return {**call, **({"breaks": [asdict(place) for place in breaks]} if breaks else {})}
