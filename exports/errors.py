"""Refusals of exports; the edge turns them into the envelope, a form message or a command's error."""

from __future__ import annotations

from people.errors import AppError


class UnknownFormat(AppError):
    """There is no such format."""

    code = "unknown_format"
    status = 422
