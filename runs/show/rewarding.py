"""Reads: the rewards of each profile for the ended episodes of a run, with every component, stored ones if there are
any, else computed from the record.

Shown apart from the comparison, which uses the verifier's outcome alone.
"""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Count

from episodes.models import Episode, EpisodeState, ExpertMode, Step, StepKind
from episodes.stored import outcomes
from runs.models import Plan, ShapedReward
from runs.rewards import PROFILES, Played, Reward, profiles
from runs.rewards.played import RewardProfile

BATCH = 200
COLUMNS = ["profile", "task", "arm", "seed", "total", "pattern", "flags"]
FEWEST = 3
"""The fewest complete episodes of a task whose median is its reference."""


@dataclass(frozen=True)
class Judged:
    """The finished episodes of a plan with an outcome, in the planned order, by ID: arm and seed, task, outcome; and
    the reference of each task, and the price of an ask of each arm, that has one."""

    arms: dict[str, tuple[str, int]]
    tasks: dict[str, str]
    types: dict[str, str]
    references: dict[str, float]
    ask_prices: dict[str, float] = field(default_factory=dict)

    def ask_price(self, episode: str) -> float | None:
        return self.ask_prices.get(self.arms[episode][0]) if episode in self.arms else None

    def profiles(self, episode: str) -> dict[str, RewardProfile]:
        """Return what pays this episode."""
        return profiles(self.ask_price(episode))

    def reference(self, episode: str) -> float | None:
        return self.references.get(self.tasks[episode])


def judged(plan: Plan) -> Judged:
    tries = plan.tries.filter(episode__state=EpisodeState.FINISHED, episode__assisted=False).order_by(
        "position", "seed", "arm__place"
    )
    places = {row[0]: row[1:] for row in tries.values_list("episode_id", "arm__name", "scenario", "task_idx", "seed")}
    verdicts = outcomes.of_episodes(list(places)).found_here()
    types = dict(verdicts.values_list("episode_id", "reward_type"))
    tasks = {pk: f"{places[pk][1]}/{places[pk][2]}" for pk in places if pk in types}
    arms = {pk: (places[pk][0], places[pk][3]) for pk in tasks}
    prices = {arm["name"]: arm["ask_price"] for arm in plan.document["arms"] if arm.get("ask_price") is not None}
    return Judged(arms, tasks, types, references(types, tasks), prices)


def stored(judged: Judged) -> dict[str, dict[str, Reward]]:
    """Return the stored rewards of these episodes, by episode and profile."""
    by_episode: dict[str, dict[str, Reward]] = defaultdict(dict)
    for row in ShapedReward.objects.filter(episode__in=list(judged.tasks), profile__in=list(PROFILES)):
        if row.reference == judged.reference(row.episode_id):
            reward = Reward(row.profile, row.total, row.components, row.pattern, tuple(row.flags))
            by_episode[row.episode_id][row.profile] = reward
    return by_episode


def columns() -> list[str]:
    """Return the columns of the table: components that profiles share have one."""
    parts = [part for profile in PROFILES.values() for part in profile.components]
    return [*COLUMNS, *dict.fromkeys(parts)]


def rows(plan: Plan) -> list[dict[str, Any]]:
    """Return a row for each finished episode with an outcome and each profile: arm, task, seed, total, components.

    They are stored soon after a run's end. Before that, and for a newer profile, they are computed from the record.

    """
    episodes = judged(plan)
    rewards = stored(episodes)
    missing = [pk for pk in episodes.tasks if len(rewards.get(pk, ())) < len(episodes.profiles(pk))]
    # what was stored stays, whatever would be computed now
    rewards.update({one.episode.pk: one.rewards | rewards.get(one.episode.pk, {}) for one in paid(missing, episodes)})
    return [
        {
            "profile": name,
            "task": episodes.tasks[pk],
            "arm": arm,
            "seed": seed,
            "total": rewards[pk][name].total,
            "pattern": rewards[pk][name].pattern,
            "flags": "; ".join(rewards[pk][name].flags),
            **{part: round(value, 6) for part, value in rewards[pk][name].components.items()},
        }
        for pk, (arm, seed) in episodes.arms.items()
        for name in episodes.profiles(pk)
    ]


@dataclass(frozen=True)
class Paid:
    """A finished episode, its steps without the verification, and its reward by profile; none without an outcome."""

    episode: Episode
    steps: list[dict[str, Any]]
    rewards: dict[str, Reward]


def paid(ids: Sequence[str], judged: Judged) -> Iterator[Paid]:
    """Yield these episodes in their order."""
    for episode, steps in _episodes(ids):
        rewards = {}
        if episode.pk in judged.types:
            ended = Played(
                steps=steps,
                reward_type=judged.types[episode.pk],
                tools=episode.tools or [],
                final_answer=str(episode.final_answer or ""),
                expert_available=episode.expert != ExpertMode.OFF,
                max_turns=episode.max_steps or 15,
                reference_steps=judged.reference(episode.pk),
                ask_price=judged.ask_price(episode.pk),
            )
            rewards = {name: profile.pay(ended) for name, profile in judged.profiles(episode.pk).items()}
        yield Paid(episode, steps, rewards)


def means(table: Sequence[dict[str, Any]]) -> list[tuple[str, str, int, float]]:
    """Return profile, arm, number of episodes and mean total; excluded outcomes are in neither."""
    totals: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in table:
        if row["total"] is not None:
            totals[row["profile"], row["arm"]].append(row["total"])
    return [(*key, len(values), statistics.fmean(values)) for key, values in totals.items()]


def references(types: Mapping[str, str], tasks: Mapping[str, str]) -> dict[str, float]:
    """Return the median of calls and asks over a task's complete episodes, if there are enough. `types` and `tasks`
    hold the outcome and the task of all compared episodes."""
    complete = [pk for pk, reward_type in types.items() if reward_type == "complete"]
    # turns in words are free: only calls and asks count
    acts = Step.objects.filter(episode__in=complete, kind__in=[StepKind.TOOL_CALL, StepKind.ASK])
    taken = dict(acts.order_by().values_list("episode_id").annotate(number=Count("pk")))
    by_task: dict[str, list[int]] = defaultdict(list)
    for pk in complete:
        by_task[tasks[pk]].append(taken.get(pk, 0))
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
