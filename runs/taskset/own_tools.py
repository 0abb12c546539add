"""Reads: the tools that a task needs, by the scripts of its pack."""

from __future__ import annotations

from awmclient.choosing.scripted import tools_called
from awmclient.nouns.values import ASK_TOOL
from episodes.stored.packs import find_pack


def needed_by(scenario: str, task_idx: int) -> list[str]:
    """Return the tools that a task's oracle and demonstration call; none if it has neither, or they call none."""
    pack = find_pack(scenario)
    scripts = pack.scripts(scenario, task_idx) if pack is not None else {}
    names = [name for script in ("oracle", "demo") for name in tools_called(scripts.get(script))]
    return [name for name in dict.fromkeys(names) if name != ASK_TOOL]
