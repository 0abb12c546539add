"""Reads: whether a run's episodes without an expert are complete more often at its end than at its beginning.

The first and the last 20 counted episodes are compared, fewer in a short run, and never the same ones. Training chooses
its tasks along the way, so this describes a run. To compare arms on the same tasks, use a planned run.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from curriculum.counting import Solo, counted
from episodes.models import Run
from people.rates import wilson

EACH = 20


@dataclass(frozen=True)
class Share:
    """The number of complete episodes among some; `ci95` is Wilson's interval."""

    episodes: int
    complete: int
    rate: float
    ci95: tuple[float, float]


@dataclass(frozen=True)
class BeforeAfter:
    """The shares at both ends. `improvement` is the difference relative to the beginning, and None if nothing was
    complete there."""

    before: Share
    after: Share

    @property
    def difference(self) -> float:
        return self.after.rate - self.before.rate

    @property
    def improvement(self) -> float | None:
        return self.difference / self.before.rate if self.before.complete else None

    def summary(self, run: Run) -> dict[str, Any]:
        """Return the content of `summary.json`."""
        said = {"run": run.pk, "name": run.name, "before": asdict(self.before), "after": asdict(self.after)}
        return {**said, "difference": self.difference, "improvement": self.improvement, "method": "first and last solo"}


def of_run(run: Run) -> BeforeAfter | None:
    """Return both ends of a run; None with fewer than two counted episodes without an expert."""
    alone = [one for one in counted(run) if one.alone]
    each = min(EACH, len(alone) // 2)
    return BeforeAfter(_share(alone[-each:]), _share(alone[:each])) if each else None


def _share(episodes: list[Solo]) -> Share:
    complete = sum(one.complete for one in episodes)
    return Share(len(episodes), complete, complete / len(episodes), wilson(complete, len(episodes)))
