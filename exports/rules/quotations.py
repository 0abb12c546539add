"""What may not be quoted of a verifier: its code, and the prose beside it (notes, reasoning, criteria). Pure.

Eight words in a row are a quotation. Shorter pieces are one together, if they are long enough. What the task or the
pack's note says is none, and neither is a sentence of the agent, of which the task and results tell each word.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import re2

from episodes.quoting import SHINGLE, runs, texts, words
from exports.recipe import quiet

PIECE, PIECES = 6, 18
"""Words in a row that are a piece, and words of all pieces of an episode that are a quotation together."""
LEFT_OUT = "[left out: words of the verifier]"
_PROSE = re.compile(r'#[^\n]*|"""[\s\S]*?"""|\'\'\'[\s\S]*?\'\'\'|"[^"\n]*"|\'[^\'\n]*\'')
_CODE = re.compile(r"[=<>*_(){}\[\]\\]|\bselect\b", re.IGNORECASE)
_GAP = r"(?:[^a-z0-9]|\\[nrtbf]|\\u[0-9a-f]{4})+"
"""What is between two words, also in JSON."""
_ALL_KNOWN = b"\x01" * PIECE


class VerifierWords:
    """The words of one task's verifier. Falsy without any."""

    def __init__(self, code: Iterable[str], prose: Iterable[str] = (), known: Any = None) -> None:
        sources = [*code]
        prose_texts = [
            *prose,
            *(note for one in sources for note in _PROSE.findall(one) if not _CODE.search(note.strip("\"'#"))),
        ]
        known = [word for text in texts(known) for word in words(text)]
        self._pieces = _runs_of([*sources, *prose_texts], PIECE).difference(runs(known, PIECE))
        self._prose = _runs_of(prose_texts, PIECE)
        self._words = {word for run in self._pieces for word in run}
        pairs = sorted(f"{re2.escape(one)}{_GAP}{re2.escape(two)}" for one, two in _anchors(self._pieces))
        self._anchor = re2.compile("(?i)" + "|".join(pairs), options=quiet()) if pairs else None

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def may_be_in(self, text: str) -> bool:
        """Return whether a text can hold a piece: without its rarest pairs of words it cannot. Costs one search."""
        if self._anchor is None:
            return False
        return not text.isascii() or self._anchor.search(text) is not None

    def quotation_in(self, content: Any) -> str:
        """Return the first words of `content` that are a quotation, or ""."""
        quotations = (piece for piece in self.pieces_in(content) if len(piece) >= SHINGLE)
        return " ".join(next(quotations, ())[:SHINGLE])

    def without(self, value: Any) -> Any:
        """Return a value of JSON in which each text with a piece is replaced."""
        if isinstance(value, str):
            return LEFT_OUT if self.may_be_in(value) and any(True for _ in self.pieces_in(value)) else value
        if isinstance(value, Mapping):
            return {self.without(name): self.without(one) for name, one in value.items()}
        return [self.without(one) for one in value] if isinstance(value, list) else value

    def pieces_in(self, content: Any) -> Iterator[tuple[str, ...]]:
        """Yield each longest row of words of which every piece is the verifier's."""
        text = content if isinstance(content, str) else "\n".join(texts(content))
        if not self.may_be_in(text):
            return
        heard = words(text)
        is_known = bytes(map(self._words.__contains__, heard))
        place = is_known.find(_ALL_KNOWN)
        while place >= 0:
            end = place
            while tuple(heard[end : end + PIECE]) in self._pieces:
                end += 1
            if end > place:
                yield tuple(heard[place : end + PIECE - 1])
            place = is_known.find(_ALL_KNOWN, max(end, place + 1))

    def is_prose(self, piece: Sequence[str]) -> bool:
        """Return whether this is of a note or of what is beside the code."""
        return all(run in self._prose for run in runs(list(piece), PIECE))


def _runs_of(sources: Iterable[str], length: int) -> set[tuple[str, ...]]:
    return {run for source in sources for run in runs(words(source), length)}


def _anchors(all_runs: Collection[tuple[str, ...]]) -> set[tuple[str, str]]:
    """Return pairs of words of which every run has one, each the longest of its run: they are rare in other texts."""
    anchors: set[tuple[str, str]] = set()
    for run in sorted(all_runs):
        pairs = [*itertools.pairwise(run)]
        if anchors.isdisjoint(pairs):
            anchors.add(max(pairs, key=lambda pair: len(pair[0]) + len(pair[1])))
    return anchors
