"""What the tries of a run allow to be said: pairs by task, two scopes, the e-process while it runs, and the sentence.

The datum is a task's mean over valid seeds with an arm minus the same with the control, on tasks valid in both. Only
the verifier's complete or not enters; shaped rewards never. Scope *tasks* speaks of these tasks, scope *scenarios* of
scenarios like these: a result of the first must not carry a claim of the second. Pure: tries in, findings out. Called
by `comparison.py`, which reads the tries; the methods are in `paired.py` and `anytime.py`.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

from runs.anytime import Unit, Wave, first_crossing, interval, log_e
from runs.paired import (
    FEW_EFFECTIVE,
    FEW_UNITS,
    Interval,
    cluster_interval,
    effective,
    holm,
    mcnemar,
    shrink,
    sign_flip,
    tango,
)
from runs.prices import Price, price

GAP = 0.05
"""Arms that lost shares of their tries further apart than this are not compared."""
MCNEMAR, FLIPS, TANGO, JACKKNIFE = "exact McNemar", "sign-flip", "Tango score", "cluster jackknife CV3"


@dataclass(frozen=True, slots=True)
class Try:
    """One planned try. `complete` is None while it is open or if it is `excluded`, which names the reason.

    `position` is its task's place in the shuffled planned order, `wave` the addition of seeds that it belongs to.
    `offered` is what its arm drew with the `chance`; both are None where the arm draws nothing. `human_s` are the
    seconds that people took for its answers. `shared` names the answers that it may have in common with other tries.
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
    unfit: bool = False
    """Its task was found at fault before the launch: it is left out of every arm alike, whatever an arm does."""

    @property
    def is_open(self) -> bool:
        return self.complete is None and not self.excluded


@dataclass(frozen=True)
class Scope:
    """What is shown for one kind of unit at the planned size. A unit is a task, or all tasks that share an answer; or a
    scenario, with those that share an answer with it."""

    units: int
    interval: Interval | None
    p: float | None
    method: str
    verdict: str
    """better, worse, none (no difference shown), few or withheld."""
    sentence: str


@dataclass(frozen=True)
class Running:
    """What may be said at any time. `read` of `planned` units stand in the complete prefix."""

    e: float
    read: int
    planned: int
    interval: Interval
    verdict: str
    since: int | None
    sentence: str


@dataclass(frozen=True)
class Exclusions:
    """Tries that count in no rate though their task is fit, and what they could change at the most."""

    treated: dict[str, int]
    control: dict[str, int]
    treated_planned: int
    control_planned: int
    withheld: bool
    bounds: Interval
    as_failures: float


@dataclass(frozen=True)
class Row:
    """One scenario: raw counts for reading, no p, and its difference without its share of luck, by which rows stand."""

    scenario: str
    tasks: int
    won: int
    lost: int
    delta: float
    shrunk: float


@dataclass(frozen=True)
class Contrast:
    """One arm against the control. `p_holm` is set where the plan has several contrasts."""

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
    """running, final, stopped (ended before the planned size) or extended (seeds were added)."""
    tasks_scope: Scope | None
    scenarios_scope: Scope | None
    running: Running
    exclusions: Exclusions
    scenarios: list[Row]
    price: Price | None = None
    """What an extra complete episode costs, where the planned size may be read."""
    p_holm: float | None = None
    sentence: str = ""
    sharing: int = 0
    """Tasks that share an answer with another task."""

    @property
    def verdict(self) -> str:
        """The verdict on these tasks: at the planned size the one test, else what the e-process showed."""
        if self.exclusions.withheld:
            return "withheld"
        if self.tasks_scope is not None and self.tasks_scope.verdict in ("better", "worse"):
            return self.tasks_scope.verdict
        return self.running.verdict


@dataclass
class _Task:
    """A task's tries in both arms of a contrast. What is made of them is made once: all are there when it is asked."""

    scenario: str
    position: int
    treated: list[Try] = field(default_factory=list)
    control: list[Try] = field(default_factory=list)

    @cached_property
    def is_open(self) -> bool:
        return any(one.complete is None and not one.excluded for one in (*self.treated, *self.control))

    @cached_property
    def shared(self) -> set[str]:
        return set().union(*(one.shared for one in (*self.treated, *self.control)))

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


def contrasts(tries: Sequence[Try], arms: Sequence[str], control: str, *, stopped: bool = False) -> list[Contrast]:
    """Compare every other arm with the control; several contrasts share their error by Holm and, while the run goes on,
    by equal parts.

    `stopped`: a person ended the run before its planned size, so that no test for that size may speak.
    """
    others = [arm for arm in arms if arm != control]
    waves = sorted({one.wave for one in tries})
    sides = [[one for one in tries if one.arm in (arm, control)] for arm in others]
    tasks = [_by_task(mine, arm, control) for arm, mine in zip(others, sides, strict=True)]
    found = [
        _contrast(mine, of_arm, waves, arm, control, stopped, 0.05 / len(others))
        for arm, mine, of_arm in zip(others, sides, tasks, strict=True)
    ]
    if len(found) > 1:
        ps = [one.tasks_scope.p if one.tasks_scope and one.tasks_scope.p is not None else 1.0 for one in found]
        found = [_holmed(one, p) for one, p in zip(found, holm(ps), strict=True)]
    return [replace(one, price=_price(one, of_arm.values())) for one, of_arm in zip(found, tasks, strict=True)]


def _price(one: Contrast, tasks: Iterable[_Task]) -> Price | None:
    """Price an arm at the planned size, by differences of tasks."""
    if one.tasks_scope is None or one.tasks_scope.interval is None:
        return None
    paired = [(task, d) for task in tasks if (d := task.difference) is not None]
    minutes = [_minutes(task.treated) - _minutes(task.control) for task, _ in paired]
    return price(minutes, [float(d) for _, d in paired], is_shown=one.tasks_scope.verdict in ("better", "worse"))


def _minutes(tries: Iterable[Try]) -> float:
    """Return the mean human minutes of a task's counted tries; there is one at least."""
    counted = [one.human_s for one in tries if one.complete is not None]
    return sum(counted) / len(counted) / 60


def _holmed(one: Contrast, p: float) -> Contrast:
    """Take a verdict back that Holm's p does not carry."""
    scope = one.tasks_scope
    if scope is None or scope.p is None:
        return one
    if scope.verdict in ("better", "worse"):
        if p >= 0.05:
            about = f"{scope.sentence.partition(':')[2].strip().rstrip('.')}, p {p_text(p)} after Holm."
            scope = replace(scope, verdict="none", sentence=f"No difference shown on these {one.tasks} tasks: {about}")
        else:
            scope = replace(scope, sentence=f"{scope.sentence.rstrip('.')}, p {p_text(p)} after Holm.")
    told = replace(one, p_holm=p, tasks_scope=scope)
    return replace(told, sentence=_headline(told))


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
    done = [one for one in tasks.values() if not one.is_open]
    paired = [(one, d) for one in done if (d := one.difference) is not None]
    complete = bool(tasks) and len(done) == len(tasks)
    state = "stopped" if stopped and not complete else "running"
    if complete:
        state = "extended" if len(waves) > 1 else "final"
    lost = _exclusions(tasks.values())
    by_wave = [tasks] if len(waves) == 1 else [_of_wave(tries, arm, control, wave) for wave in waves]
    running = _running(by_wave, state, alpha)
    fixed = state == "final" and paired and not lost.withheld
    single = all(len(one.treated) == 1 == len(one.control) for one in tasks.values())
    ds = [d for _, d in paired]
    units = _units([one for one, _ in paired])
    contrast = Contrast(
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
    return replace(contrast, sentence=_headline(contrast))


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


def _on_tasks(ds: Sequence[Fraction], units: Sequence[Sequence[int]], single: bool) -> Scope:
    n, total, won, lost = len(ds), sum(ds), sum(d > 0 for d in ds), sum(d < 0 for d in ds)
    joined = len(units) < n
    what = "sums of tasks that share an answer" if joined else "task means"
    if single and not joined:
        p, span, test = mcnemar(won, lost), tango(won, lost, n), MCNEMAR
        borderline = p >= 0.05 and not span[0] <= 0 <= span[1]
        shown = p < 0.05
    else:
        sums = [sum((ds[place] for place in unit), Fraction()) for unit in units]
        p, test = sign_flip(sums), FLIPS
        found = cluster_interval([float(one) for one in sums], [len(unit) for unit in units])[1]
        if found is None:
            kept = f" ({count(len(units), 'unit')}, as tasks share answers)" if joined else ""
            few = f"{count(n, 'task')}{kept} are too few for a result." if n != 1 else "1 task is too few for a result."
            return Scope(len(units), None, p, f"{FLIPS} on {what}", "few", few)
        span, borderline = found, False
        shown = p < 0.05 and not span[0] <= 0 <= span[1]
    on = f"on {'this task' if n == 1 else f'these {n} tasks'}"
    delta = f"{points(float(total / n))} {span_text(span)}"
    method = f"{test}, {TANGO}" if test == MCNEMAR else f"{test} on {what}, {JACKKNIFE}"
    if shown:
        verdict = _word(float(total))
        said = f"{verdict.capitalize()} {on}: {delta}, {won} won, {lost} lost, p {p_text(p)} ({test}, planned size)."
        return Scope(len(units), span, p, method, verdict, said)
    said = f"No difference shown {on}: {delta}, {won} won, {lost} lost."
    if borderline:
        said += f" Borderline: the interval leaves out 0 but the exact test does not show it (p {p_text(p)})."
    else:
        limit = math.ceil(100 * max(-span[0], span[1]) - 1e-9)
        if limit < 100:
            said += f" Differences beyond {count(limit, 'point')} are ruled out at 95%."
    return Scope(len(units), span, p, method, "none", said)


def _on_scenarios(paired: Sequence[tuple[_Task, Fraction]]) -> Scope:
    units = _units([one for one, _ in paired], by_scenario=True)
    sums = [sum((paired[place][1] for place in unit), Fraction()) for unit in units]
    sizes = [len(unit) for unit in units]
    groups, method = len(units), f"{FLIPS} on scenario sums, {JACKKNIFE}"
    found = cluster_interval([float(one) for one in sums], sizes)
    if groups < FEW_UNITS or effective(sizes) < FEW_EFFECTIVE or found[1] is None:
        verb = "is" if groups == 1 else "are"
        few = f"{count(groups, 'scenario')} {verb} too few to speak of others."
        return Scope(groups, None, None, method, "few", few)
    delta, span = found[0], found[1]
    p = sign_flip(sums)
    shown = p < 0.05 and not span[0] <= 0 <= span[1]
    verdict = _word(delta) if shown else "none"
    word = verdict if shown else "not shown"
    said = f"For scenarios like these {groups}: {word} ({points(delta)} {span_text(span)})."
    return Scope(groups, span, p, method, verdict, said)


def _of_wave(tries: Iterable[Try], arm: str, control: str, wave: int) -> dict[str, _Task]:
    return _by_task([one for one in tries if one.wave == wave], arm, control)


def _running(by_wave: Iterable[dict[str, _Task]], state: str, alpha: float) -> Running:
    prefixes: list[tuple[list[int], Wave]] = []
    planned = 0
    for of_wave in by_wave:
        tasks = sorted(of_wave.values(), key=lambda one: one.position)
        planned += len(tasks)
        seeds = max((len(one.treated) for one in tasks), default=1)
        prefixes.append(_prefix(tasks, seeds))
    read, bets = sum(sum(sizes) for sizes, _ in prefixes), [wave for _, wave in prefixes]
    crossed = first_crossing(bets, alpha)
    since, verdict, e_then = None, "none", 0.0
    if crossed:
        valid = [one.size for wave in bets for one in wave.units]
        since, verdict, e_then = sum(valid[: crossed[0]]), _word(crossed[1]), crossed[2]
    e, span = math.exp(min(700.0, log_e(bets))), interval(bets, alpha)
    if crossed:
        said = (
            f"Shown while running, at task {since} of {planned}: {verdict} (E {e_then:.3g}, may be read at any time)."
        )
        said += f" Interval so far {span_text(span)}."
    elif state == "stopped":
        said = f"Stopped at {read} of {planned} by a person: only the anytime statement applies. Nothing shown."
    elif state == "extended":
        said = f"Seeds were added, so only the anytime statement applies: nothing shown. Interval {span_text(span)}."
    else:
        said = f"Nothing shown yet at {read} of {planned}. You can look as often as you like."
    return Running(e, read, planned, span, verdict, since, said)


def _prefix(tasks: Sequence[_Task], seeds: int) -> tuple[list[int], Wave]:
    """Return the sizes of the units that stand in the complete prefix of a wave, and what may be bet on them."""
    units = [[tasks[place] for place in unit] for unit in _units(tasks)]
    ready = next((place for place, unit in enumerate(units) if any(one.is_open for one in unit)), len(units))
    valid = [[d for one in unit if (d := one.difference) is not None] for unit in units[:ready]]
    bets = tuple(Unit(float(sum(ds)), len(ds)) for ds in valid if ds)
    is_plain = seeds == 1 and len(units) == len(tasks)
    scale = None if is_plain else math.sqrt(len(tasks) / max(len(units), 1) / seeds)
    return [len(unit) for unit in units[:ready]], Wave(bets, scale)


def _word(direction: float) -> str:
    return "better" if direction > 0 else "worse"


def _exclusions(tasks: Iterable[_Task]) -> Exclusions:
    tasks = [task for task in tasks if not any(one.unfit for one in (*task.treated, *task.control))]
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


def _rows(paired: Sequence[tuple[_Task, Fraction]]) -> list[Row]:
    by_scenario: dict[str, list[Fraction]] = defaultdict(list)
    for one, d in paired:
        by_scenario[one.scenario].append(d)
    means = [float(sum(ds) / len(ds)) for ds in by_scenario.values()]
    n, groups = len(paired), len(means)
    # where no scenario has two tasks, nothing tells its effect from luck: all that varies counts as luck
    around = means if n > groups else [sum(means) / max(n, 1)] * n
    squares = sum((float(d) - mean) ** 2 for ds, mean in zip(by_scenario.values(), around, strict=True) for d in ds)
    noise = squares / max(n - groups or n - 1, 1)
    _, shrunk = shrink(means, [noise / len(ds) for ds in by_scenario.values()])
    rows = [
        Row(name, len(ds), sum(d > 0 for d in ds), sum(d < 0 for d in ds), mean, without_luck)
        for (name, ds), mean, without_luck in zip(by_scenario.items(), means, shrunk, strict=True)
    ]
    return sorted(rows, key=lambda row: (-row.shrunk, -row.delta, row.scenario))


def _headline(one: Contrast) -> str:
    lost = one.exclusions
    if lost.withheld:
        a, b = (sum(arm.values()) for arm in (lost.treated, lost.control))
        low, high = (f"{round(100 * bound):+d}" for bound in lost.bounds)
        return (
            f"Not comparable: {a} of {lost.treated_planned} episodes of {one.arm} and {b} of {lost.control_planned} of "
            f"{one.control} were lost. Delta between {low} and {high} points whatever they were; with losses counted "
            f"as failures {points(lost.as_failures)}."
        )
    if one.tasks_scope is None or (one.tasks_scope.verdict == "none" and one.running.since is not None):
        return one.running.sentence
    return one.tasks_scope.sentence


def points(share: float) -> str:
    """Return a difference of shares as points, such as `+18 points`."""
    value = round(100 * share)
    return f"{value:+d} {'point' if abs(value) == 1 else 'points'}" if value else "0 points"


def span_text(span: Interval) -> str:
    return (
        f"[{100 * span[0]:+.0f}, {100 * span[1]:+.0f}]".replace("+0,", "0,").replace("-0,", "0,").replace("+0]", "0]")
    )


def p_text(p: float) -> str:
    return "< .001" if p < 0.001 else f"{p:.3f}".lstrip("0") if p < 1 else "1"


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
