"""What the tries of a run allow to be said: pairs by task, two scopes, and the e-process while it runs.

The datum is a task's mean over valid seeds with an arm minus the same with the control, on tasks valid in both. Only
the verifier's complete or not enters; shaped rewards never. Scope *tasks* is about these tasks, scope *scenarios* of
scenarios like these: a result of the first must not carry a claim of the second, and the second is only stated beside
the first.

A shared answer joins tasks to one unit, and may take a statement away but make none: it must hold for each task alone,
too.

Every planned try stays in the table for ever. What infrastructure lost, what a retry replaced and what a person ended
is unknown, and unknown tries can only take a statement away: it must hold however they are counted (`views_of`).

Pure. Called by `comparison.py`; the methods are in `paired.py` and `anytime.py`, the words in `sentences.py`.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

from people.rates import effective
from runs.statistics import deciding, sentences
from runs.statistics.anytime import Unit, Wave, first_crossing, interval, log_e
from runs.statistics.contrast import Contrast, Exclusions, Running, ScenarioRow, UnitResult
from runs.statistics.deciding import Statement
from runs.statistics.paired import (
    FEW_EFFECTIVE,
    FEW_UNITS,
    cluster_interval,
    holm,
    mcnemar,
    shrink,
    sign_flip,
    tango,
)
from runs.statistics.prices import Price, price
from runs.statistics.unanswered import never_answered
from runs.statistics.units import units_of

GAP = 0.05
"""Arms that lost shares of their tries further apart than this are not compared."""
LOST_CLEARLY = 0.05
"""And so are arms of which one lost more tasks, by the p of an exact test."""
MCNEMAR, FLIPS, TANGO, JACKKNIFE = "exact McNemar", "sign-flip", "Tango score", "cluster jackknife CV3"
CANCELLED = "cancelled"
"""Why a try counts in no rate whose episode a person ended."""
REPLACED = "replaced by a retry"
"""Why a try stays among the losses of its arm though a later episode of it counts."""


@dataclass(frozen=True, slots=True)
class Try:
    """One planned try. `complete` is None while it is open or if it is `excluded`, which names the reason.

    `position` is its task's place in the shuffled planned order, `wave` the addition of seeds that it belongs to.
    `offered` is what its arm drew with the `chance`; both are None where the arm draws nothing. `human_s` are the
    seconds that people took for its answers. `shared` names the answers that it may have in common with other tries.
    `retried_at` is when a retry put its episode in the place of another, in seconds since 1970; 0 for the first one.
    """

    task: str
    scenario: str
    arm: str
    seed: int
    position: int
    wave: int = 0
    complete: bool | None = None
    excluded: str = ""
    offered: bool | None = None
    chance: float | None = None
    asked: bool = False
    human_s: float = 0.0
    episode: str = ""
    shared: frozenset[str] = frozenset()
    retried_at: float = 0.0
    answered: int = 0
    """Its asks that got advice, and those that closed without any."""
    unanswered: int = 0
    unfit: bool = False
    """Its task was found at fault before the launch: it is left out of every arm alike, whatever an arm does."""

    @property
    def is_open(self) -> bool:
        return self.complete is None and not self.excluded

    @property
    def lost(self) -> str:
        """Why what its first episode would have become is unknown; "" if it is known, open, or of an unfit task."""
        if self.unfit:
            return ""
        return self.excluded or (REPLACED if self.retried_at else "")


@dataclass
class _Task:
    """A task's tries in both arms of a contrast. What is made of them is made once: all are there when it is asked."""

    scenario: str
    position: int
    treated: list[Try] = field(default_factory=list)
    control: list[Try] = field(default_factory=list)

    @cached_property
    def tries(self) -> list[Try]:
        return [*self.treated, *self.control]

    @cached_property
    def is_open(self) -> bool:
        return any(one.is_open for one in self.tries)

    @cached_property
    def turn(self) -> tuple[float, int]:
        """Its place in the reading order. A task that a retry opens again goes behind those read before, so that what
        they showed stays."""
        return max(one.retried_at for one in self.tries), self.position

    @cached_property
    def shared(self) -> set[str]:
        return set().union(*(one.shared for one in self.tries))

    @cached_property
    def difference(self) -> Fraction | None:
        """The datum; None for a task that is not valid in both arms."""
        treated, control = _mean(self.treated), _mean(self.control)
        return None if treated is None or control is None else treated - control


def _mean(tries: Iterable[Try]) -> Fraction | None:
    """Return the share of complete tries, without excluded ones."""
    ends = [one.complete for one in tries if one.complete is not None]
    # exact: means of 1 of 3 and 2 of 6 seeds must be equal, and ties decide won and lost
    return Fraction(sum(ends), len(ends)) if ends else None


def as_if(tries: Iterable[Try], ended: Callable[[Try], bool | None], lost: Callable[[Try], bool | None]) -> list[Try]:
    """Return the tries as if those that a person `ended`, and those that were otherwise `lost`, had come to this; with
    None they stay as they are."""

    def value(each: Try) -> bool | None:
        return (ended if each.excluded == CANCELLED else lost)(each) if each.lost else None

    return [
        each if (assumed := value(each)) is None else replace(each, complete=assumed, excluded="", retried_at=0.0)
        for each in tries
    ]


def views_of(tries: Sequence[Try], arm: str) -> list[Sequence[Try]]:
    """Return the tries as they count, and then in every other way in which unknown ones must not change a statement.

    What infrastructure lost is left out, a failure, or complete: an arm whose failures crash, or whose successes take
    longer, then gains nothing. A person who cancels can have seen the other arm, so those tries are once against the
    one arm and once against the other.
    """
    losses: list[bool | None] = [None]
    if any(one.lost and one.excluded != CANCELLED for one in tries):
        losses += [False, True]
    corners: list[bool | None] = [None]
    if any(one.excluded == CANCELLED for one in tries):
        corners += [False, True]

    def view(corner: bool | None, loss: bool | None) -> Sequence[Try]:
        if corner is None and loss is None:
            return tries
        # True: cancelled tries of the arm are complete and those of the control are not; False: the reverse
        return as_if(tries, lambda each: None if corner is None else corner is (each.arm == arm), lambda _: loss)

    return [view(corner, loss) for corner in corners for loss in losses]


def uncounted(tries: Sequence[Try]) -> Sequence[Try]:
    """Return the tries of a run that a person ended early. Those that it took with it stay open: what they would have
    become is unknown, and to leave them out would make the planned size of what the person had seen."""
    return [replace(one, excluded="") if one.excluded == CANCELLED else one for one in tries]


def contrasts(
    tries: Sequence[Try], statements: Sequence[Statement], *, stopped: bool = False, void: str = ""
) -> list[Contrast]:
    """Evaluate the contrasts of a run that were fixed at its launch. They share their error by Holm, in each scope.

    `stopped`: a person ended the run before its planned size, so that no test for that size is valid. `void` says why
    nothing may be said at all.
    """
    statements = [one for one in statements if one.is_contrast]
    waves = sorted({one.wave for one in tries})  # 0 is the planned one
    sides = [[one for one in tries if one.arm in (each.arm, each.control)] for each in statements]
    tasks = [
        _by_task([one for one in mine if one.wave == 0], each) for each, mine in zip(statements, sides, strict=True)
    ]
    drafts = [
        _contrast(mine, of_arm, waves, each, stopped, void)
        for each, mine, of_arm in zip(statements, sides, tasks, strict=True)
    ]
    of_tasks = _after_holm([one.tasks_scope for one in drafts])
    of_scenarios = _after_holm([one.scenarios_scope for one in drafts])
    return [_with_sentence(*each) for each in zip(drafts, of_tasks, of_scenarios, tasks, strict=True)]


def _after_holm(scopes: Sequence[UnitResult | None]) -> list[UnitResult | None]:
    """Give each scope its p after Holm, where there are several; one that cannot be tested counts as not shown."""
    if len(scopes) < 2:
        return list(scopes)
    # one that cannot be tested counts in their number all the same
    ps = holm([1.0 if one is None or one.p is None else one.p for one in scopes])
    return [one if one is None or one.p is None else replace(one, p_holm=p) for one, p in zip(scopes, ps, strict=True)]


def _with_sentence(
    contrast: Contrast, on_tasks: UnitResult | None, on_scenarios: UnitResult | None, tasks: dict[str, _Task]
) -> Contrast:
    """Return the contrast with its verdicts and sentences."""
    shown = on_tasks is not None and on_tasks.is_shown
    decided = replace(
        contrast,
        tasks_scope=on_tasks and _decided(contrast, on_tasks, sentences.of_tasks, may_show=True),
        scenarios_scope=on_scenarios and _decided(contrast, on_scenarios, sentences.of_scenarios, may_show=shown),
    )
    return replace(decided, sentence=sentences.headline(decided), price=_price(decided, tasks.values()))


def _decided(
    contrast: Contrast, scope: UnitResult, sentence: Callable[[Contrast, UnitResult], str], *, may_show: bool
) -> UnitResult:
    """Return a scope with its verdict, which is *few* until it says otherwise, and its sentence."""
    if scope.interval is not None and contrast.delta is not None:
        # both ends are on one side of 0, so their sum has its sign
        verdict = deciding.word(sum(scope.interval)) if scope.is_shown and may_show else "none"
        scope = replace(scope, verdict="withheld" if verdict == "none" and scope.hangs else verdict)
    return replace(scope, sentence=sentence(contrast, scope))


def _price(contrast: Contrast, tasks: Iterable[_Task]) -> Price | None:
    """Price an arm at the planned size, by differences of tasks."""
    if contrast.tasks_scope is None or contrast.tasks_scope.interval is None:
        return None
    paired = [task for task in tasks if task.difference is not None]
    minutes = [_minutes(task.treated) - _minutes(task.control) for task in paired]
    gains, is_shown = [float(task.difference or 0) for task in paired], contrast.tasks_scope.verdict in deciding.SHOWN
    return price(minutes, gains, is_shown=is_shown, joined=units_of(paired))


def _minutes(tries: Iterable[Try]) -> float:
    """Return the mean human minutes of a task's counted tries; there is one at least."""
    counted = [one.human_s for one in tries if one.complete is not None]
    return sum(counted) / len(counted) / 60


def _contrast(
    tries: Sequence[Try], tasks: dict[str, _Task], waves: Sequence[int], claim: Statement, stopped: bool, void: str
) -> Contrast:
    """Compare an arm with the control, from the tries of both and the planned ones by task."""
    planned = [one for one in tries if one.wave == 0]
    if stopped:
        planned = list(uncounted(planned))
        tasks = _by_task(planned, claim)
    complete = bool(tasks) and not any(one.is_open for one in tasks.values())
    state = "final" if complete else "stopped" if stopped else "running"
    lost = _exclusions(tasks, claim)
    # a try that a person ended is no less open to a look at any time than one that goes on
    # nothing is unknown and nothing was added: all ways of counting are the same one
    alike = len(waves) == 1 and not any(one.lost for one in planned)
    by_round = (
        [[tasks]]
        if alike
        else [
            [_by_task([one for one in view if one.wave == wave], claim) for wave in waves]
            for view in views_of(uncounted(tries), claim.arm)
        ]
    )
    shares = any(one.shared for one in tries)
    looks = [
        [_round(one, joins=joins) for one in rounds] for joins in (True, *([False] * shares)) for rounds in by_round
    ]
    running = _running(looks, state, claim.running)
    if void or lost.withheld or (len(waves) > 1 and _exclusions(_by_task(uncounted(tries), claim), claim).withheld):
        words = sentences.void(void) if void else sentences.WITHHELD
        running = replace(running, interval=lost.bounds, verdict="withheld", since=None, sentence=words)
    # while it runs, the other numbers are of the same prefix as the statement
    read = set(looks[0][0].read) if looks[0] else set()
    read_tasks = tasks if complete else {name: one for name, one in tasks.items() if name in read}
    paired = [(one, d) for one in read_tasks.values() if (d := one.difference) is not None]
    fixed = complete and paired and not lost.withheld and not void
    views = [paired, *(_paired(view, claim) for view in views_of(planned, claim.arm)[1:])] if fixed else []
    ds = [d for _, d in paired]
    units = units_of([one for one, _ in paired])
    return Contrast(
        arm=claim.arm,
        control=claim.control,
        tasks=len(paired),
        planned=len(tasks),
        won=sum(d > 0 for d in ds),
        lost=sum(d < 0 for d in ds),
        delta=float(sum(ds) / len(ds)) if ds else None,
        treated_rate=_rate([one.treated for one, _ in paired]),
        control_rate=_rate([one.control for one, _ in paired]),
        state=state,
        tasks_scope=_whatever([_both(_on_tasks, view, claim.planned) for view in views]) if views else None,
        scenarios_scope=_whatever([_both(_on_scenarios, view, claim.planned) for view in views]) if views else None,
        running=running,
        exclusions=lost,
        scenarios=_rows(paired),
        sharing=sum(len(unit) for unit in units if len(unit) > 1),
        void=void,
        unanswered=never_answered(tries, claim.arm, claim.control),
        added=_added(tries, claim) if len(waves) > 1 and not lost.withheld and not void else None,
    )


def _both(of: Callable[..., UnitResult], paired: Sequence[tuple[_Task, Fraction]], level: float) -> UnitResult:
    """Return what holds for tasks that share an answer as one unit, and for each alone: who answers chooses which tasks
    share, and can have seen how the control ended."""
    joined = of(paired, level)
    return _widest([joined, of(paired, level, joins=False)]) if any(one.shared for one, _ in paired) else joined


def _whatever(results: Sequence[UnitResult]) -> UnitResult:
    """Return what holds however unknown tries are counted. The first result is that of the tries as they count."""
    widest = _widest(results)
    return widest if widest.interval is None or len(results) == 1 else replace(widest, hangs=results[0].is_shown)


def _widest(results: Sequence[UnitResult]) -> UnitResult:
    """Return the first result with the widest interval and the largest p of all."""
    spans = [one.interval for one in results if one.interval is not None]
    if len(spans) < len(results):
        # in one way a result cannot even be computed, so none can be stated
        return replace(results[0], interval=None, p=None)
    whole = min(low for low, _ in spans), max(high for _, high in spans)
    return replace(results[0], interval=whole, p=max((one.p for one in results if one.p is not None), default=None))


def _paired(tries: Iterable[Try], claim: Statement) -> list[tuple[_Task, Fraction]]:
    return [(one, d) for one in _by_task(tries, claim).values() if (d := one.difference) is not None]


def _added(tries: Sequence[Try], claim: Statement) -> float | None:
    """Return the difference with the seeds that were added, once they have ended. No part of the plan."""
    paired = _paired(tries, claim)
    return float(sum(d for _, d in paired) / len(paired)) if paired and not any(one.is_open for one in tries) else None


def _by_task(tries: Iterable[Try], claim: Statement) -> dict[str, _Task]:
    tasks: dict[str, _Task] = {}
    for each in tries:
        task = tasks.get(each.task) or tasks.setdefault(each.task, _Task(each.scenario, each.position))
        (task.treated if each.arm == claim.arm else task.control).append(each)
    return tasks


def _rate(tries: Sequence[Sequence[Try]]) -> float | None:
    means = [mean for one in tries if (mean := _mean(one)) is not None]
    return float(sum(means) / len(means)) if means else None


def _on_tasks(paired: Sequence[tuple[_Task, Fraction]], level: float, *, joins: bool = True) -> UnitResult:
    units = units_of([one for one, _ in paired], joins=joins)
    n, joined = len(paired), len(units) < len(paired)
    ds = [d for _, d in paired]
    # McNemar's test is about pairs of single outcomes: means of seeds and joined tasks are none
    if not joined and all(len(one.treated) == 1 == len(one.control) for one, _ in paired):
        won, lost = sum(d > 0 for d in ds), sum(d < 0 for d in ds)
        return UnitResult(n, tango(won, lost, n), mcnemar(won, lost), f"{MCNEMAR}, {TANGO}", level)
    sums = [sum((ds[place] for place in unit), Fraction()) for unit in units]
    what = "sums of tasks that share an answer" if joined else "task means"
    # a unit of joined tasks weighs as many as it has
    span = cluster_interval([float(one) for one in sums], [len(unit) for unit in units])[1]
    return UnitResult(len(units), span, sign_flip(sums), f"{FLIPS} on {what}, {JACKKNIFE}", level)


def _on_scenarios(paired: Sequence[tuple[_Task, Fraction]], level: float, *, joins: bool = True) -> UnitResult:
    units = units_of([one for one, _ in paired], by_scenario=True, joins=joins)
    sums = [sum((paired[place][1] for place in unit), Fraction()) for unit in units]
    sizes = [len(unit) for unit in units]
    span = cluster_interval([float(one) for one in sums], sizes)[1]
    enough = len(units) >= FEW_UNITS and effective(sizes) >= FEW_EFFECTIVE and span is not None
    p = sign_flip(sums) if enough else None
    return UnitResult(len(units), span if enough else None, p, f"{FLIPS} on scenario sums, {JACKKNIFE}", level)


@dataclass(frozen=True)
class _Round:
    """The complete prefix of the tasks planned together: their names, and what may be bet on them. `ends` holds for
    each unit of the bets the place of its last task in the reading order."""

    planned: int
    read: list[str]
    bets: Wave
    ends: list[int]


def _round(tasks: Mapping[str, _Task], *, joins: bool = True) -> _Round:
    names = sorted(tasks, key=lambda name: tasks[name].turn)
    read: list[str] = []
    bets: list[Unit] = []
    ends: list[int] = []
    most = 1
    for unit in units_of([tasks[name] for name in names], joins=joins):
        mine = [tasks[names[place]] for place in unit]
        # nothing behind an open unit is read: what ends first is not like the rest
        if any(one.is_open for one in mine):
            break
        read += [names[place] for place in unit]
        if ds := [d for one in mine if (d := one.difference) is not None]:
            # only of units read so far: a bet must not know the size of a later one
            most = max(most, len(ds))
            bets.append(Unit(float(sum(ds)), len(ds), most))
            ends.append(len(read))
    return _Round(len(tasks), read, Wave(tuple(bets)), ends)


def _running(looks: Sequence[Sequence[_Round]], state: str, alpha: float) -> Running:
    """Return what may be said at any time: what every look says, however it counts unknown tries. The first look counts
    them as they are."""
    rounds = looks[0]
    read, planned = sum(len(one.read) for one in rounds), sum(one.planned for one in rounds)
    bets = [[one.bets for one in each] for each in looks]
    # 700: math.exp overflows above 709
    e = min(math.exp(min(700.0, log_e(each))) for each in bets)
    spans = [interval(each, alpha) for each in bets]
    span = min(low for low, _ in spans), max(high for _, high in spans)
    crossings = [found for each in bets if (found := first_crossing(each, alpha))]
    # shown if every way of counting crosses, and all in one direction
    if len(crossings) == len(looks) and len({direction for _, direction, _ in crossings}) == 1:
        # the statement begins where the last of them crosses
        last = max(range(len(looks)), key=lambda number: crossings[number][0])
        crossed, of = crossings[last], looks[last]
        place, within = next(each for each in _places(of) if each[0] == crossed[0])[1:]
        since, verdict = sum(one.planned for one in of[:place]) + within, deciding.word(crossed[1])
        words = sentences.shown_while_running(_where(of, place, within), verdict, crossed[2], span)
        return Running(e, read, planned, span, verdict, since, words)
    place = next((number for number, one in enumerate(rounds) if len(one.read) < one.planned), len(rounds) - 1)
    done, size = (len(rounds[place].read), rounds[place].planned) if rounds else (0, 0)
    words = sentences.not_shown(state, done, size, sentences.in_round(place, len(rounds)))
    return Running(e, read, planned, span, "none", None, words)


def _places(rounds: Iterable[_Round]) -> Iterator[tuple[int, int, int]]:
    """Yield the number of each unit that was bet on, its round, and its place there."""
    ends = ((place, end) for place, one in enumerate(rounds) for end in one.ends)
    return ((number, *each) for number, each in enumerate(ends, 1))


def _where(rounds: Sequence[_Round], place: int, within: int) -> str:
    return f"{within} of {rounds[place].planned}{sentences.in_round(place, len(rounds))}"


def _exclusions(tasks: Mapping[str, _Task], claim: Statement) -> Exclusions:
    """Count the losses of both arms. One that a retry replaced stays a loss of its arm: else a retry would hide that
    the failures of an arm crash."""
    fit = [task for task in tasks.values() if not any(one.unfit for one in task.tries)]
    treated = Counter(why for task in fit for one in task.treated if (why := one.lost))
    control = Counter(why for task in fit for one in task.control if (why := one.lost))
    of_treated, of_control = sum(len(one.treated) for one in fit), sum(len(one.control) for one in fit)
    # 1: lost in the arm alone, -1: in the control alone, 0: in both or neither
    only = [any(one.lost for one in task.treated) - any(one.lost for one in task.control) for task in fit]
    p = mcnemar(only.count(1), only.count(-1))
    # at least 1, so that an arm without a fit task has a share
    gap = abs(treated.total() / max(of_treated, 1) - control.total() / max(of_control, 1))
    ended = [task for task in fit if not task.is_open]
    if treated or control:
        # low: lost tries of the control are complete and those of the arm are not; high: the reverse; then all fail
        low, high, failed = (
            _mean_difference([one for task in ended for one in as_if(task.tries, value, value)], claim)
            for value in (lambda each: each.arm != claim.arm, lambda each: each.arm == claim.arm, lambda _: False)
        )
    else:  # nothing to fill in: all three are the difference itself
        ds = [d for task in ended if (d := task.difference) is not None]
        low = high = failed = float(sum(ds) / len(ds)) if ds else 0.0
    withheld = p < LOST_CLEARLY or gap > GAP
    return Exclusions(dict(treated), dict(control), of_treated, of_control, withheld, (low, high), failed)


def _mean_difference(tries: Iterable[Try], claim: Statement) -> float:
    ds = [d for _, d in _paired(tries, claim)]
    return float(sum(ds) / len(ds)) if ds else 0.0


def _rows(paired: Sequence[tuple[_Task, Fraction]]) -> list[ScenarioRow]:
    by_scenario: dict[str, list[Fraction]] = defaultdict(list)
    for task, d in paired:
        by_scenario[task.scenario].append(d)
    means = [float(sum(ds) / len(ds)) for ds in by_scenario.values()]
    n, groups = len(paired), len(means)
    # where no scenario has two tasks, nothing separates its effect from luck: all that varies counts as luck
    around = means if n > groups else [sum(means) / max(n, 1)] * n
    squares = sum((float(d) - mean) ** 2 for ds, mean in zip(by_scenario.values(), around, strict=True) for d in ds)
    # pooled within scenarios: a scenario with one task has no variance of its own
    noise = squares / max(n - groups or n - 1, 1)
    _, shrunk = shrink(means, [noise / len(ds) for ds in by_scenario.values()])
    rows = [
        ScenarioRow(name, len(ds), sum(d > 0 for d in ds), sum(d < 0 for d in ds), mean, without_luck)
        for (name, ds), mean, without_luck in zip(by_scenario.items(), means, shrunk, strict=True)
    ]
    return sorted(rows, key=lambda row: (-row.shrunk, -row.delta, row.scenario))
