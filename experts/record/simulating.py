"""Writes: the answers of a simulated human, who knows a task's registry of blockers and nothing else.

An arm has one with `experts: registry`; it is `policy.experts` of its episodes. A question that matches a blocker gets
its answer, any other one "I can't answer that". Approvals, choices and forms go to people and models as always. Leaves
the match to `awmenv.blockers` and the close of an ask to `opening.open_ask`.
"""

from __future__ import annotations

from awmenv.blockers import CANT_ANSWER, Blocker
from episodes.models import Episode
from experts.models import SIMULATED, Advice, Ask, Tier

REGISTRY = "registry"
NAME = "registry of blockers"


def is_simulated(episode: Episode) -> bool:
    """Return whether the questions of an episode go to its task's registry. Loops record any JSON as their policy."""
    return isinstance(episode.policy, dict) and episode.policy.get("experts") == REGISTRY


def place(ask: Ask) -> str:
    """Set the ask's group and plan: no one waits for it, and no budget of people pays for it. It never falls back."""
    ask.group, ask.tiers, ask.tier, ask.tier_reason = ask.pk, [], Tier.CACHE, REGISTRY
    ask.chance, ask.expected_wait_s = 0.0, 0.0
    return ""


def answer(ask: Ask, blocker: Blocker | None) -> Advice:
    """Store what the simulated human says. The caller inserts the ask now, and closes it."""
    return Advice.objects.create(
        ask=ask,
        text=blocker.answer if blocker is not None else CANT_ANSWER,
        # as of any program that answers for people
        source="human",
        author=NAME,
        author_key=SIMULATED,
        behind="script",
        privilege=ask.privilege,
    )
