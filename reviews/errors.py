"""Refusals of reviewing; the edge turns them into the envelope or a form message."""

from __future__ import annotations

from collections.abc import Sequence

from people.errors import AppError


class SchemaEnded(AppError):
    """This label has a newer version. Nothing was saved. Reload to see the new version."""

    code = "schema_ended"
    status = 409


class ReviewClaimed(AppError):
    """All open reviews of this episode are claimed."""

    code = "already_claimed"
    status = 409


class ReviewLeaseLost(AppError):
    """Your claim expired and someone else took over. Your verdict is saved and not counted."""

    code = "lease_lost"
    status = 409


class ReviewClosed(AppError):
    """This review is closed. Your verdict is saved and not counted."""

    code = "too_late"
    status = 409


class Declined(AppError):
    """You declined this review."""

    code = "declined"
    status = 409


class AlreadyReviewed(AppError):
    """You already reviewed this episode in this queue."""

    code = "already_reviewed"
    status = 409


class NotSettled(AppError):
    """This episode has not ended, or its verifier has not run yet."""

    code = "not_settled"
    status = 409


class NothingToReview(AppError):
    """No review in this queue is open to you."""

    code = "nothing_to_review"
    status = 409


class NotBeforeVerdict(AppError):
    """Give your verdict first. Other reviews and the outcome open after it."""

    code = "verdict_first"
    status = 409


class OutcomesOpen(AppError):
    """The outcomes of this pair are open to you by now, so its answer stays."""

    code = "outcomes_open"
    status = 409


class Changed(AppError):
    """This comment has newer words, or was withdrawn. Nothing was saved. Reload to see it."""

    code = "changed"
    status = 409


class Moved(AppError):
    """The step reads differently at these letters. Nothing was saved. Reload, then select the text again."""

    code = "moved"
    status = 409


class UnknownName(AppError):
    """A name after an @ names no member. Nothing was saved."""

    code = "unknown_name"
    status = 422

    @classmethod
    def of(cls, names: Sequence[str]) -> UnknownName:
        """Return the refusal of these names."""
        mentions = ", ".join(f"@{name}" for name in names)
        return cls(f"No member is named {mentions}. Mend the name, or send again to post it as text.")


class NotYourAnnotation(AppError):
    """Only its author can change or withdraw this."""

    code = "not_yours"
    status = 409
