"""What the control channel is told so that a world can be made again: how it began, and a mark of each call.

Pure but for the clock. Everything here is made by the server, from bytes that it reads itself; no word of a scenario's
process enters but the answer that the agent heard, as a digest. Called by `sessions` and `environment`.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

MAX_CLOCK = 1 << 42  # milliseconds: the year 2109
MAX_TEXT = 200
REAL, RECORDED = "real", "recorded"
"""Clocks of a world: its process reads the machine's, or the time that the server tells it for each call."""


@dataclass(frozen=True)
class Start:
    """How a world began: the clock and the digest of its start database, a seed, its own first clock, a digest of the
    rows that it was made of, and which clocks it has."""

    base_clock: int
    base_digest: str
    seed: str
    clock: int
    rows: str = ""
    clocks: str = RECORDED

    def wire(self) -> dict[str, Any]:
        base = {"clock": self.base_clock, "digest": self.base_digest}
        return {"base": base, "seed": self.seed, "clock": self.clock, "rows": self.rows, "clocks": self.clocks}

    @classmethod
    def from_wire(cls, data: Any) -> Self | None:
        """Read from the wire; None if a client sends something else."""
        base = data.get("base") if isinstance(data, Mapping) else None
        if not isinstance(base, Mapping):
            return None
        clocks: list[Any] = [base.get("clock"), data.get("clock")]
        texts: list[Any] = [base.get("digest"), data.get("seed"), data.get("rows", "")]
        if not all(type(clock) is int and 0 <= clock < MAX_CLOCK for clock in clocks):
            return None
        if not all(isinstance(text, str) and len(text) <= MAX_TEXT for text in texts):
            return None
        kind = data.get("clocks", RECORDED)
        if kind not in (REAL, RECORDED):
            return None
        return cls(clocks[0], texts[0], texts[1], clocks[1], texts[2], kind)


@dataclass(frozen=True)
class Mark:
    """One call: its clock, a digest of what it answered, and where it wrote a digest of the database after it and of
    the rows that it changed. `put_back` says that a call of a replay left another database, which then was replaced by
    the recorded one: how, in a word."""

    clock: int
    answer: str = ""
    database: str = ""
    rows: str = ""
    put_back: str = ""

    def wire(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value != ""}

    def changes_what(self, known: Mark) -> bool:
        """Return whether this call changed the rows that a recorded one did, or left the same bytes."""
        return self.database == known.database or (self.rows != "" and self.rows == known.rows)

    @classmethod
    def from_wire(cls, data: Any) -> Self | None:
        """Read from the wire; None if a client sends something else."""
        if not isinstance(data, Mapping) or set(data) - {"clock", "answer", "database", "rows"}:
            return None
        clock = data.get("clock")
        texts = [data.get(name, "") for name in ("answer", "database", "rows")]
        if type(clock) is not int or not 0 <= clock < MAX_CLOCK:
            return None
        if not all(isinstance(text, str) and len(text) <= MAX_TEXT for text in texts):
            return None
        return cls(clock, *texts)


@dataclass
class WorldTime:
    """The clock of one world. It stands during a call, never runs back, and goes on from the last call after a replay,
    however long that is ago: time that nobody lived in the world did not pass there. Real clocks are the machine's, and
    a moment holds a seed alone."""

    seed: str = field(default_factory=lambda: secrets.token_hex(8))
    clocks: str = RECORDED
    calls: int = 0
    _ahead_ms: int = 0
    _last_ms: int = 0

    def begin(self, clock: int | None = None) -> int:
        """Return the time from which on it runs: that of a record, if one is given and the clocks are not real."""
        if clock is None or self.clocks == REAL:
            return self.now()
        self.set(clock)
        return clock

    def set(self, clock: int) -> None:
        self._ahead_ms, self._last_ms = clock - _wall_ms(), clock

    def now(self) -> int:
        self._last_ms = max(self._last_ms, _wall_ms() + self._ahead_ms)
        return self._last_ms

    def moment(self, clock: int | None = None) -> dict[str, Any]:
        """Return the clock and the seed of the next thing that the process is asked to do."""
        self.calls += 1
        return {"clock": self.begin(clock), "seed": f"{self.seed}/{self.calls}"}

    def told(self, moment: dict[str, Any]) -> dict[str, Any]:
        """Return what the process is told of a moment."""
        return {"seed": moment["seed"]} if self.clocks == REAL else moment


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def digest_of(*parts: Any) -> str:
    """Hash an answer or rows: bytes as they are, everything else as JSON."""
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        found.update(part if isinstance(part, bytes) else json.dumps(part, sort_keys=True).encode())
        found.update(b"\0")
    return found.hexdigest()
