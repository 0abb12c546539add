"""The charts of the page Curriculum: the help and its cause, complete rollouts, rewards and losses by step.

Pure functions from the series and counts of a run to charts. Adds no claim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from curriculum.rules.ratio import (
    INDEPENDENCE_BELOW,
    SCAFFOLD_ABOVE,
    Help,
    Measured,
    Phase,
    Strategy,
    group,
)
from curriculum.show.series import Counts, Series
from people.rates import wilson
from people.text import figures
from people.text.figures import (
    BASELINE,
    EXPERT,
    LISTED,
    SINGLE,
    Chart,
    Figure,
    Style,
    label,
    stretches,
    thinned,
)

SHADES = {Phase.SCAFFOLD: "--c2/16", Phase.BALANCED: "--c2/7", Phase.INDEPENDENCE: "--c2/0"}
"""Amber is help by people: more help, more opaque."""
ARMS = {"/solo": ("solo", BASELINE), "/with_expert": ("with expert", EXPERT), "": ("all", SINGLE)}
"""Rollouts by the suffix of their series: the name and the style."""
HEIGHT, ROOM = 270, 116
NARROW = 0.12
"""The smallest share of the width at which the band of a phase has a name."""
Rate = tuple[int, int, int, int]
"""A training step, the number of some of its rollouts, the number of all, and that of their tasks."""
Tasks = Mapping[int, int]
"""The number of tasks by training step."""


def format_errors(measured: Sequence[Measured], helps: Sequence[Help], tasks: Tasks, file: str) -> Chart | None:
    """Draw the share of rollouts without one executable call, with the limits at which help changes."""
    rates = _rates({one.step: (one.errors, one.rollouts) for one in measured}, tasks)
    if not rates:
        return None
    phases, words = _phases([one for one in helps if one.step <= rates[-1][0]])
    limits = [
        figures.limit(SCAFFOLD_ABOVE, f"{SCAFFOLD_ABOVE}%, above it<br>Scaffold"),
        figures.limit(INDEPENDENCE_BELOW, f"{INDEPENDENCE_BELOW}%, below it<br>Independence"),
    ]
    shapes, names = [*phases, *(drawn for drawn, _ in limits)], [*words, *(named for _, named in limits)]
    x, y = _steps(rates[0][0], rates[-1][0]), figures.shares("format errors")
    return Chart(
        name="format-errors",
        title="Format errors",
        note="share of a step's rollouts without one executable call; 95% interval by task",
        says=f"Format errors: {_share(rates[0])} at step {rates[0][0]}, {_share(rates[-1])} at step {rates[-1][0]}.",
        columns=["Step", "Errors", "Share", "95%"],
        rows=[[f"{one[0]}", _of(one), _share(one), _ci(one)] for one in thinned(rates, LISTED)],
        figure={
            "data": _rate(rates, "", SINGLE),
            "layout": figures.layout(HEIGHT, x, y, right=ROOM, top=40, shapes=shapes, annotations=names),
        },
        file=file,
        left_out=len(rates) - LISTED,
    )


def help_path(helps: Sequence[Help], strategy: Strategy, size: int, file: str) -> Chart:
    """Draw how many rollouts of a group are offered an expert, through the next step, with the phases behind the
    line."""
    offered = [(one.step, group(strategy, one.phase, size)[0]) for one in helps]
    drawn, (step, expert) = thinned(offered), offered[-1]
    hover = [f"step {at}: {part} of {size} with an expert" for at, part in drawn]
    line = figures.line([(at, 100 * part / size) for at, part in drawn], EXPERT, hover, "hvh")
    holds = stretches([(one.step, one.override.by if one.override else "") for one in helps])
    bars = [_hold(*one) for one in holds if one[2]]
    phases, words = _phases(helps) if strategy == Strategy.ADAPTIVE else ([], [])
    last = figures.ends([(100 * expert / size, f"{expert} of {size}", EXPERT)], (0, 100))
    names = [*words, *last, *(name for _, name in bars)]
    x, y = _steps(helps[0].step, step), figures.shares("with an expert")
    changes, by_step = stretches(offered), {one.step: one for one in helps}
    shares = [f"{part} of {size} from step {start:g}" for start, _, part in changes]
    return Chart(
        name="help-path",
        title="Rollouts with an expert",
        note=f"of a group of {size}, by the rule or as a person holds it; step {step} is the one to come",
        says=f"Rollouts with an expert: {', then '.join(shares[-6:])}.",
        columns=["From step", "Phase", "With an expert", "Solo", "Held by"],
        rows=[
            [
                f"{at:g}",
                by_step[int(at)].phase.value.capitalize(),
                f"{part}",
                f"{size - part}",
                _holder(by_step[int(at)]),
            ]
            for at, _, part in changes[-LISTED:]
        ],
        figure={
            "data": [line],
            "layout": figures.layout(
                HEIGHT, x, y, right=ROOM, top=40, shapes=[*phases, *(bar for bar, _ in bars)], annotations=names
            ),
        },
        file=file,
        left_out=len(changes) - LISTED,
    )


def success(counts: Mapping[str, Counts], tasks: Mapping[str, Tasks], file: str) -> Chart | None:
    """Draw the shares of solo rollouts and of those with an expert that were complete."""
    arms = {
        ending: _rates(counts.get(f"episode/success_rate{ending}", {}), tasks.get(ending, {}))
        for ending in list(ARMS)[:2]
    }
    arms = {ending: rates for ending, rates in arms.items() if rates}
    if not arms:
        return None
    data = [trace for ending, rates in arms.items() for trace in _rate(rates, *ARMS[ending])]
    ends = [(100 * rates[-1][1] / rates[-1][2], ending, _share(rates[-1])) for ending, rates in arms.items()]
    last = figures.ends([(at, f"{share} {ARMS[one][0]}", ARMS[one][1]) for at, one, share in ends], (0, 100))
    steps = sorted({one[0] for rates in arms.values() for one in rates})
    by_step = {ending: {one[0]: one for one in rates} for ending, rates in arms.items()}
    x, y = _steps(steps[0], steps[-1]), figures.shares("complete")
    now = "; ".join(f"{ARMS[ending][0]} {share} at step {arms[ending][-1][0]}" for _, ending, share in ends)
    return Chart(
        name="success",
        title="Complete, solo and with an expert",
        note="share of a step's counted rollouts that the verifier found complete; 95% interval by task",
        says=f"Complete: {now}.",
        columns=["Step", *(column for ending in arms for column in (ARMS[ending][0].capitalize(), "95%"))],
        rows=[
            [f"{step}", *(cell for ending in arms for cell in _cells(by_step[ending].get(step)))]
            for step in thinned(steps, LISTED)
        ],
        figure={"data": data, "layout": figures.layout(HEIGHT, x, y, right=ROOM, top=28, annotations=last)},
        file=file,
        left_out=len(steps) - LISTED,
    )


def completions(series: Mapping[str, Series], file: str) -> Chart | None:
    """Draw how many rollouts were complete so far: all, and those without and with an expert."""
    so_far = {
        ending: series[f"episode/completions{ending}"] for ending in ARMS if f"episode/completions{ending}" in series
    }
    if not so_far:
        return None
    top = max(one.last for one in so_far.values())
    data, last = [], []
    for ending, curve in so_far.items():
        name, style = ARMS[ending]
        drawn = thinned(curve.points)
        data.append(figures.line(drawn, style, [f"{name}, step {step}: {value:g}" for step, value in drawn]))
        last.append((curve.last, f"{curve.last:g} {name}", style))
    steps = sorted({step for one in so_far.values() for step, _ in one.points})
    by_step = [dict(one.points) for one in so_far.values()]
    # Room above the highest mark, and below zero for a line that stays there.
    span = (0.0, max(top, 1) * 1.06)
    y = figures.axis("complete", grid=True, range=[-0.02 * span[1], span[1]], fixedrange=True, **figures.whole(top))
    layout = figures.layout(
        HEIGHT, _steps(steps[0], steps[-1]), y, right=ROOM, top=28, annotations=figures.ends(last, span)
    )
    return Chart(
        name="completions",
        title="Complete rollouts so far",
        note="counted rollouts that the verifier found complete, summed over the steps",
        says=f"Complete rollouts so far: {'; '.join(f'{ARMS[one][0]} {of.last:g}' for one, of in so_far.items())}.",
        columns=["Step", *(ARMS[ending][0].capitalize() for ending in so_far)],
        rows=[
            [f"{step}", *(f"{values[step]:g}" if step in values else "" for values in by_step)]
            for step in thinned(steps, LISTED)
        ],
        figure={"data": data, "layout": layout},
        file=file,
        left_out=len(steps) - LISTED,
    )


def small(curve: Series) -> Chart:
    """Draw one of many series. The dashed line is its first step, from the untrained model; a loss has none."""
    drawn = thinned(curve.points)
    line = figures.line(drawn, SINGLE, [f"step {step}: {value:.4g}" for step, value in drawn])
    line["marker"] |= {"size": 3}
    first, end = curve.points[0], curve.points[-1]
    start = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "yref": "y", "y0": first[1], "y1": first[1]}
    shapes = [start | {"layer": "below", "line": {"color": "--c1", "width": 1, "dash": "dash"}}]
    # A flat series would otherwise fill no axis at all.
    low, high = _span(curve)
    room = (high - low) * 0.12
    x = figures.axis("", nticks=4, **(figures.whole(end[0] - first[0])))
    y = figures.axis("", grid=True, range=[low - room, high + room], nticks=4, fixedrange=True)
    layout = figures.layout(140, x, y, right=12, shapes=[] if curve.name.startswith("loss/") else shapes)
    return Chart(
        name=figures.name_of("series", curve.name),
        title=curve.name,
        note=f"{end[1]:.3g} at step {end[0]}, {_range(curve)}",
        says=f"{curve.name}: {first[1]:.3g} at step {first[0]}, {end[1]:.3g} at step {end[0]}.",
        columns=["Step", "Value"],
        rows=[[f"{step}", f"{value:.6g}"] for step, value in thinned(curve.points, LISTED)],
        figure={"data": [line], "layout": layout | {"margin": {"l": 36, "r": 12, "t": 6, "b": 22}}},
        left_out=len(curve.points) - LISTED,
        is_small=True,
    )


def _span(curve: Series) -> tuple[float, float]:
    """Return the axis range of a series: its values, or 0 and the value if it never changes."""
    return (curve.low, curve.high) if curve.low < curve.high else (min(curve.low, 0.0), max(curve.high, 1.0))


def _range(curve: Series) -> str:
    return f"{curve.low:.3g} to {curve.high:.3g}" if curve.low < curve.high else "unchanged"


def _steps(first: int, last: int) -> Figure:
    return figures.axis("training step", range=[first - 0.5, last + 0.5], **figures.whole(last - first))


def _rates(counts: Counts, tasks: Tasks) -> list[Rate]:
    return [(step, *counts[step], tasks.get(step, 1)) for step in sorted(counts) if counts[step][1]]


def interval(part: int, of: int, tasks: int) -> tuple[float, float]:
    """Return the 95% interval of a share of rollouts. The unit is the task: its rollouts are one group, and as units of
    their own they covered 55 to 82%."""
    # Rollouts that do not count can leave fewer of them than the step has tasks.
    units = min(tasks, of)
    return wilson(part * units / of, units)


def _rate(rates: Sequence[Rate], name: str, style: Style) -> list[Figure]:
    """Return the line of a share, in percent, over the band of its interval."""
    drawn = thinned(rates)
    # Of the drawn points alone: a long run has thousands of steps.
    spans = [(step, *interval(part, of, tasks)) for step, part, of, tasks in drawn]
    band = figures.band([(s, 100 * low) for s, low, _ in spans], [(s, 100 * high) for s, _, high in spans], style)
    whose = f"{name}, " if name else ""
    hover = [f"{whose}step {one[0]}: {_share(one)}, {_of(one)}<br>95% {_ci(one)}" for one in drawn]
    return [band, figures.line([(step, 100 * part / of) for step, part, of, _ in drawn], style, hover)]


def _share(rate: Rate) -> str:
    return f"{round(100 * rate[1] / rate[2])}%"


def _of(rate: Rate) -> str:
    return f"{rate[1]} of {rate[2]}"


def _ci(rate: Rate) -> str:
    low, high = interval(*rate[1:])
    return f"{100 * low:.0f} to {100 * high:.0f}%"


def _cells(rate: Rate | None) -> tuple[str, str]:
    return ("", "") if rate is None else (f"{_share(rate)}, {_of(rate)}", _ci(rate))


def _phases(helps: Sequence[Help]) -> tuple[list[Figure], list[Figure]]:
    """Return the bands of the phases, and the names of the wide ones at two alternating heights: on a phone the name of
    a short phase is wider than its band."""
    held = stretches([(one.step, one.phase) for one in helps])
    wide = NARROW * (helps[-1].step - helps[0].step + 1) if helps else 0
    band = {"type": "rect", "yref": "paper", "y0": 0, "y1": 1, "layer": "below", "line": {"width": 0}}
    # A phase holds for whole steps: its band reaches half a step beyond their marks on each side.
    bands = [band | {"x0": start - 0.5, "x1": end - 0.5, "fillcolor": SHADES[phase]} for start, end, phase in held]
    above = {"yref": "paper", "y": 1, "yanchor": "bottom", "xanchor": "left", "showarrow": False}
    above |= {"font": {"color": "--ink"}}
    named = [(start, phase) for start, end, phase in held if end - start >= wide]
    names = [
        above | {"x": at - 0.5, "text": phase.value.capitalize(), "yshift": 13 * (place % 2)}
        for place, (at, phase) in enumerate(named)
    ]
    return bands, names


def _hold(start: float, end: float, who: str) -> tuple[Figure, Figure]:
    """Return the bar of a phase that a person set, and their name."""
    bar = {"type": "line", "x0": start - 0.5, "x1": end - 0.5, "yref": "paper", "y0": 0.97, "y1": 0.97}
    name = {"x": start - 0.5, "xanchor": "left", "yref": "paper", "y": 0.95, "yanchor": "top", "showarrow": False}
    words = {"text": f"held by {label(who, 16)}", "font": {"color": "--expert"}}
    return bar | {"line": {"color": "--expert-fill", "width": 4}}, name | words


def _holder(phase_help: Help) -> str:
    return phase_help.override.by if phase_help.override else ""
