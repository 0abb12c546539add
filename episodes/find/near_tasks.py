"""Tasks whose texts are nearly the same. Pure.

Called by exports, which keep tasks like a held-out one out of training, and by modules that split tasks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

NEAR = 0.8
"""The smallest Jaccard similarity of five-word shingles at which two tasks count as one."""
_NEAR_SIZE = 5
_CACHED_MAX = 1024
_WORD = re.compile(r"\w+")


class NearTasks:
    """An index that finds tasks whose text is nearly that of a given one."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._holders: dict[tuple[str, ...], list[int]] = {}
        self._sizes: list[int] = []
        self._cached: dict[str, int | None] = {}  # callers ask about a task once for each of its episodes
        for number, text in enumerate(texts):
            shingles = _shingles(text)
            self._sizes.append(len(shingles))
            for shingle in shingles:
                self._holders.setdefault(shingle, []).append(number)

    def holds_like(self, text: str) -> bool:
        return self.like(text) is not None

    def like(self, text: str) -> int | None:
        """Return the position of the first given text that is nearly this one, or None."""
        if text not in self._cached:
            if len(self._cached) >= _CACHED_MAX:
                self._cached.clear()
            self._cached[text] = self._like(text)
        return self._cached[text]

    def _like(self, text: str) -> int | None:
        shingles = _shingles(text)
        shared = Counter(number for one in shingles for number in self._holders.get(one, ()))
        sizes = self._sizes
        # Jaccard: shared / (mine + theirs - shared) >= NEAR, without dividing
        near = (n for n, count in shared.items() if count >= NEAR * (len(shingles) + sizes[n] - count))
        return min(near, default=None)


def _shingles(text: str) -> set[tuple[str, ...]]:
    words = _WORD.findall(text.casefold())
    runs = zip(*(words[place:] for place in range(_NEAR_SIZE)), strict=False)
    # a text of fewer than five words is one shingle
    return set(runs) or {tuple(words)}
