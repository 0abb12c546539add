"""The charts of a run's page: differences by scenario, complete episodes so far, shaped rewards so far; and the curve
of a campaign.

Pure functions from the tables of `tables.py` and what `comparison.py` read to charts. Adds no claim.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import accumulate

from people.text import figures
from people.text.figures import (
    EXPERT,
    LISTED,
    SERIES,
    Chart,
    Figure,
    Style,
    label,
    styles_of,
    thinned,
)
from people.text.in_words import count, percent
from runs.show.comparison import ArmCount
from runs.show.tables import Row
from runs.statistics.campaigned import CampaignCell, CampaignFinding
from runs.statistics.contrast import Contrast
from runs.statistics.contrast import ScenarioRow as Difference
from runs.statistics.paired import Interval
from runs.statistics.sentences import p_text, points, span_text

SCENARIOS = 40
"""The most scenarios in a forest plot; its table has all."""
ALL = "All tasks"
DEMANDS = 12
"""The most kinds of tasks whose curve is drawn; the page lists all."""


def forest(contrast: Contrast, expert: str, file: str) -> Chart | None:
    """Draw the difference of each scenario, the largest shrunken difference first, and last that of all tasks with its
    interval.

    `expert` is the mode of the arm. Returns None if no task is valid in both arms.

    """
    if not contrast.scenarios:
        return None
    rows, deltas = contrast.scenarios, [row.delta for row in contrast.scenarios]
    total, by = _total(contrast), count(len(rows), "scenario")
    few = f" {SCENARIOS} of {by} are drawn." if len(rows) > SCENARIOS else ""
    return Chart(
        name=figures.name_of("forest", f"{contrast.arm}\n{contrast.control}"),
        title="Difference in completion by scenario",
        note=f"{contrast.arm} minus {contrast.control}, {count(contrast.tasks, 'task')}; scenarios are exploratory"
        f"{f'; all tasks {total}, 95%' if total else ''}. Scenario values are shrunk toward the overall mean and "
        f"have no interval. "
        f"A hollow mark: the interval includes 0.{few}",
        says=f"Difference in completion of {contrast.arm} minus {contrast.control} in {by}, "
        f"from {points(min(deltas))} to {points(max(deltas))}{f'; all tasks {total}' if total else ''}.",
        columns=["Scenario", "Tasks", "Won", "Lost", "Difference", "Shrunk"],
        rows=[
            *(
                [row.scenario, f"{row.tasks}", f"{row.won}", f"{row.lost}", points(row.delta), points(row.shrunk)]
                for row in rows
            ),
            *([[ALL, f"{contrast.tasks}", f"{contrast.won}", f"{contrast.lost}", total, ""]] if total else []),
        ],
        figure=_forest(contrast, thinned(rows, SCENARIOS), EXPERT if expert == "off" else styles_of([expert])[0]),
        file=file,
    )


def _span(contrast: Contrast) -> Interval | None:
    """Return the interval to show: at the planned size that of its tasks, before it the anytime one."""
    return contrast.running.interval if contrast.tasks_scope is None else contrast.tasks_scope.interval


def _total(contrast: Contrast) -> str:
    """Return the difference over all tasks with its interval; "" if it is withheld."""
    if contrast.delta is None or contrast.exclusions.withheld:
        return ""
    span = _span(contrast)
    return f"{points(contrast.delta)} {span_text(span) if span else ''}".strip()


def _forest(contrast: Contrast, shown: Sequence[Difference], style: Style) -> Figure:
    marks, labels, names = [], [], []
    for place, row in enumerate(shown):
        about = f"{label(row.scenario, 80)}<br>{_sum(row.tasks, row.won, row.lost, row.delta)}"
        marks.append(_mark(place, row.delta, about, style))
        labels.append(_value(place, row.delta, style))
        names.append(f"{label(row.scenario)} ({row.tasks})")
    shapes = []
    if _total(contrast) and contrast.delta is not None:
        last, interval = len(shown), _span(contrast)
        about = (
            f"{ALL}<br>{_sum(contrast.tasks, contrast.won, contrast.lost, contrast.delta)}<br>{_total(contrast)}, 95%"
        )
        marks += [_interval(last, interval, style)] if interval else []
        marks.append(_mark(last, contrast.delta, about, style, interval, size=11))
        labels.append(_value(last, contrast.delta, style))
        names.append(f"{ALL} ({contrast.tasks})")
        shapes.append(_rule(last - 0.5))
    ticks = {"tickvals": [-100, -50, 0, 50, 100], "ticktext": ["−100", "−50", "0", "+50", "+100"]}
    x = figures.axis("", grid=True, range=[-105, 105], **ticks)
    span = [len(names) - 0.4, -0.9]
    y = figures.axis("", range=span, tickvals=list(range(len(names))), ticktext=names)
    y |= {"fixedrange": True, "showline": False, "tickfont": {"color": "--ink"}}
    zero = {"x": 0, "yref": "paper", "y": 1, "yanchor": "bottom", "showarrow": False, "text": "no effect"}
    sides = [_side(0, f"◂ {label(contrast.control, 10)} better"), _side(1, f"{label(contrast.arm, 10)} better ▸")]
    height, words = 88 + 26 * len(names), [*labels, zero, *sides]
    layout = figures.layout(height, x, y, right=44, top=24, shapes=[*shapes, _no_effect(span)], annotations=words)
    return {"data": marks, "layout": layout}


def _sum(tasks: int, won: int, lost: int, delta: float) -> str:
    return f"{points(delta)}, {count(tasks, 'task')}, {won} won, {lost} lost"


def _mark(place: int, delta: float, hover: str, style: Style, span: Interval | None = None, size: int = 8) -> Figure:
    """Return a mark; it is hollow if its interval includes zero."""
    hollow = span is not None and span[0] <= 0 <= span[1]
    marker = {"color": "--surface" if hollow else style.color, "symbol": style.symbol, "size": size}
    edge = {"line": {"color": style.color if hollow else "--surface", "width": 2 if hollow else 1}}
    drawn = {"type": "scatter", "mode": "markers", "x": [100 * delta], "y": [place], "marker": marker | edge}
    return drawn | {"hovertext": [hover], "hoverinfo": "text", "cliponaxis": False}


def _interval(place: int, span: Interval, style: Style) -> Figure:
    drawn = {"type": "scatter", "mode": "lines", "x": [100 * span[0], 100 * span[1]], "y": [place, place]}
    return drawn | {"line": {"color": style.color, "width": 3.5}, "hoverinfo": "skip"}


def _value(place: int, delta: float, style: Style) -> Figure:
    at = {"xref": "paper", "x": 1, "xanchor": "left", "xshift": 8, "y": place, "showarrow": False}
    return at | {"text": points(delta).split()[0], "font": {"color": style.color, "weight": 600}}


def _side(end: int, words: str) -> Figure:
    """Return the meaning of a difference on this side of the zero line, below the axis and out to the margin."""
    below = {"xref": "paper", "x": end, "xanchor": "right" if end else "left", "yref": "paper", "y": 0, "yshift": -24}
    return below | {"xshift": 40 if end else -40} | {"yanchor": "top", "text": words, "showarrow": False}


def _no_effect(span: Sequence[float]) -> Figure:
    """Return the zero line. Both coordinates refer to axes, else Plotly would draw it below the grid."""
    up = {"type": "line", "x0": 0, "x1": 0, "yref": "y", "y0": span[0], "y1": span[1], "layer": "between"}
    return up | {"line": {"color": "--ink-2", "width": 1, "dash": "dash"}}


def _rule(y: float) -> Figure:
    across = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "yref": "y", "y0": y, "y1": y, "layer": "below"}
    return across | {"line": {"color": "--edge", "width": 1}}


def completions(arms: Sequence[ArmCount], rows: Sequence[Row], file: str) -> list[Chart]:
    """Draw the number of complete episodes of each arm, along the planned order; five arms per chart."""
    so_far = {arm.name: [(row["counted"], row["complete"]) for row in rows if row["arm"] == arm.name] for arm in arms}
    styles = dict(zip(so_far, styles_of_all(arms), strict=True))
    groups = [list(so_far)[at : at + SERIES] for at in range(0, len(so_far), SERIES)]
    return [_completions(group, so_far, styles, file) for group in groups if any(so_far[name] for name in group)]


def styles_of_all(arms: Sequence[ArmCount]) -> list[Style]:
    """Return the style of each arm; those of one chart differ."""
    experts = [arm.expert for arm in arms]
    return [style for at in range(0, len(experts), SERIES) for style in styles_of(experts[at : at + SERIES])]


def _completions(
    group: Sequence[str], so_far: Mapping[str, Sequence[tuple[int, int]]], styles: Mapping[str, Style], file: str
) -> Chart:
    names = [name for name in group if so_far[name]]
    top = max(so_far[name][-1][1] for name in names)
    data, last = [], []
    for name in names:
        line = [(0, 0), *so_far[name]]
        hover = [f"{label(name, 80)}: {complete} of {counted}" for counted, complete in thinned(line)]
        data.append(figures.line(thinned(line), styles[name], hover, "hv"))
        last.append((float(line[-1][1]), f"{line[-1][1]} {label(name, 10)}", styles[name]))
    span = (0.0, max(top, 1) * 1.06)
    most = max(so_far[name][-1][0] for name in names)
    x = figures.axis("counted episodes of an arm", rangemode="tozero", **figures.whole(most))
    y = figures.axis("complete", grid=True, range=[-0.02 * span[1], span[1]], fixedrange=True, **figures.whole(top))
    ended = "; ".join(f"{name} {so_far[name][-1][1]} of {so_far[name][-1][0]}" for name in names)
    listed = thinned(sorted({counted for name in names for counted, _ in so_far[name]}), LISTED)
    by_count = {name: dict(so_far[name]) for name in names}
    return Chart(
        name=figures.name_of(
            "completions", "\n".join(group)
        ),  # before the first complete episode, too, so that all arms start at the same place
        title="Complete episodes so far",
        note="by arm, counted episodes in the planned order; open and left out ones are in neither",
        says=f"Complete episodes so far: {ended}.",
        columns=["Counted", *names],
        rows=[[f"{at}", *(f"{by_count[name].get(at, '')}" for name in names)] for at in listed],
        figure={"data": data, "layout": figures.layout(280, x, y, right=116, annotations=figures.ends(last, span))},
        file=file,
        left_out=most - len(listed),
    )


def rewards(rows: Sequence[Row], arms: Sequence[ArmCount], file: str) -> list[Chart]:
    """Draw the running mean of each profile's reward, by arm along the planned order."""
    styles = dict(zip([arm.name for arm in arms], styles_of_all(arms), strict=True))
    paid: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row["total"] is not None:
            paid[row["profile"]][row["arm"]].append(row["total"])
    return [
        _rewards(profile, {name: by_arm[name] for name in group}, styles, file)
        for profile, by_arm in paid.items()
        for group in [[*by_arm][at : at + SERIES] for at in range(0, len(by_arm), SERIES)]
    ]


def _rewards(profile: str, totals: Mapping[str, Sequence[float]], styles: Mapping[str, Style], file: str) -> Chart:
    means = {name: [(at, total / at) for at, total in enumerate(accumulate(paid), 1)] for name, paid in totals.items()}
    values = [mean for line in means.values() for _, mean in line]
    low, high = min(0.0, *values), max(values)
    high = high if high > low else low + 1.0  # all are 0: no axis below it
    room = (high - low) * 0.06
    data, last = [], []
    for name, line in means.items():
        hover = [f"{label(name, 80)}: {mean:.3f}, {count(at, 'episode')}" for at, mean in thinned(line)]
        data.append(figures.line(thinned(line), styles[name], hover))
        last.append((line[-1][1], f"{line[-1][1]:.2f} {label(name, 10)}", styles[name]))
    span = (low - room, high + room)
    most = max(len(line) for line in means.values())
    x = figures.axis("paid episodes of an arm", rangemode="tozero", **figures.whole(most))
    y = figures.axis("mean reward", grid=True, range=list(span), fixedrange=True)
    now = "; ".join(f"{name} {line[-1][1]:.2f} ({count(len(line), 'episode')})" for name, line in means.items())
    listed = thinned(range(1, most + 1), LISTED)
    by_count = {name: dict(line) for name, line in means.items()}
    return Chart(
        name=figures.name_of("rewards", "\n".join([profile, *means])),
        title=f"Shaped reward {profile}, mean so far",
        note="not a measure of success: a profile pays helped and solo episodes differently",
        says=f"Mean shaped reward {profile} so far: {now}.",
        columns=["Paid", *means],
        rows=[[f"{at}", *(f"{line[at]:.3f}" if at in line else "" for line in by_count.values())] for at in listed],
        figure={"data": data, "layout": figures.layout(260, x, y, right=116, annotations=figures.ends(last, span))},
        file=file,
        left_out=most - len(listed),
    )


def demand(finding: CampaignFinding) -> list[Chart]:
    """Draw what the change is worth at each time of an episode: one curve for all tasks, and one for each kind where
    something is shown. Else the curves of kinds are noise, or the same flat line again."""
    is_shown = any(one.verdict for one in finding.cells)
    kinds = list(dict.fromkeys(one.kind for one in finding.cells if is_shown or not one.kind))
    return [chart for kind in kinds[: DEMANDS + 1] if (chart := _demand(kind, finding.of(kind))) is not None]


def _demand(kind: str, cells: Sequence[CampaignCell]) -> Chart | None:
    measured = [(one, one.difference) for one in cells if one.difference is not None]
    if not measured:
        return None
    line = [(float(one.at), 100 * delta) for one, delta in measured]
    hover = [f"at {one.at}%: {points(delta)}, {count(one.roots, 'episode')}" for one, delta in measured]
    spans = [(one.at, one.interval) for one, _ in measured if one.interval is not None]
    around = [
        figures.band([(at, 100 * low) for at, (low, _) in spans], [(at, 100 * high) for at, (_, high) in spans], EXPERT)
    ]
    ticks = {"tickvals": [-100, -50, 0, 50, 100], "ticktext": ["−100", "−50", "0", "+50", "+100"]}
    times = sorted({at for at, _ in line})
    shares = {"tickvals": times, "ticktext": [f"{at:g}" for at in times]}
    x = figures.axis("share of the turns before the change, %", range=[-2, times[-1] + 2], **shares)
    y = figures.axis("points", grid=True, range=[-105, 105], fixedrange=True, **ticks)
    zero = figures.limit(0, "no effect")
    summary = "; ".join(f"{points(delta)} at {one.at}%" for one, delta in measured)
    layout = figures.layout(280, x, y, right=64, shapes=[zero[0]], annotations=[zero[1]])
    return Chart(
        name=figures.name_of("demand", kind),
        title=f"What the change is worth by time: {kind or 'all tasks'}",
        note="share of complete branches with the change minus without it; band: 95% of each time",
        says=f"Difference of {kind or 'all tasks'}: {summary}.",
        columns=["Time", "Episodes", "With", "Without", "Difference", "95%", "p (Holm)", "Shown"],
        rows=[
            [
                *(f"{cell.at}%", f"{cell.roots}", percent(cell.treated), percent(cell.control), points(delta)),
                *(span_text(cell.interval) if cell.interval else "", p_text(1.0 if cell.p is None else cell.p)),
                cell.verdict or "not shown",
            ]
            for cell, delta in measured
        ],
        figure={"data": [*around, figures.line(line, EXPERT, hover)], "layout": layout},
        is_small=bool(kind),
    )
