"""Whether a permission prompt was answered in the terminal, read from what a tool appends to its transcript.

No hook hears that a user rejected a call, so the file is read from where it ended when the hook began. A
line that has the result of the call means that it was answered. What is not understood means nothing.
"""

from __future__ import annotations

import json
import os
from typing import Any

from awmclient.hooks.tools import Event

LOOKED_AT = 8_000_000
"""How much of a transcript's end is searched for the call, in bytes."""


class Terminal:
    """The transcript of one session, watched for the end of one call."""

    def __init__(self, event: Event) -> None:
        self._event, self._file = event, event.transcript
        self._since = self._size()

    def has_answered(self) -> bool:
        """Return whether the transcript has a result of the call that was written since the hook began."""
        if self._size() <= self._since:
            return False
        blocks = self._blocks(max(0, self._size() - LOOKED_AT))
        calls = [
            block.get("id") for block in blocks
            if block.get("type") == "tool_use" and block.get("name") == self._event.name
            and block.get("input") == self._event.arguments
        ]  # fmt: skip
        fresh = self._blocks(self._since)
        results = {block.get("tool_use_id") for block in fresh if block.get("type") == "tool_result"}
        return bool(calls) and calls[-1] in results

    def _size(self) -> int:
        try:
            return os.path.getsize(self._file) if self._file else 0
        except OSError:
            return 0

    def _blocks(self, since: int) -> list[dict[str, Any]]:
        try:
            with open(self._file, "rb") as opened:
                opened.seek(since)
                lines = opened.read().splitlines()
        except OSError:
            return []
        blocks: list[dict[str, Any]] = []
        for line in lines:
            try:
                content = json.loads(line)["message"]["content"]
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
            blocks += [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []
        return blocks
