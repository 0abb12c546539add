"""What a comparison of two arms found: two scopes, what may be said at any time, what was left out, and by scenario.

Pure. Made by `compare.py`, in words by `sentences.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from runs.statistics import deciding
from runs.statistics.paired import Interval
from runs.statistics.prices import Price


@dataclass(frozen=True)
class UnitResult:
    """What is shown for one kind of unit at the planned size. A unit is a task, or all tasks that share an answer; or a
    scenario, with those that share an answer with it."""

    units: int
    interval: Interval | None
    p: float | None
    method: str
    level: float = deciding.PLANNED
    """The error of the test, which the plan's contrasts share."""
    verdict: str = "few"
    """better, worse, none (no difference shown), withheld or few."""
    sentence: str = ""
    p_holm: float | None = None
    """Set where the plan has several contrasts: the p that decides."""
    hangs: bool = False
    """The counted tries alone would show a difference: whether there is one hangs on the unknown ones."""

    @property
    def is_shown(self) -> bool:
        """Whether test and interval both exclude "no difference"."""
        return deciding.is_shown(self.p, self.p_holm, self.interval, self.level)

    @property
    def holds_zero(self) -> bool:
        return deciding.holds_zero(self.interval)


@dataclass(frozen=True)
class Running:
    """What may be said at any time. `read` of `planned` tasks are in the complete prefix; where seeds were added, a
    task counts once in each round of seeds. `since` is the task at which the statement came."""

    e: float
    read: int
    planned: int
    interval: Interval
    verdict: str
    since: int | None
    sentence: str


@dataclass(frozen=True)
class Exclusions:
    """Tries whose first episode was lost or cancelled though their task is fit, by reason, and what they could change
    at the most. Those that a retry replaced stay here."""

    treated: dict[str, int]
    control: dict[str, int]
    treated_planned: int
    control_planned: int
    withheld: bool
    bounds: Interval
    as_failures: float


@dataclass(frozen=True)
class ScenarioRow:
    """One scenario: raw counts for reading, no p, and its difference without its share of luck, by which rows stand."""

    scenario: str
    tasks: int
    won: int
    lost: int
    delta: float
    shrunk: float


@dataclass(frozen=True)
class Corrected:
    """A rate or a difference as blind reviewers would have found it, from a random sample of the episodes that `drawn`
    counts. By arm: how many of these people judged, and how many outcomes of the verifier they found wrong."""

    value: float
    interval: Interval
    drawn: int
    judged: dict[str, int]
    wrong: dict[str, int]
    sentence: str


@dataclass(frozen=True)
class Contrast:
    """One arm against the control. Until all tries have ended, counts and rates are those of the complete prefix: what
    ended first is not like the rest."""

    arm: str
    control: str
    tasks: int
    planned: int
    won: int
    lost: int
    delta: float | None
    treated_rate: float | None
    control_rate: float | None
    state: str
    """running, final or stopped (ended before the planned size); seeds that were added do not change it."""
    tasks_scope: UnitResult | None
    scenarios_scope: UnitResult | None
    running: Running
    exclusions: Exclusions
    scenarios: list[ScenarioRow]
    price: Price | None = None
    """What an extra complete episode costs, where the planned size may be read."""
    sentence: str = ""
    sharing: int = 0
    """Tasks that share an answer with another task."""
    void: str = ""
    """Why nothing may be said, whatever the outcomes are."""
    unanswered: dict[str, int] = field(default_factory=dict)
    """By arm, how many asks fell back, where no ask of the arm was answered: help of this arm was never there."""
    added: float | None = None
    """The difference with the seeds that were added later: exploratory, not part of the plan."""
    corrected: Corrected | None = None
    """The difference without the verifier's own errors, where a random blind sample says them: exploratory."""
    against_itself: str = ""
    """What the same method says of the control's own seeds, split in two at random: a negative control."""

    @property
    def unknown(self) -> int:
        """How many planned tries were lost, replaced or cancelled."""
        return sum(sum(arm.values()) for arm in (self.exclusions.treated, self.exclusions.control))

    @property
    def verdict(self) -> str:
        """The verdict on these tasks: at the planned size the one test, else what the e-process showed."""
        if self.exclusions.withheld or self.void:
            return "withheld"
        if self.tasks_scope is not None and self.tasks_scope.verdict in deciding.SHOWN:
            return self.tasks_scope.verdict
        if self.running.verdict in deciding.SHOWN or self.tasks_scope is None:
            return self.running.verdict
        return "withheld" if self.tasks_scope.verdict == "withheld" else self.running.verdict

    @property
    def p_holm(self) -> float | None:
        return self.tasks_scope.p_holm if self.tasks_scope is not None else None
