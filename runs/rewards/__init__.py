"""Reward profiles: what an episode would be paid under a recipe, each component by itself. Pure.

A profile is a module with a function from `Played` to `Reward`, named in `PROFILES`. Rewards never enter a comparison:
they differ by condition, so arms are compared by the verifier's outcome alone. `pr428` (-1 to 2) and `bundle.v1` (0 to
1) never share an axis.
"""

from __future__ import annotations

from collections.abc import Callable

from runs.rewards import bundle_v1, pr428
from runs.rewards.played import Played, Reward

PROFILES: dict[str, Callable[[Played], Reward]] = {"pr428": pr428.reward, "bundle.v1": bundle_v1.reward}

__all__ = ["PROFILES", "Played", "Reward"]
