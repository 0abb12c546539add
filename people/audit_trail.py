"""Read the audit trail of a project: filters, pages by cursor, and CSV.

Writes go through `audit.record`. Called by the Audit page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from django.db.models import QuerySet

from people.access import Actor, may_manage_projects, scoped
from people.errors import Invalid
from people.models import AuditEntry
from people.text import spreadsheets

COLUMNS = ("at", "actor", "verb", "target", "reason")
CSV_ROWS = 50_000
PAGE_ROWS = 100
"""A cell that begins with one of these is a formula to a spreadsheet."""


@dataclass(frozen=True)
class Filters:
    """What an address asks for; empty means all."""

    actor: str = ""
    verb: str = ""
    since: date | None = None
    until: date | None = None
    """Both days count, in `zone`."""
    zone: tzinfo = UTC

    @classmethod
    def read(cls, query: Mapping[str, str], zone: tzinfo = UTC) -> Filters:
        """Raise `Invalid` for a value that is no date."""
        # No entry has U+0000, and PostgreSQL refuses to compare with it.
        texts = {name: query.get(name, "").replace("\x00", "").strip() for name in ("actor", "verb")}
        return cls(**texts, since=_day(query.get("since", "")), until=_day(query.get("until", "")), zone=zone)

    def rows(self, actor: Actor) -> QuerySet[AuditEntry]:
        """Return entries of the actor's project, newest first."""
        may_manage_projects(actor)
        # By ID, which is also the cursor of the pages: the times of two entries can be equal.
        rows = scoped(AuditEntry.objects.all(), actor.project).order_by("-pk")
        if self.actor:
            rows = rows.filter(actor=self.actor)
        if self.verb:
            rows = rows.filter(verb=self.verb)
        if self.since:
            rows = rows.filter(at__gte=datetime.combine(self.since, time(), self.zone))
        if self.until:
            # Up to the next midnight, so that the last microsecond of the day counts.
            rows = rows.filter(at__lt=datetime.combine(self.until + timedelta(days=1), time(), self.zone))
        return rows


def _day(text: str) -> date | None:
    if not text:
        return None
    try:
        day = date.fromisoformat(text)
    except ValueError as error:
        raise Invalid(f"{text[:40]!r} is not a date. Use the form 2026-12-31.") from error
    # A day is added and a zone applied below, and `datetime` ends with the year 9999.
    if day.year > 9000:
        raise Invalid("Use a date before the year 9000.")
    return day


def choices(actor: Actor, column: str) -> list[str]:
    """Return the values that a column has in this project, for a filter."""
    may_manage_projects(actor)
    rows = scoped(AuditEntry.objects.all(), actor.project).order_by(column)
    return list(rows.values_list(column, flat=True).distinct()[:500])


def in_csv(entries: Iterable[AuditEntry]) -> str:
    """Return the entries as CSV."""
    return spreadsheets.in_csv(
        COLUMNS, ((one.at.astimezone(UTC).isoformat(), one.actor, one.verb, one.target, one.reason) for one in entries)
    )
