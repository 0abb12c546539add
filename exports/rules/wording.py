"""The words of a text that say something: what `distil` compares between advice and what a model learns. Pure.

A word counts in any case and in its common endings. Words that every text has tell nothing. Runs with a digit count
whole and in their parts. Scripts without spaces between words count by pairs of characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_RUN, _PIECE = re.compile(r"[\w@./:+#-]+"), re.compile(r"[^\W_]+")
# Thai and Lao, Burmese, Khmer, Japanese kana, Chinese characters
NO_SPACES = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+"
)
# the longest first, because the first that fits is cut
_ENDINGS = ("ing", "ed", "es", "ly", "s", "e")
_SHORTEST = 3
"""Letters that a word keeps when its ending is cut."""
_COMMON = """
    a able about above after again all already also always am an and another any are as ask asked at away back be
    because been before being below best better both but by call called can cannot case change changed check
    checked correct could did do does done down each either else end enough even ever every exactly expert false
    few final find finish finished first follow following for found from fully get give given go going good got
    had has have he help her here hers him his how i if in instead into is it its just keep kept know known last
    least left let like likely look made make many may me mean might mine more most much must my need needed needs
    never new next no none nor not nothing now null of off ok okay on once one only or other our out over own
    perhaps please point put question rather read ready really right said same say see seen set she should
    show since so some something soon start still such sure take task tell than thank thanks that the their them
    then there these they thing this those though three through time to together told too true try turn two under
    until up upon us use used user using very via want wanted was way we well went were what when where whether
    which while who whole why will with within without work would write yes yet you your
"""
COMMON = frozenset(_COMMON.split())


def words_of(value: Any) -> set[str]:
    """Return the telling words of all texts, names and numbers in a value of JSON."""
    words: set[str] = set()
    for text in _texts(value):
        for run in _RUN.findall(text.casefold()):
            words.update(_of_run(run))
    return words


def _of_run(run: str) -> Iterator[str]:
    plain = run.strip(".,:;-+/#_")
    if plain and (not plain.isalpha()) and any(char.isdecimal() or char in "@_" for char in plain):
        yield plain
    for piece in _PIECE.findall(plain):
        if piece.isascii():
            if piece not in COMMON and (len(piece) > 1 or piece.isdecimal()):
                yield stem(piece)
        # other scripts with spaces count by word
        elif any(NO_SPACES.finditer(piece)):
            # a single character counts alone
            yield from (piece[at : at + 2] for at in range(max(1, len(piece) - 1)))
        else:
            yield stem(piece)


def stem(word: str) -> str:
    if not word.isalpha():
        return word
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST:
            return word.removesuffix(ending)
    return word


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield str(name)
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
    # true, false and null tell nothing
    elif value is not None and not isinstance(value, bool):
        yield str(value)
