"""The rules that refuse a row, one function each. Pure: a trajectory in, a reason or None out.

A rule that fires keeps the whole episode out and is counted in the manifest under its reason.
"""

from __future__ import annotations

from collections.abc import Callable

from awmclient.schema import CONTROL_TOOLS, AskStep, ToolCallStep, Trajectory

HELD_OUT = frozenset({"val", "test", "holdout"})
Rule = Callable[[Trajectory], str | None]


def not_verified_complete(trajectory: Trajectory) -> str | None:
    """Only what a verifier of ours found complete; a loop's own word does not count."""
    if trajectory.outcome is None:
        return "not_verified"
    return None if trajectory.outcome.reward_type == "complete" else "not_complete"


def held_out(trajectory: Trajectory) -> str | None:
    return "held_out" if (trajectory.split or "") in HELD_OUT else None


def verifier_informed(trajectory: Trajectory) -> str | None:
    """Advice by somebody who could see the verifier teaches the answer key."""
    informed = any(
        isinstance(step, AskStep) and step.advice is not None and step.advice.privilege == "sees_verifier"
        for step in trajectory.steps
    )
    return "verifier_informed" if informed else None


def control_tools(trajectory: Trajectory) -> str | None:
    named = {step.name for step in trajectory.steps if isinstance(step, ToolCallStep)}
    named |= {tool.name for tool in trajectory.tools}
    return "control_tool" if named & CONTROL_TOOLS else None


DEFAULT_RULES: tuple[Rule, ...] = (not_verified_complete, held_out, verifier_informed, control_tools)


def reason_against(trajectory: Trajectory, rules: tuple[Rule, ...] = DEFAULT_RULES) -> str | None:
    """The first reason to leave this episode out, or None."""
    return next((reason for rule in rules if (reason := rule(trajectory)) is not None), None)
