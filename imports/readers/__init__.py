"""The formats by name, and the trajectories of a file: file -> `schema.Trajectory`, nothing written.

A format recognises its rows and reads one; `containers.py` cuts the file into rows.

    found       what a reader returns
    containers  rows of a file
    messages    chat messages as steps
    own         awmweb's own formats
    chats       lists of chat messages
    calls       lists of actions
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from awmclient.schema import EpisodeStart, Trajectory
from imports.readers import calls, chats, own
from imports.readers.containers import BadFile as BadFile
from imports.readers.containers import rows
from imports.readers.found import Draft, Unreadable
from people.errors import words_of


@dataclass(frozen=True)
class Format:
    """One format: its name for people, whether a row is of it, and how one is read."""

    title: str
    knows: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Mapping[str, Any], Draft], Trajectory]


FORMATS: dict[str, Format] = {
    "raw": Format("awmweb record", own.knows_record, own.read_record),
    "sft": Format("awmweb SFT rows", own.knows_sft, own.read_sft),
    "atif": Format("ATIF v1.0 to v1.8", calls.knows_atif, calls.read_atif),
    "inspect": Format("Inspect log", chats.knows_inspect, chats.read_inspect),
    "openenv": Format("OpenEnv results.jsonl", chats.knows_openenv, chats.read_openenv),
    "tau_bench": Format("tau-bench results", chats.knows_tau, chats.read_tau),
    "swe_agent": Format("SWE-agent .traj", calls.knows_swe, calls.read_swe),
    "awm": Format("AWM trajectory.json", calls.knows_awm, calls.read_awm),
    "openai": Format("OpenAI-style messages", chats.knows_openai, chats.read_openai),
}


@dataclass(frozen=True)
class Found:
    """One row of a file: the trajectory that it holds with the opening of its episode and what was lost of it, or why
    it holds none.

    `digest` is one of the row as it came, so that it stays when a reader learns more; the episode's key is made of it.
    `behind` counts the bytes of the file that were read.
    """

    place: str
    behind: int
    format: str = ""
    trajectory: Trajectory | None = None
    start: EpisodeStart | None = None
    digest: str = ""
    lost: Mapping[str, int] = field(default_factory=dict)
    refusal: str = ""


def read(path: Path, wanted: str = "") -> Iterator[Found]:
    """Yield every row of a file. Without `wanted` the first row that a format knows decides for all.

    Raises:
        BadFile: no row can be read at all.
    """
    name = wanted
    for place, value, behind in rows(path):
        if isinstance(value, Unreadable):
            yield Found(place, behind, refusal=str(value))
        elif not isinstance(value, dict):
            yield Found(place, behind, refusal="It is not a JSON object.")
        elif not (name := name or recognise(value)):
            yield Found(place, behind, refusal=f"Unknown format. Use one of {', '.join(FORMATS)}.")
        else:
            yield _found(name, place, value, behind)


def recognise(row: Mapping[str, Any]) -> str:
    """Return the name of the format that knows this row, or nothing."""
    return next((name for name, one in FORMATS.items() if one.knows(row)), "")


def _found(name: str, place: str, row: dict[str, Any], behind: int) -> Found:
    if not FORMATS[name].knows(row):
        return Found(place, behind, name, refusal=f"It is not {FORMATS[name].title}.")
    draft = Draft()
    try:
        trajectory = FORMATS[name].read(row, draft)
        digest = hashlib.sha256(json.dumps(row, sort_keys=True).encode()).hexdigest()
        start = _start_of(trajectory, f"import/{digest}")
    except Unreadable as error:
        return Found(place, behind, name, refusal=str(error))
    except ValidationError as error:
        return Found(place, behind, name, refusal=_first_words(error))
    return Found(place, behind, name, trajectory, start, digest, dict(draft.lost))


def _start_of(trajectory: Trajectory, key: str) -> EpisodeStart:
    """Return the opening of the episode that a trajectory becomes, within the bounds of every other one. Its tools were
    checked when they were read."""
    same = ("task", "scenario", "task_idx", "environment", "arm", "seed", "split", "policy", "training_step")
    more = ("checkpoint", "group_key", "expert")
    values = {name: getattr(trajectory, name) for name in (*same, *more)}
    start = EpisodeStart.model_validate(
        {"key": key, **{name: value for name, value in values.items() if value not in (None, "")}}
    )
    start.tools = trajectory.tools
    return start


def _first_words(error: ValidationError) -> str:
    """Return what is wrong, in the words of the type checker, without the value, which may be anything."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{'.'.join(str(part)[:60] for part in first['loc'])}: {words_of(first)}"[:500]
