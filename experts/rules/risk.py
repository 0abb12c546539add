"""Which tools are of high risk, which approvals are equal, and which of them one press can decide. Pure.

Calls of a high-risk tool are decided one by one: no standing answer and no batch approves them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from awmclient.nouns.pictures import ImagePart
from people.text.plain_text import clean

PATTERNS_MAX, PATTERN_CHARS = 50, 100


def patterns_of(text: str) -> list[str]:
    """Return the patterns of a setting, which commas, spaces or line breaks separate."""
    return text.replace(",", " ").casefold().split()


def problem_of(text: str) -> str:
    """Return what is wrong with a setting; empty if it can be used."""
    patterns = patterns_of(text)
    if len(patterns) > PATTERNS_MAX:
        return f"Enter at most {PATTERNS_MAX} patterns."
    long = next((one for one in patterns if len(one) > PATTERN_CHARS), None)
    return f"Enter patterns of at most {PATTERN_CHARS} characters." if long else ""


def is_high(setting: str, tool: str) -> bool:
    """Return whether a tool's calls are of high risk.

    >>> is_high("delete*, *refund*", "create_refund"), is_high("delete*", "list_orders")
    (True, False)
    """
    return any(fnmatchcase(tool.casefold(), pattern) for pattern in patterns_of(setting))


def only_call(typed: Mapping[str, Any] | None) -> str:
    """Return the tool of an approval of a single call; empty for any other ask."""
    calls = (typed or {}).get("calls") or []
    return calls[0]["name"] if len(calls) == 1 else ""


def digest_of_pictures(pictures: Iterable[ImagePart] | None) -> str:
    """Return what is equal for questions with the same pictures in the same order; empty without one."""
    return (
        hashlib.sha256("\n".join(blobs).encode()).hexdigest() if (blobs := [one.blob for one in pictures or ()]) else ""
    )


def digest_of(typed: Mapping[str, Any] | None, privilege: str, pictures: str = "") -> str:
    """Return what is equal for approvals with the same calls, pictures (as their digest) and verifier access; empty for
    other asks."""
    calls = (typed or {}).get("calls") or []
    if not calls:
        return ""
    # as a text: in Python 1 equals true
    equal = [[one["name"], one.get("arguments") or {}] for one in calls]
    text = json.dumps([privilege, equal, *([pictures] if pictures else [])], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def why_not_together(tools: Iterable[str], setting: str) -> str:
    """Return why approvals, each of one call of these tools, cannot be approved together; empty if they can."""
    names = set(tools)
    if not names or "" in names:
        return "Only approvals of a single call can be approved together."
    if len(names) > 1:
        return f"These calls are of {len(names)} tools. Approve those of one tool at a time."
    tool = names.pop()
    return f"{clean(tool)} is of high risk. Approve its calls one by one." if is_high(setting, tool) else ""
