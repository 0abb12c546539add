"""The drawing of a run's first and last episodes as PNG. Only the command that writes it imports matplotlib."""

from __future__ import annotations

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from curriculum.show.before_after import BeforeAfter


def before_after(found: BeforeAfter, path: Path) -> None:
    """Draw both shares with their 95% intervals."""
    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.add_subplot()
    for place, share in enumerate((found.before, found.after)):
        low, high = share.ci95
        axes.bar(place, share.rate, width=0.5, color=("#9aa3ad", "#6a4fc4")[place])
        axes.plot([place, place], [low, high], color="#1d232b", linewidth=2)
    ends = (("first", found.before), ("last", found.after))
    axes.set_xticks([0, 1], [f"{name} {share.episodes}: {share.complete} complete" for name, share in ends])
    axes.set_xlim(-0.6, 1.6)
    axes.set_ylim(0, 1)
    axes.set_ylabel("complete without an expert, 95%")
    FigureCanvasAgg(figure)
    figure.savefig(path, dpi=150, metadata={"Software": None})
