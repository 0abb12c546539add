"""Reads: the place of a label, in words: "$.arguments.text, letters 5 to 19", and the text there.

Letters are counted as code points of the text that is stored. Called by `annotating.py` and by pages.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from episodes.models import Episode, Step
from episodes.show.json_paths import BadPath, value_at
from episodes.visible.lens import LABELS, Lens, through
from people.text.plain_text import clean
from reviews.models import Annotation

QUOTED = 90


@dataclass(frozen=True)
class Place:
    """What an annotation is about: the whole episode, a step, a value in it (`$.arguments.status`), or letters of a
    text there."""

    seq: int | None = None
    path: str = ""
    start: int | None = None
    end: int | None = None
    ask_id: str = ""

    @property
    def words(self) -> str:
        """Where in the step this is; empty for a whole one. The first letter of a text has number 1."""
        if self.start is None or self.end is None:
            return clean(self.path)
        first, last = self.start + 1, self.end
        return f"{clean(self.path)}, {f'letter {first}' if first == last else f'letters {first} to {last}'}"


def place_of(row: Annotation) -> Place:
    return Place(row.seq, row.path, row.start, row.end, row.ask_id)


def written_at(step: Any, where: Place) -> Any:
    """Return the value, or the letters, at a place of a step. Raises `BadPath` if it is not there."""
    content = value_at(step, where.path)
    if where.start is None and where.end is None:
        return content
    if not isinstance(content, str) or where.start is None or where.end is None:
        raise BadPath("A text range needs a start, an end and a path to a text.")
    if not 0 <= where.start < where.end <= len(content):
        raise BadPath(f"The text at {where.path} has {len(content)} characters.")
    return content[where.start : where.end]


def labelable(lens: Lens, step: Step) -> dict[str, Any]:
    """Return the step of which parts can be labeled, and read by who looks through this lens."""
    # in memory only: the row is never saved
    step.body = through(lens & LABELS, step.body)
    return step.wire()


def tell(lens: Lens, episode: Episode, rows: Iterable[Annotation]) -> list[Annotation]:
    """Give each annotation of a part of a step its `where` and the `quote` that this lens lets pass, and return all of
    them."""
    rows = list(rows)
    placed = [row for row in rows if row.path]
    numbers = {row.seq for row in placed if row.seq}
    stored = Step.objects.filter(episode=episode, seq__in=numbers) if numbers else []
    steps = {one.seq: labelable(lens, one) for one in stored}
    for row in placed:
        where = place_of(row)
        row.where, row.quote = where.words, _quote(steps.get(row.seq or 0, {}), where)
    return rows


def _quote(step: Any, where: Place) -> str:
    """Return the start of what is written at a place; empty where later advice took its stead or it is withheld."""
    try:
        content = written_at(step, where)
    except BadPath:
        return ""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return clean(text[:QUOTED] + "…" if len(text) > QUOTED else text)
