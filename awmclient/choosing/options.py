"""Options of a model's requests: how much it can write, and how its words are drawn. Pure.

They are part of a policy: settings, plans and arms name them, episodes record them, and the same reader checks all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

CHARACTERS = 10_000
"""The longest options, as JSON."""
STOPS_MOST, STOP_CHARS = 16, 200
# in the escapes of JSON: U+0000, or half of a pair
_UNSTORABLE = re.compile(
    r"\\u0000|\\ud[89ab][0-9a-f]{2}(?!\\ud[c-f][0-9a-f]{2})|(?<!\\ud[89ab][0-9a-f]{2})\\ud[c-f][0-9a-f]{2}"
)
OWN = ("model", "messages", "tools", "stream")
"""Fields of a request that are no options: awmweb itself sets them."""


def _is_whole(least: int, most: int, value: Any) -> bool:
    # not isinstance: a bool is an int in Python
    return type(value) is int and least <= value <= most


def _is_number(least: float, most: float, value: Any) -> bool:
    return type(value) in (int, float) and least <= value <= most


def _is_stop(value: Any) -> bool:
    words = value if isinstance(value, list) else [value]
    fit = all(isinstance(word, str) and 0 < len(word) <= STOP_CHARS for word in words)
    return fit and 0 < len(words) <= STOPS_MOST


RULES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "max_tokens": ("a whole number from 1 to 1,000,000", lambda value: _is_whole(1, 1_000_000, value)),
    "temperature": ("a number from 0 to 100", lambda value: _is_number(0, 100, value)),
    "top_p": ("a number from 0 to 1", lambda value: _is_number(0, 1, value)),
    "seed": ("a whole number", lambda value: _is_whole(-(2**63), 2**63 - 1, value)),
    "stop": (f"a text, or at most {STOPS_MOST} of them", _is_stop),
    "response_format": ("a JSON object", lambda value: isinstance(value, dict)),
    "extra": ("a JSON object", lambda value: isinstance(value, dict)),
}
"""What each option is, in words, and whether a value is that. `extra` holds other fields."""


def options_of(value: Any) -> dict[str, Any]:
    """Return options as they were written. Raises `ValueError`, which names the option and not its value.

    >>> options_of({"max_tokens": 256, "temperature": 0, "extra": {"top_k": 20}})["max_tokens"]
    256
    """
    if not isinstance(value, Mapping):
        raise ValueError('options are a JSON object, such as {"max_tokens": 256, "temperature": 0}')
    for name, option in value.items():
        if name not in RULES:
            raise ValueError(f"{str(name)[:40]!r} is no option. Options are {', '.join(RULES)}; others belong in extra")
        rule, fits = RULES[name]
        if not fits(option):
            raise ValueError(f"{name} is {rule}")
    taken = [name for name in value.get("extra", {}) if name in OWN or name in RULES]
    if taken:
        raise ValueError(f"extra cannot hold {taken[0]}")
    written = _written(value)
    if len(written) > CHARACTERS:
        raise ValueError(f"options have at most {CHARACTERS:,} characters")
    if _UNSTORABLE.search(written.replace(r"\\", "--")):
        raise ValueError("options have no U+0000 and no lone surrogate")
    return dict(value)


def options_in(text: str) -> dict[str, Any]:
    """Return the options in a JSON text; an empty one has none. Raises `ValueError`."""
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    return options_of(value)


def fields_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request with these options: those of `extra` stand beside the others."""
    return {**{name: value for name, value in options.items() if name != "extra"}, **options.get("extra", {})}


def _written(value: Mapping[str, Any]) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise ValueError("options are JSON") from None
