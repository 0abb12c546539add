"""Levels of tasks: the level of a task, when the next one opens, and when a run needs attention.

Pure. Everything here counts *primary* only, 1 if the verifier found `complete` and 0 otherwise: a shaped reward could
pass the gate without one completed task. A mean passes a threshold by a cumulative sum over groups (CUSUM; Page 1954):
looked at after each step, a mean of the last episodes passes one by chance.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

VERSION = "awmweb.curriculum/1"
"""The version of task rows as a curriculum serves and exports them."""
UNKNOWN = "unknown"
KNOWN_FROM = 4
"""The fewest counted solo episodes of a task that has a level."""
WINDOW, EPISODES_NEEDED, TASKS_NEEDED = 100, 50, 10
UNLOCK_ABOVE, TRIGGER_BELOW, TRIGGER_STEP = 0.30, 0.10, 500
SLACK, ENOUGH = 0.05, 9.0
"""Of the sum of what groups have beyond a threshold: what each group loses, and what passes the threshold."""


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
    """An episode that counts: its task, whether it was complete, and its training step."""

    task: str
    complete: bool
    step: int | None = None


@dataclass(frozen=True)
class LevelGate:
    """The result of the last counted episodes of a level. It holds `held` tasks that can be served, and `learned` says
    that every one of them was complete in each of its solo episodes. `evidence` is the sum for a mean above the
    threshold, of all groups; once enough, it stays."""

    episodes: int
    tasks: int
    mean: float | None
    held: int = TASKS_NEEDED
    learned: bool = False
    evidence: float = 0.0

    @property
    def needed(self) -> tuple[int, int]:
        """The episodes and tasks that the next level needs: no more than this one holds, or it would never open."""
        tasks = min(TASKS_NEEDED, self.held)
        # 5 episodes for each task, as 50 of 10 tasks are.
        return EPISODES_NEEDED * tasks // TASKS_NEEDED, tasks

    @property
    def opens_next(self) -> bool:
        """Whether the evidence is enough. A level without a task, or with such alone that are always complete, has
        nothing to teach: tasks that need no work are never served alone."""
        if not self.held or self.learned:
            return True
        episodes, tasks = self.needed
        return self.episodes >= episodes and self.tasks >= tasks and self.evidence >= ENOUGH


def level_of(solved: int, episodes: int, levels: Sequence[Level] = LEVELS) -> str:
    """Return the level of a task by its solo episodes; *unknown* while there are too few."""
    if episodes < KNOWN_FROM:
        return UNKNOWN
    rate = solved / episodes
    return next((one.name for one in levels if rate > one.above), levels[-1].name)


def means(newest_first: Sequence[Counted]) -> list[float]:
    """Return the mean of each group, oldest first: the episodes of a task in one step are alike, and count once."""
    groups: dict[tuple[str, int | None], list[bool]] = {}
    for episode in reversed(newest_first):
        groups.setdefault((episode.task, episode.step), []).append(episode.complete)
    return [sum(complete) / len(complete) for complete in groups.values()]


def sums(beyond: Iterable[float]) -> list[float]:
    """Return the cumulative sum after each group, from 0 to `ENOUGH`."""
    total, after = 0.0, [0.0]
    for excess in beyond:
        # Rounded, or 180 groups of 0.05 would stay below 9.
        total = min(max(0.0, round(total + excess - SLACK, 9)), ENOUGH)
        after.append(total)
    return after


def gate(newest_first: Sequence[Counted], held: int = TASKS_NEEDED, *, learned: bool = False) -> LevelGate:
    """Return the result of the last episodes of a level."""
    last = newest_first[:WINDOW]
    mean = sum(one.complete for one in last) / len(last) if last else None
    grown = sums(rate - UNLOCK_ABOVE for rate in means(newest_first))
    evidence = ENOUGH if ENOUGH in grown else round(grown[-1], 6)
    return LevelGate(len(last), len({one.task for one in last}), mean, held, learned, evidence)


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
    return step >= TRIGGER_STEP and sums(TRIGGER_BELOW - rate for rate in means(newest_first))[-1] >= ENOUGH
