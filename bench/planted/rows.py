"""Rows for planted worlds, in a database of their own.

Rows that no world changes are made once in each process. What a world adds, erases or answers is rolled back.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from django.db import transaction
from django.utils import timezone

from awmweb.embedded import servers
from bench.planted.case import ROOT, World
from episodes.models import BranchArm, Episode, Fork, VerifierOutcome
from experts.models import Advice, Ask
from people import access
from people.access import Actor
from people.models import Project, new_id
from people.record import members
from runs.models import Campaign, CampaignPoint, Plan
from tests import schema
from tests.runs.planned import rows_of_run

TREATED, CONTROL = BranchArm.TREATED.value, BranchArm.CONTROL.value
ARMS = (TREATED, CONTROL)
CALL = {"call": {"name": "merge", "arguments": {"id": 9}}}
ROOTS, TRIES = 12, 4
"""The episodes of a campaign, and the branches of an arm of each."""
Rows = TypeVar("Rows", bound="ProjectRows")
Of = ParamSpec("Of")


@contextmanager
def database() -> Iterator[None]:
    """Run a database of its own for the processes that start meanwhile; it ends with this one."""
    with tempfile.TemporaryDirectory(prefix="awmweb-planted-") as name:
        var = Path(name) / "var"
        Path(name).chmod(0o711)
        var.mkdir(0o711)
        schema.bring(var)
        own = {key: kept for key, kept in os.environ.items() if key not in ("DATABASE_URL", "REDIS_URL")}
        before = dict(os.environ)
        os.environ.clear()
        os.environ.update(own, AWMWEB_VAR=str(var))
        try:
            with servers.running(var, queue=False):
                # where no schema could be brought
                subprocess.run([sys.executable, "manage.py", "migrate", "--verbosity", "0"], cwd=ROOT, check=True)
                yield
        finally:
            os.environ.clear()
            os.environ.update(before)


@dataclass(frozen=True)
class ProjectRows:
    """Rows of a project of their own, which no world changes for good."""

    project: Project

    @property
    def actor(self) -> Actor:
        return access.system(self.project)


@dataclass(frozen=True)
class ForkRows(ProjectRows):
    """A fork with ended branches that have no outcome yet."""

    fork: Fork
    branches: Sequence[Episode]


@dataclass(frozen=True)
class CampaignRows(ProjectRows):
    """A campaign whose roots were forked at one place each, and their branches, which have no outcome yet."""

    campaign: Campaign
    branches: Sequence[Episode]


@dataclass(frozen=True)
class DeskRows(ProjectRows):
    """A person who answers, and episodes that have asked, one of each task, which have no outcome yet."""

    expert: Actor
    episodes: Sequence[Episode]


@dataclass(frozen=True)
class RunRows(ProjectRows):
    """A run whose episodes have no outcome yet, by task and arm."""

    plan: Plan
    episodes: Mapping[tuple[int, str], str]


def kept(make: Callable[Concatenate[Project, Of], Rows]) -> Callable[Of, Rows]:
    """Make rows once in each process and database, in a project of their own."""
    made: dict[tuple[Any, ...], Rows] = {}

    @wraps(make)
    def rows(*of: Of.args, **more: Of.kwargs) -> Rows:
        if of not in made or not Project.objects.filter(pk=made[of].project.pk).exists():
            with transaction.atomic():
                made[of] = make(members.ensure_project(f"planted-{new_id()}"), *of, **more)
        return made[of]

    return rows


def stored(rows: Callable[[], Rows], play: Callable[[random.Random, Rows], bool | None]) -> World:
    """Return a world that uses these rows and is rolled back."""

    def world(dice: random.Random) -> bool | None:
        fixed = rows()
        with transaction.atomic():
            seen = play(dice, fixed)
            transaction.set_rollback(True)
        return seen

    return world


def ended(project: Project, **about: Any) -> Episode:
    """Return an ended episode of a model as a row that is not stored."""
    same = {"project": project, "key": new_id(), "body_digest": "", "policy_kind": "model", "task": "t"}
    return Episode(**{"origin": "builtin", "state": "finished", "ended_at": timezone.now(), **same, **about})


def forked(root: Episode, tries: int) -> tuple[Fork, list[Episode]]:
    """Fork an episode at its first step."""
    about: dict[str, Any] = {"change": CALL, "tries": tries, "knowledge": "blind", "grade": "exact"}
    fork = Fork.objects.create(project=root.project, parent=root, seq=1, **about)
    same = {"origin": "branch", "fork": fork, "branch_seq": 1, "grade": "exact", "scenario": root.scenario}
    return fork, [ended(root.project, branch_arm=arm, **same) for arm in ARMS for _ in range(tries)]


@kept
def fork_rows(project: Project, tries: int) -> ForkRows:
    root = ended(project)
    root.save(force_insert=True)
    fork, branches = forked(root, tries)
    return ForkRows(project, fork, Episode.every.bulk_create(branches))


@kept
def campaign_rows(project: Project) -> CampaignRows:
    about: dict[str, Any] = {"name": "c", "query": "", "place": "error", "kind": "words", "change": CALL}
    by = {"author": "a", "author_key": "a", "made_at": timezone.now()}
    campaign = Campaign.objects.create(
        project=project, tries=TRIES, matched=ROOTS, chosen=ROOTS, points=[], **about, **by
    )
    roots = Episode.objects.bulk_create([ended(project, scenario="s", task_idx=place) for place in range(ROOTS)])
    made = [forked(root, TRIES) for root in roots]
    points = [CampaignPoint(campaign=campaign, root=fork.parent, share=0, seq=1, fork=fork) for fork, _ in made]
    CampaignPoint.objects.bulk_create(points)
    branches = [one for _, of_fork in made for one in of_fork]
    return CampaignRows(project, campaign, Episode.every.bulk_create(branches))


@kept
def desk_rows(project: Project, tasks: int) -> DeskRows:
    expert = access.person(members.ensure_member(project, f"edo-{new_id()}", "expert"))
    episodes = [ended(project, scenario="s", task_idx=place, expert="plain") for place in range(tasks)]
    Episode.objects.bulk_create(episodes)
    answered(project, episodes, [[60.0]] * tasks)
    return DeskRows(project, expert, episodes)


@kept
def run_rows(project: Project, tasks: int) -> RunRows:
    plan = rows_of_run(access.system(project), tasks)
    tries = plan.tries.values_list("task_idx", "arm__name", "episode")
    return RunRows(project, plan, {(task, arm): episode for task, arm, episode in tries})


def answered(project: Project, episodes: Sequence[Episode], took: Sequence[Sequence[float]]) -> None:
    """Let a person answer an ask of each episode. Each further time is that of an edit: a row that supersedes the one
    before, as `advising.edit` stores it."""
    asks, advice = [], []
    for episode, times in zip(episodes, took, strict=True):
        ask = Ask(project=project, episode=episode, key="q", seq=1, question="Which?", status="answered")
        ask.deadline_at = timezone.now() + timedelta(hours=1)
        before: Advice | None = None
        for seconds in times:
            by = {"source": "human", "author": "edo", "author_key": "user:1", "nonce": new_id()}
            before = Advice(ask=ask, text=f"This for {episode.pk}.", took_s=seconds, supersedes=before, **by)
            advice.append(before)
        ask.accepted = before
        asks.append(ask)
    # each names the other, which is looked at when the transaction ends
    Ask.objects.bulk_create(asks)
    Advice.objects.bulk_create(advice)


def end(branches: Sequence[Episode], types: Sequence[str]) -> None:
    """Give each branch its outcome."""
    VerifierOutcome.objects.bulk_create(
        VerifierOutcome(episode=branch, source="verifier", reward_type=kind, reward=float(kind == "complete"))
        for branch, kind in zip(branches, types, strict=True)
    )
