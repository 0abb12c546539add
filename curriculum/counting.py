"""Reads: counts from the record of a run's rollouts: format errors, solve rates, and which episodes count.

Nothing here relies on values that a trainer reports. A rollout that ended by a fault never counts. An outcome counts if
awmweb's verifier returned it or an environment server signed it.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Collection, Iterator
from typing import NamedTuple

from django.db.models import QuerySet

from awmclient.schema import NOT_COUNTED
from curriculum.rules.levels import Counted
from curriculum.rules.weights import Rates
from episodes.models import Episode, EpisodeState, ExpertMode, Run, Step, StepKind, VerifierOutcome
from episodes.stored import outcomes, packs, splits
from episodes.stored.strip import BRIEFED
from runs.rewards.played import NOT_EXECUTABLE

EXCLUDED = NOT_COUNTED | {"timeout"}
"""Outcomes that are about the infrastructure, not about the agent."""
CALLS = (StepKind.TOOL_CALL, StepKind.ACTION)


class StepCount(NamedTuple):
    """The rollouts of one training step."""

    rollouts: int
    errors: int
    not_counted: int


class Solo(NamedTuple):
    """One counted episode with its task; lists of these are newest first."""

    task: str
    complete: bool
    alone: bool
    step: int | None
    is_now: bool = True
    """False if the episode is of a version of its scenario that was replaced: then it counts in no rate."""


def format_errors(run: Run, training_step: int) -> StepCount:
    """Count the finished rollouts of a training step, and those of them without one executable call.

    Rollouts that are still running, were cancelled or ended by a fault are not counted. One that was complete without a
    call answered a task that asks for an answer alone, which is no error.

    """
    finished = set(finished_of(run).filter(training_step=training_step).values_list("pk", flat=True))
    executed = with_executable_call(finished)
    silent = outcomes.proved_of(run.project).filter(episode__in=finished - executed, reward_type="complete")
    executed |= set(silent.values_list("episode_id", flat=True))
    planned = Episode.objects.filter(run=run, training_step=training_step).count()
    return StepCount(len(finished), len(finished - executed), planned - len(finished))


def finished_of(run: Run) -> QuerySet[Episode]:
    """Filter to the run's rollouts that ended without a fault and without help by a person at the wheel."""
    return Episode.objects.filter(run=run, state=EpisodeState.FINISHED, fault="", assisted=False)


def with_executable_call(episodes: Collection[str]) -> set[str]:
    """Return the episodes in which the environment executed at least one call. Asking an expert does not count."""
    # Most episodes have an executable first call: the first query reads one row of each, the second those few.
    calls = Step.objects.filter(episode__in=episodes, kind__in=CALLS).order_by("episode", "seq")
    executed = {episode for episode, body in _bodies(calls.distinct("episode")) if is_executable(body)}
    for episode, body in _bodies(calls.exclude(episode__in=executed)):
        if episode not in executed and is_executable(body):
            executed.add(episode)
    return executed


def _bodies(rows: object) -> Iterator[tuple[str, str]]:
    # A step can have 8 MB, so at most 500 rows of the cursor are in memory.
    return rows.values_list("episode_id", "body").iterator(chunk_size=500)  # type: ignore[attr-defined, no-any-return]


def is_executable(body: str) -> bool:
    """Return whether the environment could execute a recorded call, even if the tool then failed."""
    return json.loads(body).get("reward_type") not in NOT_EXECUTABLE


def counted(run: Run, newest: int | None = None) -> list[Solo]:
    """Return the run's episodes that count, newest first; the verifier's outcome goes before the signed one."""
    held_out = splits.held_out(run.project)
    rows = outcomes.proved_of(run.project).filter(episode__run=run, episode__state=EpisodeState.FINISHED)
    rows = rows.exclude(reward_type__in=EXCLUDED).exclude(episode__fault__gt="").order_by("-episode__ended_at", "-pk")
    columns = ("episode_id", "source", "reward_type", "episode__expert", "episode__strip")
    place = (
        "episode__training_step",
        "episode__scenario",
        "episode__task_idx",
        "episode__task",
        "episode__split",
        "episode__scenario_digest",
    )
    now = functools.cache(packs.scenario_digest)
    by_episode: dict[str, tuple[str, Solo]] = {}
    for episode, source, reward_type, expert, marks, step, scenario, number, task, split, version in rows.values_list(
        *columns, *place
    ):
        key = splits.task_key(scenario, number, task)
        # A held-out task that moved levels or weights would leak the test set into training.
        if key in held_out or not splits.is_training_name(split):
            continue
        if episode not in by_episode or source == VerifierOutcome.Source.VERIFIER:
            # An episode without a version, or of a scenario that is not loaded, is not known to be outdated, so it
            # counts.
            is_now = not version or version == (now(scenario) or version)
            # A briefing is help, too: a briefed episode is not solo.
            solo = Solo(key, reward_type == "complete", expert == ExpertMode.OFF and BRIEFED not in marks, step, is_now)
            by_episode[episode] = (source, solo)
    return [said for _, said in by_episode.values()][:newest]


def of_other_versions(episodes: Collection[Solo]) -> Counter[str]:
    """Return how many episodes of each task are of a replaced version of its scenario."""
    return Counter(one.task for one in episodes if not one.is_now)


def rates(episodes: Collection[Solo]) -> dict[str, Rates]:
    """Return the solve counts of each task."""
    sums: dict[str, list[int]] = {}
    for episode in episodes:
        if not episode.is_now:
            continue
        row = sums.setdefault(episode.task, [0, 0, 0, 0])
        place = 0 if episode.alone else 2
        row[place] += 1
        row[place + 1] += episode.complete
    return {task: Rates(*row) for task, row in sums.items()}


def as_counted(episodes: Collection[Solo]) -> list[Counted]:
    return [Counted(one.task, one.complete, one.step) for one in episodes if one.is_now]
