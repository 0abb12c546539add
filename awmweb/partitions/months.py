"""Pure rules: months, the names of their partitions, and the IDs of episodes that were made in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from people.models import first_id

PREFIX = "episodes_step_"
AHEAD = 3
"""How many months after this one have a partition."""


@dataclass(frozen=True, order=True)
class Month:
    year: int
    month: int

    def __str__(self) -> str:
        return f"{self.year}-{self.month:02}"

    @property
    def table(self) -> str:
        return f"{PREFIX}{self.year}_{self.month:02}"

    @property
    def first(self) -> str:
        """Return the lowest ID of an episode that was made in it. IDs sort by the time in which they were made."""
        return first_id(datetime(self.year, self.month, 1, tzinfo=UTC))

    def later(self, months: int = 1) -> Month:
        years, month = divmod(self.year * 12 + self.month - 1 + months, 12)
        return Month(years, month + 1)


def month_of(moment: datetime) -> Month:
    moment = moment.astimezone(UTC)
    return Month(moment.year, moment.month)


def month_named(text: str) -> Month | None:
    """Return the month of `2026-11` or of the name of a partition; else None."""
    match = re.fullmatch(rf"(?:{PREFIX})?(\d{{4}})[-_](\d\d)", text)
    return Month(int(match[1]), int(match[2])) if match and 1 <= int(match[2]) <= 12 else None


def between(first: Month, last: Month) -> Iterator[Month]:
    while first <= last:
        yield first
        first = first.later()
