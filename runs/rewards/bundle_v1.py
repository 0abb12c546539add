"""The bundle of four components from 0 to 1: primary 0.40, process 0.25, format 0.20, efficiency 0.15.

An episode that is not complete can still reach 0.45, more than the curriculum's threshold of 0.30: gates use the
primary component alone, never the sum.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from awmclient.nouns.kinds import is_ask, is_message, is_said, is_tool_use
from episodes.tool_schemas import Checker
from runs.rewards.played import Played, Reward, RewardProfile, identity, is_error, is_executed

NAME = "bundle.v1"
WEIGHTS = {"primary": 0.40, "process": 0.25, "format": 0.20, "efficiency": 0.15}
REFERENCE = 5.0
"""The reference of a task with fewer than three verified episodes."""
SHORTEST_ANSWER = 8
"""Characters without spaces. A shorter final answer counts as empty."""
SOON = 2


def reward(ended: Played) -> Reward:
    if ended.is_excluded:
        return Reward(NAME, None)
    parts = {
        "primary": float(ended.is_complete),
        "process": process(ended),
        "format": well_formed(ended),
        "efficiency": efficiency(ended),
    }
    return Reward(NAME, sum(WEIGHTS[name] * value for name, value in parts.items()), parts)


def process(ended: Played) -> float:
    """Return 0 without a successful call, else .2 for the use of listed tools, .4 for the share of distinct calls that
    succeeded, .2 for the share of calls that repeat no other, .2 for the share of errors that were recovered.

    Calls count by tool and arguments, so that repeating a cheap read earns nothing; asks are not calls.

    """
    distinct: dict[str, bool] = {}
    for call in ended.calls:
        key = identity(call, ended.tools)
        # one success is enough: repeats of a call are counted below
        distinct[key] = distinct.get(key, False) or not is_error(call)
    succeeded = sum(distinct.values())
    if not succeeded:
        return 0.0
    repeats = len(ended.calls) - len(distinct)
    return (
        # the four weights sum to 1
        0.2 * bool(ended.tools)
        + 0.4 * succeeded / len(distinct)
        + 0.2 * (1 - repeats / len(ended.calls))
        + 0.2 * _recovered(ended.calls)
    )


def _recovered(calls: Sequence[Mapping[str, Any]]) -> float:
    """Return the share of errors after which one of the next two calls of that tool succeeded; 1 without errors."""
    errors = [place for place, call in enumerate(calls) if is_error(call)]
    if not errors:
        return 1.0
    mended = [
        any(not is_error(later) and later["name"] == calls[place]["name"] for later in calls[place + 1 :][:SOON])
        for place in errors
    ]
    return sum(mended) / len(mended)


def well_formed(ended: Played) -> float:
    """Return the share of the agent's turns that are one executable call with fitting arguments, or text only.

    0 if no call was executed or the final answer is empty, unless the environment ended the episode and asked for none.
    Text beside a call earns and costs nothing.

    """
    is_empty = len("".join(ended.final_answer.split())) < SHORTEST_ANSWER
    if ended.is_format_error or (is_empty and not ended.is_ended_by_environment):
        return 0.0
    turns: dict[Any, list[Mapping[str, Any]]] = defaultdict(list)
    for step in ended.steps:
        if is_said(step) or is_tool_use(step):
            # a step without the number of a turn is a turn of its own
            turns[f"step {step['seq']}" if step.get("turn") is None else step["turn"]].append(step)
    schemas = {tool.get("name"): tool.get("input_schema") for tool in ended.tools}
    fitting = [_is_fitting([step for step in turn if not is_message(step)], schemas) for turn in turns.values()]
    return sum(fitting) / len(fitting) if fitting else 0.0


def _is_fitting(calls: Sequence[Mapping[str, Any]], schemas: Mapping[Any, Any]) -> bool:
    if not calls:
        return True
    if len(calls) > 1:
        return False
    [call] = calls
    if is_ask(call):
        return True
    return is_executed(call) and not Checker().misfit(call.get("arguments") or {}, schemas.get(call.get("name")))


def efficiency(ended: Played) -> float:
    """Return a score for few calls and asks in a complete episode: 1 at the reference, 0 at the most turns."""
    if not ended.is_complete:
        return 0.0
    taken = len(ended.calls) + len(ended.asks)
    reference = ended.reference_steps if ended.reference_steps is not None else REFERENCE
    # no room between the reference and the limit
    if ended.max_turns <= reference:
        return float(taken <= reference)
    return min(1.0, max(0.0, 1 - (taken - reference) / (ended.max_turns - reference)))


PROFILE = RewardProfile(reward, tuple(WEIGHTS))
