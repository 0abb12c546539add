"""Reads: a pair of episodes as one reviewer sees it: which is A, and what they are asked. Pure but for the rows.

The order is drawn for each pair and reviewer by the seed of the queue, and stored with the answer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, tee
from operator import itemgetter
from typing import Any

from awmclient.nouns.kinds import is_action, is_ask, is_briefing, is_call, is_said
from episodes.models import Episode, Step
from people.access import Actor
from reviews.models import Preference, Preferred, Review

OVERALL = "Which is better?"
"""The first question of each pair; those of the rubric follow."""
LETTERS = {"a": Preferred.FIRST, "b": Preferred.SECOND, "equal": Preferred.EQUAL, "neither": Preferred.NEITHER}
"""What a reviewer says of A and B, where A is the first episode of the row."""
WORDS = {"a": "A", "b": "B", "equal": "Equal", "neither": "Neither"}
_UNSEEN = {
    *("seq", "at", "turn", "call_id", "acted_by", "ask", "thread", "usage", "meta", "options"),
    *("reward", "done", "reward_type"),
}
"""Names of a step that make it no other one: numbers, times, IDs, tokens, a model's options, and words on success."""
_LISTS = ("calls", "tool_calls", "files", "decided")
_OF_ENTRIES = {"id", "call_id", "at"}
"""Names of entries of these lists that make them no others."""
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
    """Return what an agent did, asked and read in a step: all of it but for times, IDs, tokens and notes."""
    seen = _seen(step)
    if isinstance(reasoning := seen.get("reasoning"), Mapping):
        # its parts have signatures
        seen["reasoning"] = reasoning.get("text")
    if isinstance(typed := seen.get("typed"), Mapping):
        seen["typed"] = {**_seen(typed), "options": typed.get("options")}
    if isinstance(advice := seen.get("advice"), Mapping):
        seen["advice"] = _seen(advice)
        if isinstance(decision := advice.get("decision"), Mapping):
            seen["advice"]["decision"] = _seen(decision)
    return json.dumps(seen, sort_keys=True)


def _seen(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is there and seen, and entries of lists without their IDs."""
    seen = {name: value for name, value in body.items() if name not in _UNSEEN and value is not None}
    for name in _LISTS:
        if isinstance(entries := seen.get(name), list):
            seen[name] = [{key: value for key, value in one.items() if key not in _OF_ENTRIES} for one in entries]
    return seen


def prompts_among(steps: Iterable[Mapping[str, Any]]) -> Iterator[bool]:
    """Yield for each step in order whether it sets the agent up, by which its arm can be known: system messages,
    briefings, and what users said before the agent did anything."""
    has_begun = False
    for step in steps:
        role = step.get("role")
        has_begun = has_begun or is_said(step) or is_call(step) or is_action(step) or is_ask(step)
        yield is_briefing(step) or role == "system" or (role == "user" and not has_begun)


def answers_by_episode(episodes: Collection[str]) -> dict[str, str]:
    """Return the final answers of those of these episodes that are still there."""
    rows = Episode.every.filter(pk__in=episodes).values_list("pk", "final_answer")
    return {pk: answer or "" for pk, answer in rows}


def digests_of(episodes: Collection[str]) -> dict[str, str]:
    """Return a digest of the steps of each ended episode that a reviewer of a pair sees: all but prompts and the
    verifier's."""
    rows = Step.objects.filter(episode__in=episodes).exclude(kind="verification").order_by("episode", "seq")
    digests = dict.fromkeys(episodes, hashlib.sha256().hexdigest())
    for episode, bodies in groupby(rows.values_list("episode_id", "body").iterator(), key=itemgetter(0)):
        digests[episode] = _digest_of(json.loads(body) for _, body in bodies)
    return digests


def _digest_of(steps: Iterable[dict[str, Any]]) -> str:
    total = hashlib.sha256()
    kept, asked = tee(steps)
    for step, is_prompt in zip(kept, prompts_among(asked), strict=True):
        if not is_prompt:
            # the length first, so that no text can look like the end of another
            content = content_of(step).encode()
            total.update(b"%d:%s" % (len(content), content))
    return total.hexdigest()
