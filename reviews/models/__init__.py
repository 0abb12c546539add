"""Rows about what people, models and programs say of an episode after it happened.

    labels  annotations, their schemas, corrections
    queues  queues, reviews, verdicts, answers on pairs
    court   doubted tasks and rulings

Owns what a row may contain and facts about one row; changes are of `record/`.
"""

from reviews.models.court import CourtCase, Disagreement, Explanation, Ruling, Word
from reviews.models.labels import (
    AUTHOR_KINDS,
    COMMENT,
    SCALE_MAX,
    Annotation,
    Authored,
    Correction,
    CorrectionKind,
    LabelSchema,
    Mention,
    SchemaKind,
)
from reviews.models.queues import (
    LEASE_S,
    Confidence,
    Preference,
    Preferences,
    Preferred,
    QueueKind,
    QueueRule,
    Review,
    ReviewDecline,
    ReviewQueue,
    ReviewSlot,
    Verdict,
    VerdictDecision,
    Verdicts,
)

__all__ = [
    "CourtCase",
    "Disagreement",
    "Explanation",
    "Ruling",
    "Word",
    "AUTHOR_KINDS",
    "Annotation",
    "Authored",
    "COMMENT",
    "Correction",
    "CorrectionKind",
    "LabelSchema",
    "Mention",
    "SCALE_MAX",
    "SchemaKind",
    "Preferred",
    "Confidence",
    "LEASE_S",
    "Preference",
    "Preferences",
    "QueueKind",
    "QueueRule",
    "Review",
    "ReviewDecline",
    "ReviewQueue",
    "ReviewSlot",
    "Verdict",
    "VerdictDecision",
    "Verdicts",
]
