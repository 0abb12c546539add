"""The desk's figures as they cross a process: `GET /api/v1/desk/numbers`.

Owns the shapes alone; docs/experts.md says what each figure counts. Called by the dashboard's API and by who reads it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from awmclient.schema import Record


class ShareView(Record):
    """So many (`part`) of so many (`of`), with Wilson's 95 % interval; without a case there are only the counts."""

    part: int
    of: int
    value: float | None = None
    low: float | None = None
    high: float | None = None


class MiddleView(Record):
    """Median and 90th percentile of `n` values in seconds (a share of text in `kept`), the interval that of the
    median. No interval below six values, no 90th percentile below ten."""

    n: int
    median: float | None = None
    low: float | None = None
    high: float | None = None
    p90: float | None = None


class RateView(Record):
    """Useful answers for each hour from claim to answer; of `n` answers, in so many `hours`."""

    n: int
    hours: float
    value: float | None = None
    low: float | None = None
    high: float | None = None


class DeskLine(Record):
    """The figures of the whole desk, of one expert, or of one arm of a run; docs/experts.md says what each counts."""

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


class ModelCalls(Record):
    """What one expert model was asked, what it cost, and how it broke; `words` are its most frequent faults."""

    key: str
    name: str
    calls: int
    tokens: int
    took: MiddleView
    faults: ShareView
    words: list[tuple[str, int]]


class DeskNumbers(Record):
    """How the desk works. `note` belongs beside the figures: they describe, and claim no cause. With `more`, only the
    newest asks are counted, from `since` on."""

    note: str
    since: datetime | None = None
    until: datetime | None = None
    more: bool
    compared: int
    desk: DeskLine
    experts: list[DeskLine]
    arms: list[DeskLine]
    models: list[ModelCalls]
