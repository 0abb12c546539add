"""How many rollouts of a group are offered an expert: the phase, what moves it, and a person's overrides.

Pure. The rule reads one number, the format-error rate of the last finished training step: the share of its rollouts
without one executable call. Completion is shown beside it and never moves it. Source of the rule and of its 29-step
table: pull request 428 of meta-pytorch/OpenEnv (`EXPERT_ENHANCEMENT.md`). Leaves counting to `counting.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
"""A phase with more help comes back only this many percent beyond its boundary: a rate that swings around one would
else change the help at every step."""


@dataclass(frozen=True)
class Measured:
    """A finished training step: its counted rollouts, and those without an executable call."""

    step: int
    rollouts: int
    errors: int

    @property
    def rate(self) -> float | None:
        return self.errors / self.rollouts if self.rollouts else None


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
    """Return the phase that the rule gives after a step. A step without counted rollouts changes nothing."""
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


def history(measured: Sequence[Measured], overrides: Sequence[Override] = ()) -> list[Help]:
    """Return the phase of every finished step, and last that of the next step.

    The first step is Scaffold, because nothing was measured yet. If several overrides apply, the newest counts.

    """
    finished = sorted(measured, key=lambda measure: measure.step)
    steps = [one.step for one in finished]
    steps.append(steps[-1] + 1 if steps else 1)
    rule, looked_at, agreed = Phase.SCAFFOLD, None, set[int]()
    helps = []
    for place, step in enumerate(steps):
        rule = phase_of(looked_at, rule)
        # Once the rule has agreed, an override until *agrees* is over for good, even if the rule changes again.
        agreed |= {number for number, one in enumerate(overrides) if step > one.after and one.phase == rule}
        held = [one for number, one in enumerate(overrides) if one.holds(step, number in agreed)]
        override = held[-1] if held else None
        helps.append(Help(step, rule, override.phase if override else rule, looked_at, override))
        # Set last: the phase of a step follows from the step before it.
        looked_at = finished[place] if place < len(finished) else None
    return helps
