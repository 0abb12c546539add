"""What a person reads of a call before they decide: folder, repository, differences, and characters that look alike.

Pure but for reading the file that a call replaces and the repository's name. The page shows invisible characters of
the call as codes itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DIFF_FROM = 1_000_000
"""The largest file that a difference is made from, in bytes."""
CONTEXT_MAX = 60_000
QUESTION_MAX = 2000
VALUE_MAX = 100_000
LINES_MAX = 4_000
"""The most lines of a difference: its cost grows with their square where many are alike."""
LISTED = 20
PLACE = "runs in"
"""The argument of a proposed call that says folder and machine: what approves it ahead covers no other place."""


def context_of(name: str, arguments: Mapping[str, Any], cwd: str, mode: str = "", label: str = "Folder") -> str:
    """Return where a call would run and what it changes, within the limit of a context."""
    repository, branch = repository_of(cwd)
    lines = [f"{label}: {on_one_line(cwd)}", f"Machine: {machine()}"]
    if repository:
        lines.append(f"Repository: {on_one_line(repository)}" + (f", branch {on_one_line(branch)}" if branch else ""))
    if mode:
        lines.append(f"Permission mode: {on_one_line(mode)}")
    if signs := unusual(arguments):
        lines.append("Characters outside ASCII, some can look like others: " + ", ".join(signs))
    if change := difference(name, arguments, cwd):
        lines += ["", change]
    text = "\n".join(lines)
    return text if len(text) <= CONTEXT_MAX else text[:CONTEXT_MAX] + "\n(cut; the call has all of it)"


def machine() -> str:
    """Return the name of this machine."""
    return on_one_line(os.uname().nodename)


def placed(arguments: Mapping[str, Any], cwd: str) -> dict[str, Any]:
    """Return the arguments of a call with the place where it runs. Raises `ValueError` if the call has such a name."""
    if PLACE in arguments:
        raise ValueError(f"A call has an argument that is named {PLACE!r}.")
    return {**arguments, PLACE: f"{on_one_line(cwd)} on {machine()}"}


def on_one_line(name: str) -> str:
    """Return a name as it is, or as Python writes it if it has line breaks or other signs that no one sees."""
    return name if name.isprintable() else repr(name)


def repository_of(cwd: str) -> tuple[str, str]:
    """Return the top folder and the branch of a git repository; empty outside one. Starts no process."""
    start = Path(cwd)
    for place in (start, *start.parents):
        head = place / ".git"
        if head.exists():
            try:
                text = (head / "HEAD").read_text(encoding="utf-8", errors="replace")[:300]
            except OSError:  # a worktree: `.git` is a file
                return str(place), ""
            return str(place), text.strip().removeprefix("ref: refs/heads/") if text.startswith("ref:") else ""
    return "", ""


def unusual(value: Any) -> list[str]:
    """Return the characters outside ASCII in a call as codes, the first ones of them, and whether there are others.

    >>> unusual({"command": "cat p\\u0430ss"})
    ['U+0430']
    """
    signs: dict[str, None] = {}
    stack = [value]
    while stack and len(signs) <= LISTED:
        part = stack.pop()
        if isinstance(part, str):
            if not part.isascii():
                signs |= {f"U+{ord(sign):04X}": None for sign in part if not sign.isascii()}
        elif isinstance(part, Mapping):
            stack += [*part.keys(), *part.values()]
        elif isinstance(part, list):
            stack += part
    return [*list(signs)[:LISTED], *(["and others"] if len(signs) > LISTED else [])]


def difference(name: str, arguments: Mapping[str, Any], cwd: str) -> str:
    """Return what a call would change in a file as a unified diff, and where a link leads to; empty for other calls."""
    named = str(arguments.get("file_path") or arguments.get("filePath") or "")
    if not named:
        return ""
    file, path = on_one_line(named), os.path.join(cwd, named)
    edits = arguments.get("edits") if isinstance(arguments.get("edits"), list) else [arguments]
    is_link = "\0" not in path and os.path.realpath(path) != os.path.abspath(path)
    leads_to = [f"Leads to: {on_one_line(os.path.realpath(path))}"] if is_link else []
    parts = []
    for edit in edits or []:
        before = edit.get("old_string", edit.get("oldString")) if isinstance(edit, dict) else None
        after = edit.get("new_string", edit.get("newString")) if isinstance(edit, dict) else None
        if isinstance(before, str) and isinstance(after, str):
            parts.append(_unified(file, before, after))
    content = arguments.get("content")
    if not parts and isinstance(content, str):
        before, why = _content_of(path)
        parts.append(f"{file}: not compared: {why}" if why else _unified(file, before, content))
    return "\n".join([*leads_to, *parts])


def _unified(file: str, before: str, after: str) -> str:
    if max(len(before), len(after)) > VALUE_MAX or max(before.count("\n"), after.count("\n")) > LINES_MAX:
        return f"{file}: {len(before):,} characters become {len(after):,}"
    # loaded here: few calls have one, and every hook would wait for it
    import difflib

    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), file, file, lineterm="")
    return "\n".join(lines)


def _content_of(file: str) -> tuple[str, str]:
    """Return the text of a file, empty if there is none, and why it cannot be compared."""
    try:
        if not os.path.lexists(file):
            return "", ""
        if not os.path.isfile(file):
            return "", "no file"
        if os.path.getsize(file) > DIFF_FROM:
            return "", "larger than 1 MB"
        return Path(file).read_text(encoding="utf-8", errors="replace"), ""
    except (OSError, ValueError) as error:
        return "", f"it cannot be read ({type(error).__name__})"


def bounded(value: Any) -> Any:
    """Return a value whose texts are cut at a length that a step can hold."""
    if isinstance(value, str):
        return value if len(value) <= VALUE_MAX else value[:VALUE_MAX] + f" (cut, {len(value):,} characters)"
    if isinstance(value, list):
        return [bounded(part) for part in value]
    if isinstance(value, dict):
        return {str(name): bounded(part) for name, part in value.items()}
    return value


def schema_of(arguments: Mapping[str, Any], can_edit: bool) -> dict[str, Any]:
    """Return the schema of an edit: the same arguments with values of the same types, or nothing but these. No edit
    changes where a call runs."""
    if not can_edit:
        return {"const": dict(arguments)}
    properties = {name: _type_of(value) for name, value in arguments.items()} | {PLACE: {"const": arguments[PLACE]}}
    return {"type": "object", "properties": properties, "required": [*arguments], "additionalProperties": False}


def _type_of(value: Any) -> dict[str, Any]:
    for kind, name in ((bool, "boolean"), (str, "string"), (int, "number"), (float, "number")):
        if isinstance(value, kind):
            return {"type": name}
    return {"type": "array"} if isinstance(value, list) else {"type": "object"} if isinstance(value, dict) else {}
