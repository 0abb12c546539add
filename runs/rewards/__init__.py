"""Reward profiles: the shaped reward of an episode under a recipe, each component by itself. Pure.

A profile is a module with a `NAME` and a `PROFILE`, listed below; tables and charts follow. Rewards never enter a
comparison: they differ by condition, so arms are compared by the verifier's outcome alone. `pr428` (-1 to 2) and
`bundle.v1` (0 to 1) never share an axis.

    played     an ended episode as profiles read it
    pr428      OpenEnv's shaping, -1 to 2
    bundle_v1  four components, 0 to 1
"""

from __future__ import annotations

from runs.rewards import bundle_v1, pr428
from runs.rewards.played import Played, Reward, RewardProfile

PROFILES: dict[str, RewardProfile] = {module.NAME: module.PROFILE for module in (pr428, bundle_v1)}

__all__ = ["PROFILES", "Played", "Profile", "Reward"]
