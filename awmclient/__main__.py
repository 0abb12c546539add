"""The command `awmclient`, also `python -m awmclient`: `hook` answers permission prompts of coding agents at a desk.

Example:
    awmclient hook install claude-code --url http://127.0.0.1:8000
"""

from __future__ import annotations

import sys

USAGE = "usage: awmclient hook install|uninstall|status|run claude-code|codex"


def main(argv: list[str] | None = None) -> int:
    """Run a command. Return its exit status."""
    words = sys.argv[1:] if argv is None else argv
    # A tool waits for each hook, so a hook loads only what it needs.
    if words[:2] == ["hook", "run"]:
        from awmclient.hooks import running

        return running.main(words[2] if len(words) > 2 else "")
    if words[:1] == ["hook"]:
        from awmclient.hooks import installing

        return installing.command(words[1:])
    print(USAGE, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
