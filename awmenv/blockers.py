"""Blockers: what is missing in a task, which questions ask for it, and the answer of who knows it.

Owns the shape of a row of `blockers.jsonl`, its bounds, and which blocker a question matches. Rows are of strangers:
no pattern of theirs runs, and the match takes time linear in the question. Called by `packs`, and by the apps that
route, show and measure asks. Nothing of it is ever sent to an agent before it asks.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, groupby
from typing import Any

CANT_ANSWER = "I can't answer that."
"""What a simulated human says to a question that matches no blocker."""

MAX_BLOCKERS = 20
MAX_ID, MAX_TERM, MAX_HOLDER = 60, 80, 200
MAX_WORDS, MAX_ANSWER = 500, 4_000
MAX_LISTS, MAX_QUESTIONS = 20, 20
QUESTION_CHARS = 10_000
"""The first characters of a question that are matched."""
SPACED = 7
"""A number of this many digits is held wherever it begins in a row of numbers."""
ALIKE = 0.75
"""The share of common words from which a question is one of the accepted examples."""
COPIED = 16
"""This many words in a row that the task's text has are a copy of it, and ask for nothing. Fewer if it has fewer."""
ASKING = (
    *("what", "which", "who", "whose", "whom", "how", "where", "when", "tell me", "give me", "need", "missing", "know"),
    *("confirm", "provide", "clarify", "unclear", "is it", "is there", "are there", "should i", "may i", "can i"),
)
"""What a question says that its task's text does not: the name of what is missing is often in both."""
TASK_CHARS = 100_000
"""The first characters of a task's text that copies are looked for in."""

_ID = re.compile(r"[a-z0-9][a-z0-9_-]*", re.ASCII)
_WORD = re.compile(r"\w+")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class BadRegistry(ValueError):
    """A row whose blockers cannot be used, with the reason."""


@dataclass(frozen=True, slots=True)
class Blocker:
    """One missing fact. `terms` are lists of alternatives: a question must have one of each list.

    `fact` is the value itself, if it is one; it must not stand in the task's text. `task` is that text.
    """

    id: str
    missing: str
    holder: str
    terms: tuple[tuple[str, ...], ...]
    questions: tuple[str, ...]
    answer: str
    fact: str = ""
    task: str = ""


def words_of(text: str) -> str:
    """Return the words of a text, case folded, each between single spaces; " " if there are none."""
    return f" {' '.join(_WORD.findall(unicodedata.normalize('NFKC', text).casefold()))} "


def holds(text: str, value: str) -> bool:
    """Return whether a text has this value: the same words in a row, or the same digits in a row of numbers."""
    return holds_words(words_of(text), value)


def holds_words(text: str, value: str) -> bool:
    """Do what `holds` does, for a text that `words_of` has read."""
    words = words_of(value)
    if not words.strip():
        return False
    if words in text:
        return True
    # a telephone number is the same however it is spaced
    digits = "".join(words.split())
    return digits.isdecimal() and 3 <= len(digits) <= MAX_WORDS and _has_number(text, digits)


def _has_number(text: str, digits: str) -> bool:
    """Return whether digits are a number of the text, or a row of its numbers that stand beside one another.

    Time and memory are linear in the text, which can be a whole database. In the middle of a row only a long number
    counts: a table has every short one somewhere.
    """
    if f" {digits} " in text:
        return True
    for is_row, words in groupby(text.split(), str.isdecimal):
        if not is_row:
            continue
        row = list(words)
        joined, edges = "".join(row), {0, *accumulate(map(len, row))}
        if len(digits) < SPACED:
            if joined.startswith(digits) and len(digits) in edges:
                return True
            continue
        at = joined.find(digits)
        while at >= 0:
            if at in edges and at + len(digits) in edges:
                return True
            at = joined.find(digits, at + 1)
    return False


def matched(question: str, blockers: Sequence[Blocker]) -> Blocker | None:
    """Return the blocker of a task that a question asks for, or None.

    What the question copies of the task's text is taken out. A blocker whose every list of terms has a phrase in the
    rest matches, the one with the most lists first. The rest also says one of these phrases or an asking word that the
    task's text does not. Otherwise the blocker with the most similar accepted question, if enough words are common.
    """
    if not blockers:
        return None
    task = words_of(blockers[0].task[:TASK_CHARS])
    return _hit(_without_copies(words_of(question[:QUESTION_CHARS]), task), task, blockers)


def _hit(words: str, task: str, blockers: Sequence[Blocker]) -> Blocker | None:
    hits = [one for one in blockers if one.terms and _asks_for(words, task, one.terms)]
    if hits:
        # of equally specific ones the first of the row
        return max(hits, key=lambda blocker: len(blocker.terms))
    near = [(_likeness(words, example), -place, one) for place, one in enumerate(blockers) for example in one.questions]
    best = max(near, key=lambda ranked: ranked[:2], default=None)
    return best[2] if best is not None and best[0] >= ALIKE else None


def _without_copies(words: str, task: str) -> str:
    """Return words without the rows of them that are copied from a task. Time is linear in both."""
    asked, text = words.split(), task.split()
    size = min(COPIED, len(text))
    rows = {tuple(text[at : at + size]) for at in range(len(text) - size + 1)} if size else set()
    end, kept = 0, []
    for at, word in enumerate(asked):
        if tuple(asked[at : at + size]) in rows:
            end = at + size
        if at >= end:
            kept.append(word)
    return f" {' '.join(kept)} "


def _asks_for(words: str, task: str, terms: Sequence[Sequence[str]]) -> bool:
    """Return whether words have a phrase of each list, and one or an asking word that the task does not say itself."""
    hits = [[phrase for phrase in map(words_of, names) if phrase in words] for names in terms]
    asking = (phrase for phrase in map(words_of, ASKING) if phrase in words)
    return all(hits) and any(phrase not in task for phrase in chain(asking, *hits))


def _likeness(words: str, example: str) -> float:
    mine, theirs = set(words.split()), set(words_of(example).split())
    return len(mine & theirs) / len(mine | theirs) if mine and theirs else 0.0


def read_blockers(rows: Any, task: str) -> list[Blocker]:
    """Return the blockers of a row of the task with this text. Raises `BadRegistry`, also if the text gives one away
    or asks for it."""
    blockers = blockers_in(rows, task)
    words = words_of(task[:TASK_CHARS])
    for blocker in blockers:
        if blocker.fact and holds(task, blocker.fact):
            raise BadRegistry(f"blocker {blocker.id!r}: the task's text still holds its fact")
        if _hit(words, words, [blocker]):
            raise BadRegistry(f"blocker {blocker.id!r}: the task's own text asks for it")
    return blockers


def blockers_in(rows: Any, task: str) -> list[Blocker]:
    """Return the blockers of a row that was compared with its task's text before. Raises `BadRegistry`."""
    if not isinstance(rows, list) or not 1 <= len(rows) <= MAX_BLOCKERS:
        raise BadRegistry(f"'blockers' is not a list of 1 to {MAX_BLOCKERS} blockers")
    blockers = [replace(_blocker(one, place), task=task) for place, one in enumerate(rows)]
    ids = [one.id for one in blockers]
    if twice := sorted({one for one in ids if ids.count(one) > 1}):
        raise BadRegistry(f"two blockers have the id {twice[0]!r}")
    return blockers


def _blocker(row: Any, place: int) -> Blocker:
    if not isinstance(row, dict):
        raise BadRegistry(f"blocker {place} is not an object")
    name = row.get("id")
    if not isinstance(name, str) or len(name) > MAX_ID or not _ID.fullmatch(name):
        raise BadRegistry(f"blocker {place}: 'id' has 1 to {MAX_ID} of a-z, 0-9, - and _")
    terms = row.get("terms", [])
    if not isinstance(terms, list) or len(terms) > MAX_LISTS:
        raise BadRegistry(f"blocker {name!r}: 'terms' is not a list of at most {MAX_LISTS} lists")
    lists = tuple(_texts(name, "terms", one, MAX_LISTS, MAX_TERM) for one in terms)
    questions = _texts(name, "questions", row.get("questions", []), MAX_QUESTIONS, MAX_WORDS)
    if not all(lists) or not (lists or questions):
        raise BadRegistry(f"blocker {name!r}: no question can match it; 'terms' has a list of alternatives each")
    return Blocker(
        id=name,
        missing=_checked_text(name, "missing", row.get("missing"), MAX_WORDS),
        holder=_checked_text(name, "holder", row.get("holder"), MAX_HOLDER),
        terms=lists,
        questions=questions,
        answer=_checked_text(name, "answer", row.get("answer"), MAX_ANSWER),
        fact=_checked_text(name, "fact", row["fact"], MAX_WORDS) if "fact" in row else "",
    )


def _checked_text(name: str, key: str, value: Any, limit: int) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > limit:
        raise BadRegistry(f"blocker {name!r}: '{key}' is not a text of at most {limit} characters")
    if _UNSTORABLE.search(value):
        # an ask stores the answer, and no column of text holds these
        raise BadRegistry(f"blocker {name!r}: '{key}' has U+0000 or half of a surrogate pair")
    return value


def _texts(name: str, key: str, listed: Any, most: int, limit: int) -> tuple[str, ...]:
    if not isinstance(listed, list) or len(listed) > most:
        raise BadRegistry(f"blocker {name!r}: '{key}' has a list that is not one of at most {most} texts")
    texts = tuple(_checked_text(name, key, one, limit) for one in listed)
    if any(not words_of(one).strip() for one in texts):
        raise BadRegistry(f"blocker {name!r}: '{key}' has a text without a word")
    return texts
