"""Reads: a pair of episodes as one reviewer sees it: which is A, and what they are asked. Pure but for the rows.

The order is drawn for each pair and reviewer by the seed of the queue, and stored with the answer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from episodes.models import Episode, Step
from people.access import Actor
from reviews.models import Preference, Preferred, Review

OVERALL = "Which is better?"
"""The first question of each pair; those of the rubric follow."""
LETTERS = {"a": Preferred.FIRST, "b": Preferred.SECOND, "equal": Preferred.EQUAL, "neither": Preferred.NEITHER}
"""What a reviewer says of A and B, where A is the first episode of the row."""
WORDS = {"a": "A", "b": "B", "equal": "Equal", "neither": "Neither"}
_SEEN = ("kind", "role", "content", "name", "arguments", "result", "error", "action", "observation", "question", "text")
"""Fields of a step that make it another one to a reviewer: not when it happened, what it took, and IDs."""
_OTHER = {Preferred.FIRST: Preferred.SECOND, Preferred.SECOND: Preferred.FIRST}


def draw(seed: int, key: object) -> float:
    """Return a number from 0 to 1 that depends on the seed and the key only, so that a sample can be drawn again and
    checked."""
    # SHA-256, because `hash` of Python has another seed in each process
    digest = hashlib.sha256(f"{seed}/{key}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def is_swapped(actor: Actor, review: Review) -> bool:
    """Return whether this reviewer sees the second episode as A."""
    return draw(review.queue.seed, f"order/{review.pk}/{actor.key}") < 0.5


def sides(actor: Actor, review: Review) -> tuple[Episode, Episode]:
    """Return the episodes of a pair as A and B of this reviewer."""
    assert review.other is not None
    return (review.other, review.episode) if is_swapped(actor, review) else (review.episode, review.other)


def as_stored(letter: str, swapped: bool) -> str:
    """Return what a reviewer said of A and B by the order of the row; empty if it is no answer."""
    choice = LETTERS.get(letter)
    return "" if choice is None else str(_OTHER.get(choice, choice) if swapped else choice)


def letter_of(choice: str, swapped: bool) -> str:
    """Return a stored choice as the reviewer said it."""
    return next(letter for letter in LETTERS if as_stored(letter, swapped) == choice)


def shown_choice(answer: Preference) -> str:
    """Return an answer on the whole in the words of its reviewer."""
    return WORDS[letter_of(answer.choice, answer.is_swapped)]


def questions_of(rubric: Sequence[str]) -> list[str]:
    return [OVERALL, *rubric]


def answers_of(answer: Preference) -> Mapping[str, str]:
    """Return an answer by question, by the order of the row."""
    return {OVERALL: answer.choice, **answer.answers}


def content_of(step: Mapping[str, Any]) -> str:
    """Return what an agent did, asked and read in a step, without when it happened and what it took."""
    seen = {name: step.get(name) for name in _SEEN}
    advice = step.get("advice") or {}
    answer = [advice.get(name) for name in ("text", "decision", "tool_calls")]
    return json.dumps({**seen, "advice": answer}, sort_keys=True)


def digest_of(episode: str) -> str:
    """Return a digest of what a reviewer sees of an ended episode: its steps, but for the verifier's, and its answer.
    Two sides of a pair with one digest are the same."""
    total = hashlib.sha256((Episode.every.get(pk=episode).final_answer or "").encode())
    for step in Step.objects.filter(episode=episode).exclude(kind="verification").order_by("seq").iterator():
        # the length first, so that no text can look like the end of another
        content = content_of(step.wire()).encode()
        total.update(b"%d:%s" % (len(content), content))
    return total.hexdigest()
