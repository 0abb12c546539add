"""Reads: what the profiles of `rewards` pay for the ended episodes of a run, with every component.

Shown apart from the comparison, which uses the verifier's outcome alone.
"""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from episodes import outcomes
from episodes.models import Episode, EpisodeState, ExpertMode, Step, StepKind
from runs.models import Plan
from runs.rewards import PROFILES, Played, Reward

BATCH = 200
COLUMNS = [
    *("profile", "task", "arm", "seed", "total", "pattern", "flags", "environment", "adjustment", "primary", "process"),
    *("format", "efficiency"),
]
FEWEST = 3
"""Complete episodes of a task from which on their median is its reference."""


def rows(plan: Plan) -> list[dict[str, Any]]:
    """Return a row for each finished episode with an outcome and each profile: arm, task, seed, total, components."""
    tries = plan.tries.filter(episode__state=EpisodeState.FINISHED).order_by("position", "seed", "arm__place")
    places = {row[0]: row[1:] for row in tries.values_list("episode_id", "arm__name", "scenario", "task_idx", "seed")}
    types = dict(
        outcomes.of_episodes(list(places)).filter(source=outcomes.VERIFIER).values_list("episode_id", "reward_type")
    )
    tasks = {pk: f"{scenario}/{task_idx}" for pk, (_, scenario, task_idx, _) in places.items()}
    found = []
    for one in paid([pk for pk in places if pk in types], types, tasks):
        arm, _, _, seed = places[one.episode.pk]
        for name, reward in one.rewards.items():
            found.append(
                {
                    "profile": name,
                    "task": tasks[one.episode.pk],
                    "arm": arm,
                    "seed": seed,
                    "total": reward.total,
                    "pattern": reward.pattern,
                    "flags": "; ".join(reward.flags),
                    **{part: round(value, 6) for part, value in reward.components.items()},
                }
            )
    return found


@dataclass(frozen=True)
class Paid:
    """A finished episode, its steps without the verification, and its reward by profile; none without an outcome."""

    episode: Episode
    steps: list[dict[str, Any]]
    rewards: dict[str, Reward]


def paid(ids: Sequence[str], types: Mapping[str, str], tasks: Mapping[str, str]) -> Iterator[Paid]:
    """Yield these episodes in their order. `types` and `tasks` hold the outcome and the task of all episodes that are
    compared: the complete ones of a task give its reference.
    """
    references = _references(types, tasks)
    for episode, steps in _episodes(ids):
        rewards = {}
        if episode.pk in types:
            played = Played(
                steps=steps,
                reward_type=types[episode.pk],
                tools=episode.tools or [],
                final_answer=str(episode.final_answer or ""),
                expert_available=episode.expert != ExpertMode.OFF,
                max_turns=episode.max_steps or 15,
                reference_steps=references.get(tasks[episode.pk]),
            )
            rewards = {name: profile(played) for name, profile in PROFILES.items()}
        yield Paid(episode, steps, rewards)


def means(table: Sequence[dict[str, Any]]) -> list[tuple[str, str, int, float]]:
    """Return profile, arm, number of episodes and mean total; excluded outcomes are in neither."""
    totals: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in table:
        if row["total"] is not None:
            totals[row["profile"], row["arm"]].append(row["total"])
    return [(*key, len(values), statistics.fmean(values)) for key, values in totals.items()]


def _references(types: Mapping[str, str], tasks: Mapping[str, str]) -> dict[str, float]:
    """Return the median of calls and asks over a task's complete episodes, where there are enough."""
    complete = [pk for pk, reward_type in types.items() if reward_type == "complete"]
    taken: dict[str, int] = defaultdict(int)
    acts = Step.objects.filter(episode__in=complete, kind__in=[StepKind.TOOL_CALL, StepKind.ASK])
    for pk in acts.values_list("episode_id", flat=True).iterator():
        taken[pk] += 1
    by_task: dict[str, list[int]] = defaultdict(list)
    for pk in complete:
        by_task[tasks[pk]].append(taken[pk])
    return {task: statistics.median(counts) for task, counts in by_task.items() if len(counts) >= FEWEST}


def _episodes(ids: Sequence[str]) -> Iterator[tuple[Episode, list[dict[str, Any]]]]:
    """Yield episodes with their steps, in the order of `ids`, a batch at a time."""
    for start in range(0, len(ids), BATCH):
        some = ids[start : start + BATCH]
        steps: dict[str, list[dict[str, Any]]] = defaultdict(list)
        rows_of = Step.objects.filter(episode__in=some).exclude(kind=StepKind.VERIFICATION).order_by("episode", "seq")
        for pk, seq, kind, body in rows_of.values_list("episode_id", "seq", "kind", "body"):
            steps[pk].append({"seq": seq, "kind": kind, **json.loads(body)})
        episodes = Episode.objects.in_bulk(some)
        for pk in some:
            yield episodes[pk], steps[pk]
