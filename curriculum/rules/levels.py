"""Levels of tasks: the level of a task, when the next one opens, and when a run needs attention.

Pure. Everything here counts *primary* only, 1 if the verifier found `complete` and 0 otherwise: a shaped reward could
pass the gate without one completed task.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
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


# -1, since a rate of zero is not above zero.
LEVELS = (Level("easy", 0.5), Level("medium", 0.1), Level("hard", -1.0))


class Counted(NamedTuple):
    """An episode that counts: its task and whether it was complete."""

    task: str
    complete: bool


@dataclass(frozen=True)
class LevelGate:
    """The result of the last counted episodes of a level. It holds `held` tasks that can be served, and `learned` says
    that every one of them was complete in each of its solo episodes."""

    episodes: int
    tasks: int
    mean: float | None
    held: int = TASKS_NEEDED
    learned: bool = False

    @property
    def needed(self) -> tuple[int, int]:
        """The episodes and tasks that the next level needs: no more than this one holds, or it would never open."""
        tasks = min(TASKS_NEEDED, self.held)
        # 5 episodes for each task, as 50 of 10 tasks are.
        return EPISODES_NEEDED * tasks // TASKS_NEEDED, tasks

    @property
    def opens_next(self) -> bool:
        """Strictly above the threshold: a rate equal to it opens nothing. A level without a task, or with such alone
        that are always complete, has nothing to teach: tasks that need no work are never served alone."""
        if not self.held or self.learned:
            return True
        episodes, tasks = self.needed
        enough = self.episodes >= episodes and self.tasks >= tasks
        return enough and self.mean is not None and self.mean > UNLOCK_ABOVE


def level_of(solved: int, episodes: int, levels: Sequence[Level] = LEVELS) -> str:
    """Return the level of a task by its solo episodes; *unknown* while there are too few."""
    if episodes < KNOWN_FROM:
        return UNKNOWN
    rate = solved / episodes
    return next((one.name for one in levels if rate > one.above), levels[-1].name)


def gate(newest_first: Sequence[Counted], held: int = TASKS_NEEDED, *, learned: bool = False) -> LevelGate:
    """Return the result of the last episodes of a level."""
    last = newest_first[:WINDOW]
    mean = sum(one.complete for one in last) / len(last) if last else None
    return LevelGate(len(last), len({one.task for one in last}), mean, held, learned)


def opened(
    names: Sequence[str], gates: Mapping[str, LevelGate], before: Container[str], used: Container[str]
) -> list[str]:
    """Return the open levels, the easiest first: up to the easiest that has a task, those opened `before`, and each
    after a level whose gate opens the next. A level below an open one is open: its tasks were learned on the way."""
    first = next((place for place, name in enumerate(names) if name in used), 0)
    current = max([first, *(place for place, name in enumerate(names) if name in before)])
    while current + 1 < len(names) and gates[names[current]].opens_next:
        current += 1
    return list(names[: current + 1])


def is_recommended(step: int, newest_first: Sequence[Counted]) -> bool:
    """Return whether a run is so far behind after many steps that a person should review its curriculum."""
    gate_state = gate(newest_first)
    enough = step >= TRIGGER_STEP and gate_state.episodes >= EPISODES_NEEDED
    return enough and gate_state.mean is not None and gate_state.mean < TRIGGER_BELOW
