"""Reads: how often the arms of a run are complete against how often they ask, or against people's minutes. For runs
with a rule of when to ask, or with tasks in which something is missing.

Adds no claim: what a run says of its arms is in its comparisons. Called with these, so who cannot see one cannot
see this.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from awmclient.asking.rules import AskingRule, OfferedByGate, kind_of_rule
from experts.models import Ask
from people.rates import wilson
from people.text import figures
from people.text.figures import BASELINE, EXPERT, SINGLE, Chart, Figure, Style, label, spread
from people.text.in_words import count, percent
from runs.show import asking, gating
from runs.show.comparison import RunComparison
from runs.statistics.compare import Try
from runs.statistics.paired import FEW_EFFECTIVE, Interval, cluster_interval, hull
from runs.statistics.random_asking import RandomAsking, episodes_of, random_asking
from runs.statistics.sentences import span_text
from runs.statistics.units import units_of

Row = dict[str, Any]
RANDOM = Style("--ink-3", "dot", "circle")
DOTTED = {"mode": "lines", "line": {"color": "--ink-3", "width": 1, "dash": "dot"}}
READ = 400
"""Episodes whose draws are read for the dotted line, drawn from all by the run's ID."""
COLUMNS = [
    *("arm", "rule", "counted", "complete", "rate", "low", "high", "asks_per_task", "human_minutes_per_task"),
    "why_no_interval",
]
WHY_NO_INTERVAL = (
    f"fewer than {FEW_EFFECTIVE} scenarios without a common answer, or a few of them have most of the episodes"
)
NEVER, REMINDERS = "never", "reminders"
"""Arms without a rule: without an expert, and with the plan's reminders."""
GAP, AWAY = 7.0, 5.0
"""Points between two labels above each other, so that both can be read, and from the dotted line."""


@dataclass(frozen=True)
class Point:
    """One arm: its rule, its counted episodes, and the asks and people's minutes of these."""

    arm: str
    rule: str
    counted: int
    complete: int
    asks: int
    human_s: float
    interval: Interval | None
    is_gate: bool = False
    is_untimed: bool = False
    """Whether its rule looks at nothing: never, always, and at random."""
    timing: Interval | None = None
    """What its timing adds over random offers at its rate, by the gate's own test; None if that shows nothing."""

    @property
    def rate(self) -> float:
        return self.complete / self.counted

    @property
    def share(self) -> str:
        """Its rate with the number of episodes that it is of."""
        return f"{percent(self.rate)} of {self.counted:,}"

    @property
    def per_task(self) -> float:
        return self.asks / self.counted

    @property
    def minutes(self) -> float:
        """People's minutes per task."""
        return self.human_s / 60 / self.counted


@dataclass(frozen=True)
class Effort:
    """What completion is drawn against: its name, its words, how a mark says it, and its value for an arm."""

    name: str
    words: str
    of: Callable[[Point], float]

    def arm(self, point: Point) -> str:
        return f"{point.arm} {point.share} with {self.of(point):.1f}"


ASKS = Effort("curve", "asks per task", lambda point: point.per_task)
MINUTES = Effort("curve-minutes", "people's minutes per task", lambda point: point.minutes)


def points_of(comparison: RunComparison, asked: asking.RunAsking | None) -> list[Point]:
    """Return a point for each arm with counted episodes; none if no arm of the run has a rule and no task of it has a
    registry, which `asked` was read from."""
    rules = {arm["name"]: arm.get("ask") for arm in comparison.plan.document["arms"]}
    if asked is None and not any(rules.values()):
        return []
    asks = Counter(
        Ask.objects.filter(episode__planned__plan=comparison.plan, kind="question").values_list("episode_id", flat=True)
    )
    points = []
    for arm in comparison.arms:
        mine = [one for one in comparison.tries if one.arm == arm.name and one.complete is not None]
        if not mine:
            continue
        complete = sum(one.complete is True for one in mine)
        if rules[arm.name]:
            kind = kind_of_rule(rules[arm.name]) or AskingRule
            words, looks = kind.label_of(rules[arm.name]), (kind is OfferedByGate, kind.is_untimed)
        else:
            words, looks = (NEVER, (False, True)) if arm.expert == "off" else (REMINDERS, (False, False))
        numbers = (len(mine), complete, sum(asks[one.episode] for one in mine), sum(one.human_s for one in mine))
        timing = timing_of(rules[arm.name])
        points.append(Point(arm.name, words, *numbers, interval_of_arm(mine), *looks, timing))
    return points


def timing_of(rule: Any) -> Interval | None:
    """Return the interval of a gate's own test of its timing if that is above 0; None for other rules."""
    timing = rule.get("card", {}).get("timing") if isinstance(rule, dict) else None
    span = timing.get("interval") if isinstance(timing, dict) else None
    return (span[0], span[1]) if span and span[0] > 0 else None


def random_of(comparison: RunComparison, points: list[Point]) -> list[RandomAsking]:
    """Return what random offers reach by how often they ask, from the drawn ones; none without a gate beside them."""
    drawing = gating.chances_of(comparison) if any(one.is_gate for one in points) else {}
    counted = [one for one in comparison.tries if one.arm in drawing and one.complete is not None]
    if len(counted) > READ:
        counted = random.Random(comparison.plan.run_id).sample(counted, READ)  # noqa: S311
    if not counted:
        return []
    return random_asking(episodes_of(gating.decisions_of(comparison, drawing, counted)))


def interval_of_arm(tries: Sequence[Try]) -> Interval | None:
    """Return the 95% interval of the rate of an arm, from its counted tries: scenarios in which one answer was read are
    one unit, and the interval holds that of each scenario alone, too."""
    spans = [
        interval_of({str(unit[0]): [bool(tries[place].complete) for place in unit] for unit in units})
        for joins in (False, *([True] * any(one.shared for one in tries)))
        if (units := units_of(tries, by_scenario=True, joins=joins))
    ]
    return None if None in spans else reduce(hull, spans)


def interval_of(units: dict[str, list[bool]]) -> Interval | None:
    """Return the 95% interval of a rate over scenarios, at least as wide as that of as many single episodes; None with
    too few scenarios, of which one could decide it."""
    sums, sizes = [float(sum(one)) for one in units.values()], [len(one) for one in units.values()]
    low, high = wilson(sum(sums), sum(sizes))
    _, span = cluster_interval(sums, sizes)
    return (max(0.0, min(low, span[0])), min(1.0, max(high, span[1]))) if span else None


def rows(comparison: RunComparison) -> list[Row]:
    return [
        {
            "arm": point.arm,
            "rule": point.rule,
            "counted": point.counted,
            "complete": point.complete,
            "rate": round(point.rate, 4),
            "low": round(point.interval[0], 4) if point.interval else None,
            "high": round(point.interval[1], 4) if point.interval else None,
            "asks_per_task": round(point.per_task, 3),
            "human_minutes_per_task": round(point.minutes, 3),
            "why_no_interval": "" if point.interval else WHY_NO_INTERVAL,
        }
        for point in points_of(comparison, asking.asking_of(comparison))
    ]


def sentence(points: list[Point], effort: Effort = ASKS) -> str:
    """Return the curve in one sentence: each gate beside the arm of most effort, else the arms by their effort."""
    order = sorted(points, key=effort.of)
    gates = [one for one in order if one.is_gate]
    rest = [one for one in order if not one.is_gate]
    if not gates or not rest:
        return f"Complete, with {effort.words}: {'; '.join(map(effort.arm, order))}."
    first = "; ".join(f"With {effort.of(one):.1f} {effort.words}, {one.arm} completes {one.share}" for one in gates)
    others = [effort.arm(one) for one in (rest[-1], rest[0])]
    return f"{first}; {' and '.join(dict.fromkeys(others))}."


def charts(
    points: list[Point], file: str, *, is_open: bool = False, at_random: Sequence[RandomAsking] = ()
) -> dict[str, Chart]:
    """Draw completion against asks per task, and against people's minutes if people answered, each arm a mark with its
    interval. `is_open`: tries are still to come."""
    if len(points) < 2:
        return {}
    drawn = [ASKS, *([MINUTES] if any(one.minutes for one in points) else [])]
    return {effort.name: _chart(points, effort, file, is_open, at_random if effort is ASKS else ()) for effort in drawn}


def _chart(
    points: list[Point], effort: Effort, file: str, is_open: bool, at_random: Sequence[RandomAsking] = ()
) -> Chart:
    headline = sentence(points, effort)
    few = "so far, in no planned order" if is_open else "of all counted episodes"
    none = "".join(f" {one.arm} has no interval: {WHY_NO_INTERVAL}." for one in points if one.interval is None)
    dotted = "; dotted: random offers, by weighing those that were drawn, of episodes with a decision"
    return Chart(
        name=figures.name_of(effort.name, "\n".join(one.arm for one in points)),
        title=headline,
        note=f"complete against {effort.words}, {few}; 95% over scenarios, each interval for itself"
        f"{dotted if at_random else ''}. Exploratory: what the "
        f"run says is in its comparisons.{none}{''.join(map(_timed, points))}",
        says=headline,
        columns=["Arm", "Rule", "Counted", "Complete", "95%", "Asks per task", "People's minutes per task"],
        rows=[
            [
                point.arm,
                point.rule,
                count(point.counted, "episode"),
                percent(point.rate),
                f"{percent(point.interval[0])} to {percent(point.interval[1])}" if point.interval else "none",
                f"{point.per_task:.2f}",
                f"{point.minutes:.2f}",
            ]
            for point in points
        ],
        figure=_figure(points, effort, at_random),
        file=file,
    )


def _timed(point: Point) -> str:
    """Return what a gate's own test says of when it asks; "" if it shows nothing."""
    if point.timing is None:
        return ""
    return f" By its own test, the timing of {point.arm} adds {span_text(point.timing)} points per episode."


def _style(point: Point) -> Style:
    return SINGLE if point.is_gate else BASELINE if point.is_untimed else EXPERT


def _figure(points: list[Point], effort: Effort, at_random: Sequence[RandomAsking] = ()) -> Figure:
    order = sorted(points, key=effort.of)
    far = max(1.0, effort.of(order[-1]))
    data = []
    if at_random:
        low, high = ([(one.per_task, 100 * one.interval[side]) for one in at_random] for side in (0, 1))
        data.append(figures.band(low, high, RANDOM))
        words = [f"random offers, {percent(one.complete)} with {one.per_task:.2f} {effort.words}" for one in at_random]
        rates = [(one.per_task, 100 * one.complete) for one in at_random]
        data.append(figures.line(rates, RANDOM, words) | DOTTED)
    for point in order:
        style, at = _style(point), [effort.of(point)] * 2
        if point.interval:
            ends = {"type": "scatter", "mode": "lines", "x": at, "y": [100 * end for end in point.interval]}
            data.append(ends | {"line": {"color": style.color, "width": 2}, "hoverinfo": "skip", "cliponaxis": False})
        marker = {"color": style.color, "symbol": style.symbol, "size": 12 if point.is_gate else 9}
        hover = f"{point.share}, {effort.of(point):.2f} {effort.words}"
        about = f"{label(point.arm, 80)} ({label(point.rule, 40)})<br>{hover}"
        mark = {
            "type": "scatter",
            "mode": "markers",
            "x": [effort.of(point)],
            "y": [100 * point.rate],
            "marker": marker,
        }
        data.append(mark | {"hovertext": [about], "hoverinfo": "text", "cliponaxis": False})
    x = figures.axis(effort.words, range=[-0.04 * far, 1.06 * far], fixedrange=True)
    return {
        "data": data,
        "layout": figures.layout(340, x, figures.shares("complete"), annotations=_names(order, effort, far)),
    }


def _names(order: list[Point], effort: Effort, far: float) -> list[Figure]:
    """Return the names of the marks: beside each, toward the middle, and apart from each other on any screen."""
    labels = []
    rights = [effort.of(one) > 0.55 * far for one in order]
    heights = sorted(
        (_beside(one, is_right), place) for place, (one, is_right) in enumerate(zip(order, rights, strict=True))
    )
    places = spread([y for y, _ in heights], GAP, (2.0, 100.0))
    for (_, place), y in zip(heights, places, strict=True):
        point = order[place]
        is_right = rights[place]
        at = {"x": effort.of(point), "xanchor": "right" if is_right else "left", "xshift": -10 if is_right else 10}
        font = {"color": _style(point).color, "weight": 600}
        words = f"{label(point.arm, 18)}, {point.share}"
        labels.append(at | {"y": y, "yanchor": "middle", "text": words, "showarrow": False, "font": font})
    return labels


def _beside(point: Point, is_right: bool) -> float:
    """Return where a name would stand alone: off the dotted line, which rises to the right."""
    away = 0.0 if not point.is_untimed else AWAY if is_right else -AWAY
    return min(100.0, max(2.0, 100 * point.rate + away))
