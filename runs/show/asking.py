"""Reads: the questions of a run's episodes against the registries of their tasks.

Only tries that count in the comparison are read, of tasks whose pack has a registry in the version of the episode.
Called with the comparison of a run, so who cannot see that cannot see this.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from awmenv.blockers import Blocker
from episodes.models import Episode
from episodes.stored.packs import blockers_of
from experts.models import Ask
from runs.show.comparison import RunComparison
from runs.statistics.asking import ArmAsking, AskingDifference, EpisodeAsks, differences, of_arms
from runs.taskset.ask_controls import AskControls, controls_of

Row = dict[str, Any]
COLUMNS = [
    *("arm", "episodes", "asks", "matched", "blockers", "found"),
    *("precision", "recall", "f1", "asks_per_task", "human_minutes"),
]


@dataclass
class FoundBlocker:
    """A missing fact of a task, with the counted episodes of each arm whose questions found it, and all of them."""

    scenario: str
    task_idx: int
    id: str
    missing: str
    holder: str
    found: dict[str, int]
    episodes: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.found.values())

    @property
    def counts(self) -> list[tuple[int, int]]:
        """For each arm, in the order of the arms: the episodes that found it, and all."""
        return list(zip(self.found.values(), self.episodes.values(), strict=True))


@dataclass(frozen=True)
class RunAsking:
    """The questions of each arm, and the paired differences from the control. `tasks` have a registry. `blockers` are
    theirs, those that were found least first. `controls` are what questions without thought reach."""

    tasks: int
    arms: list[ArmAsking]
    differences: list[AskingDifference]
    blockers: list[FoundBlocker]
    controls: AskControls | None = None


def asking_of(comparison: RunComparison) -> RunAsking | None:
    """Return the questions of a run's arms; None if no task of it has a registry."""
    versions = dict(Episode.objects.filter(planned__plan=comparison.plan).values_list("pk", "scenario_digest"))
    names = [arm.name for arm in comparison.arms]
    registries: dict[tuple[str, str], frozenset[str]] = {}
    listed: list[list[Blocker]] = []
    rows: dict[tuple[str, str], FoundBlocker] = {}
    for attempt in comparison.tries:
        key = attempt.task, versions.get(attempt.episode, "")
        if key not in registries:
            scenario, _, idx = attempt.task.rpartition("/")
            blockers = blockers_of(scenario, int(idx), key[1])
            registries[key] = frozenset(blocker.id for blocker in blockers)
            listed.append(blockers)
            for each in blockers:
                counts = (dict.fromkeys(names, 0), dict.fromkeys(names, 0))
                rows[attempt.task, each.id] = FoundBlocker(
                    scenario, int(idx), each.id, each.missing, each.holder, *counts
                )
    if not rows:
        return None
    asked: dict[str, list[str]] = defaultdict(list)
    asks = Ask.objects.filter(episode__planned__plan=comparison.plan, kind="question")
    for episode, blocker in asks.values_list("episode_id", "blocker"):
        asked[episode].append(blocker)
    episodes = []
    for attempt in comparison.tries:
        present = registries[attempt.task, versions.get(attempt.episode, "")]
        if attempt.complete is None or not present:
            continue
        hits = [blocker for blocker in asked[attempt.episode] if blocker in present]
        sizes = (len(asked[attempt.episode]), len(hits), len(set(hits)), len(present))
        episodes.append(
            EpisodeAsks(attempt.task, attempt.scenario, attempt.arm, *sizes, attempt.human_s, attempt.shared)
        )
        for blocker in present:
            rows[attempt.task, blocker].episodes[attempt.arm] += 1
            rows[attempt.task, blocker].found[attempt.arm] += blocker in hits
    control = comparison.plan.control
    compared = [row for arm in names if arm != control for row in differences(episodes, arm, control)]
    tasks = len({task for (task, _), known in registries.items() if known})
    least = sorted(rows.values(), key=lambda row: (row.total, row.scenario, row.task_idx, row.id))
    return RunAsking(tasks, of_arms(episodes, names), compared, least, controls_of(listed))


def rows(comparison: RunComparison) -> list[Row]:
    """Return a row for each arm; none if no task has a registry."""
    asking = asking_of(comparison)
    return [] if asking is None else [row_of(one) for one in asking.arms]


def row_of(arm_asks: ArmAsking) -> Row:
    shares = {
        "precision": arm_asks.precision,
        "recall": arm_asks.recall,
        "f1": arm_asks.f1,
        "asks_per_task": arm_asks.per_task,
    }
    counts = {name: getattr(arm_asks, name) for name in ("arm", "episodes", "asks", "matched", "blockers", "found")}
    return {
        **counts,
        **{name: "" if value is None else round(value, 4) for name, value in shares.items()},
        "human_minutes": round(arm_asks.human_minutes, 2),
    }
