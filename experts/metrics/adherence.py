"""Whether the agent's next call followed the advice: followed, not followed, or cannot tell.

Pure. Strict where the advice suggests a call, conservative where it has only text: unclear cases are never guessed. A
call that was decided in the same turn as the question was decided before the answer.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from awmclient.nouns.kinds import is_call

FOLLOWED, NOT_FOLLOWED, CANNOT_TELL = "followed", "not_followed", "cannot_tell"
TURNED = re.compile(r"\b(?:not|never|no|don'?t|avoid|except|without|instead|rather|unless)\b|n['’]t\b", re.IGNORECASE)
"""Negations: the sentence may name a call that should not be made."""
NAMED = re.compile(r"\d|[\"“'`«][^\"”'`»]+[\"”'`»]")
"""A number or something in quotes: the text names a value."""
SHORTEST = 3


def next_call(steps: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the first call that the agent decided after its question. `steps` start with the question's own."""
    asked = steps[0].get("turn") if steps else None
    later = (step for step in steps[1:] if is_call(step))
    return next((step for step in later if asked is None or step.get("turn") != asked), None)


def followed(
    text: str,
    suggested: Sequence[Mapping[str, Any]],
    call: Mapping[str, Any] | None,
    tools: Collection[str] = (),
) -> str:
    """Return whether a call followed the advice.

    1. Without a call, cannot tell. 2. With suggested calls, it is one of them or not. 3. If the text names tools, it is
    one of them or not. 4. One value in both the text and the call is enough.

    A suggested call counts as made if its name and all its arguments match; the agent can add arguments.
    """
    if call is None:
        return CANNOT_TELL
    if suggested:
        return FOLLOWED if any(_is_made(one, call) for one in suggested) else NOT_FOLLOWED
    if TURNED.search(text):
        return CANNOT_TELL
    words, name = text.casefold(), str(call.get("name", ""))
    # the called tool counts as known even if no list of tools names it
    named = [tool for tool in {*tools, name} if _says(words, tool.casefold())]
    if named and name not in named:
        return NOT_FOLLOWED
    shares = any(_says(words, value) for value in _values(call.get("arguments")))
    return FOLLOWED if shares or (named and not NAMED.search(text)) else CANNOT_TELL


def _is_made(suggestion: Mapping[str, Any], call: Mapping[str, Any]) -> bool:
    arguments = call.get("arguments")
    if suggestion.get("name") != call.get("name") or not isinstance(arguments, Mapping):
        return False
    suggested = suggestion.get("arguments") or {}
    return all(name in arguments and _same(arguments[name], value) for name, value in suggested.items())


def _same(left: object, other: object) -> bool:
    """Return whether two values are equal or have the same text: agents write 7 for "7"."""
    return left == other or str(left).strip().casefold() == str(other).strip().casefold()


def _values(value: object) -> Iterator[str]:
    """Yield numbers and words among the arguments that are specific enough."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _values(inner)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)
    # short words such as "a" or "id" are in most texts
    elif isinstance(value, str) and (len(value.strip()) >= SHORTEST or value.strip().isdecimal()):
        yield value.strip().casefold()


def _says(words: str, value: str) -> bool:
    """Return whether the text has this value as a separate word."""
    at = words.find(value)
    while at >= 0:
        before, after = words[at - 1 : at] if at else "", words[at + len(value) : at + len(value) + 1]
        if not _joins(before) and not _joins(after):
            return True
        at = words.find(value, at + 1)
    return False


def _joins(letter: str) -> bool:
    return letter.isalnum() or letter == "_"
