"""Which tasks of a run depend on each other: units of those that share an answer or a scenario. Pure.

Called by `compare` and `asking`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Protocol


class Joined(Protocol):
    """A task, as far as it can depend on others: its scenario, and the names of the answers that it read."""

    @property
    def scenario(self) -> str: ...
    @property
    def shared(self) -> Collection[str]: ...


def units_of(tasks: Sequence[Joined], *, by_scenario: bool = False, joins: bool = True) -> list[list[int]]:
    """Return the places of tasks whose differences are not independent, a list for each unit, in the order of the first
    ones: with `joins` tasks that share an answer, and with `by_scenario` tasks of one scenario."""
    above, first = list(range(len(tasks))), dict[str, int]()

    # union-find, with path halving: chains of shared answers can be as long as a run
    def top(place: int) -> int:
        while above[place] != place:
            above[place] = place = above[above[place]]
        return place

    for place, one in enumerate(tasks):
        answers = (f"answer {key}" for key in one.shared if joins)
        for name in (*answers, *([f"scenario {one.scenario}"] if by_scenario else [])):
            # the lower place stays on top, so that units keep the order of their first tasks
            low, high = sorted((top(first.setdefault(name, place)), top(place)))
            above[high] = low
    units: dict[int, list[int]] = defaultdict(list)
    for place in range(len(tasks)):
        units[top(place)].append(place)
    return list(units.values())
