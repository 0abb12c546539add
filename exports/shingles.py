"""Whether a text quotes another: eight words in a row that both hold. Pure.

Used where a verifier's code must not be told: in exported messages and in the answers of informed experts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

SIZE = 8
_WORD = re.compile(r"[a-z0-9_]+")


class Shingles:
    """All runs of eight words of some texts.

    Looking a text up costs one pass over its words: a run can only match where eight words in a row are known, and
    that is rare.
    """

    __slots__ = ("_runs", "_words")

    def __init__(self, texts: Iterable[str]) -> None:
        self._runs: set[tuple[str, ...]] = set()
        self._words: set[str] = set()
        for text in texts:
            words = _WORD.findall(text.lower())
            self._runs.update(zip(*(words[place:] for place in range(SIZE)), strict=False))
            self._words.update(words)

    def __bool__(self) -> bool:
        return bool(self._runs)

    def quoted_in(self, text: str) -> bool:
        """Return whether the text holds one of the runs."""
        if not self._runs or len(text) < 2 * SIZE - 1:
            return False
        known, row = self._words, 0
        words = _WORD.findall(text.lower())
        for place, word in enumerate(words):
            row = row + 1 if word in known else 0
            if row >= SIZE and tuple(words[place - SIZE + 1 : place + 1]) in self._runs:
                return True
        return False
