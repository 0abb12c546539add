"""What a stored step is, read from its fields: the one place that compares them, for loop and dashboard.

A step is a mapping here, as it is stored and sent. Code that reads millions of rows compares the text itself; the style
test counts who does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def is_message(step: Mapping[str, Any]) -> bool:
    return step.get("kind") == "message"


def is_said(step: Mapping[str, Any]) -> bool:
    """Return whether it is a message of the agent."""
    return is_message(step) and step.get("role") == "assistant"


def is_call(step: Mapping[str, Any]) -> bool:
    return step.get("kind") == "tool_call"


def is_action(step: Mapping[str, Any]) -> bool:
    return step.get("kind") == "action"


def is_nudge(step: Mapping[str, Any]) -> bool:
    return step.get("kind") == "nudge"


def is_note(step: Mapping[str, Any]) -> bool:
    return step.get("kind") == "note"


def is_briefing(step: Mapping[str, Any]) -> bool:
    return step.get("kind") == "briefing"


def is_verification(step: Mapping[str, Any]) -> bool:
    return step.get("kind") == "verification"


def is_ask(step: Mapping[str, Any]) -> bool:
    return step.get("kind") == "ask"


def is_approval(step: Mapping[str, Any]) -> bool:
    """Return whether a step is an ask for approval, which the agent itself did not make."""
    return is_ask(step) and (step.get("typed") or {}).get("kind") == "approval"


def is_question(step: Mapping[str, Any]) -> bool:
    """Return whether it is an ask that the agent made."""
    return is_ask(step) and not is_approval(step)


def is_tool_use(step: Mapping[str, Any]) -> bool:
    """Return whether the agent called a tool, or asked, which is a tool to it."""
    return is_call(step) or is_question(step)


def by_agent(step: Mapping[str, Any]) -> bool:
    """Return whether the agent made this step: a message, a call, an action or a question."""
    return is_said(step) or is_action(step) or is_tool_use(step)
