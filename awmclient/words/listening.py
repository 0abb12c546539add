"""`listen` patterns of scripts, searched in time that is linear in the advice.

Owns a small engine for the syntax of Python's `re`. A pack's author, an expert and the worker that searches are
strangers to each other, and `re` can try for hours. RE2 is no replacement: it has no look-around, which 11 of the 20
patterns of our own packs need for "not after *not*" (a test counts them), and the client would need a third package.
This engine has it, because it remembers of each place in pattern and text whether it leads to a match. Called by
`scripted.py`, and by the dashboard's check of packs.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

# the parser of `re` has no public name since Python 3.11
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

HEARD = 2_000
"""Characters of an advice that are searched."""
PATTERN_MAX = 500
PROGRAM_MAX = 500
"""Instructions of a pattern. Time and memory of a search grow with this times `HEARD`."""
_CHAR, _SPLIT, _JUMP, _SAVE, _AT, _LOOK, _DONE = range(7)
_EITHER_CASE = functools.lru_cache(maxsize=1024)(lambda char: {char, char.lower(), char.upper()})


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


_CATEGORIES: dict[Any, Callable[[str], bool]] = {
    ops.CATEGORY_DIGIT: str.isdecimal,
    ops.CATEGORY_SPACE: str.isspace,
    ops.CATEGORY_WORD: _is_word,
    ops.CATEGORY_NOT_DIGIT: lambda char: not char.isdecimal(),
    ops.CATEGORY_NOT_SPACE: lambda char: not char.isspace(),
    ops.CATEGORY_NOT_WORD: lambda char: not _is_word(char),
}


class BadPattern(ValueError):
    """A pattern that is none, or that this engine cannot search."""


def heard(pattern: str, text: str) -> str | None:
    """Return the first group, or all of the first match in the first `HEARD` characters, in any case; None without a
    match. Raises `BadPattern`."""
    program = compiled(pattern)
    text = text[:HEARD]
    search = _Search(program.instructions, text)
    for start in range(len(text) + 1):
        path = search.path(0, start)
        if path is not None:
            return _heard(program, text, path)
    return None


class Program:
    """A pattern's instructions, for `_Search`."""

    def __init__(self, tree: Any) -> None:
        self.instructions: list[tuple[Any, ...]] = []
        self.groups: int = tree.state.groups - 1
        self._looks = 0
        self._sequence(tree, tree.state.flags)
        self._add(_DONE)

    def _add(self, *instruction: Any) -> int:
        if len(self.instructions) >= PROGRAM_MAX:
            raise BadPattern("it is too long, with its repetitions written out")
        self.instructions.append(instruction)
        return len(self.instructions) - 1

    @property
    def _here(self) -> int:
        return len(self.instructions)

    def _sequence(self, parts: Any, flags: int) -> None:
        for op, about in parts:
            self._part(op, about, flags)

    def _part(self, op: Any, about: Any, flags: int) -> None:
        if op in (ops.MAX_REPEAT, ops.MIN_REPEAT):
            least, most, body = about
            self._repeat(least, most, body, flags, is_greedy=op is ops.MAX_REPEAT)
        elif op is ops.SUBPATTERN:
            group, added, removed, parts = about
            if group is not None and self._looks:
                raise BadPattern("it has a group in a look-around, which is not heard: write (?:…)")
            self._add(_SAVE, group, 0)
            self._sequence(parts, (flags | added) & ~removed)
            self._add(_SAVE, group, 1)
        elif op is ops.BRANCH:
            self._branch(about[1], flags)
        elif op in (ops.ASSERT, ops.ASSERT_NOT):
            direction, parts = about
            look = self._add(_LOOK)
            self._looks += 1
            self._sequence(parts, flags)
            self._looks -= 1
            self._add(_DONE)
            behind = parts.getwidth()[0] if direction < 0 else 0
            self.instructions[look] = (_LOOK, look + 1, behind, op is ops.ASSERT, self._here)
        elif op is ops.AT:
            self._add(_AT, about, bool(flags & re.MULTILINE))
        else:
            self._add(_CHAR, _test_of(op, about, flags))

    def _branch(self, branches: Any, flags: int) -> None:
        split, jumps, starts = self._add(_SPLIT), [], []
        for branch in branches:
            starts.append(self._here)
            self._sequence(branch, flags)
            jumps.append(self._add(_JUMP))
        self.instructions[split] = (_SPLIT, *starts)
        for jump in jumps:
            self.instructions[jump] = (_JUMP, self._here)

    def _repeat(self, least: int, most: Any, body: Any, flags: int, *, is_greedy: bool) -> None:
        for _ in range(least):
            before = self._here
            self._sequence(body, flags)
            # an empty body can be repeated a thousand million times and adds nothing that the limit counts
            if self._here == before:
                break
        is_endless = most is ops.MAXREPEAT
        if is_endless and not body.getwidth()[0]:
            raise BadPattern("it repeats without end what can be empty")
        splits = []
        for _ in range(1 if is_endless else most - least):
            splits.append(self._add(_SPLIT))
            self._sequence(body, flags)
        if is_endless:
            self._add(_JUMP, splits[0])
        for split in splits:
            more, on = split + 1, self._here
            self.instructions[split] = (_SPLIT, more, on) if is_greedy else (_SPLIT, on, more)


@functools.lru_cache(maxsize=256)
def compiled(pattern: str) -> Program:
    """Return a pattern's program. Raises `BadPattern`."""
    if len(pattern) > PATTERN_MAX:
        raise BadPattern(f"it has more than {PATTERN_MAX} characters")
    try:
        # refuses what only the compiler sees, such as looking behind without a fixed width
        re.compile(pattern, re.IGNORECASE)
        return Program(parser.parse(pattern, re.IGNORECASE))
    except (re.error, OverflowError, RecursionError) as error:
        raise BadPattern(f"it is not a regular expression: {error}") from error


class _Search:
    """Searches in one text. `_known` holds 1 for a place that leads to a match, 2 for one that does not."""

    def __init__(self, instructions: list[tuple[Any, ...]], text: str) -> None:
        self._instructions, self._text = instructions, text
        self._width = len(text) + 1
        self._known = bytearray(len(instructions) * self._width)

    def path(self, at: int, place: int) -> list[tuple[int, int]] | None:
        """Return the places on the way to a match, the preferred one as in `re`; None if there is none."""
        marks, width = self._known, self._width
        way: list[tuple[tuple[int, int], Any]] = []
        step: tuple[int, int] | None = (at, place)
        while True:
            if step is not None:
                mark = marks[step[0] * width + step[1]]
                is_done = mark == 1 or self._instructions[step[0]][0] == _DONE
                if is_done:
                    for (index, where), _ in way:
                        marks[index * width + where] = 1
                    return [one for one, _ in way] + [step]
                if not mark:
                    way.append((step, iter(self._after(*step))))
            if not way:
                return None
            step = next(way[-1][1], None)
            if step is None:
                (index, where), _ = way.pop()
                marks[index * width + where] = 2

    def _after(self, at: int, place: int) -> tuple[tuple[int, int], ...]:
        """Return where to go on from an instruction at a place of the text, the preferred way first."""
        instruction, text = self._instructions[at], self._text
        kind = instruction[0]
        if kind == _CHAR:
            return ((at + 1, place + 1),) if place < len(text) and instruction[1](text[place]) else ()
        if kind in (_SPLIT, _JUMP):
            return tuple((one, place) for one in instruction[1:])
        if kind == _SAVE:
            return ((at + 1, place),)
        if kind == _AT:
            return ((at + 1, place),) if _is_at(text, place, instruction[1], instruction[2]) else ()
        _, first, behind, is_wanted, on = instruction
        is_match = place >= behind and self.path(first, place - behind) is not None
        return ((on, place),) if is_match == is_wanted else ()


def _heard(program: Program, text: str, path: list[tuple[int, int]]) -> str:
    begin, end = (path[0][1], path[-1][1]) if not program.groups else (0, 0)
    for at, place in path:
        kind, *about = program.instructions[at]
        if kind == _SAVE and about[0] == 1:
            begin, end = (place, end) if about[1] == 0 else (begin, place)
    return text[begin:end]


def _is_at(text: str, place: int, what: Any, is_multiline: bool) -> bool:
    if what in (ops.AT_BEGINNING, ops.AT_BEGINNING_STRING):
        is_line = is_multiline and what is ops.AT_BEGINNING and text[place - 1 : place] == "\n"
        return place == 0 or is_line
    if what is ops.AT_END_STRING:
        return place == len(text)
    if what is ops.AT_END:
        rest = text[place : place + 2]
        return rest in ("", "\n") or (is_multiline and rest[0] == "\n")
    before, after = text[max(place - 1, 0) : place], text[place : place + 1]
    is_boundary = _is_word(before) != _is_word(after)
    return is_boundary if what is ops.AT_BOUNDARY else not is_boundary


def _test_of(op: Any, about: Any, flags: int) -> Any:
    """Return the test of one character."""
    is_any_case = bool(flags & re.IGNORECASE)

    def forms(char: str) -> Any:
        return _EITHER_CASE(char) if is_any_case else (char,)

    if op is ops.ANY:
        return (lambda _one: True) if flags & re.DOTALL else (lambda char: char != "\n")
    if op in (ops.LITERAL, ops.NOT_LITERAL):
        chars = forms(chr(about))
        return lambda char: (not chars.isdisjoint(forms(char)) if is_any_case else char in chars) == (op is ops.LITERAL)
    if op is not ops.IN:
        raise BadPattern("it has a reference, an atomic group or a possessive repetition")
    is_negated = about[0][0] is ops.NEGATE
    items = about[1:] if is_negated else about

    def is_in(char: str) -> bool:
        return any(_is_of(kind, item, char, forms) for kind, item in items) != is_negated

    return is_in


def _is_of(kind: Any, item: Any, char: str, forms: Any) -> bool:
    if kind is ops.CATEGORY:
        return _CATEGORIES[item](char)
    low, high = (item, item) if kind is ops.LITERAL else item
    return any(len(form) == 1 and low <= ord(form) <= high for form in forms(char))
