"""Whether an arm asks for what is missing: precision, recall and Ask-F1 of its questions, and paired differences.

A question counts if it matched a blocker of its task's registry that no earlier one of its episode matched. An arm's
precision and recall are over all of its counted episodes; differences are of task means, with the test and the interval
that outcomes have. Nothing here is part of what a run says: it is exploratory. Pure: episodes in, numbers out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from people.text.in_words import count
from runs.statistics.compare import FLIPS, JACKKNIFE
from runs.statistics.paired import Interval, cluster_interval, sign_flip
from runs.statistics.sentences import p_text
from runs.statistics.units import units_of


@dataclass(frozen=True)
class EpisodeAsks:
    """The questions of one counted episode: how many, how many matched, and the distinct blockers among those."""

    task: str
    scenario: str
    arm: str
    asks: int
    matched: int
    found: int
    blockers: int
    human_s: float = 0.0
    shared: frozenset[str] = frozenset()

    @property
    def precision(self) -> Fraction | None:
        """None for an episode without a question: it has no precision. A repeated question asks for nothing more."""
        return Fraction(self.found, self.asks) if self.asks else None

    @property
    def recall(self) -> Fraction:
        return Fraction(self.found, self.blockers)

    @property
    def f1(self) -> Fraction:
        """An episode that does not ask has an F1 of 0: its blockers stay."""
        return harmonic(self.precision or Fraction(), self.recall)


@dataclass(frozen=True)
class ArmAsking:
    """The questions of one arm over its counted episodes of tasks with a registry."""

    arm: str
    episodes: int
    asks: int
    matched: int
    found: int
    blockers: int
    human_s: float

    @property
    def precision(self) -> float | None:
        return self.found / self.asks if self.asks else None

    @property
    def recall(self) -> float | None:
        return self.found / self.blockers if self.blockers else None

    @property
    def f1(self) -> float | None:
        if not self.blockers:
            return None
        precision = Fraction(self.found, self.asks) if self.asks else Fraction()
        return float(harmonic(precision, Fraction(self.found, self.blockers)))

    @property
    def per_task(self) -> float | None:
        return self.asks / self.episodes if self.episodes else None

    @property
    def human_minutes(self) -> float:
        return self.human_s / 60


@dataclass(frozen=True)
class AskingDifference:
    """The mean difference of one metric between an arm and the control, over tasks that count in both."""

    arm: str
    control: str
    metric: str
    tasks: int
    units: int
    delta: float
    interval: Interval | None
    p: float
    method: str

    @property
    def words(self) -> str:
        """Return the difference in one sentence."""
        span = f", 95% interval {self.interval[0]:+.2f} to {self.interval[1]:+.2f}" if self.interval else ""
        name = NAMES[self.metric]
        mean = f"mean of {count(self.tasks, 'task')}"
        return f"{name}, {self.arm} less {self.control}: {self.delta:+.2f}{span}, p {p_text(self.p)} ({mean})."


METRICS: dict[str, Callable[[EpisodeAsks], Fraction | None]] = {
    "f1": lambda episode: episode.f1,
    "precision": lambda episode: episode.precision,
    "recall": lambda episode: episode.recall,
    "asks": lambda episode: Fraction(episode.asks),
}
NAMES = {"f1": "Ask-F1", "precision": "Precision", "recall": "Recall", "asks": "Asks per task"}
"""What is compared. Precision is of tasks on which both arms asked."""


def harmonic(first: Fraction, other: Fraction) -> Fraction:
    return 2 * first * other / (first + other) if first + other else Fraction()


def of_arms(episodes: Iterable[EpisodeAsks], arms: Sequence[str]) -> list[ArmAsking]:
    """Return the sums of each arm, in the order of the arms."""
    mine: dict[str, list[EpisodeAsks]] = {arm: [] for arm in arms}
    for episode in episodes:
        mine[episode.arm].append(episode)
    names = ("asks", "matched", "found", "blockers", "human_s")
    return [
        ArmAsking(arm, len(of_it), **{name: sum(getattr(one, name) for one in of_it) for name in names})
        for arm, of_it in mine.items()
    ]


@dataclass
class _Pair:
    scenario: str
    treated: list[EpisodeAsks] = field(default_factory=list)
    control: list[EpisodeAsks] = field(default_factory=list)

    @property
    def shared(self) -> set[str]:
        return set().union(*(one.shared for one in (*self.treated, *self.control)))


def differences(episodes: Sequence[EpisodeAsks], arm: str, control: str) -> list[AskingDifference]:
    """Return the paired differences of an arm from the control, one for each metric that both have on a task."""
    tasks: dict[str, _Pair] = {}
    for episode in episodes:
        if episode.arm in (arm, control):
            pair = tasks.setdefault(episode.task, _Pair(episode.scenario))
            (pair.treated if episode.arm == arm else pair.control).append(episode)
    rows = (_difference(tasks, name, value, arm, control) for name, value in METRICS.items())
    return [one for one in rows if one is not None]


def _difference(
    tasks: Mapping[str, _Pair], metric: str, value: Callable[[EpisodeAsks], Fraction | None], arm: str, control: str
) -> AskingDifference | None:
    both: list[tuple[_Pair, Fraction]] = []
    for pair in tasks.values():
        means = [_mean(list(map(value, side))) for side in (pair.treated, pair.control)]
        if means[0] is not None and means[1] is not None:
            both.append((pair, means[0] - means[1]))
    if not both:
        return None
    # the interval is of differences between -1 and 1; counts of asks are scaled to that, and back
    scale = max([Fraction(1), *(abs(one) for _, one in both)])
    units = units_of([pair for pair, _ in both])
    sums = [sum((both[place][1] / scale for place in unit), Fraction()) for unit in units]
    delta, span = cluster_interval([float(one) for one in sums], [len(unit) for unit in units])
    joined = "sums of tasks that share an answer" if len(units) < len(both) else "task means"
    wide = (span[0] * float(scale), span[1] * float(scale)) if span else None
    method = f"{FLIPS} on {joined}, {JACKKNIFE}"
    return AskingDifference(
        arm, control, metric, len(both), len(units), delta * float(scale), wide, sign_flip(sums), method
    )


def _mean(values: Sequence[Fraction | None]) -> Fraction | None:
    measured = [one for one in values if one is not None]
    return sum(measured, Fraction()) / len(measured) if measured else None
