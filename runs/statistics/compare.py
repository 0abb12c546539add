"""What the tries of a run allow to be said: pairs by task, two scopes, and the e-process while it runs.

The datum is a task's mean over valid seeds with an arm minus the same with the control, on tasks valid in both. Only
the verifier's complete or not enters; shaped rewards never. Scope *tasks* is about these tasks, scope *scenarios* of
scenarios like these: a result of the first must not carry a claim of the second. Pure: tries in, findings out. Called
by `comparison.py`, which reads the tries; the methods are in `paired.py` and `anytime.py`, the words in `sentences.py`.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

from runs.statistics import deciding, sentences
from runs.statistics.anytime import Unit, Wave, first_crossing, interval, log_e
from runs.statistics.contrast import Contrast, Exclusions, Running, ScenarioRow, UnitResult
from runs.statistics.paired import (
    FEW_EFFECTIVE,
    FEW_UNITS,
    cluster_interval,
    effective,
    holm,
    mcnemar,
    shrink,
    sign_flip,
    tango,
)
from runs.statistics.prices import Price, price

GAP = 0.05
"""Arms that lost shares of their tries further apart than this are not compared."""
MCNEMAR, FLIPS, TANGO, JACKKNIFE = "exact McNemar", "sign-flip", "Tango score", "cluster jackknife CV3"
CANCELLED = "cancelled"
"""Why a try counts in no rate whose episode a person ended."""


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
    unfit: bool = False
    """Its task was found at fault before the launch: it is left out of every arm alike, whatever an arm does."""

    @property
    def is_open(self) -> bool:
        return self.complete is None and not self.excluded


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


def _mean(tries: Iterable[Try], otherwise: bool | None = None) -> Fraction | None:
    """Return the share of complete tries; excluded ones count as `otherwise`, or not at all."""
    known = [one.complete for one in tries if one.complete is not None]
    if otherwise is not None:
        known += [otherwise for one in tries if one.complete is None and one.excluded]
    return Fraction(sum(known), len(known)) if known else None


def uncounted(tries: Sequence[Try]) -> Sequence[Try]:
    """Return the tries of a run that a person ended early. Those that it took with it stay open: what they would have
    become is unknown, and to leave them out would make the planned size of what the person had seen."""
    return [replace(one, excluded="") if one.excluded == CANCELLED else one for one in tries]


def contrasts(tries: Sequence[Try], arms: Sequence[str], control: str, *, stopped: bool = False) -> list[Contrast]:
    """Compare every other arm with the control; several contrasts share their error by Holm, in each scope, and while
    the run goes on by equal parts.

    `stopped`: a person ended the run before its planned size, so that no test for that size is valid.
    """
    tries = uncounted(tries) if stopped else tries
    others = [arm for arm in arms if arm != control]
    waves = sorted({one.wave for one in tries})
    sides = [[one for one in tries if one.arm in (arm, control)] for arm in others]
    tasks = [_by_task(mine, arm, control) for arm, mine in zip(others, sides, strict=True)]
    drafts = [
        _contrast(mine, of_arm, waves, arm, control, stopped, 0.05 / len(others))
        for arm, mine, of_arm in zip(others, sides, tasks, strict=True)
    ]
    of_tasks = _after_holm([one.tasks_scope for one in drafts])
    of_scenarios = _after_holm([one.scenarios_scope for one in drafts])
    return [_with_sentence(*each) for each in zip(drafts, of_tasks, of_scenarios, tasks, strict=True)]


def _after_holm(scopes: Sequence[UnitResult | None]) -> list[UnitResult | None]:
    """Give each scope its p after Holm, where there are several; one that cannot be tested counts as not shown."""
    if len(scopes) < 2:
        return list(scopes)
    ps = holm([1.0 if one is None or one.p is None else one.p for one in scopes])
    return [one if one is None or one.p is None else replace(one, p_holm=p) for one, p in zip(scopes, ps, strict=True)]


def _with_sentence(
    one: Contrast, on_tasks: UnitResult | None, on_scenarios: UnitResult | None, tasks: dict[str, _Task]
) -> Contrast:
    """Return the contrast with its verdicts and sentences."""
    found = replace(
        one,
        tasks_scope=on_tasks and _decided(one, on_tasks, sentences.of_tasks),
        scenarios_scope=on_scenarios and _decided(one, on_scenarios, sentences.of_scenarios),
    )
    return replace(found, sentence=sentences.headline(found), price=_price(found, tasks.values()))


def _decided(one: Contrast, scope: UnitResult, sentence: Callable[[Contrast, UnitResult], str]) -> UnitResult:
    """Return a scope with its verdict, which is *few* until it says otherwise, and its sentence."""
    if scope.interval is not None and one.delta is not None:
        scope = replace(scope, verdict=deciding.word(one.delta) if scope.is_shown else "none")
    return replace(scope, sentence=sentence(one, scope))


def _price(one: Contrast, tasks: Iterable[_Task]) -> Price | None:
    """Price an arm at the planned size, by differences of tasks."""
    if one.tasks_scope is None or one.tasks_scope.interval is None:
        return None
    paired = [(task, d) for task in tasks if (d := task.difference) is not None]
    minutes = [_minutes(task.treated) - _minutes(task.control) for task, _ in paired]
    return price(minutes, [float(d) for _, d in paired], is_shown=one.tasks_scope.verdict in deciding.SHOWN)


def _minutes(tries: Iterable[Try]) -> float:
    """Return the mean human minutes of a task's counted tries; there is one at least."""
    counted = [one.human_s for one in tries if one.complete is not None]
    return sum(counted) / len(counted) / 60


def _contrast(
    tries: Sequence[Try],
    tasks: dict[str, _Task],
    waves: Sequence[int],
    arm: str,
    control: str,
    stopped: bool,
    alpha: float,
) -> Contrast:
    """Compare an arm with the control, from the tries of both and the same by task."""
    complete = bool(tasks) and not any(one.is_open for one in tasks.values())
    state = "stopped" if stopped and not complete else "running"
    if complete:
        state = "extended" if len(waves) > 1 else "final"
    lost = _exclusions(tasks.values())
    rounds = [_round(tasks if len(waves) == 1 else _of_wave(tries, arm, control, wave)) for wave in waves]
    running = _running(rounds, state, alpha)
    if lost.withheld:
        running = replace(running, interval=lost.bounds, verdict="withheld", since=None, sentence=sentences.WITHHELD)
    read = {(name, wave) for wave, one in zip(waves, rounds, strict=True) for name in one.read}
    known = tasks if complete else _by_task([one for one in tries if (one.task, one.wave) in read], arm, control)
    paired = [(one, d) for one in known.values() if (d := one.difference) is not None]
    fixed = state == "final" and paired and not lost.withheld
    single = all(len(one.treated) == 1 == len(one.control) for one in tasks.values())
    ds = [d for _, d in paired]
    units = _units([one for one, _ in paired])
    return Contrast(
        arm=arm,
        control=control,
        tasks=len(paired),
        planned=len(tasks),
        won=sum(d > 0 for d in ds),
        lost=sum(d < 0 for d in ds),
        delta=float(sum(ds) / len(ds)) if ds else None,
        treated_rate=_rate([one.treated for one, _ in paired]),
        control_rate=_rate([one.control for one, _ in paired]),
        state=state,
        tasks_scope=_on_tasks(ds, units, single) if fixed else None,
        scenarios_scope=_on_scenarios(paired) if fixed else None,
        running=running,
        exclusions=lost,
        scenarios=_rows(paired),
        sharing=sum(len(unit) for unit in units if len(unit) > 1),
    )


def _by_task(tries: Iterable[Try], arm: str, control: str) -> dict[str, _Task]:
    tasks: dict[str, _Task] = {}
    for one in tries:
        if one.arm in (arm, control):
            task = tasks.get(one.task) or tasks.setdefault(one.task, _Task(one.scenario, one.position))
            (task.treated if one.arm == arm else task.control).append(one)
    return tasks


def _units(tasks: Sequence[_Task], *, by_scenario: bool = False) -> list[list[int]]:
    """Return the places of tasks whose differences are not independent, a list for each unit, in the order of the first
    ones: tasks that share an answer, and with `by_scenario` tasks of one scenario."""
    above, first = list(range(len(tasks))), dict[str, int]()

    def top(place: int) -> int:
        while above[place] != place:
            above[place] = place = above[above[place]]
        return place

    for place, one in enumerate(tasks):
        for name in (*(f"answer {key}" for key in one.shared), *([f"scenario {one.scenario}"] if by_scenario else [])):
            low, high = sorted((top(first.setdefault(name, place)), top(place)))
            above[high] = low
    units: dict[int, list[int]] = defaultdict(list)
    for place in range(len(tasks)):
        units[top(place)].append(place)
    return list(units.values())


def _rate(tries: Sequence[Sequence[Try]]) -> float | None:
    means = [mean for one in tries if (mean := _mean(one)) is not None]
    return float(sum(means) / len(means)) if means else None


def _on_tasks(ds: Sequence[Fraction], units: Sequence[Sequence[int]], single: bool) -> UnitResult:
    n, joined = len(ds), len(units) < len(ds)
    if single and not joined:
        won, lost = sum(d > 0 for d in ds), sum(d < 0 for d in ds)
        return UnitResult(n, tango(won, lost, n), mcnemar(won, lost), f"{MCNEMAR}, {TANGO}")
    sums = [sum((ds[place] for place in unit), Fraction()) for unit in units]
    what = "sums of tasks that share an answer" if joined else "task means"
    span = cluster_interval([float(one) for one in sums], [len(unit) for unit in units])[1]
    return UnitResult(len(units), span, sign_flip(sums), f"{FLIPS} on {what}, {JACKKNIFE}")


def _on_scenarios(paired: Sequence[tuple[_Task, Fraction]]) -> UnitResult:
    units = _units([one for one, _ in paired], by_scenario=True)
    sums = [sum((paired[place][1] for place in unit), Fraction()) for unit in units]
    sizes = [len(unit) for unit in units]
    span = cluster_interval([float(one) for one in sums], sizes)[1]
    enough = len(units) >= FEW_UNITS and effective(sizes) >= FEW_EFFECTIVE and span is not None
    p = sign_flip(sums) if enough else None
    return UnitResult(len(units), span if enough else None, p, f"{FLIPS} on scenario sums, {JACKKNIFE}")


def _of_wave(tries: Iterable[Try], arm: str, control: str, wave: int) -> dict[str, _Task]:
    return _by_task([one for one in tries if one.wave == wave], arm, control)


@dataclass(frozen=True)
class _Round:
    """The complete prefix of the tasks planned together: their names, and what may be bet on them. `ends` holds for
    each unit of the bets the place of its last task in the reading order."""

    planned: int
    read: list[str]
    bets: Wave
    ends: list[int]


def _round(tasks: Mapping[str, _Task]) -> _Round:
    names = sorted(tasks, key=lambda name: tasks[name].turn)
    units = _units([tasks[name] for name in names])
    seeds = max((len(one.treated) for one in tasks.values()), default=1)
    read: list[str] = []
    bets: list[Unit] = []
    ends: list[int] = []
    for unit in units:
        mine = [tasks[names[place]] for place in unit]
        if any(one.is_open for one in mine):
            break
        read += [names[place] for place in unit]
        if ds := [d for one in mine if (d := one.difference) is not None]:
            bets.append(Unit(float(sum(ds)), len(ds)))
            ends.append(len(read))
    is_plain = seeds == 1 and len(units) == len(tasks)
    scale = None if is_plain else math.sqrt(len(tasks) / max(len(units), 1) / seeds)
    return _Round(len(tasks), read, Wave(tuple(bets), scale), ends)


def _running(rounds: Sequence[_Round], state: str, alpha: float) -> Running:
    read, planned = sum(len(one.read) for one in rounds), sum(one.planned for one in rounds)
    bets = [one.bets for one in rounds]
    e, span = math.exp(min(700.0, log_e(bets))), interval(bets, alpha)
    if crossed := first_crossing(bets, alpha):
        place, within = next(each for each in _places(rounds) if each[0] == crossed[0])[1:]
        since, verdict = sum(one.planned for one in rounds[:place]) + within, deciding.word(crossed[1])
        said = sentences.shown_while_running(_where(rounds, place, within), verdict, crossed[2], span)
        return Running(e, read, planned, span, verdict, since, said)
    place = next((number for number, one in enumerate(rounds) if len(one.read) < one.planned), len(rounds) - 1)
    so_far = _where(rounds, place, len(rounds[place].read)) if rounds else "0 of 0"
    return Running(e, read, planned, span, "none", None, sentences.not_shown(state, so_far, span))


def _places(rounds: Iterable[_Round]) -> Iterator[tuple[int, int, int]]:
    """Yield the number of each unit that was bet on, its round, and its place there."""
    ends = ((place, end) for place, one in enumerate(rounds) for end in one.ends)
    return ((number, *each) for number, each in enumerate(ends, 1))


def _where(rounds: Sequence[_Round], place: int, within: int) -> str:
    of = f" in round {place + 1} of {len(rounds)}" if len(rounds) > 1 else ""
    return f"{within} of {rounds[place].planned}{of}"


def _exclusions(tasks: Iterable[_Task]) -> Exclusions:
    tasks = [task for task in tasks if not any(one.unfit for one in task.tries)]
    treated = Counter(one.excluded for task in tasks for one in task.treated if one.excluded)
    control = Counter(one.excluded for task in tasks for one in task.control if one.excluded)
    of_treated, of_control = sum(len(one.treated) for one in tasks), sum(len(one.control) for one in tasks)
    only = [any(one.excluded for one in task.treated) - any(one.excluded for one in task.control) for task in tasks]
    p = mcnemar(only.count(1), only.count(-1))
    gap = abs(treated.total() / max(of_treated, 1) - control.total() / max(of_control, 1))
    settled = [task for task in tasks if not task.is_open]
    if treated or control:
        bounds = _filled(settled, False, True), _filled(settled, True, False)
    else:  # nothing to fill in: all three are the difference itself
        bounds = (_filled(settled, False, False),) * 2
    return Exclusions(
        dict(treated),
        dict(control),
        of_treated,
        of_control,
        p < 0.05 or gap > GAP,
        bounds,
        _filled(settled, False, False) if treated or control else bounds[0],
    )


def _filled(tasks: Sequence[_Task], treated: bool, control: bool) -> float:
    """Return the difference if every excluded try had ended so."""
    pairs = [(_mean(one.treated, treated), _mean(one.control, control)) for one in tasks]
    ds = [a - b for a, b in pairs if a is not None and b is not None]
    return float(sum(ds) / len(ds)) if ds else 0.0


def _rows(paired: Sequence[tuple[_Task, Fraction]]) -> list[ScenarioRow]:
    by_scenario: dict[str, list[Fraction]] = defaultdict(list)
    for one, d in paired:
        by_scenario[one.scenario].append(d)
    means = [float(sum(ds) / len(ds)) for ds in by_scenario.values()]
    n, groups = len(paired), len(means)
    # where no scenario has two tasks, nothing separates its effect from luck: all that varies counts as luck
    around = means if n > groups else [sum(means) / max(n, 1)] * n
    squares = sum((float(d) - mean) ** 2 for ds, mean in zip(by_scenario.values(), around, strict=True) for d in ds)
    noise = squares / max(n - groups or n - 1, 1)
    _, shrunk = shrink(means, [noise / len(ds) for ds in by_scenario.values()])
    rows = [
        ScenarioRow(name, len(ds), sum(d > 0 for d in ds), sum(d < 0 for d in ds), mean, without_luck)
        for (name, ds), mean, without_luck in zip(by_scenario.items(), means, shrunk, strict=True)
    ]
    return sorted(rows, key=lambda row: (-row.shrunk, -row.delta, row.scenario))
