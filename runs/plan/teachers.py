"""Reads: policies of an operator for any environment: a file of scripts, and a Python function by name.

Scripts of packs are for tasks of packs; a server of others has none. A file is in `scripts/` of the data folder, a
function is named in `AWMWEB_POLICIES`: a plan can come from anywhere, so it names neither a path nor a module.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings

from awmclient.policies import Policy, Turn, View
from people.errors import BadJson
from people.text.json_text import parse_json
from runs.errors import UnknownPolicy

FILE, PYTHON = "file", "python"
FOLDER = "scripts"
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
FILE_BYTES = 50_000_000
Key = tuple[str, int]


@dataclass(frozen=True)
class ScriptFile:
    """The scripts of a file by task, and the digest of its bytes."""

    scripts: Mapping[Key, list[Any]]
    digest: str


def script_file(name: str) -> ScriptFile:
    """Return the scripts of `scripts/NAME.jsonl`. Raises `UnknownPolicy`, which names the line that is no script."""
    path = settings.VAR / FOLDER / f"{name}.jsonl"
    if not NAME.fullmatch(name) or not path.is_file():
        raise UnknownPolicy(f"There is no file {name[:100]}.jsonl in {FOLDER}/ of the data folder.")
    state = path.stat()
    return _scripts_in(path, state.st_mtime_ns, state.st_size)


@functools.lru_cache(maxsize=4)
def _scripts_in(path: Path, _changed: int, size: int) -> ScriptFile:
    """Read a file once for each of its states: a launch asks for every task."""
    if size > FILE_BYTES:
        raise UnknownPolicy(f"{path.name} has more than {FILE_BYTES:,} bytes.")
    content = path.read_bytes()
    scripts: dict[Key, list[Any]] = {}
    for number, line in enumerate(content.splitlines(), 1):
        if line.strip():
            key, turns = _row(line, f"{path.name}, line {number}")
            scripts[key] = turns
    return ScriptFile(scripts, hashlib.sha256(content).hexdigest())


def _row(line: bytes, place: str) -> tuple[Key, list[Any]]:
    try:
        row = parse_json(line)
    except BadJson as error:
        raise UnknownPolicy(f"{place}: {error.message}") from error
    scenario = row.get("scenario") if isinstance(row, dict) else None
    idx, turns = (row.get("task_idx", 0), row.get("script")) if isinstance(row, dict) else (None, None)
    is_script = isinstance(turns, list) and all(isinstance(turn, dict) for turn in turns)
    if not isinstance(scenario, str) or type(idx) is not int or not is_script or not turns:
        raise UnknownPolicy(f"{place}: expected scenario, task_idx and script, a list of turns.")
    return (scenario, idx), turns


def described(kind: str, name: str) -> dict[str, Any]:
    """Return what an episode's policy holds of a teacher. Raises `UnknownPolicy` for one that does not exist."""
    if kind == FILE:
        return {"script": name, "digest": script_file(name).digest}
    return {"script": name, "function": _function_named(name)}


def turns_for(policy: Mapping[str, Any], scenario: str, task_idx: int) -> list[Any]:
    """Return the script of a task. Raises `UnknownPolicy` if the file has none, or changed since the launch."""
    name = str(policy.get("script", ""))
    scripts = script_file(name)
    if scripts.digest != policy.get("digest"):
        raise UnknownPolicy(f"{name}.jsonl changed since the launch.")
    if (scenario, task_idx) not in scripts.scripts:
        raise UnknownPolicy(f"{name}.jsonl has no script for {scenario}/{task_idx}.")
    return scripts.scripts[scenario, task_idx]


def _function_named(name: str) -> str:
    place: str | None = settings.AWMWEB_POLICIES.get(name)
    if place is None:
        raise UnknownPolicy(f"AWMWEB_POLICIES names no policy {name[:100]!r}.")
    return place


def function_of(policy: Mapping[str, Any]) -> Policy:
    """Return a policy that calls the named function. Raises `UnknownPolicy` if it can't be imported, or if the name
    means another function than at the launch."""
    name = str(policy.get("script", ""))
    place = _function_named(name)
    if place != policy.get("function"):
        raise UnknownPolicy(f"AWMWEB_POLICIES says another function for {name} than at the launch.")
    module, _, attribute = place.partition(":")
    try:
        return FunctionPolicy(getattr(importlib.import_module(module), attribute))
    except Exception as error:  # the operator's module runs here, and can raise anything
        raise UnknownPolicy(f"{place} cannot be imported: {type(error).__name__}: {error}") from error


class FunctionPolicy:
    """Asks a function for each turn, by the view alone: `def act(view) -> Turn`, async or not."""

    def __init__(self, function: Callable[[View], Any]) -> None:
        self._function = function

    async def act(self, view: View) -> Turn:
        # in a thread: a function that blocks must not hold the loop
        turn = await asyncio.to_thread(self._function, view)
        turn = await turn if inspect.isawaitable(turn) else turn
        if not isinstance(turn, Turn):
            raise TypeError(f"The policy returned {type(turn).__name__}, expected Turn.")
        return turn
