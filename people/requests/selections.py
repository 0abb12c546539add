"""Keeps the rows that a refused command was for, so that the list it returns to has them selected again.

They stay in the session until the list is shown once.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.http import HttpRequest

MOST = 500
_KEY = "selection"


def keep(request: HttpRequest, page: str, ids: Sequence[str], *, is_all: bool = False) -> None:
    """Keep what was selected on a page; with `is_all` everything that matches."""
    request.session[_KEY] = [page, "all" if is_all else " ".join(ids[:MOST])]


def take(request: HttpRequest, page: str) -> str:
    """Return what was kept for this page, once: IDs with spaces between them, "all", or ""."""
    if request.session.get(_KEY, ("",))[0] != page:
        return ""
    return str(request.session.pop(_KEY)[1])
