"""Where the desk of a hook is, where a hook keeps its files, and how a call can fail. Leaves calls to `calls.py`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple


class DeskAway(Exception):
    """The dashboard cannot be reached, or cannot answer now."""


class Refusal(Exception):
    """The dashboard refused a call."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{message} ({code or status})")
        self.status, self.code = status, code


def folder(variable: str, default: str) -> Path:
    """Return a folder of this person for hooks: `XDG_CONFIG_HOME` or `XDG_STATE_HOME`, or what they default to."""
    base = os.environ.get(variable, "")
    return (Path(base) if base.startswith("/") else Path.home() / default) / "awmclient"


def settings_file() -> Path:
    return folder("XDG_CONFIG_HOME", ".config") / "hook.json"


class HookSettings(NamedTuple):
    """Where the desk is. `deadline_s` is how long a prompt waits there, by tool."""

    url: str
    token: str
    deadline_s: dict[str, int]

    @classmethod
    def load(cls) -> HookSettings:
        """Return what `hook install` has saved. Raises `OSError` or `ValueError` without it."""
        fields = json.loads(settings_file().read_text(encoding="utf-8"))
        return cls(str(fields["url"]), str(fields["token"]), dict(fields.get("deadline_s") or {}))

    def save(self) -> None:
        write_private(settings_file(), json.dumps(self._asdict(), indent=2) + "\n")

    def __repr__(self) -> str:
        return f"Settings({self.url!r}, ***)"


def write_private(file: Path, text: str, mode: int = 0o600) -> None:
    """Replace a file, or what a link of this name leads to, as a whole; no one else on this machine can read it, but
    for another mode."""
    file = file.resolve()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = file.with_name(f"{file.name}.{os.getpid()}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as opened:
        os.fchmod(handle, mode)
        opened.write(text)
    fresh.replace(file)
