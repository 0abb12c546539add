"""What makes a run say *better*: the one decision that comparisons and randomized offers ask.

At the planned size a difference is shown if test and interval both exclude 0. While a run goes on only the e-process of
`anytime.py` can show one, and its direction is put into the same word. Pure.
"""

from __future__ import annotations

LEVEL = 0.05
"""A difference is shown at the planned size if the p of its test, after Holm, is below this."""
SHOWN = ("better", "worse")


def is_shown(p: float | None, p_holm: float | None, interval: tuple[float, float] | None) -> bool:
    """Return whether test and interval both exclude "no difference"; `p_holm` decides where it is set."""
    p = p if p_holm is None else p_holm
    return p is not None and p < LEVEL and not holds_zero(interval)


def holds_zero(interval: tuple[float, float] | None) -> bool:
    return interval is None or interval[0] <= 0 <= interval[1]


def word(direction: float) -> str:
    """Return the verdict for a shown difference by its sign."""
    return "better" if direction > 0 else "worse"
