"""Refusals of this app; the message is the docstring unless one is given."""

from __future__ import annotations

from people.errors import AppError, Invalid


class TooManySent(AppError):
    """Too many were sent. Try again later."""

    code = "too_many_sent"
    status = 429


class WrongCode(Invalid):
    """Wrong code. Use the code from the newest mail."""

    code = "wrong_code"
