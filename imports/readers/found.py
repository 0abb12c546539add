"""The value a reader makes: a trajectory, the values that it could not hold, and the refusal of a row. Pure."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from awmclient.nouns.fields import Moment
from awmclient.nouns.kinds import is_message, is_note, is_said
from awmclient.schema import EpisodeStart, ToolSpec, Trajectory
from awmclient.words.conversation import readable
from awmclient.words.pictures import inline_pictures, picture_at, picture_in, with_parts
from imports.readers.open_calls import OpenCalls

TASK_MAX, LINE_MAX = 20_000, 200
MOMENT: TypeAdapter[Any] = TypeAdapter(Moment)
STEPS_MAX = 100_000
"""Steps of one trajectory."""
EMPTY: tuple[Any, ...] = (None, "", [], {})
"""Empty values: ignoring a field with one of them is not a loss."""
KINDS_MAX = 100
"""Kinds of losses of a row that are listed: field names come from the file, so their number is bounded. Others are
counted together."""
FURTHER = "further kinds"
KNOWN_LISTS, KNOWN_CHARACTERS = 8, 256 * 1024
"""The number of cached tool lists, and the size of the longest one."""


NESTED_TOOL = frozenset({"type", "function"})
FLAT_TOOL = frozenset({"type", "name", "description", "input_schema", "inputSchema", "parameters"})


LOOKS_BESIDE = 2_000
"""Files beside a row that are read for it: as many as an episode has pictures."""
UNREADABLE_PICTURES = "pictures that cannot be read"


class UnreadableRow(Exception):
    """A row that is not a trajectory of its format; the text says why."""


class PictureSource(Protocol):
    """What a file's pictures become. Raises nothing for a picture that is none."""

    def part_of(self, data: bytes) -> dict[str, Any] | None:
        """Return the part that a step has of a picture, or None if it cannot be read or is one too many."""

    def named(self, digest: str) -> dict[str, Any] | None:
        """Return the part of a picture that a row names, if the project has it and the row has room."""


class NoPictures:
    """A source that reads none: all count as lost."""

    def part_of(self, data: bytes) -> dict[str, Any] | None:
        return None

    def named(self, digest: str) -> dict[str, Any] | None:
        return None


class RowWithFiles(dict[str, Any]):
    """A row with files beside it, which `beside` reads by their names; None for one that is not there."""

    def __init__(self, row: Mapping[str, Any], beside: Callable[[str], bytes | None]) -> None:
        super().__init__(row)
        self.beside = beside


@dataclass
class TrajectoryDraft:
    """A trajectory under construction: its fields, its steps without numbers, and the losses, counted by kind."""

    lost: Counter[str] = field(default_factory=Counter)
    steps: list[dict[str, Any]] = field(default_factory=list)
    turn: int = 0
    unanswered: OpenCalls = field(default_factory=OpenCalls)
    pictures: PictureSource = field(default_factory=NoPictures)
    beside: Callable[[str], bytes | None] | None = None
    looked_beside: int = 0

    def add(self, kind: str, **fields: Any) -> dict[str, Any]:
        if len(self.steps) >= STEPS_MAX:
            raise UnreadableRow(f"It has more than {STEPS_MAX:,} steps.")
        step = {"kind": kind, **{name: value for name, value in fields.items() if value is not None}}
        self.steps.append(step)
        return step

    def lose(self, what: str, count: int = 1) -> None:
        if count:
            # A field's name is text of the file, and pages show it.
            kind = readable(what)
            self.lost[kind if kind in self.lost or len(self.lost) < KINDS_MAX else FURTHER] += count

    def lose_fields(self, fields: Mapping[str, Any], expected: Set[str], of: str = "") -> None:
        """Count the non-empty fields that the reader does not know."""
        if fields.keys() <= expected:  # the common case
            return
        for name in sorted(fields.keys() - expected):
            if fields[name] not in EMPTY:
                self.lose(f"field {name[:60]}{f' of {of}' if of else ''}")

    def inner(self, parent: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        """Return the object in a field, or an empty one; any other value counts as lost."""
        value = parent.get(name)
        if isinstance(value, Mapping):
            return value
        self.lose_fields({name: value}, frozenset())
        return {}

    def line(self, value: Any, what: str) -> str | None:
        """Return a short text for a column, or None; a value that is too long or not a text counts as lost."""
        if value is None or value == "":
            return None
        text = readable(value) if isinstance(value, str) else str(value) if isinstance(value, int | float) else ""
        if not text or len(text) > LINE_MAX:
            self.lose(what)
        return text[:LINE_MAX] or None

    def whole(self, value: Any, what: str) -> int | None:
        """Return a whole number for a column, or None; other values count as lost. Exports write -1 for none."""
        number = whole(value)
        self.lose(what, int(number is None and value not in (*EMPTY, -1)))
        return number

    def moment(self, value: Any) -> str | None:
        """Return a time in ISO 8601, or None; a value that is not a time counts as lost."""
        if value is None:
            return None
        try:
            # Strict for all but texts: a number would be read as seconds since 1970.
            MOMENT.validate_python(value, strict=not isinstance(value, str))
        except ValidationError:
            self.lose("times")
            return None
        return str(value)

    def picture(self, part: Mapping[str, Any]) -> bytes | None:
        """Return the bytes of the picture that a part of a content is, or None: in it as data, or beside the row."""
        if (data := picture_in(part)) is not None or part.get("type") != "image":
            return data
        source, name = part.get("source"), part.get("image")  # ATIF's, and Inspect's
        if isinstance(source, Mapping):
            name = source.get("path")
        if not isinstance(name, str):
            return None
        if (data := picture_at(name)) is not None or self.beside is None or self.looked_beside >= LOOKS_BESIDE:
            return data
        self.looked_beside += 1  # a file can be named by every step
        return self.beside(name)

    def named_picture(self, part: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the picture that a part of a content names by its digest, or None."""
        digest = part.get("blob")
        return self.pictures.named(digest) if part.get("type") == "image" and isinstance(digest, str) else None

    def with_parts(self, came: Any) -> Any:
        """Return what a call returned, with a part in the place of each picture in it. Others stay as they came."""
        if not isinstance(came, list | dict):
            return came
        parts = {data: self.pictures.part_of(data) for data in dict.fromkeys(inline_pictures(came))}
        return with_parts(came, {data: part for data, part in parts.items() if part is not None})

    def task(self, value: Any) -> str:
        text = readable(value) if isinstance(value, str) else ""
        if not text.strip():
            raise UnreadableRow("It has no task: there is neither a task text nor a user message.")
        if len(text) > TASK_MAX:
            self.lose(f"task text after {TASK_MAX:,} characters")
        return str(text[:TASK_MAX])

    def trajectory(self, **fields: Any) -> Trajectory:
        """Return the finished trajectory. Raises pydantic's error for steps that the record format does not allow."""
        numbered = [{"seq": number, **step} for number, step in enumerate(self.steps, 1)]
        unset = {name: value for name, value in fields.items() if value is not None}
        about = {"episode": "", "project": "", "state": "finished", "environment": "import"}
        if "tools" in unset:
            unset["tools"] = checked_tools(unset["tools"])
        return Trajectory.model_validate({**about, **unset, "steps": numbered})

    def first_user_text(self) -> str:
        messages = (step for step in self.steps if is_message(step) and step["role"] == "user")
        return str(next(messages, {}).get("content", ""))

    def last_answer(self) -> str | None:
        """Return the last message of the agent, if only notes follow it."""
        last = next((step for step in reversed(self.steps) if not is_note(step)), None)
        is_answer = last is not None and is_said(last)
        return str(last["content"]) if last is not None and is_answer else None


def lost_words(lost: Any) -> list[str]:
    """Return the kinds of losses, the most frequent first."""
    return [f"{what} ({count:,})" for what, count in Counter(lost).most_common()]


def wants(row: Mapping[str, Any], name: str, of: type | tuple[type, ...], words: str) -> Any:
    """Return the value of a required field. Raises `UnreadableRow`."""
    value = row.get(name)
    if not isinstance(value, of):
        raise UnreadableRow(f"Its field {name} is not {words}.")
    return value


def whole(value: Any, least: int = 0) -> int | None:
    """Return a whole number that a column can hold, or None."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and least <= value <= 2**31 - 1 else None


def tools_of(raw: Any, draft: TrajectoryDraft) -> list[dict[str, Any]]:
    """Return tools in any of the three forms of `ToolSpec`; a bare name is a tool without a schema."""
    kept = []
    draft.lose("tools that are not a list", int(not isinstance(raw, list) and raw not in EMPTY))
    for tool in raw if isinstance(raw, list) else []:
        if isinstance(tool, str) and tool:
            kept.append({"name": tool})
            draft.lose("schemas of tools")
        elif isinstance(tool, dict) and (tool.get("type") == "function" or "name" in tool):
            kept.append(_tool(tool, draft))
        else:
            draft.lose("tools without a name")
    return kept


def checked_tools(raw: Any) -> list[ToolSpec]:
    """Return tools within the bounds of every episode. Raises pydantic's error.

    Most rows of a file have the same list. It is checked once, because a cache lookup costs a tenth of a check.

    """
    text = json.dumps(raw)
    # A long list would stay in memory, and push the usual ones out.
    check = _checked if len(text) <= KNOWN_CHARACTERS else _checked.__wrapped__
    return list(check(text))


@functools.lru_cache(maxsize=KNOWN_LISTS)
def _checked(text: str) -> list[ToolSpec]:
    # The bounds are those of a recorded episode's start, which also needs a key and a task.
    return EpisodeStart.model_validate({"key": "key", "task": "task", "tools": json.loads(text)}).tools or []


def _tool(tool: dict[str, Any], draft: TrajectoryDraft) -> dict[str, Any]:
    inner = tool.get("function")
    if tool.get("type") == "function" and isinstance(inner, dict):
        draft.lose_fields(tool, NESTED_TOOL, "tools")
        draft.lose_fields(inner, FLAT_TOOL, "tools")
    else:
        draft.lose_fields(tool, FLAT_TOOL, "tools")
    # OpenAI's newer API has the same fields without the object `function`
    if isinstance(inner, dict) or "inputSchema" in tool:
        return tool
    schema = tool.get("input_schema", tool.get("parameters"))
    spec = {"name": tool.get("name"), "description": tool.get("description"), "input_schema": schema}
    return {name: value for name, value in spec.items() if value is not None}
