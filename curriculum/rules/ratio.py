"""How many rollouts of a group are offered an expert: the phase, what moves it, and a person's overrides.

Pure. The rule reads the format-error rates of finished training steps: the share of a step's rollouts without one
executable call. Completion is shown beside it and never moves it. A rate crosses a boundary by a cumulative sum (CUSUM;
Page 1954): one step is noise. Source of the boundaries and of the 29-step table: pull request 428 of
meta-pytorch/OpenEnv (`EXPERT_ENHANCEMENT.md`). Leaves counting to `counting.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple


class Phase(StrEnum):
    """The amount of help that the rule gives, most help first."""

    SCAFFOLD = "scaffold"
    BALANCED = "balanced"
    INDEPENDENCE = "independence"


class Strategy(StrEnum):
    """The way to decide the help of a run."""

    BASELINE = "baseline"
    ALWAYS = "always"
    MIXED = "mixed"
    ADAPTIVE = "adaptive"


SCAFFOLD_ABOVE, INDEPENDENCE_BELOW = 70, 40
"""Percent of rollouts with format errors. A rate equal to either boundary is Balanced."""


class PhaseRule(NamedTuple):
    """The share of rollouts with an expert in a phase, and its limits in words."""

    share: float
    limit: str


PHASES = {
    Phase.SCAFFOLD: PhaseRule(0.75, f"above {SCAFFOLD_ABOVE}%"),
    Phase.BALANCED: PhaseRule(0.5, f"{INDEPENDENCE_BELOW} to {SCAFFOLD_ABOVE}%"),
    Phase.INDEPENDENCE: PhaseRule(0.25, f"below {INDEPENDENCE_BELOW}%"),
}
BACK = 5
"""Under `LAST_STEP`, a phase with more help comes back only this many percent beyond its boundary."""
LAST_STEP, CUSUM = 1, 2
"""The versions of the rule, as steps record them: a step keeps the rule under which it was reported. The first looked
at the last step alone."""
SLACK, ENOUGH = 0.35, 8.5
"""Of a sum, in standard errors of a step: what each step loses, and what crosses a boundary."""


@dataclass(frozen=True)
class Measured:
    """A finished training step: its counted rollouts, those without an executable call, and the version of the rule
    that it moves the help by."""

    step: int
    rollouts: int
    errors: int
    version: int = CUSUM

    @property
    def rate(self) -> float | None:
        return self.errors / self.rollouts if self.rollouts else None


@dataclass(frozen=True)
class BoundarySide:
    """The side of a boundary on which the rates are, and the sum for the other one."""

    limit: float
    is_above: bool = True
    sum: float = 0.0

    def after(self, rate: float, groups: float) -> BoundarySide:
        """Return the side after a step with this rate in this number of groups."""
        beyond = self.limit - rate if self.is_above else rate - self.limit
        error = math.sqrt(self.limit * (1 - self.limit) / groups)
        grown = max(0.0, self.sum + beyond / error - SLACK)
        return BoundarySide(self.limit, not self.is_above) if grown > ENOUGH else replace(self, sum=grown)


Sides = tuple[BoundarySide, BoundarySide]
"""Those of the boundaries of Scaffold and of Independence."""


@dataclass(frozen=True)
class Override:
    """A phase that a person sets, from the step after `after` on.

    `until` is *step* (through `until_step`), *agrees* (until the rule gives the same phase) or *undone*. `undone_after`
    is the last finished step at the moment when a person ended it. `by` is that person's name.

    """

    phase: Phase
    after: int
    until: str = "undone"
    until_step: int | None = None
    undone_after: int | None = None
    by: str = ""

    def holds(self, step: int, agreed: bool) -> bool:
        """Return whether it applies to this step; `agreed` says that the rule has reached the same phase since."""
        if step <= self.after or (self.undone_after is not None and step > self.undone_after):
            return False
        if self.until == "step" and self.until_step is not None:
            return step <= self.until_step
        return not (self.until == "agrees" and agreed)


@dataclass(frozen=True)
class Help:
    """The phase of one training step: by the rule, the one that applies, and the step that the rule used."""

    step: int
    rule: Phase
    phase: Phase
    looked_at: Measured | None = None
    override: Override | None = None


def phase_of(measured: Measured | None, before: Phase = Phase.SCAFFOLD) -> Phase:
    """Return the phase that a step gives on its own, after `before`. One without counted rollouts changes nothing."""
    if measured is None or not measured.rollouts:
        return before
    # In whole numbers: rounding must not move a rate of exactly 70% or 40% across its boundary.
    percent = 100 * measured.errors
    if percent > (SCAFFOLD_ABOVE + (0 if before == Phase.SCAFFOLD else BACK)) * measured.rollouts:
        return Phase.SCAFFOLD
    if percent < INDEPENDENCE_BELOW * measured.rollouts:
        return Phase.INDEPENDENCE
    stays = before == Phase.INDEPENDENCE and percent <= (INDEPENDENCE_BELOW + BACK) * measured.rollouts
    return Phase.INDEPENDENCE if stays else Phase.BALANCED


def sides_of(phase: Phase) -> Sides:
    """Return the sides of a phase, with empty sums."""
    above = BoundarySide(SCAFFOLD_ABOVE / 100, phase == Phase.SCAFFOLD)
    return above, BoundarySide(INDEPENDENCE_BELOW / 100, phase != Phase.INDEPENDENCE)


def phase_in(sides: Sides) -> Phase:
    scaffold, independence = sides
    if scaffold.is_above:
        return Phase.SCAFFOLD
    return Phase.BALANCED if independence.is_above else Phase.INDEPENDENCE


def moved(sides: Sides, measured: Measured | None, size: int) -> Sides:
    """Return the sides after a step. Rollouts of a group are alike, so the step knows no more than its groups."""
    if measured is None or measured.rate is None:
        return sides
    if measured.version == LAST_STEP:
        return sides_of(phase_of(measured, phase_in(sides)))
    rate, groups = measured.rate, max(1.0, measured.rollouts / size)
    scaffold, independence = (side.after(rate, groups) for side in sides)
    return scaffold, independence


def group(strategy: Strategy, phase: Phase, size: int) -> tuple[int, int]:
    """Return how many rollouts of a group are offered an expert, and how many are solo.

    Between the extremes there is at least one of each. Halves are rounded to even, as Python's `round` does.

    """
    if strategy == Strategy.BASELINE:
        return 0, size
    if strategy == Strategy.ALWAYS:
        return size, 0
    applied = phase if strategy == Strategy.ADAPTIVE else Phase.BALANCED
    # At least one of each: a group that is all helped, or all solo, shows no difference between the two.
    expert = min(max(round(size * PHASES[applied].share), 1), size - 1)
    return expert, size - expert


def history(measured: Sequence[Measured], overrides: Sequence[Override] = (), *, size: int) -> list[Help]:
    """Return the phase of every finished step, and last that of the next step; `size` is that of a group.

    The first step is Scaffold, because nothing was measured yet. If several overrides apply, the newest counts.

    """
    finished = sorted(measured, key=lambda measure: measure.step)
    steps = [one.step for one in finished]
    steps.append(steps[-1] + 1 if steps else 1)
    sides, looked_at, agreed = sides_of(Phase.SCAFFOLD), None, set[int]()
    helps = []
    for place, step in enumerate(steps):
        sides = moved(sides, looked_at, size)
        rule = phase_in(sides)
        # Once the rule has agreed, an override until *agrees* is over for good, even if the rule changes again.
        agreed |= {number for number, one in enumerate(overrides) if step > one.after and one.phase == rule}
        held = [one for number, one in enumerate(overrides) if one.holds(step, number in agreed)]
        override = held[-1] if held else None
        helps.append(Help(step, rule, override.phase if override else rule, looked_at, override))
        # Set last: the phase of a step follows from the step before it.
        looked_at = finished[place] if place < len(finished) else None
    return helps
