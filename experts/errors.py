"""Refusals of the expert queue; the edge turns them into the envelope or a form message."""

from __future__ import annotations

from people.errors import AppError


class ExpertOff(AppError):
    """Expert help is off for this episode."""

    code = "expert_off"
    status = 409


class AskConflict(AppError):
    """This key was already used with a different request body."""

    code = "key_conflict"
    status = 409


class AlreadyClaimed(AppError):
    """Someone else has claimed this ask."""

    code = "already_claimed"
    status = 409


class LeaseLost(AppError):
    """Your claim of this ask has ended. Claim it again if no one else has it."""

    code = "lease_lost"
    status = 409


class TooLate(AppError):
    """The ask is closed. Your text is saved with it; the agent did not get it."""

    code = "too_late"
    status = 409


class TooManyFiles(AppError):
    """There are already 5 files, the maximum."""

    code = "too_many_files"
    status = 409


class StillOpen(AppError):
    """The ask is still open. There is no answer to confirm yet."""

    code = "still_open"
    status = 409


class TooManyAsks(AppError):
    """This episode has the maximum number of open asks. Wait until one is closed."""

    code = "too_many_asks"
    status = 429


class AlreadyDeclined(AppError):
    """You declined this ask."""

    code = "passed"
    status = 409


class AlreadyDecided(AppError):
    """You decided this approval. It needs another person."""

    code = "already_decided"
    status = 409


class NotForYou(AppError):
    """This ask requires a skill you do not have, or a specific person."""

    code = "not_eligible"
    status = 409


class AtCapacity(AppError):
    """You have reached the claim limit. Answer or release an ask first."""

    code = "at_capacity"
    status = 409


class Used(AppError):
    """The agent has read this answer. It can no longer be edited or withdrawn."""

    code = "consumed"
    status = 409


class NotYours(AppError):
    """Only its author can edit or withdraw this answer."""

    code = "not_yours"
    status = 409


class PolicyRefused(AppError):
    """Not saved. Fix the values listed."""

    code = "invalid"
    status = 422

    def __init__(self, problems: dict[str, str]) -> None:
        super().__init__("Not saved. " + " ".join(f"{name}: {words}" for name, words in problems.items()))
        self.problems = problems


class DraftConflict(AppError):
    """This draft was edited in another tab or device. Nothing was overwritten."""

    code = "draft_conflict"
    status = 409

    def __init__(self, text: str, version: int) -> None:
        super().__init__()
        self.text, self.version = text, version


class ForeignOrigin(AppError):
    """Cross-origin requests are not allowed."""

    code = "origin"
    status = 403


class NoSession(AppError):
    """Missing Mcp-Session-Id header. Send the value returned by initialize."""

    code = "session_missing"
    status = 400


class NoSuchMethod(AppError):
    """Method not allowed. Use GET, POST or DELETE."""

    code = "method_not_allowed"
    status = 405


class TaskEnded(AppError):
    """This task has ended."""

    code = "task_ended"
    status = 409
