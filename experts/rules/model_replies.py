"""Reading a reply of an expert model: whether it is one at all, and the answer that it holds. Pure.

What was cut, filtered or repeats itself is no reply, whatever it holds: half a sentence of a weak model reads like
advice. Every pattern here takes linear time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from awmclient.errors import MalformedCall
from awmclient.schema import ToolCall
from awmclient.words.endings import ending_of
from awmclient.words.thinking import behind_thoughts, read_reasoning
from awmclient.words.toolcalls import json_at

# a reply full of braces is not parsed from each of them
OBJECTS_TRIED = 20
CUT = "the model's answer was cut at its limit of tokens"
FILTERED = "the model's answer was removed by the endpoint's content filter"
REPEATING = "the model's answer repeats itself"
WINDOW, WINDOWS_LEAST, REPEATED_SHARE = 6, 12, 0.5
"""A text repeats itself if half of its runs of six words were there before."""
LINE_WORDS, LINE_TIMES = 3, 3
"""So does one that has the same line of three words or more three times."""
READ_CHARS = 20_000
# a reply that was cut in the middle has no closing tag
_THINKING = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


@dataclass(frozen=True)
class ModelAnswer:
    """A model's reply, as far as it can be parsed."""

    text: str
    calls: list[ToolCall] = field(default_factory=list)
    confidence: float | None = None
    needs_person: bool = False
    decision: dict[str, Any] | None = None

    @property
    def sureness(self) -> float:
        """The confidence that decides who answers: a model that names none is not sure."""
        return self.confidence if self.confidence is not None else 0.0


def unfinished(message: Mapping[str, Any]) -> str:
    """Return why the endpoint says that a reply is no whole one; empty if it is one.

    >>> unfinished({"content": "Into", "finish_reason": "length"}) == CUT
    True
    """
    ending = ending_of(message.get("finish_reason"), is_empty=False)
    return {"cut_off": CUT, "filtered": FILTERED}.get(ending or "", "")


def words_of(message: Mapping[str, Any], *, tags: bool) -> str:
    """Return what a reply says, without what the model thought before it: a draft in a thought is no answer.

    `tags` says that this endpoint writes its thoughts in tags.
    """
    return behind_thoughts(read_reasoning(message, tags=tags)[0])


def is_repeating(text: str) -> bool:
    """Return whether a text goes round in a circle, as weak models do.

    >>> is_repeating("Which price does the boss want for the mug? " * 4), is_repeating("Merge 8 into 7. " * 2)
    (True, False)
    """
    lines = Counter(tuple(re.findall(r"\w+", line)) for line in text[:READ_CHARS].splitlines())
    if any(times >= LINE_TIMES and len(words) >= LINE_WORDS for words, times in lines.items()):
        return True
    words = re.findall(r"\w+", text[:READ_CHARS])
    windows = [tuple(words[place : place + WINDOW]) for place in range(len(words) - WINDOW + 1)]
    return len(windows) >= WINDOWS_LEAST and 1 - len(set(windows)) / len(windows) >= REPEATED_SHARE


def parse(words: str, *, prose: bool) -> ModelAnswer:
    """Return the requested JSON object, also from a code fence or after other text.

    A reply without any object is advice in prose, if `prose` allows that. A truncated object counts as empty.
    """
    reply = object_in(words, "advice")
    plain = _THINKING.sub("", words).strip()
    # what begins like JSON and is none was cut in the middle
    if reply is None and prose and not plain.startswith(("{", "[", "```")):
        return ModelAnswer(plain)
    if reply is None or not isinstance(reply.get("advice"), str):
        return ModelAnswer("")
    calls, asks_for_person = _calls(reply.get("tool_calls")), reply.get("needs_person") is True
    return ModelAnswer(reply["advice"].strip(), calls, share_of(reply.get("confidence")), asks_for_person)


def object_in(words: str, key: str) -> dict[str, Any] | None:
    """Return the first JSON object in the text that has this key; the first of all if none has it.

    Only the first candidate positions are tried. What no step can record, such as NaN, is no object.

    >>> object_in('It shows {"id": 7}. {"advice": "Merge 8."} {"advice": "No."}', "advice")
    {'advice': 'Merge 8.'}
    """
    first, place = None, 0
    for _ in range(OBJECTS_TRIED):
        if (place := words.find("{", place)) < 0:
            break
        try:
            # text can follow the object
            parsed, end = json_at(words, place, "")
        except MalformedCall:
            place += 1
            continue
        if key in parsed:
            return dict(parsed)
        first, place = first or parsed, end
    return first


def share_of(number: Any) -> float | None:
    """Return a confidence from 0 to 1; None for anything else than a number."""
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    return float(min(max(number, 0), 1))  # bounded first: an integer can be too large for a float


def _calls(calls: Any) -> list[ToolCall]:
    usable = [one for one in calls if isinstance(one, dict)] if isinstance(calls, list) else []
    named = [one for one in usable if isinstance(one.get("name"), str) and isinstance(one.get("arguments"), dict)]
    return [ToolCall(name=one["name"], arguments=one["arguments"]) for one in named[:10]]
