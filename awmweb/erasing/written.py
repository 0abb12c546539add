"""Where an account's words are: rows that go, fields that are emptied, and rows that stay and are named.

Owns the lists alone; `persons.py` works through them. `tests/awmweb/test_erasing_everywhere.py` fails on a table that
names an author and is in none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Model

from curriculum.models import Decision
from episodes.models import EpisodeEvent, Fork, Run, SavedView, Split, VerifierVersion, WheelOrder
from experts.models import (
    ERASED,
    Advice,
    AskEvent,
    Attachment,
    Decline,
    Draft,
    Presence,
    QueueView,
    QuickReply,
    QuorumDecision,
    StandingAnswer,
)
from exports.models import Export, Push
from imports.models import Import
from notices.models import Delivery
from people.models import AuditEntry, Hold
from reviews.models import (
    Annotation,
    Correction,
    LabelSchema,
    Preference,
    QueueRule,
    ReviewDecline,
    ReviewQueue,
    Ruling,
    Verdict,
)
from runs.models import Briefing, Campaign, PersonTurn, Plan

WORD = "[erased]"
DELETED: Sequence[tuple[type[Model], str, str]] = (
    (Draft, "author_key", "ask__project"),
    (QuickReply, "author_key", "project"),
    (Attachment, "uploader_key", "ask__project"),
    (Correction, "author_key", "episode__project"),
    (SavedView, "author_key", "project"),
    (QueueView, "author_key", "project"),
)
"""What nothing refers to goes as rows."""
EMPTIED: Sequence[tuple[type[Model], str, str, Mapping[str, Any]]] = (
    (Annotation, "author_key", "episode__project", {"text": WORD}),
    (Verdict, "author_key", "episode__project", {"note": ""}),
    (Preference, "author_key", "review__queue__project", {"nonce": ""}),
    (Ruling, "author_key", "case__project", {"reason": WORD}),
    (ReviewDecline, "author_key", "review__queue__project", {"reason": ""}),
    (Decline, "author_key", "ask__project", {"reason": ""}),
    (QuorumDecision, "author_key", "ask__project", {"calls_digest": ""}),
    (AskEvent, "actor_key", "ask__project", {"reason": ""}),
    # a campaign without its change makes no further fork
    (Campaign, "author_key", "project", {"change": {}, "name": WORD, "view": "", "query": ""}),
)
NAMED: Sequence[tuple[type[Model], str, str, Mapping[str, Any]]] = (
    (Briefing, "author", "project", {"text": "", "reason": ERASED}),
    (EpisodeEvent, "actor", "episode__project", {"reason": ""}),
    (AuditEntry, "actor", "project", {"reason": ""}),
    (Decision, "made_by", "run__project", {"reason": WORD}),
    (VerifierVersion, "created_by", "project", {"reason": WORD}),
    (Hold, "placed_by", "project", {"reason": WORD, "name": "", "query": ""}),
)
"""Rows that know their author by name alone: left as they are if another account has the same name."""
KEYED: Sequence[tuple[type[Model], str]] = (
    *((model, "author") for model in (Advice, Annotation, Campaign, Correction, Decline, Draft, PersonTurn)),
    *((model, "author") for model in (QueueView, QuickReply, ReviewDecline, Ruling, SavedView, StandingAnswer)),
    *((model, "author") for model in (Preference, QueueRule, QuorumDecision, Verdict, WheelOrder)),
    (AskEvent, "actor"),
)
"""Rows with an author's key beside the name that the author had then."""
SIGNED = frozenset(
    {"actor", "author", "changed_by", "created_by", "ended_by", "holder_name", "made_by", "placed_by"}
    | {"released_by", "reported_by", "requested_by", "started_by", "undone_by"}
)
"""Fields with the name of who did something. That of a person stays; that of a token is a word of its person."""
QUOTED: Sequence[tuple[type[Model], str, str]] = (
    (Delivery, "words", "subscription__project"),
    (Delivery, "shown", "subscription__project"),
    (Presence, "name", "project"),
)
"""Texts in which awmweb writes such a name."""
ELSEWHERE: Sequence[type[Model]] = (Advice, StandingAnswer)
"""What takes more than an empty field: `persons.py` has a function for each."""
ACTED: Sequence[type[Model]] = (WheelOrder, PersonTurn, Fork)
"""What an account did in episodes, which go as a whole."""
SET_UP: Mapping[type[Model], tuple[str, str, str]] = {
    Run: ("created_by", "project", "run"),
    Plan: ("changed_by", "run__project", "plan of a run"),
    Split: ("created_by", "project", "split"),
    LabelSchema: ("author", "project", "label"),
    ReviewQueue: ("author", "project", "review queue"),
    QueueRule: ("author", "queue__project", "rule of a review queue"),
    Export: ("requested_by", "project", "export"),
    Push: ("requested_by", "project", "push"),
    Import: ("requested_by", "project", "import"),
}
"""What others work with: it stays, with the names and settings that its author gave it."""
