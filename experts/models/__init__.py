"""The rows of this app, by subject: asks with their answers, and the desk. Django finds its models here."""

from episodes.models import Privilege
from experts.models.asks import (
    EARLIER,
    LATE,
    MODEL,
    TOKEN,
    Advice,
    Ask,
    AskEvent,
    AskQuerySet,
    AskStatus,
    Assignment,
    Decline,
    Draft,
    Tier,
)
from experts.models.desk import Desk, ModelCall, Presence, QueueView, QuickReply

__all__ = [
    "Advice",
    "Ask",
    "AskEvent",
    "AskQuerySet",
    "AskStatus",
    "Assignment",
    "Decline",
    "Desk",
    "Draft",
    "EARLIER",
    "LATE",
    "MODEL",
    "ModelCall",
    "Presence",
    "Privilege",
    "QueueView",
    "QuickReply",
    "TOKEN",
    "Tier",
]
