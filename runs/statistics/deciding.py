"""What makes a run say *better*: the statements that it will make, the error that each may spend, and the one decision
that comparisons and randomized offers ask.

All that a run says in its life is false in at most 5% of runs without an effect. Most of that is for the test at the
planned size, the rest for the e-process of `anytime.py`, which can be read at any moment: two looks of 5% each would
err in 6.5 to 7.5%. At the planned size a difference is shown if test and interval both exclude 0. While a run goes on
only the e-process can show one, and its direction is put into the same word. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PLANNED, RUNNING = 0.045, 0.005
"""The error of everything that a run says at its planned size, and of everything that it says while it runs."""
SHOWN = ("better", "worse")


@dataclass(frozen=True)
class Statement:
    """One thing that a run will say: an arm against the control, or what an offer changes in an arm that draws it.

    `planned` is the error of all statements of its kind at the planned size, which they share by Holm; `running` is its
    own while the run goes on.
    """

    arm: str
    control: str
    planned: float
    running: float

    @property
    def is_contrast(self) -> bool:
        return bool(self.control)


def statements(arms: Sequence[str], control: str, drawing: Mapping[str, float] | Sequence[str] = ()) -> list[Statement]:
    """Return all that a run of these arms will say; those in `drawing` draw their offers. Each statement has an equal
    part of the error."""
    against = [arm for arm in arms if arm != control]
    kinds = [(against, control), ([arm for arm in arms if arm in drawing], "")]
    count = max(1, sum(len(names) for names, _ in kinds))
    # a run splits its error by the number of its statements
    return [
        Statement(arm, other, PLANNED * len(names) / count, RUNNING / count) for names, other in kinds for arm in names
    ]


def is_shown(
    p: float | None, p_holm: float | None, interval: tuple[float, float] | None, level: float = PLANNED
) -> bool:
    """Return whether test and interval both exclude "no difference"; `p_holm` decides where it is set."""
    p = p if p_holm is None else p_holm
    return p is not None and p < level and not holds_zero(interval)


def holds_zero(interval: tuple[float, float] | None) -> bool:
    return interval is None or interval[0] <= 0 <= interval[1]


def word(direction: float) -> str:
    """Return the verdict for a shown difference by its sign."""
    return "better" if direction > 0 else "worse"
