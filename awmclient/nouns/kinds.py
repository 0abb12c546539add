"""What a stored step is, read from its fields: the one place that compares them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def is_approval(step: Mapping[str, Any]) -> bool:
    """Return whether a step is an ask for approval, which the agent itself did not make."""
    return step.get("kind") == "ask" and (step.get("typed") or {}).get("kind") == "approval"
