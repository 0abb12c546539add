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
LISTED = 20


def context_of(name: str, arguments: Mapping[str, Any], cwd: str, mode: str = "") -> str:
    """Return where a call would run and what it changes, within the limit of a context."""
    repository, branch = repository_of(cwd)
    lines = [f"Folder: {cwd}"]
    if repository:
        lines.append(f"Repository: {repository}" + (f", branch {branch}" if branch else ""))
    if mode:
        lines.append(f"Permission mode: {mode}")
    if signs := unusual(arguments):
        lines.append("Characters outside ASCII, some can look like others: " + ", ".join(signs))
    if change := difference(name, arguments, cwd):
        lines += ["", change]
    text = "\n".join(lines)
    return text if len(text) <= CONTEXT_MAX else text[:CONTEXT_MAX] + "\n(cut; the call has all of it)"


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
    """Return the characters outside ASCII in a call as codes, the first ones of each kind.

    >>> unusual({"command": "cat p\\u0430ss"})
    ['U+0430']
    """
    signs: dict[str, None] = {}
    stack = [value]
    while stack and len(signs) < LISTED:
        part = stack.pop()
        if isinstance(part, str):
            if not part.isascii():
                signs |= {f"U+{ord(sign):04X}": None for sign in part if not sign.isascii()}
        elif isinstance(part, Mapping):
            stack += [*part.keys(), *part.values()]
        elif isinstance(part, list):
            stack += part
    return list(signs)[:LISTED]


def difference(name: str, arguments: Mapping[str, Any], cwd: str) -> str:
    """Return what a call would change in a file as a unified diff; empty for a call that changes none as text."""
    file = str(arguments.get("file_path") or arguments.get("filePath") or "")
    if not file:
        return ""
    edits = arguments.get("edits") if isinstance(arguments.get("edits"), list) else [arguments]
    parts = []
    for edit in edits or []:
        before = edit.get("old_string", edit.get("oldString")) if isinstance(edit, dict) else None
        after = edit.get("new_string", edit.get("newString")) if isinstance(edit, dict) else None
        if isinstance(before, str) and isinstance(after, str):
            parts.append(_unified(file, before, after))
    content = arguments.get("content")
    if not parts and isinstance(content, str):
        parts.append(_unified(file, _content_of(os.path.join(cwd, file)), content))
    return "\n".join(parts)


def _unified(file: str, before: str, after: str) -> str:
    if max(len(before), len(after)) > VALUE_MAX:
        return f"{file}: {len(before):,} characters become {len(after):,}"
    # loaded here: few calls have one, and every hook would wait for it
    import difflib

    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), file, file, lineterm="")
    return "\n".join(lines)


def _content_of(file: str) -> str:
    try:
        if os.path.isfile(file) and os.path.getsize(file) <= DIFF_FROM:
            return Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return ""


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
    """Return the schema of an edit: the same arguments with values of the same types, or nothing but these."""
    if not can_edit:
        return {"const": dict(arguments)}
    properties = {name: _type_of(value) for name, value in arguments.items()}
    return {"type": "object", "properties": properties, "required": [*arguments], "additionalProperties": False}


def _type_of(value: Any) -> dict[str, Any]:
    for kind, name in ((bool, "boolean"), (str, "string"), (int, "number"), (float, "number")):
        if isinstance(value, kind):
            return {"type": name}
    return {"type": "array"} if isinstance(value, list) else {"type": "object"} if isinstance(value, dict) else {}
