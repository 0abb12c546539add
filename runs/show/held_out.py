"""Reads: how models did on held-out tasks, whatever run tried them: outcomes, asks that were needed, people's time.

An ask is needed where the task has a registry of blockers and the question matches one; in a task without one every
ask is needless. Called by the curriculum; who cannot see outcomes must not reach it.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import dataclass, field

from django.db.models import Q, QuerySet

from episodes.models import Episode, EpisodeState, ExpertMode, counted_as
from episodes.stored import outcomes, splits
from episodes.stored.packs import blockers_of
from experts.models import Ask, by_program
from people.models import Project


@dataclass
class CountedShare:
    """How many of how many."""

    part: int = 0
    of: int = 0

    def add(self, counts: bool) -> None:
        self.part, self.of = self.part + counts, self.of + 1


@dataclass
class TriedModel:
    """Counts over the held-out episodes of a model that count, and the time of people over all of its episodes."""

    complete: CountedShare = field(default_factory=CountedShare)
    alone: CountedShare = field(default_factory=CountedShare)
    """Those without an expert."""
    needed: CountedShare = field(default_factory=CountedShare)
    """Of episodes whose task lacks a fact and that could ask: those that asked for it."""
    needless: CountedShare = field(default_factory=CountedShare)
    """Of episodes whose task lacks none and that could ask: those that asked."""
    human_s: float = 0.0
    """From claim to answer, as in a run's comparison: answers of programs take none."""


@dataclass
class _Asked:
    asks: int = 0
    blockers: set[str] = field(default_factory=set)
    human_s: float = 0.0


def tried(project: Project, models: Collection[str]) -> dict[str, TriedModel]:
    """Return each of these models, by the name that it was served under or that a loop gave as checkpoint."""
    named = Q(policy_name__in=models) | Q(checkpoint__in=models)
    episodes = Episode.objects.filter(named, project=project)
    types = dict(outcomes.of_project(project).filter(episode__in=episodes).values_list("episode_id", "reward_type"))
    asked = _asked(episodes)
    held_out = splits.held_out(project)
    by_model = {name: TriedModel() for name in models}
    # the registry of a task is read once, however many episodes tried it
    registry_of = functools.cache(lambda *task: frozenset(blocker.id for blocker in blockers_of(*task)))
    columns = ("pk", "policy_name", "checkpoint", "scenario", "task_idx", "task", "split", "scenario_digest")
    more = ("state", "fault", "assisted", "expert")
    for (
        pk,
        policy,
        checkpoint,
        scenario,
        idx,
        task,
        split,
        version,
        state,
        fault,
        assisted,
        expert,
    ) in episodes.values_list(*columns, *more).iterator(chunk_size=2000):
        model = by_model[checkpoint if checkpoint in by_model else policy]
        questions = asked.get(pk, _Asked())
        model.human_s += questions.human_s
        is_held_out = splits.task_key(scenario, idx, task) in held_out or not splits.is_training_name(split)
        complete = counted_as(state, fault, types.get(pk) if state == EpisodeState.FINISHED else None, assisted)
        if complete is None or not is_held_out:
            continue
        model.complete.add(complete)
        if expert == ExpertMode.OFF:
            model.alone.add(complete)
        elif registry := registry_of(scenario, idx, version):
            model.needed.add(bool(registry & questions.blockers))
        else:
            model.needless.add(questions.asks > 0)
    return by_model


def _asked(episodes: QuerySet[Episode]) -> dict[str, _Asked]:
    """Return the questions of each episode, with the blockers that they match and the seconds that people took."""
    by_episode: dict[str, _Asked] = {}
    questions = Ask.objects.filter(episode__in=episodes, kind="question")
    for episode, blocker in questions.values_list("episode_id", "blocker"):
        asked = by_episode.setdefault(episode, _Asked())
        asked.asks += 1
        asked.blockers.add(blocker)
    by_people = Q(advice__source="human", advice__amended_by=None) & ~by_program("advice__")
    answered = Ask.objects.filter(by_people, episode__in=episodes)
    for episode, took_s in answered.values_list("episode_id", "advice__took_s"):
        by_episode.setdefault(episode, _Asked()).human_s += took_s or 0.0
    return by_episode
