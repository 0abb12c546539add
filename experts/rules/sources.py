"""Where an ask comes from, as experts know it: awmweb's own rollouts, a framework, MCP, or another loop. Pure.

A loop names its environment and its client itself: the words are for people, and no right follows from them.
"""

from __future__ import annotations

from people.text.plain_text import clean

PAUSES, MCP = "pauses", "mcp"
"""The environments of episodes that hold the pauses of a framework's agent, or an MCP session."""
BUILT_IN = "Built-in rollouts"
_NAMED = {MCP: "MCP", "openenv": "OpenEnv", "awm": "External loop", "": "External loop"}


def source_of(environment: str, client: str, *, is_ours: bool) -> str:
    """Return the source of an episode's asks. `client` is the framework that a pause named."""
    if is_ours:
        return BUILT_IN
    if environment == PAUSES:
        return clean(client) or "AG-UI"
    return _NAMED.get(environment) or clean(environment)
