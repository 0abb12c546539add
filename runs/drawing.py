"""Drawings of a run's report as PNG, without a browser. Only the command that writes reports imports matplotlib."""

from __future__ import annotations

from pathlib import Path

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from runs.compare import Contrast
from runs.comparison import Comparison
from runs.tables import of_completions

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
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.add_subplot()
    for arm in found.arms:
        rows = [row for row in of_completions(found) if row["arm"] == arm.name]
        counted = [0, *(row["counted"] for row in rows)]
        axes.step(counted, [0, *(row["complete"] for row in rows)], where="post", label=arm.name[:40])
    axes.set_xlabel("counted episodes, planned order")
    axes.set_ylabel("complete")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend()
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    FigureCanvasAgg(figure)
    figure.savefig(path, dpi=150, metadata={"Software": None})
