"""Reads: the values of the page of one run. Leaves counts to `overview.py` and findings to `comparison.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from people.access import Actor, holds, may_see_asking
from people.text.figures import Chart
from runs.launch import briefings, preflight
from runs.models import Arm
from runs.plan import limits, servers
from runs.plan.plans import briefing_words, to_yaml
from runs.show import asking, causes, charts, curve, errata, model_turns, overview, tables
from runs.show.comparison import RunComparison
from runs.show.overview import RunCard, TaskRow
from runs.show.tables import TABLES, of_completions, repeats
from runs.statistics.corrected import BLIND
from runs.statistics.sentences import points

REWARDS_DRAWN = 2000
"""The most episodes of a run whose shaped rewards its page draws; the file has all."""


@dataclass(frozen=True)
class RunHead:
    """The head of the page: the finding, what the run waits for, why episodes failed, and what their models wrote."""

    sentence: str
    card: RunCard
    waits: list[str]
    server: servers.ServerReport | None
    causes: causes.Causes
    turns: list[str]


@dataclass(frozen=True)
class ShownContrast:
    """Two arms against each other, with their charts. `added` is the difference with seeds of a later day."""

    one: Any
    forest: Chart | None
    difficulty: Any
    added: str


@dataclass(frozen=True)
class BriefedArm:
    """The briefings of one arm: how many tasks have one, and which lack it (task, reason, address)."""

    arm: str
    given: int
    tasks: int
    words: str
    lacking: list[tuple[str, str, str]]


@dataclass(frozen=True)
class RunFindings:
    """What the run says of its arms. `asking` is None, and `curves` are none, where no task has blockers."""

    contrasts: list[ShownContrast]
    effects: Sequence[Any]
    errata: Sequence[Any]
    briefed: list[BriefedArm]
    blockers: list[asking.FoundBlocker]
    """Missing facts and how many episodes found them, for those who may see how arms asked."""
    asking: asking.RunAsking | None
    curves: list[Chart]
    withdrawn: Sequence[Arm]
    completions: list[Chart]
    repeats: list[Any]
    draws_rewards: bool
    tables: list[str]
    corrected: list[tuple[str, str]]
    """Of each arm, its rate without the verifier's own errors, in words."""
    blind: str
    """What blind means there."""


@dataclass(frozen=True)
class TaskTable:
    """Every task with its tries side by side, and what is left out of the findings, by arm and reason."""

    scenarios: list[tuple[str, list[TaskRow]]]
    more: int
    left_out: list[tuple[str, list[tuple[str, int]]]]
    ruled_later: Sequence[str]

    @property
    def compares(self) -> str:
        """What the key compares in a row: its arms, or the seeds of the only one. Nothing without two episodes."""
        rows = [row for _, of_scenario in self.scenarios for row in of_scenario if row.compared]
        return "" if not rows else "arms" if len(rows[0].arms) > 1 else "seeds"


@dataclass(frozen=True)
class FixedClaims:
    """What the launch fixed that the run says. A row is an arm, its control, and both shares of error as words."""

    digest: str
    rows: list[tuple[str, str, str, str]]
    tasks: int
    seeds: int
    left_out: int


def shown(actor: Actor, comparison: RunComparison) -> Mapping[str, Any]:
    """Return the values of the page by the names its template uses."""
    card = overview.card_of(comparison)
    return {
        "head": _head(actor, comparison, card),
        "findings": _findings(actor, comparison, card),
        "tasks": _tasks(comparison, [arm.name for arm in card.arms]),
        "claims": _claims(comparison),
        "yaml": to_yaml(tables.plan_now(comparison.plan)),
    }


def _head(actor: Actor, comparison: RunComparison, card: RunCard) -> RunHead:
    plan = comparison.plan
    sentence = preflight.finding(plan).words if preflight.is_trial(plan) else comparison.sentence
    server = servers.ServerReport(**plan.server) if plan.server else None
    turns = [line for arm in model_turns.turns_of(actor, plan.run) for line in arm.lines]
    return RunHead(sentence, card, limits.waits(plan), server, causes.causes_of(actor, plan.run), turns)


def _findings(actor: Actor, comparison: RunComparison, card: RunCard) -> RunFindings:
    asked = asking.asking_of(comparison)
    plotted = curve.points_of(comparison, asked)
    has = {"asking": asked is not None, "curve": bool(plotted)}
    drawn = curve.charts(
        plotted,
        _file(comparison, "curve"),
        is_open=any(one.is_open for one in comparison.tries),
        at_random=curve.random_of(comparison, plotted),
    )
    return RunFindings(
        contrasts=_contrasts(comparison),
        effects=comparison.effects,
        errata=errata.of_run(actor, comparison.plan.pk),
        briefed=[_briefed(comparison, one) for one in briefings.of_run(comparison.plan)],
        asking=asked,
        blockers=asked.blockers if asked is not None and holds(actor, may_see_asking) else [],
        curves=list(drawn.values()),
        withdrawn=list(comparison.plan.arms.filter(withdrawn_at__isnull=False)),
        completions=charts.completions(comparison.arms, of_completions(comparison), _file(comparison, "completions")),
        repeats=repeats(comparison.ends, [arm.name for arm in card.arms]),
        draws_rewards=comparison.plan.ended_at is not None and card.ended <= REWARDS_DRAWN,
        tables=[name for name in TABLES if has.get(name, True)],
        corrected=[(arm.name, arm.corrected.sentence) for arm in comparison.arms if arm.corrected],
        blind=BLIND if comparison.accepted else "",
    )


def _contrasts(comparison: RunComparison) -> list[ShownContrast]:
    modes = {arm.name: arm.expert for arm in comparison.arms}
    file = _file(comparison, "scenarios")
    return [
        ShownContrast(
            contrast,
            charts.forest(contrast, modes[contrast.arm], file),
            levels,
            "" if contrast.added is None else points(contrast.added),
        )
        for contrast, levels in zip(comparison.contrasts, comparison.levels, strict=True)
    ]


def _briefed(comparison: RunComparison, arm_briefings: briefings.OfArm) -> BriefedArm:
    lacking = [(task, why, reverse("briefing", args=task.rpartition("/")[::2])) for task, why in arm_briefings.lacking]
    words = briefing_words(comparison.plan.document, arm_briefings.arm).removeprefix("briefed ")
    return BriefedArm(arm_briefings.arm, arm_briefings.given, arm_briefings.tasks, words, lacking)


def _tasks(comparison: RunComparison, arms: Sequence[str]) -> TaskTable:
    rows, more = overview.task_rows(comparison.tries, arms)
    left_out = [(arm.name, sorted(arm.excluded.items())) for arm in comparison.arms if arm.excluded]
    return TaskTable(overview.by_scenario(rows), more, left_out, comparison.ruled_later)


def _claims(comparison: RunComparison) -> FixedClaims:
    fixed = comparison.claims
    rows = [(one.arm, one.control, f"{100 * one.planned:.3g}%", f"{100 * one.running:.3g}%") for one in fixed.said]
    return FixedClaims(fixed.digest, rows, fixed.tasks, fixed.seeds, len(fixed.left_out))


def _file(comparison: RunComparison, name: str) -> str:
    return table_address(comparison.plan.pk, name)


def table_address(run: str, name: str) -> str:
    """Return the address of one table of a run as CSV."""
    return reverse("run_table", args=[run, name])
