"""Charts as PNG, without a browser: a report has the same figures as the page, drawn by matplotlib.

Knows the grammar of `figures.py` and nothing about a chart's content. Only commands import it, because it imports
matplotlib.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from typing import Any, Literal

import matplotlib
from django.conf import settings
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator, MultipleLocator
from matplotlib.transforms import Transform, blended_transform_factory

from people.text.figures import Chart, Figure

WIDTH, SMALL_WIDTH, HEAD = 800, 320, 56
"""Pixels on a page: a chart's width, that of a small one, and the height of the text above it."""
IN_A_ROW, ACROSS = 3, 130
"""The number of small charts in a row, and of characters in a line of a note."""
INCH, POINT = 100, 0.72
"""Pixels in an inch, and points in a pixel."""
DASHES: dict[str, Literal["-", "--", "-.", ":"]] = {"solid": "-", "dash": "--", "dashdot": "-.", "dot": ":"}
SYMBOLS = {"circle": "o", "diamond": "D", "square": "s", "triangle-up": "^", "x": "X"}
SHAPES = {"linear": "default", "hv": "steps-post", "hvh": "steps-mid"}
ANCHORS = {"middle": "center", "auto": "center"}
LAYERS = {"below": 0.5, "between": 1.5}
matplotlib.rcParams["text.parse_math"] = False  # names come from datasets, so a $ in one must not start a formula


def draw(chart: Chart, path: Path) -> None:
    """Draw one chart with its title and note, as a page in light colors shows it."""
    height = chart.figure["layout"]["height"] + HEAD
    drawing = Drawing(figsize=(WIDTH / INCH, height / INCH), layout="constrained", facecolor="white")
    _fill(drawing.add_subplot(), chart)
    _save(drawing, path)


def draw_small(charts: Sequence[Chart], path: Path) -> None:
    """Draw small charts, several in a row."""
    # rounded up
    rows = -(-len(charts) // IN_A_ROW)
    height = rows * (charts[0].figure["layout"]["height"] + HEAD)
    size = (IN_A_ROW * SMALL_WIDTH / INCH, height / INCH)
    drawing = Drawing(figsize=size, layout="constrained", facecolor="white")
    for place, chart in enumerate(charts, 1):
        _fill(drawing.add_subplot(rows, IN_A_ROW, place), chart)
    _save(drawing, path)


def _save(drawing: Drawing, path: Path) -> None:
    FigureCanvasAgg(drawing)
    drawing.savefig(path, dpi=1.5 * INCH, metadata={"Software": None})


def _fill(axes: Axes, chart: Chart) -> None:
    layout = chart.figure["layout"]
    size = layout["font"]["size"] * POINT
    for trace in chart.figure["data"]:
        _trace(axes, trace)
    _axis(axes, "x", layout["xaxis"], size)
    _axis(axes, "y", layout["yaxis"], size)
    for shape in layout.get("shapes", ()):
        axes.add_artist(_shape(axes, shape))
    for words in layout.get("annotations", ()):
        _annotation(axes, words, size)
    across = ACROSS // IN_A_ROW if chart.is_small else ACROSS
    above = [textwrap.shorten(chart.title, across, placeholder="…")]  # a trainer can name its series anything
    above += [] if chart.is_small else textwrap.wrap(chart.note, ACROSS)
    pad = layout["margin"]["t"] * POINT
    axes.set_title("\n".join(above), loc="left", fontsize=size, pad=pad, color=_color("--ink"))


def _trace(axes: Axes, trace: Figure) -> None:
    if trace.get("fill") == "toself":
        axes.fill(trace["x"], trace["y"], color=_color(trace["fillcolor"]), linewidth=0)
        return
    line, marker, edge = (trace.get("line", {}), trace.get("marker", {}), trace.get("marker", {}).get("line", {}))
    marked = "markers" in trace["mode"]
    axes.plot(
        trace["x"],
        trace["y"],
        linestyle=DASHES[line.get("dash", "solid")] if "lines" in trace["mode"] else "none",
        drawstyle=SHAPES[line.get("shape", "linear")],
        linewidth=line.get("width", 2) * POINT,
        color=_color(line.get("color", marker.get("color"))),
        marker=SYMBOLS[marker.get("symbol", "circle")] if marked else "none",
        markersize=marker.get("size", 6) * POINT,
        markerfacecolor=_color(marker["color"]) if marked else None,
        markeredgecolor=_color(edge.get("color", marker["color"])) if marked else None,
        markeredgewidth=edge.get("width", 0) * POINT,
        clip_on=False,
        zorder=3,
    )


def _axis(axes: Axes, name: str, spec: Figure, size: float) -> None:
    axis = axes.xaxis if name == "x" else axes.yaxis
    reach = axes.set_xlim if name == "x" else axes.set_ylim
    if "range" in spec:
        reach(*spec["range"])
    elif spec.get("rangemode") == "tozero":
        reach(0, None)
    if "tickvals" in spec:
        axis.set_ticks(spec["tickvals"], [_plain_text(words) for words in spec["ticktext"]])
    elif "dtick" in spec:
        axis.set_major_locator(MultipleLocator(spec["dtick"]))
    elif "nticks" in spec:
        axis.set_major_locator(MaxNLocator(spec["nticks"]))
    ticks = spec.get("tickfont", {}).get("color", "--ink-2")
    axis.set_tick_params(labelsize=size, labelcolor=_color(ticks), length=0)
    axis.label.set(text=_plain_text(spec.get("title", {}).get("text", "")), fontsize=size, color=_color("--ink-2"))
    if spec["showgrid"]:
        axis.grid(visible=True, color=_color(spec["gridcolor"]), linewidth=1 * POINT)
    axes.spines["bottom" if name == "x" else "left"].set(visible=spec["showline"], color=_color(spec["linecolor"]))
    axes.spines["top" if name == "x" else "right"].set_visible(False)
    axes.set_axisbelow(True)


def _shape(axes: Axes, shape: Figure) -> Rectangle | Line2D:
    """Return a line or an area, whose coordinates are fractions of the drawing (`paper`) or values of an axis."""
    line, x, y = shape["line"], (shape["x0"], shape["x1"]), (shape["y0"], shape["y1"])
    how: dict[str, Any] = {"transform": _places(axes, shape), "zorder": LAYERS.get(shape.get("layer", ""), 2)}
    if shape["type"] == "rect":
        return Rectangle((x[0], y[0]), x[1] - x[0], y[1] - y[0], facecolor=_color(shape["fillcolor"]), **how)
    dash = DASHES[line.get("dash", "solid")]
    return Line2D(x, y, color=_color(line["color"]), linewidth=line["width"] * POINT, linestyle=dash, **how)


def _places(axes: Axes, spec: Figure) -> Transform:
    x, y = (axes.transAxes if spec.get(f"{name}ref") == "paper" else axes.transData for name in "xy")
    return blended_transform_factory(x, y)


def _annotation(axes: Axes, spec: Figure, size: float) -> None:
    across, up = (spec.get(f"{name}anchor", "auto") for name in "xy")
    axes.annotate(
        _plain_text(spec["text"]),
        (spec["x"], spec["y"]),
        xycoords=_places(axes, spec),
        xytext=(spec.get("xshift", 0) * POINT, spec.get("yshift", 0) * POINT),
        textcoords="offset points",
        horizontalalignment=ANCHORS.get(across, across),
        verticalalignment=ANCHORS.get(up, up),
        annotation_clip=False,
        fontsize=size,
        fontweight="bold" if "weight" in spec.get("font", {}) else "normal",
        color=_color(spec.get("font", {}).get("color", "--ink-2")),
    )


def _plain_text(words: object) -> str:
    """Return a text with Plotly's markup as a page shows it. matplotlib has no markup for breaks or entities."""
    return unescape(str(words).replace("<br>", "\n"))


def _tokens() -> dict[str, str]:
    """Return the colors of the light theme by token."""
    text = (Path(settings.BASE_DIR) / "static" / "tokens.css").read_text(encoding="utf-8")
    return dict(re.findall(r"(--[\w-]+):light-dark\((#[0-9a-f]{6})", text))


TOKENS = _tokens()


def _color(name: str) -> tuple[float, float, float, float]:
    """Return the color of a token, such as `--c2` or, at 16%, `--c2/16`."""
    # a token of the style sheet, so that files have the colors of the page
    token, _, percent = name.partition("/")
    return to_rgba(TOKENS[token], int(percent or 100) / 100)
