"""The grammar of charts: a chart as its page holds it, and the shared parts of all Plotly figures.

Pure. `charts.py` of each app makes figures from tables with this; `static/lists/charts.js` draws them. A color is the
name of a token of `tokens.css`, such as `--c2` or, at 16%, `--c2/16`, which the script looks up in the theme of the
page. Names from datasets, plans and trainers pass through `label`: Plotly reads its texts as markup.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, TypeVar

from people.text.plain_text import clean

Figure = dict[str, Any]
T = TypeVar("T")
Points = Sequence[tuple[float, float]]

DRAWN = 400
"""The most points of a line; more would not be visible. Tables in files have all."""
LISTED = 24
"""The most rows of the table behind a chart; its file has all."""
SERIES = 5
"""Lines that one chart can distinguish."""
LABEL = 22
"""Characters of a name in a drawing; its table has the full name."""


@dataclass(frozen=True)
class Style:
    """How a series is distinguished: never by color alone."""

    color: str
    dash: str
    symbol: str


BASELINE = Style("--c1", "dash", "circle")
EXPERT = Style("--c2", "solid", "diamond")
SINGLE = Style("--c3", "solid", "square")
INFORMED = Style("--c4", "dashdot", "triangle-up")
FIFTH = Style("--c5", "dot", "x")
BY_EXPERT = {"off": BASELINE, "plain": EXPERT, "informed": INFORMED}


@dataclass(frozen=True)
class Chart:
    """One chart of a page: its content, the same as a sentence, its table, and its figure.

    `file` is the address of the table as CSV; `left_out` counts rows that only the file has.

    """

    name: str
    title: str
    note: str
    says: str
    columns: list[str]
    rows: list[list[str]]
    figure: Figure
    file: str = ""
    left_out: int = 0
    is_small: bool = field(default=False)

    @property
    def data_id(self) -> str:
        """The ID of the element that holds the figure."""
        return f"figure-{self.name}"


def name_of(kind: str, subject: str) -> str:
    """Return a name that is the same on every load of a page, for any subject."""
    return f"{kind}-{hashlib.sha256(subject.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def label(name: object, most: int = LABEL) -> str:
    """Return a name as a Plotly text, which would otherwise render `<a href>` and `&` in it. A long one loses its
    middle, because names of one series start the same."""
    text = clean(name)
    end = most // 2
    return escape(text if len(text) <= most else f"{text[: most - end - 1]}…{text[-end:]}", quote=False)


def styles_of(experts: Sequence[str]) -> list[Style]:
    """Return a style for each arm by its expert mode; if two arms share a mode, the second gets an unused one."""
    free = [SINGLE, FIFTH, INFORMED, EXPERT, BASELINE]
    styles: list[Style] = []
    for expert in experts:
        preferred = BY_EXPERT.get(expert, SINGLE)
        styles.append(preferred if preferred not in styles else next(one for one in free if one not in styles))
    return styles


def thinned(points: Sequence[T], most: int = DRAWN) -> list[T]:
    """Return at most this many of these, evenly spaced, including the first and the last."""
    if len(points) <= most:
        return list(points)
    # Rounding places, not steps: both ends stay in, and no gap is more than one wider than another.
    pitch = (len(points) - 1) / (most - 1)
    return [points[round(place * pitch)] for place in range(most)]


def line(points: Points, style: Style, hover: Iterable[str], shape: str = "linear") -> Figure:
    """Return a line. Marks are on it while they can be distinguished."""
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(points) <= 40 and shape == "linear" else "lines",
        "x": [x for x, _ in points],
        "y": [y for _, y in points],
        "line": {"color": style.color, "width": 2, "dash": style.dash, "shape": shape},
        "marker": {"color": style.color, "symbol": style.symbol, "size": 6},
        "hovertext": list(hover),
        "hoverinfo": "text",
        # A mark on the edge of the plot is drawn whole.
        "cliponaxis": False,
    }


def band(low: Points, high: Points, style: Style) -> Figure:
    """Return an interval over time: an area of the series' color at 16%."""
    around = [*low, *reversed(high)]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [x for x, _ in around],
        "y": [y for _, y in around],
        "fill": "toself",
        "fillcolor": f"{style.color}/16",
        "line": {"width": 0},
        "hoverinfo": "skip",
    }


def ends(values: Sequence[tuple[float, str, Style]], span: tuple[float, float]) -> list[Figure]:
    """Return the labels at the ends of lines, moved apart if lines end close to each other."""
    gap = (span[1] - span[0]) * 0.09
    order = sorted(range(len(values)), key=lambda place: values[place][0])
    at = spread([values[place][0] for place in order], gap, span)
    return [
        {
            "xref": "paper", "x": 1, "xanchor": "left", "xshift": 8, "yref": "y", "y": y, "yanchor": "middle",
            "text": values[place][1], "showarrow": False, "font": {"color": values[place][2].color, "weight": 600},
        }
        for place, y in zip(order, at, strict=True)
    ]  # fmt: skip


def spread(places: Sequence[float], gap: float, span: tuple[float, float]) -> list[float]:
    """Return ascending places at least `gap` apart within `span`, each as near to its original as the others allow."""
    spaced: list[float] = []
    for place in places:
        spaced.append(place if not spaced else max(place, spaced[-1] + gap))
    if spaced and spaced[-1] > span[1]:
        # The topmost moves down first; those below follow only as far as they must.
        spaced[-1] = max(span[1], places[-1])
        for below in range(len(spaced) - 2, -1, -1):
            spaced[below] = min(spaced[below], spaced[below + 1] - gap)
    return spaced


def limit(y: float, words: str) -> tuple[Figure, Figure]:
    """Return a limit: its dotted line, and its name at the right end."""
    across = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "yref": "y", "y0": y, "y1": y, "layer": "below"}
    drawn = across | {"line": {"color": "--ink-3", "width": 1, "dash": "dot"}}
    named = {"xref": "paper", "x": 1, "xanchor": "left", "xshift": 8, "yref": "y", "y": y, "showarrow": False}
    return drawn, named | {"text": words, "font": {"color": "--ink-2"}, "align": "left"}


def axis(words: str, **more: Any) -> Figure:
    """Return an axis with its name. `grid=True` draws lines along the value."""
    grid = more.pop("grid", False)
    plain = {"showgrid": grid, "gridcolor": "--line", "linecolor": "--edge", "showline": not grid, "zeroline": False}
    named = {"title": {"text": words, "standoff": 8}} if words else {}
    return {**plain, **named, "automargin": True, **more}


def shares(words: str, **more: Any) -> Figure:
    """Return an axis of shares in percent, from 0 to 100."""
    ticks = {"tickvals": [0, 25, 50, 75, 100], "ticktext": ["0", "25", "50", "75", "100%"]}
    # Room for marks at 0% and at 100%.
    return axis(words, grid=True, range=[-2, 102], fixedrange=True, **ticks, **more)


def layout(height: int, x: Figure, y: Figure, *, right: int = 16, top: int = 12, **more: Any) -> Figure:
    """Return the shared layout of all figures: a transparent ground, small type, names beside a mark, no legend box."""
    return {
        "height": height,
        "margin": {"l": 44, "r": right, "t": top, "b": 40},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"size": 11, "color": "--ink-2"},
        "hoverlabel": {"bgcolor": "--raised", "bordercolor": "--line-2", "font": {"color": "--ink"}, "align": "left"},
        "hovermode": "closest",
        "showlegend": False,
        "xaxis": x,
        "yaxis": y,
        **more,
    }


def stretches(values: Sequence[tuple[int, T]]) -> list[tuple[int, int, T]]:
    """Return each value with the step at which it begins, and the one at which it no longer holds."""
    starts = [one for place, one in enumerate(values) if not place or values[place - 1][1] != one[1]]
    ends = [step for step, _ in starts[1:]] + [step + 1 for step, _ in values[-1:]]
    return [(step, end, value) for (step, value), end in zip(starts, ends, strict=True)]


def whole(top: float) -> Figure:
    """Return ticks at whole numbers, for an axis that would have fractions."""
    return {"dtick": 1} if top < 6 else {}
