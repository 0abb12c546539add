"""The rows of this app, by subject: what is said to asks, the desk, the notices. Django finds its models here."""

from experts.models.asks import (
    EARLIER,
    LATE,
    MODEL,
    Advice,
    Annotation,
    Ask,
    AskEvent,
    AskQuerySet,
    AskStatus,
    Assignment,
    AssignmentState,
    Decline,
    Draft,
    Privilege,
    Tier,
)
from experts.models.desk import Desk, ModelCall, Presence, QuickReply
from experts.models.notices import Channel, Delivery, DeliveryState, QuietHours, Subscription, SubscriptionQuerySet

__all__ = [
    "Advice",
    "Annotation",
    "Ask",
    "AskEvent",
    "AskQuerySet",
    "AskStatus",
    "Assignment",
    "AssignmentState",
    "Channel",
    "Decline",
    "Delivery",
    "DeliveryState",
    "Desk",
    "Draft",
    "EARLIER",
    "LATE",
    "MODEL",
    "ModelCall",
    "Presence",
    "Privilege",
    "QuickReply",
    "QuietHours",
    "Subscription",
    "SubscriptionQuerySet",
    "Tier",
]
