"""The shaping of OpenEnv's pull request 428: the environment's reward, and how help was used. From -1 to 2.

Source: its `EXPERT_ENHANCEMENT.md` (head 4b47e551); *voluntary*, an ask after a try without an error or a stall, is
undefined there and adjusts nothing. An adjustment needs a complete episode.
"""

from __future__ import annotations

from awmclient.nouns.kinds import is_briefing
from awmclient.nouns.sources import source_of
from runs.rewards.played import Played, Reward, RewardProfile, is_error, is_executed

NAME = "pr428"
ENVIRONMENT = {"complete": 1.0, "incomplete": 0.1}
ADJUSTMENTS = {"solo": 1.0, "recovery": 0.3, "voluntary": 0.0, "blind": -0.2}
FORMAT_ERROR = -1.0
STALL = 5
"""The number of executed calls before the first ask at which the agent counts as stalled."""


def reward(ended: Played) -> Reward:
    if ended.is_excluded:
        return Reward(NAME, None, pattern="excluded", flags=_flags(ended))
    if ended.is_format_error:
        return Reward(NAME, FORMAT_ERROR, {"format": FORMAT_ERROR}, "format error", _flags(ended))
    environment = ENVIRONMENT.get(ended.reward_type, 0.0)
    pattern = _pattern(ended) if ended.is_complete else "incomplete"
    adjustment = ADJUSTMENTS.get(pattern, 0.0)
    parts = {"environment": environment, "adjustment": adjustment}
    return Reward(NAME, environment + adjustment, parts, pattern, _flags(ended))


def _pattern(ended: Played) -> str:
    if not ended.asks:
        return "solo"
    first = ended.asks[0]["seq"]
    before = [call for call in ended.calls if call["seq"] < first]
    tries = sum(map(is_executed, before))
    if not tries:
        return "blind"
    return "recovery" if is_error(before[-1]) or tries >= STALL else "voluntary"


def _flags(ended: Played) -> tuple[str, ...]:
    """Return flags for briefed agents, agents that chose not to ask, and asks without advice, which count as asks."""
    flags = ["briefed"] if any(is_briefing(step) for step in ended.steps) else []
    if not ended.asks:
        flags.append("solo by choice" if ended.expert_available else "solo by assignment")
    if any(not ask.get("advice") or not source_of(ask["advice"]).is_answer for ask in ended.asks):
        flags.append("ask without advice")
    return tuple(flags)


PROFILE = RewardProfile(reward, ("environment", "adjustment", "format"))
