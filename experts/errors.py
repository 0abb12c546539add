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


class Passed(AppError):
    """You passed on this ask; it is the others' now."""

    code = "passed"
    status = 409


class NotForYou(AppError):
    """This ask needs a skill that you do not have, or a named person."""

    code = "not_eligible"
    status = 409


class AtCapacity(AppError):
    """You hold as many asks as one person may; answer or give one back first."""

    code = "at_capacity"
    status = 409


class Used(AppError):
    """The agent has read this advice; it can no longer be changed or taken back."""

    code = "consumed"
    status = 409


class NotYours(AppError):
    """Only the one who gave this advice may change it or take it back."""

    code = "not_yours"
    status = 409


class PolicyRefused(AppError):
    """Nothing was saved: a value of the desk needs another look."""

    code = "invalid"
    status = 422

    def __init__(self, problems: dict[str, str]) -> None:
        super().__init__("Nothing was saved. " + " ".join(f"{name}: {words}" for name, words in problems.items()))
        self.problems = problems


class DraftConflict(AppError):
    """You wrote on in another tab or on another device. Nothing was overwritten."""

    code = "draft_conflict"
    status = 409

    def __init__(self, text: str, version: int) -> None:
        super().__init__()
        self.text, self.version = text, version


class ForeignOrigin(AppError):
    """A page of another address may not call this."""

    code = "origin"
    status = 403


class NoSession(AppError):
    """Send the Mcp-Session-Id that the answer to initialize carried."""

    code = "session_missing"
    status = 400


class NoSuchMethod(AppError):
    """This address takes GET, POST and DELETE."""

    code = "method_not_allowed"
    status = 405
