"""A complete episode, less a stated price for each ask: asking is an action that costs, so that an agent can learn to
ask where it must and nowhere else.

Every ask costs its price, also one without advice: a person was interrupted. It pays only where an arm states the
price (`ask_price`), since a price that was not stated would be an opinion.
"""

from __future__ import annotations

from runs.rewards.played import Played, Reward, RewardProfile

NAME = "priced"


def reward(ended: Played) -> Reward:
    if ended.is_excluded or ended.ask_price is None:
        return Reward(NAME, None, pattern="excluded")
    parts = {"outcome": float(ended.is_complete), "asks": -ended.ask_price * len(ended.asks)}
    pattern = f"{'complete' if ended.is_complete else 'incomplete'}, {'asked' if ended.asks else 'alone'}"
    return Reward(NAME, sum(parts.values()), parts, pattern)


PROFILE = RewardProfile(reward, ("outcome", "asks"), needs_price=True)
