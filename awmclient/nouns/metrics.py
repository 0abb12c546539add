"""The desk's metrics as they cross a process: `GET /api/v1/desk/numbers`.

Owns the shapes only; docs/experts.md defines each metric. Called by the dashboard's API and by its clients.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from awmclient.nouns.fields import Shape


class ShareView(Shape):
    """A count (`part`) out of a total (`of`), with Wilson's 95 % interval; without cases only the counts."""

    part: int
    of: int
    value: float | None = None
    low: float | None = None
    high: float | None = None


class MiddleView(Shape):
    """Median and 90th percentile of `n` values in seconds (a share of text in `kept`), the interval that of the
    median. No interval below six units, no 90th percentile below ten values. `censored` values are only known to be
    larger than something: asks without an answer. `median`, `high` and `p90` are null where they were not reached."""

    n: int
    median: float | None = None
    low: float | None = None
    high: float | None = None
    p90: float | None = None
    censored: int = 0


class RateView(Shape):
    """Useful answers per hour from claim to answer; of `n` answers, in `hours` hours."""

    n: int
    hours: float
    value: float | None = None
    low: float | None = None
    high: float | None = None


class DeskLine(Shape):
    """The metrics of the whole desk, of one expert, or of one arm of a run; docs/experts.md defines each."""

    kind: Literal["desk", "person", "script", "model", "cache", "arm"]
    key: str
    name: str
    run: str
    arm: str
    asks: int
    answered: int
    open: int
    cancelled: int
    late: int
    prepared: int
    drawn: int
    cannot_tell: int
    fell_back: dict[str, int]
    waited: MiddleView
    took: MiddleView
    per_hour: RateView
    in_time: ShareView
    followed: ShareView
    passed: ShareView
    drafted: ShareView
    kept: MiddleView
    taken: ShareView
    completed: ShareView


class ModelCalls(Shape):
    """One expert model's calls, costs and faults; `words` are its most frequent faults."""

    key: str
    name: str
    calls: int
    tokens: int
    took: MiddleView
    faults: ShareView
    words: list[tuple[str, int]]


class DeskNumbers(Shape):
    """The desk's metrics. `note` belongs beside them: they are descriptive, not causal.

    With `more`, only the newest asks are counted, from `since` on.
    """

    note: str
    since: datetime | None = None
    until: datetime | None = None
    more: bool
    compared: int
    desk: DeskLine
    experts: list[DeskLine]
    arms: list[DeskLine]
    models: list[ModelCalls]
