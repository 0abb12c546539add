"""Pictures of charts beside a report. matplotlib is an extra (`make install-extras`): without it, a report says so."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from people.text.figures import Chart

MISSING = (
    "Charts as PNG were left out, because matplotlib is not installed. It is in requirements-extras.lock. "
    "Run: make install-extras"
)


def are_possible() -> bool:
    """Return whether matplotlib is installed, without loading it."""
    return importlib.util.find_spec("matplotlib") is not None


def draw(chart: Chart, path: Path) -> None:
    """Draw one chart with its title and note, as a page in light colors shows it."""
    from runs.show import drawing

    drawing.draw(chart, path)


def draw_small(charts: Sequence[Chart], path: Path) -> None:
    """Draw small charts, several in a row."""
    from runs.show import drawing

    drawing.draw_small(charts, path)
