"""Success as blind reviewers would have found it: rates and differences, corrected for the verifier's own errors.

The verifier judges every episode, people a random sample of them, blind. So the sample says how often it is wrong, and
in which arm. This is prediction-powered inference (Angelopoulos et al. 2023; power-tuned: PPI++, arXiv 2311.01453). For
outcomes that are complete or not, its tuned estimate is: of what the verifier called complete the share that people
accept, and of the rest the same, each by its part of the arm.

The unit is the task, as in `compare.py`: the cluster jackknife (CV3) draws tasks with all their episodes and verdicts,
with Student's t for the tasks that have a verdict. A jackknife sees no error where the sample has none or few, so each
share reaches at least as far as Wilson's interval (put together as by Newcombe). Drawn episodes without a verdict, and
tries that are unknown, are counted in each way, tasks that share an answer alone and as one unit. The interval holds
all of these. Pure.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import NamedTuple

from people.rates import Z, effective, student_quantile, wilson
from people.text.in_words import count
from runs.statistics.compare import Try, views_of
from runs.statistics.contrast import Contrast, Corrected
from runs.statistics.paired import Interval, hull
from runs.statistics.sentences import EXPLORATORY, points, span_text
from runs.statistics.units import units_of

FEWEST = 20
"""Tasks with a verdict that an arm needs, by their effective number: in planted worlds intervals hold from here on."""
BLIND = (
    "Blind: the outcome was withheld from experts and reviewers once the sample was queued, from admins and "
    "researchers once they claimed. Who had seen it before, as on the page of the run, counts as blind, too: no "
    "look is recorded."
)
"""What the sample cannot say of its reviewers."""
Verdicts = Mapping[str, bool | None]
"""By drawn episode, whether people accepted it; None without a blind verdict."""
Units = Mapping[str, str]
"""By task, what is independent of others: the task, or all that share its answers."""
Estimate = Callable[[Sequence[Try], Callable[[Try], bool | None], Units], tuple[float, Interval] | None]
NONE: Sequence[float] = (0.0,) * 8


@dataclass
class _Side:
    """The sums of an arm, by unit. Of all: weight, complete by assumption, complete and not by the verifier. Then
    of what people judged: weight and accepted weight, of the verifier's complete ones and of the others."""

    units: dict[str, list[float]] = field(default_factory=lambda: defaultdict(lambda: list(NONE)))

    def add(self, unit: str, weight: float, complete: bool, verdict: bool | None, *, assumed: bool) -> None:
        sums = self.units[unit]
        sums[0] += weight
        sums[1] += weight * (assumed and complete)
        sums[2] += weight * (complete and not assumed)
        sums[3] += weight * (not complete and not assumed)
        if verdict is not None and not assumed:
            sums[4 if complete else 6] += weight
            sums[5 if complete else 7] += weight * verdict

    def total(self) -> Sequence[float]:
        return reduce(_plus, self.units.values(), NONE)

    def judged(self, *places: int) -> float:
        """Return the effective number of tasks with a verdict, of these kinds of outcome."""
        return effective([weight for one in self.units.values() if (weight := sum(one[place] for place in places))])


def _plus(some: Sequence[float], more: Sequence[float]) -> Sequence[float]:
    return [a + b for a, b in zip(some, more, strict=True)]


def _shares(sums: Sequence[float]) -> tuple[float, float]:
    """Return the share that people accept of the verifier's complete ones, and of the others. Without a verdict of a
    kind the verifier counts as right."""
    return sums[5] / sums[4] if sums[4] > 1e-9 else 1.0, sums[7] / sums[6] if sums[6] > 1e-9 else 0.0


def _rate(sums: Sequence[float]) -> float:
    kept, gained = _shares(sums)
    return (sums[1] + sums[2] * kept + sums[3] * gained) / sums[0] if sums[0] > 1e-9 else 0.0


def _reach(side: _Side, sums: Sequence[float]) -> tuple[float, float]:
    """Return by how much the squares of both distances of a rate exceed what the jackknife sees of few errors."""
    down = up = 0.0
    for share, part, place in zip(_shares(sums), (sums[2] / sums[0], sums[3] / sums[0]), (4, 6), strict=True):
        tasks = side.judged(place)
        low, high = wilson(share * tasks, tasks)
        seen = Z * Z * share * (1 - share) / tasks if tasks else 0.0
        down += part**2 * max(0.0, (share - low) ** 2 - seen)
        up += part**2 * max(0.0, (high - share) ** 2 - seen)
    return down, up


def _estimated(sides: Sequence[_Side]) -> tuple[float, Interval] | None:
    """Return the rate of one side, or the difference of two, with its interval; None with too few verdicts."""
    fewest = min(side.judged(4, 6) for side in sides)
    if fewest < FEWEST:
        return None
    signs, totals = (1, -1)[: len(sides)], [side.total() for side in sides]
    value = sum(sign * _rate(sums) for sign, sums in zip(signs, totals, strict=True))
    units = set().union(*(side.units for side in sides))
    squares = 0.0
    for unit in units:
        left = (
            _rate([a - b for a, b in zip(sums, side.units.get(unit, NONE), strict=True)])
            for side, sums in zip(sides, totals, strict=True)
        )
        squares += (sum(sign * rate for sign, rate in zip(signs, left, strict=True)) - value) ** 2
    wide = student_quantile(0.975, fewest - 1) ** 2 * squares * (len(units) - 1) / len(units)
    reaches = [_reach(*both)[::sign] for sign, both in zip(signs, zip(sides, totals, strict=True), strict=True)]
    down, up = (math.sqrt(wide + sum(reach[end] for reach in reaches)) for end in (0, 1))
    return value, (max(-1.0 if len(sides) > 1 else 0.0, value - down), min(1.0, value + up))


class _SharingTask(NamedTuple):
    scenario: str
    shared: frozenset[str]


def _ways_to_join(tries: Iterable[Try]) -> list[Units]:
    """Return each task alone, and those that share an answer as one, if any do."""
    tasks: dict[str, _SharingTask] = {}
    for each in tries:
        before = tasks.get(each.task, _SharingTask(each.scenario, frozenset()))
        tasks[each.task] = before._replace(shared=before.shared | each.shared)
    names = list(tasks)
    units = units_of(list(tasks.values()))
    joined = {names[place]: names[unit[0]] for unit in units for place in unit}
    return [{name: name for name in names}, *([joined] if len(units) < len(names) else [])]


def _in_every_way(
    of: Estimate, views: Sequence[Sequence[Try]], verdicts: Verdicts, arm: str
) -> tuple[float, Interval] | None:
    """Return the first estimate, with the interval that holds those of each way to count what is unknown: that way of
    `views`, drawn episodes without a verdict for the arm or against it, and tasks that share an answer."""
    missing = any(verdict is None for verdict in verdicts.values())

    def filled(for_arm: bool) -> Callable[[Try], bool | None]:
        def verdict(each: Try) -> bool | None:
            judged = verdicts.get(each.episode)
            return for_arm is (each.arm == arm) if each.episode in verdicts and judged is None else judged

        return verdict

    ways = [lambda each: verdicts.get(each.episode), *([filled(True), filled(False)] if missing else [])]
    joins = _ways_to_join(each for view in views for each in view)
    estimates = [of(view, way, units) for view in views for way in ways for units in joins]
    if estimates[0] is None or None in estimates:
        return None
    return estimates[0][0], reduce(lambda a, b: hull(a, b) or a, (one[1] for one in estimates if one))


def difference(
    tries: Sequence[Try], contrast: Contrast, verdicts: Verdicts, *, repaired: bool = False
) -> Corrected | None:
    """Return the difference of an arm and the control as people would have judged it; None where it may not be read
    yet, is withheld, or the sample is too small. `tries` have the outcomes of before any repair: what was repaired can
    follow from the sample. `repaired`: outcomes beside it are those of after one."""
    if contrast.state != "final" or contrast.void or contrast.exclusions.withheld:
        return None
    planned = [each for each in tries if each.wave == 0 and each.arm in (contrast.arm, contrast.control)]

    def of(view: Sequence[Try], verdict: Callable[[Try], bool | None], units: Units) -> tuple[float, Interval] | None:
        by_task: dict[str, dict[str, list[Try]]] = defaultdict(lambda: defaultdict(list))
        for each in view:
            if each.complete is not None:
                by_task[each.task][each.arm].append(each)
        sides = {contrast.arm: _Side(), contrast.control: _Side()}
        for arms in by_task.values():
            # as in the difference itself: tasks that are valid in both arms, each with the mean of its seeds
            for each in [each for one in arms.values() for each in one] if len(arms) == len(sides) else []:
                _add(sides[each.arm], units, each, verdict(each), 1 / len(arms[each.arm]), lost)
        return _estimated(list(sides.values()))

    lost = _lost(planned)
    result = _in_every_way(of, views_of(planned, contrast.arm), verdicts, contrast.arm)
    if result is None:
        return None
    numbers = f"{points(result[0])} {span_text(result[1])}"
    return _corrected(result, planned, verdicts, (contrast.arm, contrast.control), numbers, repaired)


def rate(tries: Sequence[Try], arm: str, verdicts: Verdicts, *, repaired: bool = False) -> Corrected | None:
    """Return the rate of an arm's counted planned episodes as people would have judged them; None with too few
    verdicts."""
    mine = [each for each in tries if each.arm == arm and each.wave == 0]
    if any(each.is_open for each in mine):
        return None

    def of(view: Sequence[Try], verdict: Callable[[Try], bool | None], units: Units) -> tuple[float, Interval] | None:
        side = _Side()
        for each in view:
            if each.complete is not None:
                _add(side, units, each, verdict(each), 1.0, frozenset())
        return _estimated([side])

    result = _in_every_way(of, [mine], verdicts, arm)
    if result is None:
        return None
    value, (low, high) = result
    numbers = f"{value:.0%} [{100 * low:.0f}, {100 * high:.0f}]"
    return _corrected(result, mine, verdicts, (arm,), numbers, repaired)


def _lost(tries: Iterable[Try]) -> frozenset[tuple[str, str, int]]:
    return frozenset((each.task, each.arm, each.seed) for each in tries if each.lost)


def _add(
    side: _Side,
    units: Units,
    each: Try,
    verdict: bool | None,
    weight: float,
    lost: frozenset[tuple[str, str, int]],
) -> None:
    # what a view assumes of a lost try is no outcome of the verifier, so no error of it applies
    assumed = (each.task, each.arm, each.seed) in lost and not each.lost
    side.add(units[each.task], weight, bool(each.complete), verdict, assumed=assumed)


def _corrected(
    result: tuple[float, Interval],
    tries: Sequence[Try],
    verdicts: Verdicts,
    arms: Sequence[str],
    numbers: str,
    repaired: bool,
) -> Corrected:
    counted = [each for each in tries if each.complete is not None and each.episode in verdicts]
    judged = [(each, verdict) for each in counted if (verdict := verdicts[each.episode]) is not None]
    wrong, of = {}, {}
    for arm in arms:
        mine = [(each, verdict) for each, verdict in judged if each.arm == arm]
        of[arm], wrong[arm] = len(mine), sum(each.complete is not verdict for each, verdict in mine)
    errors = " and ".join(f"{wrong[arm]:,} of {of[arm]:,} outcomes of {arm}" for arm in arms)
    missing = len(counted) - len(judged)
    numbers += f", {EXPLORATORY}."
    if missing:
        numbers += f" Counted in every way: {count(missing, 'drawn episode')} without a blind verdict."
    when = " before the repair" if repaired else ""
    words = f"Corrected for the verifier's own errors ({errors} wrong{when} in a random blind sample): {numbers}"
    return Corrected(*result, len(counted), of, wrong, words)
