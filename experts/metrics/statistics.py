"""Statistics of the desk from plain records, each with its count and its 95 % interval.

Pure, without Django. The metrics are descriptive, not causal: asks are not assigned to experts at random. Leaves
reading the rows to `metrics/records.py`, adherence to `metrics/adherence.py`, and medians to `metrics/times.py`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeVar

from awmclient.nouns.sources import source_named
from experts.metrics.adherence import CANNOT_TELL, FOLLOWED
from experts.metrics.times import PAUSE_S, Middle, TimeEnd, independent, stretches
from people.rates import Z, effective, student_quantile, wilson

RATE_FROM_H = 0.25
WORDS = 5
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asked:
    """One ask.

    `asked_s`, a time in seconds, and `waited_s`: until it was closed, or until now. `task`: what the agent worked on,
    the same for all attempts. `answer`: the same for all asks of a group that got one answer together. `source`,
    `author`, `took_s`, `drafted_by`, `kept` and `taken` (of an earlier answer)
    belong to the advice that the agent got. `read` is true if the agent read it, `followed` is empty if it was not
    compared. `complete`: the verifier's outcome, None without one. `late_by` and `passed_by` are keys of experts.
    `decisions`: the same ask with the decision of each further person whom an approval needed.
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
    decisions: tuple[Asked, ...] = ()

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
    """One call of an expert model, which ended at `at_s`, a time in seconds."""

    model_key: str
    tokens: int
    duration_s: float
    fault: str = ""
    at_s: float = 0.0


@dataclass(frozen=True)
class Proportion:
    """A count out of a total, with Wilson's interval from two units on; None without cases. What belongs to one task is
    alike and one unit, and units of unequal size are as good as fewer of one size (Kish). Cases near each other in time
    are fewer units if they are alike. Counted apart, intervals covered 26 to 89%."""

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
        return cls.of_cases((ask, has(ask)) for ask in asks)

    @classmethod
    def of_cases(cls, cases: Iterable[tuple[Asked, bool]], units: float = math.inf) -> Proportion:
        """Return the share of cases with a yes, each with its ask. They are not more than this number of units."""
        some = list(cases)
        units = min(units, units_of(ask for ask, _ in some), independent((ask.asked_s, yes) for ask, yes in some))
        return cls.of_counts(sum(yes for _, yes in some), len(some), units)

    @classmethod
    def of_counts(cls, part: int, of: int, units: float) -> Proportion:
        """Return a share of cases that come from this effective number of independent units."""
        units = min(units, of)
        # the interval for as many cases as there are units, at the same share
        return cls(part, of, part / of, *(wilson(part * units / of, units) if units > 1 else ())) if of else cls()


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


def per_hour(asks: Sequence[Asked]) -> HourlyRate:
    """Return useful answers (in time and read by the agent) per hour from claim to answer, with an interval.

    An answer to a group is one answer. The interval is that of a ratio of sums of tasks, on a log scale. No rate on
    less than `RATE_FROM_H`. Claimed time without an answer has no row and is not counted.
    """
    timed = answers_of([one for one in asks if one.took_s is not None])
    rows = [(group[0], any(map(is_useful, group)), sum(ask.took_s or 0.0 for ask in group) / 3600) for group in timed]
    n, hours, useful = len(rows), sum(took for _, _, took in rows), sum(use for _, use, _ in rows)
    if hours < RATE_FROM_H:
        return HourlyRate(n, hours)
    rate = useful / hours
    rest = [(ask, use - rate * took) for ask, use, took in rows]
    by_unit: dict[str, float] = {}
    for ask, value in rest:
        by_unit[ask.unit] = by_unit.get(ask.unit, 0.0) + value
    units = len(by_unit)
    if units < 2 or not useful:
        return HourlyRate(n, hours, rate)
    # the error of a ratio of two means (delta method), relative to the rate
    spread = math.sqrt(units / (units - 1) * sum(value**2 for value in by_unit.values())) / useful
    by_task = student_quantile(0.975, max(1.0, units_of(ask for ask, _, _ in rows) - 1)) * spread
    near = n / independent((ask.asked_s, value) for ask, value in rest)
    reach = max(by_task, Z * math.sqrt(near * sum(value**2 for _, value in rest)) / useful)
    return HourlyRate(n, hours, rate, rate * math.exp(-reach), rate * math.exp(reach))


def answers_of(asks: Iterable[Asked]) -> list[list[Asked]]:
    """Return asks by the answer that they got: those of a group that were answered together are one."""
    groups = _by(enumerate(asks), lambda pair: pair[1].answer or pair[0]).values()
    return [[ask for _, ask in group] for group in groups]


def units_of(asks: Iterable[Asked]) -> float:
    """Return the effective number of tasks of these asks."""
    return effective([*Counter(ask.unit for ask in asks).values()])


def busy_periods(asks: Iterable[Asked]) -> float:
    """Return the effective number of times at which asks waited: those that wait together wait for the same people, and
    those that fall back one after the other meet the same full or empty desk, so they are one."""
    some = sorted(asks, key=lambda each: each.asked_s)
    joined = {b.asked_s for a, b in pairwise(some) if a.status == b.status == "fell_back"}
    return stretches(((ask.asked_s, ask.waited_s or 0.0) for ask in some), joined=joined)


def waits(asks: Iterable[Asked], *, for_people: bool = False) -> Middle:
    """Return by when half of all asks had an answer. One that fell back never got it; one that is open or was withdrawn
    would have waited longer, and so would one that a program answered if it is the wait `for_people`."""
    some = [ask for ask in asks if ask.waited_s is not None]

    def end_of(ask: Asked) -> TimeEnd:
        if ask.status == "fell_back":
            return TimeEnd.NEVER
        is_answer = ask.status == "answered" and (ask.is_by_person or not for_people)
        return TimeEnd.REACHED if is_answer else TimeEnd.LONGER

    times = [(ask.waited_s or 0.0, end_of(ask)) for ask in some]
    return Middle.of_times(times, busy_periods(some), [ask.asked_s for ask in some])


def answer_times(asks: Iterable[Asked]) -> Middle:
    """Return how long people took from claim to answer, an answer to a group once."""
    groups = answers_of([ask for ask in asks if ask.took_s is not None])
    return Middle.among((sum(ask.took_s or 0.0 for ask in group), group[0].unit, group[0].asked_s) for group in groups)


def _kept(asks: Iterable[Asked]) -> Middle:
    return Middle.among((ask.kept, ask.unit, ask.asked_s) for ask in asks)


def is_useful(ask: Asked) -> bool:
    return ask.status == "answered" and ask.read


def desk_line(
    asks: Sequence[Asked], kind: str = "desk", key: str = "", name: str = "", run: str = "", arm: str = ""
) -> MetricsLine:
    """Return the metrics of all asks.

    In time: answered ones, of those answered or fallen back. Declined: asks that anyone declined. Drafted: people's
    answers that started from a model's draft. Answer time and rate: of people, since scripts and models take no time.
    What people did counts each decision of an approval that needed several of them.
    """
    answered = [one for one in asks if one.status == "answered"]
    closed = [one for one in asks if one.status in ("answered", "fell_back")]
    by_people = [one for one in _decided(answered) if one.is_by_person]
    state = Counter(one.status for one in asks)
    return MetricsLine(
        kind,
        key,
        name,
        asks=len(asks),
        answered=len(answered),
        # not more than the times at which people were there or not
        in_time=Proportion.of_cases(((ask, ask.status == "answered") for ask in closed), busy_periods(closed)),
        passed=Proportion.of_asks(asks, lambda ask: bool(ask.passed_by)),
        drafted=Proportion.of_asks(by_people, lambda ask: bool(ask.drafted_by)),
        kept=_kept(_decided(answered)),
        open=state["open"],
        cancelled=state["cancelled"],
        drawn=sum(one.drawn for one in asks),
        late=sum(len(one.late_by) for one in asks),
        fell_back=dict(Counter(one.reason for one in asks if one.status == "fell_back").most_common()),
        run=run,
        arm=arm,
        **_shared(answered, asks) | {"took": answer_times(by_people), "per_hour": per_hour(by_people)},
    )


def _decided(asks: Iterable[Asked]) -> list[Asked]:
    """Return asks with every decision of those that needed several people."""
    return [
        each for ask in asks for each in ((replace(ask, decisions=()), *ask.decisions) if ask.decisions else (ask,))
    ]


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
        "taken": Proportion.of_asks((one for one in _decided(answered) if one.is_by_person), lambda ask: ask.taken),
    }


def expert_lines(asks: Sequence[Asked], names: dict[str, str]) -> list[MetricsLine]:
    """Return one row for each expert who answered, declined or was late, and one for the cache.

    `names` by key: of experts without an accepted answer.
    """
    by: dict[str, list[Asked]] = {}
    asks = _decided(asks)
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
    late = [ask for ask in asks for _ in range(ask.late_by.count(key))]
    passed = [(ask, True) for ask in asks if key in ask.passed_by]
    model = kind == "model"
    # a draft names its model by name, not by key
    drafts = [
        (ask, ask.drafted_by == name if model else bool(ask.drafted_by)) for ask in (humans if model else answered)
    ]
    return MetricsLine(
        kind,
        key,
        "Cache" if kind == "cache" else name,
        asks=len(mine),
        answered=len(answered),
        in_time=Proportion.of_cases([*((ask, True) for ask in answered), *((ask, False) for ask in late)]),
        passed=Proportion.of_cases([*passed, *((ask, False) for ask in (*answered, *late))]),
        drafted=Proportion.of_cases(drafts),
        kept=_kept(ask for ask, is_begun in drafts if is_begun),
        drawn=sum(one.drawn for one in mine),
        late=len(late),
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
        # an outage, or a slow hour, is that of every call in it
        units = stretches(((one.at_s - one.duration_s, one.duration_s) for one in some), PAUSE_S)
        faults = sum(bool(one.fault) for one in some)
        lines.append(
            Calls(
                key,
                key.partition(":")[2],
                len(some),
                sum(one.tokens for one in some),
                Middle.of_times([(one.duration_s, TimeEnd.REACHED) for one in some], units),
                Proportion.of_counts(faults, len(some), units),
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
