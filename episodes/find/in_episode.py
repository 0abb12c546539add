"""Reads: the steps of one episode that show a text, as its page has it and not as it is stored."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from episodes.find.search_text import leaves_of
from episodes.models import Episode
from episodes.show.json_layout import is_json, laid_out
from episodes.stored.entries import read
from episodes.visible.lens import Lens, steps_through, through
from people.text.plain_text import clean, folded

LONGEST, CHUNK = 8 * 1024 * 1024, 200
_ASCII_WORD, _CODE = re.compile(r"[A-Za-z0-9]+"), re.compile("⟨[^⟩]*⟩?")
_SHOWN = ("role", "content", "name", "question", "context", "text", "error", "reward_type")
_VALUES = ("arguments", "action", "state_diff", "details")
_RESULTS = ("result", "observation")


def holding(lens: Lens, episode: Episode | str, text: str, limit: int = 500) -> tuple[list[int], bool]:
    """Return numbers of the steps that show a text, and whether there are more than that. Upper and lower case are the
    same, and so are the forms of a letter with an accent."""
    needle = folded(text.strip())
    if not needle:
        return [], False
    rows = _candidates(lens, episode, unicodedata.normalize("NFC", text))
    # one more than asked shows that there are more
    numbers = list(islice((seq for seq, step in rows if _says(step, needle)), limit + 1))
    return numbers[:limit], len(numbers) > limit


def _candidates(lens: Lens, episode: Episode | str, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the steps whose stored text has each word of ASCII letters: others are stored as escapes."""
    rows = steps_through(lens, episode).order_by("seq")
    for word in _ASCII_WORD.findall(_CODE.sub(" ", text)):
        # coarse, to read fewer steps: `_says` decides by the text as a page shows it
        rows = rows.filter(body__icontains=word)
    for seq, body in rows.values_list("seq", "body").iterator(chunk_size=CHUNK):
        yield seq, read(through(lens, body))


def _says(step: Mapping[str, Any], needle: str) -> bool:
    return any(needle in folded(clean(one)) for one in _shown(step))


def _shown(step: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts that the card of a step shows, one after another."""
    yield from (str(step[name]) for name in _SHOWN if step.get(name))
    for name in _VALUES:
        yield from _value(step.get(name))
    for name in _RESULTS:
        raw = step.get(name)
        text = raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False) if raw is not None else ""
        yield laid_out(text, LONGEST) if not isinstance(raw, str) or is_json(text) else text
    advice, meta = step.get("advice"), step.get("meta")
    if isinstance(advice, Mapping):
        yield from (str(advice.get(name) or "") for name in ("text", "author"))
        yield from _value(advice.get("tool_calls"))
    if isinstance(meta, Mapping):
        yield str(meta.get("traceback") or "")
        yield f"{meta.get('duration_ms')} ms"
    if step.get("reward"):
        yield f"reward {step['reward']}"


def _value(value: Any) -> Iterator[str]:
    """Yield a value's names and texts, and each of its parts as one line of JSON, as cards show it."""
    if value is None:
        return
    yield from leaves_of([value])
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else [value]
    yield from (json.dumps(one, ensure_ascii=False) for one in parts)
