"""The reason in a verifier's details: the first check that failed, or the first sentence that explains the outcome.

Details are JSON of the pack's own shape, so this reads names that verifiers commonly use. Pure, without Django.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from people.text.plain_text import clean

# details are a stranger's JSON, of any depth and size
MAX_CHARS, MAX_DEPTH, MAX_VALUES = 300, 6, 2000
VERDICTS = ("passed", "pass", "ok", "success", "satisfied")
NAMES = ("message", "reason", "description", "name", "check", "id")
REASONS = ("error", "reason", "explanation", "reasoning", "message", "feedback")
NOT_CHECKS = ("complete", "completed", "task_completed", "done", *VERDICTS)


def failed_check(details: Any) -> str:
    """Return "Failed check: …", else the reason in the details, else ""."""
    nodes = list(islice(_nodes(details, MAX_DEPTH), MAX_VALUES))
    for node in nodes:
        if name := _failed(node):
            return f"Failed check: {_short(name)}"
    for node in nodes:
        for key in REASONS:
            if isinstance(text := node.get(key), str) and text.strip():
                return _short(text)
    return ""


def found_by(details: Any) -> Any:
    """Return the verifier's own return value, without the facts about its run."""
    run = details.get("verify_result") if isinstance(details, Mapping) else None
    return run.get("raw_result") if isinstance(run, Mapping) else None


def _nodes(value: Any, depth: int) -> Iterator[Mapping[str, Any]]:
    """Yield the objects in `value`, outer ones first, in the order of their keys."""
    if depth == 0:
        return
    if isinstance(value, Mapping):
        yield value
    inner = _inner(value) if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for child in inner:
        yield from _nodes(child, depth - 1)


def _inner(value: Mapping[str, Any]) -> list[Any]:
    # a judge's options are no checks
    return [child for name, child in value.items() if name != "options" or "model" not in value]


def _failed(node: Mapping[str, Any]) -> str:
    if any(node.get(key) is False for key in VERDICTS):
        named = (node[key] for key in NAMES if isinstance(node.get(key), str) and node[key].strip())
        if name := next(named, ""):
            return name
    wrong = (key for key, value in node.items() if isinstance(key, str) and key not in NOT_CHECKS)
    return next((key for key in wrong if _is_failure(node[key])), "")


def _is_failure(value: Any) -> bool:
    """Return whether a named check has failed: false, or an object that says so without a name of its own."""
    if isinstance(value, Mapping):
        unnamed = not any(isinstance(value.get(key), str) for key in NAMES)
        return unnamed and any(value.get(key) is False for key in VERDICTS)
    return value is False


def _short(text: str) -> str:
    line = " ".join(clean(text).split())
    return line if len(line) <= MAX_CHARS else line[: MAX_CHARS - 1] + "…"
