"""Reward profiles: the shaped reward of an episode under a recipe, each component by itself. Pure.

A profile is a module with a `NAME` and a `PROFILE`, listed below; tables and charts follow. Rewards never enter a
comparison: they differ by condition, so arms are compared by the verifier's outcome alone. `pr428` (-1 to 2) and
`bundle.v1` (0 to 1) never share an axis. `profiles` are those that pay an episode.

    played     an ended episode as profiles read it
    pr428      OpenEnv's shaping, -1 to 2
    bundle_v1  four components, 0 to 1
    priced     outcome less a price for each ask
"""

from __future__ import annotations

from runs.rewards import bundle_v1, pr428, priced
from runs.rewards.played import Played, Reward, RewardProfile

PROFILES: dict[str, RewardProfile] = {module.NAME: module.PROFILE for module in (pr428, bundle_v1, priced)}


def profiles(ask_price: float | None) -> dict[str, RewardProfile]:
    """Return the profiles that pay an episode of an arm with this price of an ask."""
    return {name: one for name, one in PROFILES.items() if ask_price is not None or not one.needs_price}


__all__ = ["PROFILES", "Played", "Reward", "RewardProfile", "profiles"]
