"""Runs the parts of a periodic task, each for itself: one row that is broken must not end the work for all others."""

from __future__ import annotations

from collections.abc import Callable

from people.errors import AWAY


def run_each(*parts: Callable[[], object]) -> None:
    """Run all parts, also after one that failed.

    Raises:
        OperationalError, InterfaceError: the database is unavailable. It ends all parts: each would wait for it.
        ExceptionGroup: at the end, with the errors of those that failed.
    """
    errors: list[Exception] = []
    for part in parts:
        try:
            part()
        except AWAY:
            raise
        except Exception as error:
            errors.append(error)
    if errors:
        raise ExceptionGroup("parts of a periodic task failed", errors)
