"""Drawings of a run's report as PNG, without a browser. Only the command that writes reports imports matplotlib."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from runs.compare import Contrast
from runs.comparison import Comparison
from runs.tables import Row, of_completions

DASHES = ("-", "--", "-.", ":")
SHOWN = 40
"""Scenarios of one drawing; its table has all."""
matplotlib.rcParams["text.parse_math"] = False  # names come from datasets: a $ in one is a $


def differences(contrast: Contrast, path: Path) -> None:
    """Draw the difference of each scenario, and that of all tasks with its interval."""
    rows = contrast.scenarios[:SHOWN]
    figure = Figure(figsize=(8, 1.6 + 0.28 * (len(rows) + 1)), layout="constrained")
    axes = figure.add_subplot()
    names = [f"{row.scenario[:40]} ({row.tasks})" for row in rows]
    for place, row in enumerate(rows):
        axes.plot(row.delta, place, "o", color="#5a6472")
    if contrast.delta is not None:
        scope = contrast.tasks_scope
        span = scope.interval if scope is not None and scope.interval is not None else contrast.running.interval
        axes.plot(span, [len(rows)] * 2, color="#6a4fc4", linewidth=2)
        axes.plot(contrast.delta, len(rows), "s", color="#6a4fc4")
        names.append(f"All tasks ({contrast.tasks}), 95%")
    axes.axvline(0, color="#9aa3ad", linestyle=":")
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlim(-1.02, 1.02)
    axes.set_xlabel(f"completion with {contrast.arm[:40]} minus {contrast.control[:40]}")
    _save(figure, path)


def completions(found: Comparison, path: Path) -> None:
    """Draw how many episodes of each arm were complete, over those counted in the planned order."""
    rows = of_completions(found)
    lines = {arm.name: [0, *(row["complete"] for row in rows if row["arm"] == arm.name)] for arm in found.arms}
    figure = _lines({name: list(enumerate(line)) for name, line in lines.items()}, "steps-post")
    [axes] = figure.axes
    axes.set_xlabel("counted episodes, planned order")
    axes.set_ylabel("complete")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    _save(figure, path)


def rewards(profile: str, rows: Sequence[Row], path: Path) -> None:
    """Draw the mean of what a profile paid so far, by arm along the planned order."""
    paid: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row["profile"] == profile and row["total"] is not None:
            paid[row["arm"]].append(row["total"])
    means = {arm: [(at, total / at) for at, total in enumerate(accumulate(all_), 1)] for arm, all_ in paid.items()}
    figure = _lines(means)
    [axes] = figure.axes
    axes.set_xlabel("paid episodes, planned order")
    axes.set_ylabel(f"mean reward {profile}")
    axes.set_title("Not a measure of success", fontsize="small")
    _save(figure, path)


def _lines(lines: Mapping[str, Sequence[tuple[int, float]]], steps: str = "default") -> Figure:
    """Draw a line for each arm, told apart by color and dash, the later ones thinner: equal ones lie on each other."""
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.add_subplot()
    for place, (name, line) in enumerate(lines.items()):
        style: dict[str, Any] = {
            "drawstyle": steps,
            "linestyle": DASHES[place % len(DASHES)],
            "linewidth": max(1.2, 3 - 0.6 * place),
        }
        axes.plot([at for at, _ in line], [value for _, value in line], label=f"\u200b{name[:40]}", **style)
    axes.legend()
    return figure


def _save(figure: Figure, path: Path) -> None:
    FigureCanvasAgg(figure)
    figure.savefig(path, dpi=150, metadata={"Software": None})
