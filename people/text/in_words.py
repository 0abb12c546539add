"""Numbers and times as people say them. Pure. Called by the template tags and by the reads that make headlines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from people.text.plain_text import clean

COUNTDOWN_LEVELS = {"late": 0.2, "soon": 0.45}
"""A countdown changes color below these shares of a deadline's time; pages hand them to `clock.js`."""
MODEL_CHARS = 300


def countdown_level(left_s: float, budget_s: float | None) -> str:
    """Return `late`, `soon`, or nothing while there is time."""
    share = left_s / budget_s if budget_s else 1.0
    return next((name for name, below in COUNTDOWN_LEVELS.items() if share < below), "")


def clock(seconds: float | None) -> str:
    """Return seconds as m:ss, or h:mm:ss from an hour on."""
    whole = max(0, int(seconds or 0))
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"


def duration(seconds: float | None) -> str:
    """Return how long something took: m:ss, and "<1 s" where that would be 0:00."""
    return clock(seconds) if (seconds or 0) >= 1 else "<1\u00a0s"


def ago(when: datetime, now: datetime) -> str:
    """Return one unit, rounded down: "12 s ago", "3 min ago"."""
    seconds = (now - when).total_seconds()
    if abs(seconds) < 5:
        return "just now"
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if abs(seconds) >= size:
            return f"{int(seconds // size)} {unit} ago" if seconds > 0 else f"in {int(-seconds // size)} {unit}"
    return "just now"


def percent(share: float | None) -> str:
    """Return a rate as people read it: 0.816 is "82%"."""
    return "" if share is None else f"{100 * share:.0f}%"


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def model_in_words(model: str, options: Mapping[str, Any] | None) -> str:
    """Return a model with the options of its requests, bounded.

    >>> model_in_words("toy-7b", {"temperature": 0, "stop": ["END"]})
    'toy-7b (temperature 0, stop ["END"])'
    """
    parts = ", ".join(f"{name} {json.dumps(value)}" for name, value in (options or {}).items())
    words = clean(f"{model} ({parts})" if parts else model)
    return words if len(words) <= MODEL_CHARS else words[: MODEL_CHARS - 1] + "…"


def bytes_in_words(size: int) -> str:
    for limit, unit in ((1_000_000, "MB"), (1_000, "kB")):
        if size >= limit:
            return f"{size / limit:.1f} {unit}"
    return f"{size} B"
