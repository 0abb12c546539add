"""Refusals of exports; the edge turns them into the envelope, a form message or a command's error."""

from __future__ import annotations

from people.errors import AppError


class BadRecipe(AppError):
    """Invalid recipe."""

    code = "bad_recipe"
    status = 422


class NotBuilt(AppError):
    """This export has no files yet."""

    code = "not_built"
    status = 409
