"""The time zone of a reader, as their browser says it in a cookie (`static/shell/clock.js`)."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from django.http import HttpRequest

COOKIE, LONGEST = "zone", 64


def zone_of(request: HttpRequest) -> tzinfo:
    """Return the reader's zone; UTC if it is not known, as at the first visit."""
    name = request.COOKIES.get(COOKIE, "")[:LONGEST]
    try:
        return ZoneInfo(name) if name else UTC
    except (ValueError, OSError, LookupError):  # a name of no zone, or of a path
        return UTC


def zone_name(zone: tzinfo) -> str:
    """Return the name of a zone: Europe/Berlin, or UTC."""
    return str(zone)


def midnight(now: datetime, zone: tzinfo) -> datetime:
    """Return when the reader's day began."""
    return now.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
