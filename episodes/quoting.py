"""Whether a text quotes a verifier: eight consecutive words that are in both. Pure.

Called where a verifier must not be revealed: by models that advise with verifier access, and by exports.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

SHINGLE = 8
"""This many consecutive words are a quotation."""
_WORD = re.compile(r"[^\W_]+")
# for ASCII one C-level pass instead of a pattern; both split at the same characters
_ASCII_WORDS = "".join(chr(code).lower() if chr(code).isalnum() else " " for code in range(128))
# eight words of one letter and the seven spaces between them
_SHORTEST = 2 * SHINGLE - 1
_ALL_KNOWN = b"\x01" * SHINGLE


class Secret:
    """Texts that must not be quoted.

    Letters and digits count; case, signs, underscores and line breaks do not. Text that is `known` to the reader, such
    as the task that a verifier repeats, is not a quotation. A look-up costs one pass over the words of a text: a run
    can match only if eight consecutive words are known, which is rare.

    """

    __slots__ = ("_runs", "_words")

    def __init__(self, sources: Iterable[str], known: Any = None) -> None:
        runs: set[tuple[str, ...]] = set()
        for source in sources:
            runs.update(_runs(_words(source)))
        self._runs = runs.difference(_runs([word for text in _texts(known) for word in _words(text)]))
        self._words = {word for run in self._runs for word in run}

    def __bool__(self) -> bool:
        return bool(self._runs)

    def quoted_in(self, said: Any) -> bool:
        """Return whether `said` holds one of the runs: any JSON value, whose texts are read one after another."""
        return bool(self.quotation_in(said))

    def quotation_in(self, said: Any) -> str:
        """Return the first words of `said` that are one of the runs, or ""."""
        if not self._runs or (isinstance(said, str) and len(said) < _SHORTEST):
            return ""
        words = _words(said if isinstance(said, str) else "\n".join(_texts(said)))
        # a byte for each word: `find` then looks for eight known words in a row without a Python loop
        known = bytes(map(self._words.__contains__, words))
        place = known.find(_ALL_KNOWN)
        while place >= 0:
            if tuple(words[place : place + SHINGLE]) in self._runs:
                return " ".join(words[place : place + SHINGLE])
            place = known.find(_ALL_KNOWN, place + 1)
        return ""


def _words(text: str) -> list[str]:
    if text.isascii():
        return text.translate(_ASCII_WORDS).split()
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def _runs(words: list[str]) -> Iterator[tuple[str, ...]]:
    return zip(*(islice(words, start, None) for start in range(SHINGLE)), strict=False)


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts of a JSON value; names and numbers count as texts, too."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield str(name)
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif value is not None:
        yield str(value)
