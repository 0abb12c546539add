"""Calls of an episode that are made again in a new world: what is kept of each, and how alike the two worlds are."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Literal

from awmenv.models import Observation

OTHER_DATABASE = "leaves another database"


@dataclass(frozen=True)
class Made:
    """One call of an episode: its request, a digest of its visible result, and the server's mark if the world is
    recorded."""

    name: str
    arguments: dict[str, Any]
    seen: str = ""
    mark: dict[str, Any] | None = None


@dataclass
class Restored:
    """The result of restoring a world: the number of repeated `calls`, and the lowest grade among them.

    *exact*: every result and every byte of the database. *content*: every result and every changed row. *database*:
    every result and the last database, which was replaced by a snapshot. `difference` is the first one.
    """

    calls: int = 0
    grade: Literal["exact", "content", "database"] = "exact"
    difference: str = ""


def difference_of(call: Made, observation: Observation, restored: Restored) -> str:
    """Return how the result of a repeated call differs, in words; empty if it does not. Records a lower grade."""
    mark = observation.metadata.get("mark") or {}
    if call.seen and digest_of(observation) != call.seen:
        return "brings something else now"
    if call.mark is None or not mark:
        return ""
    if mark.get("answer") != call.mark.get("answer"):
        return "brings something else now"
    if mark.get("database") == call.mark.get("database"):
        return ""
    rows = call.mark.get("rows")
    if not rows or mark.get("rows") != rows:
        return OTHER_DATABASE
    if restored.grade == "exact":
        restored.grade = "content"
        restored.difference = f"{call.name}, call {restored.calls + 1}: the same rows, other bytes"
    return ""


def digest_of(observation: Observation) -> str:
    """Hash the visible part of a call's result."""
    came = json.dumps([observation.error, observation.tool_result], sort_keys=True)
    return hashlib.sha256(came.encode()).hexdigest()
