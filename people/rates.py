"""A rate's interval. Pure. Called wherever a share is shown or exported."""

from __future__ import annotations

import math

Z = 1.959963984540054
"""The 97.5% quantile of the normal distribution: 95% lie between -Z and Z."""


def wilson(part: float, of: int) -> tuple[float, float]:
    """Return the 95% interval of a rate (Wilson 1927), within 0 and 1; all of 0 to 1 without cases. `part` can be a
    sum of shares."""
    if not of:
        return 0.0, 1.0
    rate, square = part / of, Z * Z / of
    middle = rate + square / 2
    reach = Z * math.sqrt(rate * (1 - rate) / of + square / (4 * of))
    low, high = (middle - reach) / (1 + square), (middle + reach) / (1 + square)
    # at the ends the formula errs by a rounding, which a chart would draw
    return 0.0 if part == 0 else low, 1.0 if part == of else high
