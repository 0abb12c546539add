"""Pure: whether a text quotes another one, by runs of words that stand in both.

Called by `llm.py`: a model that advises with the verifier's demands in sight must not hand on the verifier itself.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import islice
from typing import Any

SHINGLE = 8
"""So many words in a row are a quotation."""
_WORD = re.compile(r"[^\W_]+")


def quotes(said: Any, source: str, known: Any = None) -> bool:
    """Return whether `said` holds `SHINGLE` words in the order in which they stand in `source`.

    Letters and digits count; case, signs, underscores and line breaks do not. What is `known` to the reader anyway, as
    the task is that a comment of the source repeats, is no quotation. `said` and `known` may be any JSON values, whose
    texts are read one after another.
    """
    secret = set(_shingles([source])) - set(_shingles(_texts(known)))
    return bool(secret) and any(shingle in secret for shingle in _shingles(_texts(said)))


def _shingles(texts: Any) -> Iterator[tuple[str, ...]]:
    words = [word for text in texts for word in _WORD.findall(unicodedata.normalize("NFKC", text).casefold())]
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
