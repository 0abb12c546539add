"""Reads: where an ask goes when a person declines it, and who else can claim it, in words.

Owns the rule and its sentences, which pages print before a press and after it. Leaves the moves to `record/queue.py`.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from episodes.show.decisions import on_timeout_in_words
from experts.models import BEFORE_PEOPLE, MODEL, Ask, AskStatus, Draft, Tier
from experts.rules.routing import next_tier
from experts.who import advisers
from experts.who.advisers import Reach
from people.text.plain_text import clean

OTHERS, ABSENT, ENDS = "others", "absent", "ends"
STAYS = {
    OTHERS: "Others can still answer.",
    ABSENT: "Others can still answer, but none of them is online.",
}
TIERS = {Tier.LLM: "the model", Tier.PEOPLE: "people", Tier.SENIOR: "the senior expert"}
GOES_ON = "The agent goes on without advice."
HUMAN_PASSED = "human_passed"
"""The reason of a move that a decline caused."""


def goes_to(ask: Ask, can: Collection[str], present: Collection[str]) -> str:
    """Return what becomes of a declined ask that these people can still answer: it stays, for others or for absent
    ones, goes to the tier that is returned, or ends."""
    # with no one online it moves on if a tier follows; otherwise it waits, as someone can still come
    following = next_tier(ask.tiers, ask.tier)
    if following is not None and not present:
        return following
    return OTHERS if present else ABSENT if can else ENDS


def before(ask: Ask, me: str, reach: Reach, declined: Collection[str], now: datetime) -> str:
    """Return what declining this ask would lead to."""
    if ask.tier not in BEFORE_PEOPLE:
        return "The ask stays with the model."
    if ask.assignment.is_held(now) and ask.assignment.holder != me:
        return f"{clean(ask.assignment.holder_name)} has claimed it."
    able = reach.able(ask) - set(declined)
    way = goes_to(ask, able - {me}, (able - {me}) & reach.present.keys())
    if way in STAYS:
        return STAYS[way]
    alone = "You are the only one who can answer." if me in able else "No one else can answer."
    if way == ENDS:
        return f"{alone} {_without_advice(ask)}"
    return f"{'No one else is online.' if able - {me} else alone} The ask goes to {TIERS[Tier(way)]}."


def before_of(ask: Ask, me: str, now: datetime) -> str:
    declined = {one.author_key for one in ask.declines.all()}
    return before(ask, me, advisers.reach_of(ask.project, now), declined, now)


def after(ask: Ask, now: datetime) -> str:
    """Return where an ask is that this person declined."""
    if not ask.is_open:
        return f"No one else can answer. {_without_advice(ask)}" if ask.status == AskStatus.FELL_BACK else ""
    slot = ask.assignment
    if slot.is_held(now):
        return f"{clean(slot.holder_name)} has claimed it."
    if ask.tier not in BEFORE_PEOPLE or ask.tier_reason == HUMAN_PASSED:
        return f"The ask is with {TIERS[Tier(ask.tier)]} now."
    can, present = advisers.pool(ask, now)
    return STAYS.get(goes_to(ask, can, present), "No one else can answer.")


def released(ask: Ask, me: str, now: datetime) -> str:
    """Return who can claim an ask that this person released."""
    others = advisers.pool(ask, now)[0] - {me}
    return "Others can claim it" if others else "No one else can claim it"


def _without_advice(ask: Ask) -> str:
    """Return what the agent of an ask gets that no one answers, as `closing.close` gives it."""
    if ask.typed and ask.typed.get("on_timeout", "no_advice") != "no_advice":
        return f"The agent gets the default: {on_timeout_in_words(ask.typed)}."
    if ask.typed:
        return GOES_ON
    ready = Draft.objects.filter(ask=ask, author_key__startswith=MODEL, text__isnull=False, failed=False).first()
    return f"The agent gets the draft by {clean(ready.author)}." if ready else GOES_ON
