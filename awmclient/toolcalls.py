"""Tool calls as agents and experts write them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Call:
    """One call the agent wants to make."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    call_id: str | None = None
