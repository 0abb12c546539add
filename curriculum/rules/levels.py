"""Levels of tasks: the level of a task, when the next one opens, and when a run needs attention.

Pure. Everything here counts *primary* only, 1 if the verifier found `complete` and 0 otherwise: a shaped reward could
pass the gate without one completed task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

VERSION = "awmweb.curriculum/1"
"""The version of task rows as a curriculum serves and exports them."""
UNKNOWN = "unknown"
KNOWN_FROM = 4
"""The fewest counted solo episodes of a task that has a level."""
WINDOW, EPISODES_NEEDED, TASKS_NEEDED = 100, 50, 10
UNLOCK_ABOVE, TRIGGER_BELOW, TRIGGER_STEP = 0.30, 0.10, 500


class Level(NamedTuple):
    """The tasks whose solo rate is above `above`, and not above that of the level before it."""

    name: str
    above: float
    max_steps: int | None = None
    tools: tuple[str, ...] = ()
    hint: str = ""


LEVELS = (Level("easy", 0.5), Level("medium", 0.1), Level("hard", -1.0))


class Counted(NamedTuple):
    """An episode that counts: its task and whether it was complete."""

    task: str
    complete: bool


@dataclass(frozen=True)
class LevelGate:
    """The result of the last counted episodes of a level."""

    episodes: int
    tasks: int
    mean: float | None

    @property
    def opens_next(self) -> bool:
        """Strictly above the threshold: a rate equal to it opens nothing."""
        enough = self.episodes >= EPISODES_NEEDED and self.tasks >= TASKS_NEEDED
        return enough and self.mean is not None and self.mean > UNLOCK_ABOVE


def level_of(solved: int, episodes: int, levels: Sequence[Level] = LEVELS) -> str:
    """Return the level of a task by its solo episodes; *unknown* while there are too few."""
    if episodes < KNOWN_FROM:
        return UNKNOWN
    rate = solved / episodes
    return next((one.name for one in levels if rate > one.above), levels[-1].name)


def gate(newest_first: Sequence[Counted]) -> LevelGate:
    """Return the result of the last episodes of a level."""
    last = newest_first[:WINDOW]
    mean = sum(one.complete for one in last) / len(last) if last else None
    return LevelGate(len(last), len({one.task for one in last}), mean)


def is_recommended(step: int, newest_first: Sequence[Counted]) -> bool:
    """Return whether a run is so far behind after many steps that a person should review its curriculum."""
    found = gate(newest_first)
    enough = step >= TRIGGER_STEP and found.episodes >= EPISODES_NEEDED
    return enough and found.mean is not None and found.mean < TRIGGER_BELOW
