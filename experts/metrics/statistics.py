"""Statistics of the desk from plain records, each with its count and its 95 % interval.

Pure, without Django. The metrics are descriptive, not causal: asks are not assigned to experts at random. Leaves
reading the rows to `metrics/records.py` and adherence to `metrics/adherence.py`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, TypeVar

from awmclient.nouns.sources import source_named
from experts.metrics.adherence import CANNOT_TELL, FOLLOWED
from people.rates import Z, effective, student_quantile, wilson

RATE_FROM_H = 0.25
P90_FROM = 10
"""With fewer values a 90th percentile is nearly the maximum."""
EXACT_TO = 100
WORDS = 5
TINY = 1e-9
"""Shares that differ by less are equal."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asked:
    """One ask.

    `asked_s`, a time in seconds, and `waited_s`: until it was closed, or until now. `task`: what the agent worked on,
    the same for all attempts. `answer`: the same for all asks of a group that got one answer together. `source`,
    `author`, `took_s`, `drafted_by`, `kept` and `taken` (of an earlier answer)
    belong to the advice that the agent got. `read` is true if the agent read it, `followed` is empty if it was not
    compared. `complete`: the verifier's outcome, None without one. `late_by` and `passed_by` are keys of experts.
    """

    episode: str
    task: str = ""
    asked_s: float = 0.0
    answer: str = ""
    run: str = ""
    arm: str = ""
    status: str = "answered"
    reason: str = ""
    drawn: bool = False
    waited_s: float | None = None
    source: str = ""
    author_key: str = ""
    behind: str = ""
    author: str = ""
    took_s: float | None = None
    drafted_by: str = ""
    kept: float | None = None
    taken: bool = False
    read: bool = False
    followed: str = ""
    complete: bool | None = None
    late_by: tuple[str, ...] = ()
    passed_by: tuple[str, ...] = ()

    @property
    def unit(self) -> str:
        """What is independent of the other asks: the task, as in the comparison of a run."""
        return self.task or self.episode

    @property
    def is_by_person(self) -> bool:
        """Whether a person answered, on a page or with a token of theirs; other tokens are programs."""
        return source_named(self.source).is_human and self.behind in ("", "person")


@dataclass(frozen=True)
class Called:
    """One call of an expert model."""

    model_key: str
    tokens: int
    duration_s: float
    fault: str = ""


@dataclass(frozen=True)
class Proportion:
    """A count out of a total, with Wilson's interval from two tasks on; None without cases. What belongs to one task is
    alike and one unit, and units of unequal size are as good as fewer of one size (Kish): counted apart, intervals
    covered 59 to 89%."""

    part: int = 0
    of: int = 0
    value: float | None = None
    low: float | None = None
    high: float | None = None

    @classmethod
    def count(cls, flags: Iterable[bool]) -> Proportion:
        seen = list(flags)
        return cls.of_counts(sum(seen), len(seen), len(seen))

    @classmethod
    def of_asks(cls, asks: Iterable[Asked], has: Callable[[Asked], bool]) -> Proportion:
        """Return the share of asks that have something."""
        some = list(asks)
        return cls.of_counts(sum(map(has, some)), len(some), units_of(some))

    @classmethod
    def of_counts(cls, part: int, of: int, units: float) -> Proportion:
        """Return a share of cases that come from this effective number of independent units."""
        units = min(units, of)
        # the interval for as many cases as there are units, at the same share
        return cls(part, of, part / of, *(wilson(part * units / of, units) if units > 1 else ())) if of else cls()


@dataclass(frozen=True)
class Middle:
    """Median and 90th percentile of `n` values, by Kaplan and Meier where further `censored` ones are only known to be
    larger than something; None where they were not reached. The interval is the median's (Brookmeyer and Crowley
    1982), from order statistics of the effective number of units; its upper end is None where it was not reached."""

    n: int = 0
    median: float | None = None
    low: float | None = None
    high: float | None = None
    p90: float | None = None
    censored: int = 0

    @classmethod
    def among(cls, values: Iterable[float | None], units: Sequence[str] | None = None) -> Middle:
        """Return the middle of values, those of one unit alike; without units each is one."""
        numbers = list(values)
        names = list(map(str, range(len(numbers)))) if units is None else units
        kept = [(value, name) for value, name in zip(numbers, names, strict=True) if value is not None]
        sizes = Counter(name for _, name in kept).values()
        return cls.of_times([(value, True) for value, _ in kept], effective([*sizes]))

    @classmethod
    def of_times(cls, times: Iterable[tuple[float, bool]], units: float) -> Middle:
        """Return the middle of times, each with whether it ended there or is only known to be longer, that come from
        this effective number of units."""
        some = sorted(times)
        total, ended = len(some), sum(is_end for _, is_end in some)
        if not ended:
            return cls(censored=total)
        curve = _survival(some)

        def time_at(share: float, *, beyond: bool = False) -> float | None:
            edge = share + TINY if beyond else share - TINY
            return next((time for time, reached, _ in curve if reached >= edge), None)

        here, after = time_at(0.5), time_at(0.5, beyond=True)
        middle = here if here is None or after is None else (here + after) / 2
        independent = math.floor(min(units, total) + TINY)
        below = ranks_below(independent)
        low: float | None = None
        high: float | None = None
        if below:
            # how much wider than without censored times
            wider = next((wide for time, _, wide in curve if time == here), curve[-1][2])
            reach = (0.5 - below / independent) * max(1.0, wider * math.sqrt(total))
            low, high = time_at(max(0.0, 0.5 - reach)), time_at(0.5 + reach, beyond=True)
        p90 = time_at(0.9) if ended >= P90_FROM else None
        return cls(ended, middle, low, high, p90, total - ended)


def _survival(times: Sequence[tuple[float, bool]]) -> list[tuple[float, float, float]]:
    """Return, at each time at which something ended, which share had ended (Kaplan and Meier), and the standard error
    of that (Greenwood), as a part of what it is without censored times and for one value."""
    curve: list[tuple[float, float, float]] = []
    at_risk, left, spread = len(times), 1.0, 0.0
    for time, same in groupby(times, key=lambda pair: pair[0]):
        ends = [is_end for _, is_end in same]
        if count := sum(ends):
            left *= 1 - count / at_risk
            spread += count / (at_risk * (at_risk - count)) if at_risk > count else 0.0
            plain = math.sqrt(left * (1 - left))
            curve.append((time, 1 - left, left * math.sqrt(spread) / plain if plain else 0.0))
        at_risk -= len(ends)
    return curve


@dataclass(frozen=True)
class HourlyRate:
    """Useful answers per hour of claimed time. `n` counts the answers with a known time."""

    n: int = 0
    hours: float = 0.0
    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class MetricsLine:
    """The metrics of the whole desk, of one expert, or of one arm of a run.

    `desk_line` and `expert_line` define what each share counts.
    """

    kind: str
    key: str
    name: str
    asks: int
    answered: int
    in_time: Proportion
    waited: Middle
    took: Middle
    per_hour: HourlyRate
    followed: Proportion
    cannot_tell: int
    passed: Proportion
    drafted: Proportion
    kept: Middle
    completed: Proportion
    taken: Proportion
    run: str = ""
    arm: str = ""
    late: int = 0
    prepared: int = 0
    open: int = 0
    cancelled: int = 0
    drawn: int = 0
    fell_back: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Calls:
    """One expert model's calls: count, cost and faults by message."""

    key: str
    name: str
    calls: int
    tokens: int
    took: Middle
    faults: Proportion
    words: list[tuple[str, int]]


def ranks_below(n: int) -> int:
    """Return the rank from either end at which a 95 % interval of the median ends; 0 below six values.

    Exact for few values, by the normal approximation for many.
    """
    if n > EXACT_TO:
        return math.floor((n - Z * math.sqrt(n)) / 2)
    rank, tail = 0, 0
    # at most 2.5% of tosses of n fair coins fall below the rank
    while (tail := tail + math.comb(n, rank)) <= 0.025 * 2**n:
        rank += 1
    return rank


def per_hour(asks: Sequence[Asked]) -> HourlyRate:
    """Return useful answers (in time and read by the agent) per hour from claim to answer, with an interval.

    An answer to a group is one answer. The interval is that of a ratio of sums of tasks, on a log scale. No rate on
    less than `RATE_FROM_H`. Claimed time without an answer has no row and is not counted.
    """
    timed = answers_of([one for one in asks if one.took_s is not None])
    rows = [
        (group[0].unit, any(map(is_useful, group)), sum(ask.took_s or 0.0 for ask in group) / 3600) for group in timed
    ]
    n, hours, useful = len(rows), sum(took for _, _, took in rows), sum(use for _, use, _ in rows)
    if hours < RATE_FROM_H:
        return HourlyRate(n, hours)
    rate = useful / hours
    by_unit: dict[str, float] = {}
    for unit, use, took in rows:
        by_unit[unit] = by_unit.get(unit, 0.0) + use - rate * took
    units = len(by_unit)
    if units < 2 or not useful:
        return HourlyRate(n, hours, rate)
    # the error of a ratio of two means (delta method), relative to the rate
    spread = math.sqrt(units / (units - 1) * sum(one * one for one in by_unit.values())) / useful
    free = effective([*Counter(unit for unit, _, _ in rows).values()]) - 1
    reach = student_quantile(0.975, max(1.0, free)) * spread
    return HourlyRate(n, hours, rate, rate * math.exp(-reach), rate * math.exp(reach))


def answers_of(asks: Iterable[Asked]) -> list[list[Asked]]:
    """Return asks by the answer that they got: those of a group that were answered together are one."""
    groups = _by(enumerate(asks), lambda pair: pair[1].answer or pair[0]).values()
    return [[ask for _, ask in group] for group in groups]


def units_of(asks: Iterable[Asked]) -> float:
    """Return the effective number of tasks of these asks."""
    return effective([*Counter(ask.unit for ask in asks).values()])


def busy_periods(asks: Iterable[Asked]) -> float:
    """Return the effective number of times at which asks waited: those that wait together wait for the same people, so
    they are one."""
    sizes: list[int] = []
    until = -math.inf
    for ask in sorted(asks, key=lambda each: each.asked_s):
        if not sizes or ask.asked_s >= until:
            sizes.append(0)
        sizes[-1] += 1
        until = max(until, ask.asked_s + (ask.waited_s or 0.0))
    return effective(sizes)


def waits(asks: Iterable[Asked]) -> Middle:
    """Return how long asks wait for an answer; one that fell back, or has none yet, would have waited longer."""
    some = [ask for ask in asks if ask.waited_s is not None and ask.status != "cancelled"]
    return Middle.of_times([(ask.waited_s or 0.0, ask.status == "answered") for ask in some], busy_periods(some))


def answer_times(asks: Iterable[Asked]) -> Middle:
    """Return how long people took from claim to answer, an answer to a group once."""
    groups = answers_of([ask for ask in asks if ask.took_s is not None])
    return Middle.among([sum(ask.took_s or 0.0 for ask in group) for group in groups], [g[0].unit for g in groups])


def is_useful(ask: Asked) -> bool:
    return ask.status == "answered" and ask.read


def desk_line(
    asks: Sequence[Asked], kind: str = "desk", key: str = "", name: str = "", run: str = "", arm: str = ""
) -> MetricsLine:
    """Return the metrics of all asks.

    In time: answered ones, of those answered or fallen back. Declined: asks that anyone declined. Drafted: people's
    answers that started from a model's draft. Answer time and rate: of people, since scripts and models take no time.
    """
    answered = [one for one in asks if one.status == "answered"]
    by_people = [one for one in answered if one.is_by_person]
    state = Counter(one.status for one in asks)
    return MetricsLine(
        kind,
        key,
        name,
        asks=len(asks),
        answered=len(answered),
        in_time=Proportion.of_asks(
            (one for one in asks if one.status in ("answered", "fell_back")), lambda ask: ask.status == "answered"
        ),
        passed=Proportion.of_asks(asks, lambda ask: bool(ask.passed_by)),
        drafted=Proportion.of_asks(by_people, lambda ask: bool(ask.drafted_by)),
        kept=Middle.among((one.kept for one in answered), [one.unit for one in answered]),
        open=state["open"],
        cancelled=state["cancelled"],
        drawn=sum(one.drawn for one in asks),
        late=sum(len(one.late_by) for one in asks),
        fell_back=dict(Counter(one.reason for one in asks if one.status == "fell_back").most_common()),
        run=run,
        arm=arm,
        **_shared(answered, asks) | {"took": answer_times(by_people), "per_hour": per_hour(by_people)},
    )


def _shared(answered: Sequence[Asked], advised: Sequence[Asked]) -> dict[str, Any]:
    compared = [one for one in advised if one.followed]
    compared_only = [one for one in compared if one.followed != CANNOT_TELL]
    # the same for all asks of an episode
    verdicts = {one.episode: one for one in advised if one.complete is not None}.values()
    return {
        "waited": waits(advised),
        "took": answer_times(answered),
        "per_hour": per_hour(answered),
        "followed": Proportion.of_asks(compared_only, lambda ask: ask.followed == FOLLOWED),
        "cannot_tell": len(compared) - len(compared_only),
        "completed": Proportion.of_asks(verdicts, lambda ask: bool(ask.complete)),
        "taken": Proportion.of_asks((one for one in answered if one.is_by_person), lambda ask: ask.taken),
    }


def expert_lines(asks: Sequence[Asked], names: dict[str, str]) -> list[MetricsLine]:
    """Return one row for each expert who answered, declined or was late, and one for the cache.

    `names` by key: of experts without an accepted answer.
    """
    by: dict[str, list[Asked]] = {}
    for ask in asks:
        mine = _expert_of(ask)
        for key in {*([mine] if mine else []), *ask.late_by, *ask.passed_by}:
            by.setdefault(key, []).append(ask)
    humans = [one for one in asks if one.status == "answered" and one.is_by_person]
    # from the oldest on, so that the newest name of an expert wins
    latest_names = names | {_expert_of(one): one.author for one in reversed(asks) if one.author}
    return [_expert_line(key, latest_names.get(key, key), some, humans) for key, some in by.items()]


def _expert_of(ask: Asked) -> str:
    """Return the expert whose row counts this ask's advice. A cached answer counts for no expert."""
    source = source_named(ask.source)
    return ask.source if source.is_reused else ask.author_key if source.is_written else ""


def _expert_line(key: str, name: str, asks: Sequence[Asked], humans: Sequence[Asked]) -> MetricsLine:
    """Return the metrics of one expert.

    In time: of all their texts, those that were not late. Declined: of all asks that they answered or declined.
    Drafted: for a person, their answers that started from a model's draft; for a model, people's answers that started
    from its draft.
    """
    mine = [one for one in asks if _expert_of(one) == key]
    answered = [one for one in mine if one.status == "answered"]
    kind = {"model": "model", "token": "script", "cache": "cache"}.get(key.partition(":")[0], "person")
    late = sum(one.late_by.count(key) for one in asks)
    passed = sum(key in one.passed_by for one in asks)
    model = kind == "model"
    # a draft names its model by name, not by key
    begun = [one for one in humans if one.drafted_by == name] if model else [one for one in answered if one.drafted_by]
    return MetricsLine(
        kind,
        key,
        "Cache" if kind == "cache" else name,
        asks=len(mine),
        answered=len(answered),
        in_time=Proportion.of_counts(len(answered), len(answered) + late, units_of(asks)),
        passed=Proportion.of_counts(passed, passed + len(answered) + late, units_of(asks)),
        drafted=Proportion.of_counts(len(begun), len(of_drafts := humans if model else answered), units_of(of_drafts)),
        kept=Middle.among((one.kept for one in begun), [one.unit for one in begun]),
        drawn=sum(one.drawn for one in mine),
        late=late,
        prepared=len(mine) - len(answered),
        **_shared(answered, mine),
    )


def arm_lines(asks: Sequence[Asked], names: dict[str, str]) -> list[MetricsLine]:
    """Return one row for each arm of each run.

    `names` of runs by ID. Episodes without a run share a row.
    """
    lines = []
    for (run, arm), some in _by(asks, lambda ask: (ask.run, ask.arm)).items():
        name = names.get(run, run) if run else "No run"
        lines.append(desk_line(some, "arm", f"{run}/{arm}", name, run=run, arm=arm))
    return lines


def call_lines(called: Sequence[Called]) -> list[Calls]:
    lines = []
    for key, some in _by(called, lambda call: call.model_key).items():
        words = Counter(one.fault for one in some if one.fault).most_common(WORDS)
        lines.append(
            Calls(
                key,
                key.partition(":")[2],
                len(some),
                sum(one.tokens for one in some),
                Middle.among(one.duration_s for one in some),
                Proportion.count(bool(one.fault) for one in some),
                words,
            )
        )
    return sorted(lines, key=lambda line: (-line.calls, line.key))


def _by(rows: Iterable[T], key: Callable[[T], Any]) -> dict[Any, list[T]]:
    groups: dict[Any, list[T]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


SORTS: dict[str, Callable[[MetricsLine], Any]] = {
    "name": lambda line: line.name.casefold(),
    "asks": lambda line: line.asks,
    "waited": lambda line: line.waited.median,
    "took": lambda line: line.took.median,
    "per_hour": lambda line: line.per_hour.value,
    "in_time": lambda line: line.in_time.value,
    "followed": lambda line: line.followed.value,
    "passed": lambda line: line.passed.value,
    "drafted": lambda line: line.drafted.value,
    "completed": lambda line: line.completed.value,
}


def sorted_lines(lines: Iterable[MetricsLine], sort: str) -> list[MetricsLine]:
    """Sort by one column, descending with a leading minus. Rows without a value are last either way."""
    column, down = sort.removeprefix("-"), sort.startswith("-")
    by_name = sorted(lines, key=lambda line: (line.name.casefold(), line.key))
    values = [(SORTS[column](line), line) for line in by_name]
    with_value = sorted((one for one in values if one[0] is not None), key=lambda pair: pair[0], reverse=down)
    return [line for _, line in with_value] + [line for value, line in values if value is None]
