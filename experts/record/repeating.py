"""What a repeated key means: in what a second ask of one key differs from the first.

Owns the comparison of what is stored with what is asked again. Leaves the ask to `opening.py`, which calls it once the
digests of both differ.
"""

from __future__ import annotations

import math
from datetime import datetime

from awmclient.nouns.typed import TYPED_FIELDS
from awmclient.schema import AskOpen
from episodes.record import ask_steps, recording
from experts.models import Ask

SLOW_S = 2
"""Seconds that writing an ask can take after its deadlines were computed; smaller differences are no conflict."""


def difference(earlier: Ask, body: AskOpen) -> str | None:
    """Return the message for a known key with another body, naming the fields that differ; None if none is found."""
    fields = body.model_dump(include={"seq", "question", "context", "skills", "group_key"})
    if not earlier.events.filter(verb="priority").exists():  # otherwise a person changed it
        fields["priority"] = body.priority
    others = recording.differing(earlier, fields)
    step = ask_steps.body_of(earlier.episode_id, earlier.seq)
    asked_with = body.model_dump(include={"turn", "call_id", "pictures"}, exclude_none=True)
    others += [name for name in ("turn", "call_id", "pictures") if step.get(name) != asked_with.get(name)]
    apart = {
        "deadline_s": _apart(earlier, earlier.deadline_at, body.deadline_s),
        "human_deadline_s": _apart(earlier, earlier.human_deadline_at, body.human_deadline_s),
    }
    others += [name for name, seconds in apart.items() if seconds >= SLOW_S]
    # half a second apart counts only if nothing else explains the conflict
    others = others or [name for name, seconds in apart.items() if seconds >= 0.5]
    typed = {"kind": "question"} | (earlier.typed or {})
    asked = {"kind": body.kind} | body.typed()
    # the people of an approval can be more than its agent wanted
    others += [name for name in ("kind", *TYPED_FIELDS) if name != "quorum" and typed.get(name) != asked.get(name)]
    others += ["thread"] if (earlier.thread_id or None) != body.thread else []
    others = others or ["quorum"] * (typed.get("quorum") != asked.get("quorum"))
    others.sort(key=list(AskOpen.model_fields).index)
    return recording.other_values(f"The key {earlier.key!r} was already used for an ask", others) if others else None


def _apart(earlier: Ask, at: datetime | None, wanted_s: int | None) -> float:
    """Return the difference between a stored and a requested deadline in seconds."""
    if at is None or wanted_s is None:
        return 0 if at is None and wanted_s is None else math.inf
    return abs((at - earlier.created_at).total_seconds() - wanted_s)
