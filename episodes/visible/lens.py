"""What one actor may see of one episode: a value computed once, and the one function that takes out what it hides.

Owns the table of lenses and which names of a step each of them lets pass. Readers of steps (`trajectory.py`,
`windows.py`, sockets, pictures, places of labels, models' material) take a lens and no other word on who looks.
Leaves who has to judge what blind to `visibility.py`. A new way to see a step begins with a line in `LENSES`.
"""

from __future__ import annotations

import functools
import json
from enum import Flag, auto
from typing import Any

from django.db.models import QuerySet

from awmenv.offers import without_success
from episodes.models import Episode, Origin, Step
from episodes.stored.entries import WRITER
from episodes.visible import visibility
from people.access import Actor, sees_outcomes


class Lens(Flag):
    """What passes. Two lenses behind each other (`&`) let pass what both do."""

    OUTCOME = auto()
    """The verifier's step, and outcomes."""
    REWARDS = auto()
    """What an environment of others said of success at a step."""
    CHANGES = auto()
    """The rows that a tool changed, and what failed inside it."""
    MARKS = auto()
    """The marks by which a step's world can be made again."""
    NOTES = auto()
    """What a loop noted beside a step, all of it; without, by the names that pass."""
    BRIEFINGS = auto()
    """Words of a briefing whose author knew outcomes of other episodes, or the verifier."""


EVERYTHING = ~Lens(0)
BLIND = Lens.CHANGES
STREAM = Lens.OUTCOME | Lens.REWARDS | Lens.NOTES
"""What leaves as a hint, for any ears; the verifier's step goes to the topic of those who see outcomes alone."""
LABELS = EVERYTHING & ~Lens.REWARDS
"""What a label can be on, for everyone: others read the quote."""
MODEL = Lens.BRIEFINGS
"""What a model reads of an agent that it advises or learns from: what that agent knows."""
LENSES = {
    "member, or a token that is no agent's": EVERYTHING,
    "reviewer of another episode of its task, blind": EVERYTHING & ~Lens.BRIEFINGS,
    "reviewer of this episode, blind": BLIND,
    "agent": Lens.REWARDS | Lens.NOTES,
    "agent, of what its own loop recorded": Lens.REWARDS | Lens.NOTES | Lens.MARKS | Lens.BRIEFINGS,
}

_OF_CALLS = frozenset(
    {"tool_call_ok", "tool_call_error", "tool_not_found", "invalid_args", "invalid_action", "timeout", "server_error"}
)
"""Reward types that say how a call went, and nothing of the task."""
_ALWAYS = Lens(0)
_COMMON = dict.fromkeys(("seq", "kind", "at", "turn", "call_id", "acted_by", "cut"), _ALWAYS) | {
    "reward": Lens.REWARDS,
    "done": Lens.REWARDS,
    "state_diff": Lens.CHANGES,
    "usage": Lens.NOTES,
    "meta": _ALWAYS,
}
_NEEDS = {
    kind: _COMMON | dict.fromkeys(names.split(), Lens.OUTCOME if kind == "verification" else _ALWAYS)
    for kind, names in {
        "message": "role content pictures reasoning calls finish_reason tool_protocol",
        "tool_call": "name arguments result error reward_type approval",
        "action": "action observation error",
        "nudge": "content",
        "note": "content",
        "briefing": "text source author privilege sources",
        "ask": "ask question pictures context files typed thread advice",
        "verification": "reward_type details",
    }.items()
}
"""What must pass for a name of a step to pass, by the step's kind. A test compares it with the record format, because a
step in which no hidden name occurs is sent unread."""
_NOTES_NEED = dict.fromkeys(("duration_ms", "closed", "answered_by"), _ALWAYS) | {
    "traceback": Lens.CHANGES,
    "world": Lens.MARKS,
}


def hears_all(lens: Lens) -> bool:
    """Return whether frames of the stream go to a socket as they are: which topics it hears says the rest."""
    return STREAM & ~Lens.OUTCOME in lens


def lens_of(actor: Actor, episode: Episode) -> Lens:
    """Return what this actor may see of this episode, now."""
    if not sees_outcomes(actor):
        return LENSES["agent, of what its own loop recorded" if episode.origin == Origin.EXTERNAL else "agent"]
    if not visibility.sees_outcome(actor, episode):
        return BLIND
    if visibility.judges_its_task(actor, episode):
        return LENSES["reviewer of another episode of its task, blind"]
    return EVERYTHING


def through(lens: Lens, text: str) -> str:
    """Return a step's stored text without what this lens hides. A text that holds no name of it is not read."""
    if not any(word in text for word in _words_hidden(lens)):
        return text
    body: dict[str, Any] = json.loads(text)
    needs = _NEEDS[body["kind"]]
    seen = {name: value for name, value in body.items() if name in needs and needs[name] in lens}
    if Lens.REWARDS not in lens and seen.get("reward_type") not in _OF_CALLS:
        seen.pop("reward_type", None)
    if Lens.REWARDS not in lens and "observation" in seen:
        seen["observation"] = without_success(seen["observation"])
    if isinstance(notes := seen.get("meta"), dict):
        seen["meta"] = {name: value for name, value in notes.items() if _NOTES_NEED.get(name, Lens.NOTES) in lens}
    if Lens.BRIEFINGS not in lens and body["kind"] == "briefing" and body.get("privilege") == "sees_verifier":
        seen |= {"text": "", "cut": {"size": len(text), "fields": ["text"]}}
    return text if seen == body else WRITER.encode(seen)


def steps_through(lens: Lens, episode: Episode | str) -> QuerySet[Step]:
    """Return the rows of an episode's steps that pass, each of them yet to be seen `through` the lens."""
    rows = Step.objects.filter(episode=episode)
    return rows if Lens.OUTCOME in lens else rows.exclude(kind="verification")


@functools.cache
def _words_hidden(lens: Lens) -> tuple[str, ...]:
    """Return what to look for in a text: names that this lens hides, and kinds of steps of which it hides a part."""
    names = _COMMON | _NOTES_NEED | {"reward_type": Lens.REWARDS, "meta": Lens.NOTES}
    kinds = {"briefing": Lens.BRIEFINGS, "verification": Lens.OUTCOME, "action": Lens.REWARDS}
    return (
        # stored texts have no space after a colon, see `entries.WRITER`
        *(f'"{name}":' for name, need in names.items() if need not in lens),
        *(f'"kind":"{kind}"' for kind, need in kinds.items() if need not in lens),
    )
