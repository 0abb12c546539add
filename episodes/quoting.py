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

    Letters and digits count; case, signs, underscores and line breaks do not. Text that is `public` to the reader, such
    as the task that a verifier repeats, is not a quotation. A look-up costs one pass over the words of a text: a run
    can match only if eight consecutive words are known, which is rare.

    """

    __slots__ = ("_runs", "_words")

    def __init__(self, sources: Iterable[str], public: Any = None) -> None:
        secret_runs: set[tuple[str, ...]] = set()
        for source in sources:
            secret_runs.update(runs(words(source), SHINGLE))
        self._runs = secret_runs.difference(runs([word for text in texts(public) for word in words(text)], SHINGLE))
        self._words = {word for run in self._runs for word in run}

    def __bool__(self) -> bool:
        return bool(self._runs)

    def quoted_in(self, content: Any) -> bool:
        """Return whether `content` holds one of the runs: any JSON value, whose texts are read one after another."""
        return bool(self.quotation_in(content))

    def quotation_in(self, content: Any) -> str:
        """Return the first words of `content` that are one of the runs, or ""."""
        if not self._runs or (isinstance(content, str) and len(content) < _SHORTEST):
            return ""
        heard = words(content if isinstance(content, str) else "\n".join(texts(content)))
        # a byte for each word: `find` then looks for eight known words in a row without a Python loop
        flags = bytes(map(self._words.__contains__, heard))
        place = flags.find(_ALL_KNOWN)
        while place >= 0:
            if tuple(heard[place : place + SHINGLE]) in self._runs:
                return " ".join(heard[place : place + SHINGLE])
            place = flags.find(_ALL_KNOWN, place + 1)
        return ""


def words(text: str) -> list[str]:
    """Return the words of a text, in one spelling."""
    if text.isascii():
        return text.translate(_ASCII_WORDS).split()
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def runs(heard: list[str], length: int) -> Iterator[tuple[str, ...]]:
    """Yield each row of this many words."""
    return zip(*(islice(heard, start, None) for start in range(length)), strict=False)


def texts(value: Any) -> Iterator[str]:
    """Yield all texts of a JSON value; names and numbers count as texts, too."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield str(name)
            yield from texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts(item)
    elif value is not None:
        yield str(value)
