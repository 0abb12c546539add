"""Whether a text quotes a verifier: eight words in a row that both hold. Pure.

Called where a verifier must not be told: by models that advise with its demands in sight, and by exports.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

SHINGLE = 8
"""So many words in a row are a quotation."""
_WORD = re.compile(r"[^\W_]+")


class Secret:
    """Texts that must not be quoted.

    Letters and digits count; case, signs, underscores and line breaks do not. What is `known` to the reader anyway, as
    the task that a verifier repeats, is no quotation. Looking a text up costs one pass over its words: a run can match
    only where eight words in a row are known, and that is rare.
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
        if not self._runs:
            return False
        last: deque[str] = deque(maxlen=SHINGLE)
        for text in _texts(said):
            for word in _words(text):
                if word not in self._words:
                    last.clear()
                    continue
                last.append(word)
                if len(last) == SHINGLE and tuple(last) in self._runs:
                    return True
        return False


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def _runs(words: list[str]) -> Iterator[tuple[str, ...]]:
    return zip(*(islice(words, start, None) for start in range(SHINGLE)), strict=False)


def _texts(value: Any) -> Iterator[str]:
    """All texts of a JSON value; a name and a number are texts, too."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield str(name)
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif value is not None:
        yield str(value)
