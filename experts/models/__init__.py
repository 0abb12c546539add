"""The rows of this app, by subject: what is said to asks, and the desk. Django finds its models here.

    asks  asks, assignments, advice, files; state tables
    desk  rules, presence, replies, model calls
    quorum  decisions of several people
    standing  approvals ahead

Every room of `experts` and every app above it can import it.
"""

from episodes.models import Privilege
from experts.models.asks import (
    BEFORE_PEOPLE,
    CUT_OFF,
    EARLIER,
    ERASED,
    LATE,
    MODEL,
    NONCE_OF_PRESS,
    SIMULATED,
    TOKEN,
    Advice,
    Ask,
    AskEvent,
    AskQuerySet,
    AskStatus,
    Assignment,
    Attachment,
    Decline,
    Draft,
    Tier,
    by_program,
    is_program,
)
from experts.models.desk import Desk, ModelCall, Presence, QueueView, QuickReply
from experts.models.quorum import QuorumDecision
from experts.models.standing import StandingAnswer

__all__ = [
    "Advice",
    "Ask",
    "AskEvent",
    "AskQuerySet",
    "AskStatus",
    "Assignment",
    "Attachment",
    "BEFORE_PEOPLE",
    "CUT_OFF",
    "Decline",
    "Desk",
    "Draft",
    "EARLIER",
    "ERASED",
    "LATE",
    "NONCE_OF_PRESS",
    "MODEL",
    "ModelCall",
    "Presence",
    "Privilege",
    "QueueView",
    "QuickReply",
    "QuorumDecision",
    "SIMULATED",
    "StandingAnswer",
    "TOKEN",
    "Tier",
    "by_program",
    "is_program",
]
