"""Whether texts reveal a held-out task: quoted, as a whole line if it is short, or in other words. Pure.

Time grows with the text: an index of the tasks' rarest words says which of them a text can tell at all.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from episodes.quoting import SHINGLE, runs, texts, words
from exports.rules import wording

LONG = 16
"""Words in a row that are a quotation of any task. Of a shorter one half of it is, if that is a shingle."""
SHORTEST = 4
"""Words of the shortest task that is looked for, as a whole line, sentence or quoted part."""
SHARE, TELLING, NEW = 0.75, 6, 0.5
"""A task in other words: this share of its telling words near each other. It has at least `TELLING` of them, and the
episode's own task says less than the share `NEW` of them."""
COMMON_MAX = 100
"""Eight words that more held-out tasks than this share say nothing of one of them."""
_STEMS_KEPT = 200_000
_ALL_KNOWN = b"\x01" * SHINGLE
_ESCAPE = re.compile(r'\\(?:[nrtbf"/\\])')
_SIGN = re.compile(rf"{wording.NO_SPACES.pattern[:-1]}|(?:(?!{wording.NO_SPACES.pattern[:-1]}).)+", re.DOTALL)
_END = re.compile(r"[\n\r.!?;:\"“”„«»…。！？；：「」]+|(?<!\w)'|'(?!\w)")


class ToldTask(NamedTuple):
    """A held-out task that a text reveals: its key, and the words that are quoted, "" for other words."""

    key: str
    words: str = ""


class _HeldOutTask(NamedTuple):
    """A held-out task: its words, the telling ones, and those of which one is in each text that reveals it."""

    key: str
    words: list[str]
    telling: frozenset[str]
    rarest: frozenset[str] = frozenset()

    @property
    def needed(self) -> int:
        return math.ceil(SHARE * len(self.telling))

    def rows_needed(self, theirs: set[tuple[str, ...]]) -> int:
        """Return how many rows in a row are a quotation: all, if `theirs` leaves only a few."""
        half = max(SHINGLE, math.ceil(len(self.words) / 2))
        # a sign of a script without spaces says less than a word
        long = half if wording.NO_SPACES.search("".join(self.words)) else min(half, LONG)
        return min(long - SHINGLE + 1, len({*runs(self.words, SHINGLE)} - theirs))

    @property
    def stretch(self) -> int:
        """How many words can tell it, with others between."""
        return len(self.words) * 3 // 2 + SHINGLE


class _Stems(dict[str, str]):
    """What each word counts as; "" for words that tell nothing."""

    def __missing__(self, word: str) -> str:
        if len(self) >= _STEMS_KEPT:
            self.clear()
        tells = word not in wording.COMMON and (len(word) > 1 or word.isdecimal())
        self[word] = stem = wording.stem(word) if tells else ""
        return stem


class HeldOutTasks:
    """An index of held-out tasks by key. Falsy without any."""

    def __init__(self, tasks: Mapping[str, str] | None = None) -> None:
        self._stems = _Stems()
        held_tasks = [self._read(key, text) for key, text in (tasks or {}).items()]
        self._tasks = [one for one in held_tasks if len(one.words) >= SHORTEST]
        self._rows: dict[tuple[str, ...], list[int]] = {}
        self._short: dict[str, list[int]] = {}
        self._reworded: dict[str, list[int]] = {}
        frequencies = Counter(itertools.chain.from_iterable(one.telling for one in self._tasks))
        for number, task in enumerate(self._tasks):
            for row in {*runs(task.words, SHINGLE)}:
                self._rows.setdefault(row, []).append(number)
            if len(task.words) < SHINGLE:
                self._short.setdefault(max(task.words, key=len), []).append(number)
            if len(task.telling) >= TELLING:
                rare = sorted(task.telling, key=lambda word: (frequencies[word], word))
                rarest = frozenset(rare[: len(rare) - task.needed + 1])
                self._tasks[number] = task._replace(rarest=rarest)
                for word in rarest:
                    self._reworded.setdefault(word, []).append(number)
        self._words = {word for row in self._rows for word in row}

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def _read(self, key: str, text: str) -> _HeldOutTask:
        heard = _words(text)
        return _HeldOutTask(key, heard, frozenset(map(self._stems.__getitem__, heard)) - {""})

    def told_in(self, passages: Iterable[str], own: str) -> ToldTask | None:
        """Return a held-out task that these texts reveal. What the episode's `own` task says reveals none."""
        if not self._tasks:
            return None
        passages = [_ESCAPE.sub(" ", text) if "\\" in text else text for text in passages]
        together = "\n".join(passages)
        # one sign of another script must not send all other texts the slow way
        heard = _words(together) if together.isascii() else [word for text in passages for word in _words(text)]
        bag = {*heard}
        quoted = self._quoted(heard, own) or self._as_a_line(passages, heard, bag, own)
        return quoted or self._in_other_words(passages, bag, own)

    def _quoted(self, heard: list[str], own: str) -> ToldTask | None:
        """Find rows of eight words that are long enough together."""
        is_known = bytes(map(self._words.__contains__, heard))
        place, rows, needed = is_known.find(_ALL_KNOWN), self._rows, dict[int, int]()
        theirs: set[tuple[str, ...]] | None = None
        while place >= 0:
            start, touched = place, set[int]()
            while (row := tuple(heard[place : place + SHINGLE])) in rows:
                theirs = {*runs(_words(own), SHINGLE)} if theirs is None else theirs
                if row in theirs:
                    break
                if len(rows[row]) <= COMMON_MAX:
                    touched.update(rows[row])
                place += 1
            for number in sorted(touched):
                if number not in needed:
                    needed[number] = self._tasks[number].rows_needed(theirs or set())
                if place - start >= needed[number]:
                    return ToldTask(self._tasks[number].key, " ".join(heard[start : start + SHINGLE]))
            place = is_known.find(_ALL_KNOWN, max(place, start + 1))
        return None

    def _as_a_line(self, passages: Iterable[str], heard: Iterable[str], bag: set[str], own: str) -> ToldTask | None:
        """Find a task that is shorter than a row, as a whole line, sentence or quoted part."""
        near = {number for word in self._short.keys() & bag for number in self._short[word]}
        tasks = [self._tasks[number] for number in sorted(near) if bag.issuperset(self._tasks[number].words)]
        all_words = f" {' '.join(heard)} " if tasks else ""
        targets = {tuple(one.words): one.key for one in tasks if f" {' '.join(one.words)} " in all_words}
        targets = {task: key for task, key in targets.items() if task not in runs(_words(own), len(task))}
        lengths = sorted({len(task) for task in targets})
        for text in passages if targets else ():
            parts = [_words(part) for part in _END.split(text)]
            for place, length in itertools.product(range(len(parts)), lengths):
                line = _up_to(parts, place, length)
                if line in targets:
                    return ToldTask(targets[line], " ".join(line))
        return None

    def _in_other_words(self, passages: Iterable[str], bag: Iterable[str], own: str) -> ToldTask | None:
        is_near = self._nearly({*map(self._stems.__getitem__, bag)}, own)
        for part in (leaf for text in passages for leaf in _leaves(text)) if is_near else ():
            stems = [*map(self._stems.__getitem__, _words(part))]
            near_tasks = self._nearly({*stems}, own)
            places = _places_of(stems, {word for task, _ in near_tasks for word in task.rarest})
            for task, new in near_tasks:
                if any(_tells(stems, place, task, new) for place in _apart(places, task)):
                    return ToldTask(task.key)
        return None

    def _nearly(self, bag: set[str], own: str) -> list[tuple[_HeldOutTask, frozenset[str]]]:
        """Return the tasks that a text of these words can tell, each with what the own task does not say of it."""
        near = {number for word in self._reworded.keys() & bag for number in self._reworded[word]}
        tasks = [self._tasks[number] for number in sorted(near)]
        able = [one for one in tasks if len(one.telling & bag) >= one.needed]
        theirs = self._read("", own).telling if able else frozenset[str]()
        pairs = [(one, one.telling - theirs) for one in able]
        return [(one, new) for one, new in pairs if len(new) > NEW * len(one.telling)]


def _words(text: str) -> list[str]:
    """Return the words of a text; in scripts without spaces each sign is one."""
    heard = words(text)
    if text.isascii() or not wording.NO_SPACES.search(text):
        return heard
    return [sign for word in heard for sign in _SIGN.findall(word)]


def _up_to(parts: Sequence[list[str]], place: int, length: int) -> tuple[str, ...]:
    """Return the words of the parts from this place on that are this many together, else none."""
    line: list[str] = []
    for part in itertools.islice(parts, place, place + 2 * length):
        line += part
        if len(line) >= length:
            break
    return tuple(line) if len(line) == length and parts[place] else ()


def _leaves(text: str) -> Iterator[str]:
    """Yield a text, or each text of its JSON: a row of a database is no sentence."""
    if text.lstrip()[:1] not in ("{", "["):
        yield text
        return
    try:
        yield from texts(json.loads(text))
    except (ValueError, RecursionError):
        yield text


def _places_of(stems: Sequence[str], rare_words: set[str]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for place, stem in enumerate(stems):
        if stem in rare_words:
            places.setdefault(stem, []).append(place)
    return places


def _apart(places: Mapping[str, list[int]], task: _HeldOutTask) -> Iterator[int]:
    """Yield where to look for a task: at its rarest words, and once in a stretch."""
    end = -1
    for place in sorted(itertools.chain.from_iterable(places.get(word, ()) for word in task.rarest)):
        if place > end:
            yield place
            end = place + task.stretch


def _tells(stems: Sequence[str], place: int, task: _HeldOutTask, new: frozenset[str]) -> bool:
    """Return whether a stretch around this place has enough of a task's words, and of those that are new."""
    near = stems[max(0, place - task.stretch) : place + 2 * task.stretch]
    if len(task.telling.intersection(near)) < task.needed:
        return False
    for start in range(0, len(near), task.stretch // 8):
        bag = task.telling.intersection(near[start : start + task.stretch])
        if len(bag) >= task.needed and len(bag & new) >= SHARE * len(new):
            return True
    return False
