"""Refusals of the expert queue; the edge turns them into the envelope or a form message."""

from __future__ import annotations

from people.errors import AppError


class ExpertOff(AppError):
    """This episode was started with the expert off."""

    code = "expert_off"
    status = 409


class AskConflict(AppError):
    """This key belongs to an ask with another body."""

    code = "key_conflict"
    status = 409


class AlreadyClaimed(AppError):
    """Somebody else holds this ask."""

    code = "already_claimed"
    status = 409


class LeaseLost(AppError):
    """The lease is no longer yours. Your text is kept as an alternative answer."""

    code = "lease_lost"
    status = 409


class TooLate(AppError):
    """The ask is closed. Your text is kept with it, and the agent did not get it."""

    code = "too_late"
    status = 409


class StillOpen(AppError):
    """The ask is still open; there is nothing to consume yet."""

    code = "still_open"
    status = 409


class TooManyAsks(AppError):
    """This episode has too many open asks; wait for one of them."""

    code = "too_many_asks"
    status = 429
