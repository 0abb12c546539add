"""Which rows of a stored dataset are of which episode, as its index says."""

from __future__ import annotations

from collections.abc import Container

import orjson

from exports.assembly import storing
from exports.assembly.datasets import INDEX

SIDES = ("episode", "rejected")
"""Fields of a line of the index that name an episode."""


def rows_by_episode(
    project_id: str, dataset: str, episodes: Container[str] | None = None
) -> tuple[dict[str, list[int]], int]:
    """Return the numbers of a dataset's rows by episode, from 1, and how many rows it has; of the wanted episodes alone
    if they are given. Raises FileNotFoundError, `StoreUnavailable`."""
    numbers: dict[str, list[int]] = {}
    number = 0
    with storing.open_file(project_id, dataset, INDEX) as lines:
        for number, line in enumerate(lines, 1):
            about = orjson.loads(line)
            for episode in {about.get(side) for side in SIDES} - {None}:
                if episodes is None or episode in episodes:
                    numbers.setdefault(episode, []).append(number)
    return numbers, number
