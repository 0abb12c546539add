"""Runs, their training steps, and what the curriculum says to play next."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field, StrictInt

from awmclient.nouns.fields import MAX_INT, WHOLE, Line, Number, Object, Shape
from awmclient.nouns.tools import OfferedTools
from awmclient.nouns.values import ExpertMode


class RunStart(Shape):
    """Opens a run. `key` makes a retry safe: the same key and body give the same run. `expert` is the most that an
    agent's token may give an episode of it; *informed* wants a launch right. With a `plan` awmweb runs them; name,
    arm, policy and expert then follow from the plan.
    """

    name: Line
    key: Line | None = None
    arm: Line | None = None
    policy: Object | None = None
    metadata: Object | None = None
    expert: ExpertMode = "plain"
    plan: Object | None = None


class RunView(Shape):
    """A run. `state` is there for a run with a plan."""

    id: str
    name: str
    expert: ExpertMode = "plain"
    state: str | None = None


class RunItem(Shape):
    """A run in a list, with the number of its episodes by state, of the newest 10,000. Its own `state` is that of its
    plan, if it has one."""

    id: str
    name: str
    key: str | None = None
    arm: str | None = None
    expert: ExpertMode
    policy: Object
    metadata: Object
    state: str | None = None
    created_at: datetime
    episodes: dict[str, int]


class RunPage(Shape):
    """Newest first. `next` is the cursor of the next page; null on the last one."""

    items: list[RunItem]
    next: str | None = None


class TrainingStepReport(Shape):
    """A finished training step in a trainer's words. Format errors are counted from the record, not reported. `dataset`
    names the export that it learned from."""

    training_step: Annotated[StrictInt, Field(ge=1, le=MAX_INT), WHOLE]
    losses: Annotated[dict[Line, Number], Field(max_length=200)] | None = None
    components: Annotated[dict[Line, Number], Field(max_length=200)] | None = None
    checkpoint: Line | None = None
    dataset: Line | None = None


class Tally(Shape):
    """How many of how many."""

    part: int
    of: int


class LearnerRound(Shape):
    """One checkpoint of a learner: what it learned from, and how it did on held-out tasks, whatever run tried it.

    `training_step` is null for the model that training began from. `needed` are episodes of tasks that lack a fact:
    those that asked for it; `needless` those of other tasks: those that asked. `human_minutes` are of answers to all
    its asks.
    """

    training_step: int | None = None
    checkpoint: str
    at: datetime | None = None
    dataset: str | None = None
    rows: int | None = None
    complete: Tally
    alone: Tally
    needed: Tally
    needless: Tally
    human_minutes: float


class LearnerRounds(Shape):
    """The rounds of a learner, oldest first."""

    run: str
    items: list[LearnerRound]


class Ratio(Shape):
    """How many rollouts of a group are offered an expert."""

    group_size: int
    expert: int
    solo: int


class TrainingStepView(Shape):
    """A reported training step. `rollouts` finished without a fault; `format_errors` of them held no executable call.

    `next_phase` and `next_ratio` say how much help the step to come gives; only the answer to a report has them.
    """

    training_step: int
    losses: Object
    components: Object
    checkpoint: str | None = None
    dataset: str | None = None
    rollouts: int
    format_errors: int
    not_counted: int
    at: datetime
    next_phase: str | None = None
    next_ratio: Ratio | None = None


class TrainingStepPage(Shape):
    """All reported training steps of a run, the first one first."""

    items: list[TrainingStepView]


class NextTask(Shape):
    """A task to play. Its level may limit steps and tools and give a hint; `rollout(tools=…)` takes what is `offered`.
    Agents get no level, weight or rates."""

    task: str
    scenario: str | None = None
    task_idx: int | None = None
    split: str
    level: str | None = None
    weight: float | None = None
    pinned: bool = False
    max_steps: int | None = None
    tools: list[str] | None = None
    offered: OfferedTools | None = None
    hint: str | None = None
    solo: int | None = None
    solo_solved: int | None = None
    helped: int | None = None
    helped_solved: int | None = None


class CurriculumNext(Shape):
    """What to play next and with how much help. The same `snapshot` and `seed` give the same tasks."""

    snapshot: str
    run: str
    training_step: int
    strategy: str
    phase: str
    decided_by: str
    format_error_rate: float | None = None
    ratio: Ratio
    method: str
    recommended: bool | None = None
    seed: int
    tasks: list[NextTask]
