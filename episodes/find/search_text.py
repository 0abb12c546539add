"""The searchable text of a step, and the facts of an episode that filters use. Pure, without Django.

Owns which fields are searchable. Steps of the verifier are never passed to it. Called by `indexing.py` when it reads
steps, and by `search.py` for the excerpt of a hit.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Any

from awmclient.nouns.kinds import is_nudge
from awmclient.words.endings import UNREAD, is_stopped

FOUND_CHARS = 32 * 1024
"""The number of searchable characters of a step."""
FIELDS = ("content", "name", "question", "context", "advice", "arguments", "error", "result", "action", "observation")
# bounds the work for a step of many tiny values
LEAVES = 5_000
# `_` is a letter to \w, but names_with_parts are found by their parts
_BESIDE_WORDS = re.compile(r"[^\w\s]|_")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]+"
)
"""Scripts that write words without spaces between them: Thai, Lao, Burmese, Khmer, Chinese, Japanese; Korean, whose
words take endings."""
# the closing quote of a phrase can be missing while someone types
_TERM = re.compile(r'(-?)"([^"]*)"?|(-?)(\S+)')
BEFORE, AFTER = 70, 110
"""Characters of an excerpt around its first hit."""
TOOLS_MAX, NAME_MAX = 200, 200


def text_of(body: Mapping[str, Any]) -> str:
    """Return the text of a step in its original order, cut to the searchable length.

    A briefing that sees the verifier can reveal outcomes, so its text is not searchable.

    """
    parts, left = [], FOUND_CHARS
    briefing = [body.get("text")] if body.get("kind") == "briefing" and body.get("privilege") != "sees_verifier" else []
    thought = reasoning.get("text") if isinstance(reasoning := body.get("reasoning"), Mapping) else None
    for leaf in islice(leaves_of([*(body.get(name) for name in FIELDS), thought, *briefing]), LEAVES):
        parts.append(leaf[:left])
        left -= len(leaf) + 1
        if left <= 0:
            break
    # no text column takes U+0000 or half of a surrogate pair
    text = " ".join(parts).encode("utf-8", "replace").decode().replace("\x00", " ")
    return unicodedata.normalize("NFC", text)


def indexed(text: str) -> str:
    """Return the same text as separate words: paths, addresses, tags and names_with_parts are found by any of their
    words, and scripts without spaces by any of their letters."""
    if text.isascii():
        return _words(text)
    single = dict.fromkeys(letter for run in _UNSPACED.findall(text) for letter in _letters(run))
    return " ".join([_words(text), *single])


def _words(text: str) -> str:
    """Return text as words; a run of a script without spaces becomes its overlapping pairs of letters."""
    return _BESIDE_WORDS.sub(" ", text if text.isascii() else _UNSPACED.sub(_in_pairs, text))


def _in_pairs(run: re.Match[str]) -> str:
    letters = _letters(run[0])
    pairs = [one + other for one, other in pairwise(letters)]
    # a run of one letter has no pair
    return f" {' '.join(pairs or letters)} "


def _letters(run: str) -> list[str]:
    """Return the letters of a run without the marks on them, at which the database would part a word."""
    return [letter for letter in run if letter.isalnum()]


def terms_of(search: str) -> list[tuple[bool, str]]:
    """Return the terms of a search: words or phrases, each wanted or not. A phrase is in quotes, an excluded term
    begins with a minus."""
    terms = []
    for minus, phrase, less, word in _TERM.findall(unicodedata.normalize("NFC", search)):
        term = " ".join(_words(phrase or word).split())
        if term:
            terms.append((not (minus or less), term))
    return terms


def matches(text: str, search: str) -> bool:
    """Return whether a text has all wanted terms of a search, at least one, and no excluded one: the same result as
    PostgreSQL's."""
    haystack, terms = f" {' '.join(indexed(text).lower().split())} ", terms_of(search)
    has_wanted = any(wanted for wanted, _ in terms)
    return has_wanted and all((f" {term.lower()} " in haystack) == wanted for wanted, term in terms)


def excerpt_of(text: str, search: str) -> list[tuple[str, bool]]:
    """Return the text around the first hit, in parts of which each is a hit or not."""
    words = _patterns(search)
    # longest first: an alternation takes the first part that fits
    hit = re.compile(f"({'|'.join(sorted(words, key=len, reverse=True))})", re.IGNORECASE)
    first = hit.search(text) if words else None
    start = max(0, first.start() - BEFORE) if first else 0
    end = (first.end() if first else 0) + AFTER
    # a split by a pattern with a group returns the hits at odd places
    pieces = hit.split(text[start:end]) if words else [text[start:end]]
    parts = [(piece, number % 2 == 1) for number, piece in enumerate(pieces) if piece]
    return [("…", False)] * bool(start) + parts + [("…", False)] * (end < len(text))


def _patterns(search: str) -> set[str]:
    """Return a pattern for each wanted word: it is whole, but in scripts without spaces, which have no whole words."""
    patterns = set()
    for minus, phrase, less, word in _TERM.findall(unicodedata.normalize("NFC", search)):
        term = "" if minus or less else phrase or word
        patterns |= {re.escape(run) for run in _UNSPACED.findall(term)}
        spaced = _BESIDE_WORDS.sub(" ", _UNSPACED.sub(" ", term)).split()
        # not \b, which sees no word end before `_`
        patterns |= {rf"(?<![^\W_]){re.escape(one)}(?![^\W_])" for one in spaced}
    return patterns


def leaves_of(values: Iterable[Any]) -> Iterator[str]:
    """Yield texts, numbers and field names, without recursion."""
    # a stack, because a stranger's JSON can nest deeper than Python recurses
    todo = [iter(values)]
    while todo:
        for value in todo[-1]:
            if isinstance(value, str):
                # before numbers: bool is an int in Python
                yield value
            elif isinstance(value, bool) or value is None:
                continue
            elif isinstance(value, int | float):
                yield str(value)
            elif isinstance(value, Mapping):
                # the author of an advice is metadata, not part of its text
                pairs = [(name, one) for name, one in value.items() if name not in ("author", "source", "privilege")]
                todo.append(iter([part for pair in pairs for part in pair]))
                break
            elif isinstance(value, list):
                todo.append(iter(value))
                break
        else:
            todo.pop()


@dataclass
class StepFacts:
    """The facts about an episode from the steps that were read so far."""

    errors: int = 0
    stopped: int = 0
    unread: int = 0
    in_text: int = 0
    tools: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)
    waiting: list[int] = field(default_factory=list)

    def add(self, step: Mapping[str, Any]) -> None:
        """Count a step that was not read before."""
        if step.get("error") is not None:
            self.errors += 1
        self.stopped += is_stopped(step.get("finish_reason"))
        self.in_text += step.get("tool_protocol") == "text"
        self.unread += is_nudge(step) and UNREAD in (step.get("meta") or {})
        name = step.get("name")
        if step.get("kind") == "tool_call" and isinstance(name, str) and len(self.tools) < TOOLS_MAX:
            # as a column of text can hold it
            self.tools.add(name[:NAME_MAX].encode("utf-8", "replace").decode().replace("\x00", "?"))
        if step.get("kind") == "ask":
            self.waiting.append(int(step["seq"]))

    def hear(self, step: Mapping[str, Any]) -> None:
        """Record who answered an ask, if it is closed."""
        answerer = answered_by(step)
        if answerer:
            self.answered.add(answerer)
            self.waiting = [seq for seq in self.waiting if seq != step["seq"]]


def answered_by(step: Mapping[str, Any]) -> str:
    """Return who answered an ask: *human, llm, cache, script, fallback*; *cancelled* for none, "" while it is open."""
    advice = step.get("advice")
    meta = step.get("meta")
    beside = meta if isinstance(meta, Mapping) else {}
    if isinstance(advice, Mapping) and isinstance(advice.get("source"), str):
        return "script" if beside.get("answered_by") == "script" else str(advice["source"])[:20]
    return "cancelled" if beside.get("closed") else ""
