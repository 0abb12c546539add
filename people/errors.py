"""Errors of all apps: a `code` for machines, a message for people, a status for HTTP."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db import InterfaceError, OperationalError
from psycopg.errors import DiskFull, QueryCanceled

AWAY = (OperationalError, InterfaceError)
"""What the database raises while it is unavailable or gives up a statement; the same call can succeed later. Its other
errors would be met again."""


class AppError(Exception):
    """Base of every refusal. Subclasses set `code` and `status`; the message defaults to the docstring."""

    code = "error"
    status = 400

    def __init__(self, message: str | None = None, *, code: str | None = None) -> None:
        self.message = message or (type(self).__doc__ or "").strip().splitlines()[0]
        self.code = code or type(self).code
        super().__init__(self.message)


class NotFound(AppError):
    """Not found in this project."""

    code = "not_found"
    status = 404


class Forbidden(AppError):
    """Your role does not allow this."""

    code = "forbidden"
    status = 403


class ProjectArchived(AppError):
    """This project is archived and read-only. An admin can restore it on the Projects page."""

    code = "project_archived"
    status = 409


class OnHold(AppError):
    """This is on legal hold, so it is not erased. An admin can release the hold on the Retention page."""

    code = "on_hold"
    status = 409


class WrongScope(AppError):
    """This token's scope does not allow this call."""

    code = "scope"
    status = 403


class KeyConflict(AppError):
    """This key was already used with a different request body."""

    code = "key_conflict"
    status = 409


class Unauthenticated(AppError):
    """Send a valid token in the Authorization header, or sign in."""

    code = "unauthenticated"
    status = 401


class ForeignHost(AppError):
    """Unknown host name in the request. Set AWMWEB_PUBLIC_URL to the address of this server."""

    code = "foreign_host"
    status = 400


class Invalid(AppError):
    """Invalid request."""

    code = "invalid"
    status = 422


class BadJson(AppError):
    """The body is not JSON."""

    code = "bad_json"
    status = 400


class TooLarge(AppError):
    """The request body is too large."""

    code = "too_large"
    status = 413


class TooSlow(AppError):
    """The request body arrived too slowly. Retry."""

    code = "too_slow"
    status = 408


class LinkSpent(AppError):
    """This link has expired or was already used. Ask an admin for a new one."""

    code = "link_spent"
    status = 410


class Busy(AppError):
    """Too many requests. Retry after the Retry-After delay."""

    code = "busy"
    status = 429


class Away(AppError):
    """The database is unavailable. Retry shortly."""

    code = "unavailable"
    status = 503


class NoSpace(Away):
    """The disk of the server is full. Free some space there; retry until then."""

    code = "no_space"


class Overlong(Away):
    """This takes the database too long. Narrow the filters, or ask for less."""

    code = "too_long"


def away_of(error: BaseException | None) -> Away:
    """Return the refusal for one of `AWAY` or of a full disk. A read that was ended at its limit of time is not a
    missing database, and a database that is unavailable on a full disk waits for space."""
    if isinstance(getattr(error, "__cause__", None), QueryCanceled):
        return Overlong()
    return NoSpace() if is_of_full_disk(error) or settings.DISK_IS_FULL() else Away()


def is_of_full_disk(error: BaseException | None) -> bool:
    """Return whether a write of the database or of a file found no space."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return isinstance(getattr(error, "__cause__", None), DiskFull)


class Broken(AppError):
    """Internal server error. See the server log."""

    code = "internal"
    status = 500


OF_SIZE = {"too_long", "too_short", "string_too_long", "string_too_short"} | {
    f"{than}{equal}" for than in ("less_than", "greater_than") for equal in ("", "_equal")
}
"""Kinds of pydantic's errors whose messages hold a bound and no value of the sender but its length."""


def words_of(wrong: Mapping[str, Any]) -> str:
    """Return pydantic's message for one wrong value: without its prefix for a validator's own message, and bounds with
    thousands separators.
    """
    words = str(wrong["msg"]).removeprefix("Value error, ").replace(" after validation", "")
    # the only values of any type with a length are `awmclient.fields.Text`
    if words.startswith("Value should have "):
        words = words.replace(" item", " character").removesuffix(", not 0")
    if wrong.get("type") not in OF_SIZE:
        return words
    return re.sub(r"(?<![\d.])\d{4,}(?!\d)", lambda number: f"{int(number[0]):,}", words)
