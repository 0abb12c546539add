"""Whether the help of an arm was ever there, and what a finding says first where it was not. Pure.

Called by `compare` and `offers`, so that every finding about help passes here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol


class Asking(Protocol):
    """A try, as far as it asked: how many of its asks got advice, and how many closed without any."""

    @property
    def arm(self) -> str: ...
    @property
    def answered(self) -> int: ...
    @property
    def unanswered(self) -> int: ...


def never_answered(tries: Iterable[Asking], *arms: str) -> dict[str, int]:
    """Return, for arms of which not one ask got advice, how many closed without."""
    counts = {arm: [(one.answered, one.unanswered) for one in tries if one.arm == arm] for arm in arms}
    sums = {arm: (sum(got for got, _ in mine), sum(without for _, without in mine)) for arm, mine in counts.items()}
    return {arm: without for arm, (got, without) in sums.items() if without and not got}


def no_help(unanswered: Mapping[str, int]) -> str:
    """Return what comes before a finding on arms whose expert never answered, by the number of their asks."""
    asks = [f"{f'all {n:,} asks' if n > 1 else 'the only ask'} of {arm}" for arm, n in unanswered.items()]
    return f"No expert answered: {' and '.join(asks)} fell back. " if asks else ""
