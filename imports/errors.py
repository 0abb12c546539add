"""Refusals of imports."""

from __future__ import annotations

from people.errors import AppError


class FileRefused(AppError):
    """The file cannot be imported."""

    code = "file_refused"
    status = 422
