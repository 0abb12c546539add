"""Errors of the house's apps: a `code` for machines, a message for people, a status for the edge that translates it."""

from __future__ import annotations


class AppError(Exception):
    """Base of every refusal. Subclasses set `code` and `status`; the message defaults to the docstring."""

    code = "error"
    status = 400

    def __init__(self, message: str | None = None, *, code: str | None = None) -> None:
        self.message = message or (type(self).__doc__ or "").strip().splitlines()[0]
        self.code = code or type(self).code
        super().__init__(self.message)


class NotFound(AppError):
    """There is no such object in this project."""

    code = "not_found"
    status = 404


class Forbidden(AppError):
    """Your role does not allow this."""

    code = "forbidden"
    status = 403


class WrongScope(AppError):
    """This token's scope does not allow this call."""

    code = "scope"
    status = 403


class Unauthenticated(AppError):
    """Send a valid token in the Authorization header, or sign in."""

    code = "unauthenticated"
    status = 401


class ForeignHost(AppError):
    """This server does not go by the name that the request gives; AWMWEB_PUBLIC_URL says which name it has."""

    code = "foreign_host"
    status = 400


class Invalid(AppError):
    """The request does not have the shape that this call takes."""

    code = "invalid"
    status = 422


class BadJson(AppError):
    """The body is not JSON."""

    code = "bad_json"
    status = 400


class TooLarge(AppError):
    """The body is larger than this call takes."""

    code = "too_large"
    status = 413


class TooSlow(AppError):
    """The body came too slowly; send the same again."""

    code = "too_slow"
    status = 408


class LinkSpent(AppError):
    """This link was used already or has ended; ask for a new one."""

    code = "link_spent"
    status = 410


class Busy(AppError):
    """Too much at once; try the same again in a moment."""

    code = "busy"
    status = 429


class Away(AppError):
    """The database is away; try again."""

    code = "unavailable"
    status = 503


class Broken(AppError):
    """Something broke on our side; it is in the log."""

    code = "internal"
    status = 500
