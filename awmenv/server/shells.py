"""Keeps libraries that the server never uses out of its process: a third of its memory, and half of its start.

Owns the list. Called by `__main__` before openenv is imported.
"""

import sys
from types import ModuleType

NAMES = {
    "fastmcp": ("Client", "FastMCP"),
    "fastmcp.client": (),
    "fastmcp.client.client": ("CallToolResult",),
    "mcp": (),
    "mcp.types": ("TextContent",),
}
"""What openenv imports for environments that are MCP servers themselves. Ours has channels of its own."""


def leave_out() -> None:
    """Put empty modules in the places of these libraries, in a process that has not imported them."""
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]  # its command line, which httpx does without
    for name, classes in NAMES.items():
        shell = ModuleType(name)
        shell.__dict__.update({"__path__": []}, **dict.fromkeys(classes, object))
        sys.modules.setdefault(name, shell)
