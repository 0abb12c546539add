"""The data from which a world can be made again: its start, and a mark of each call.

Pure but for the clock. The server makes everything here, from bytes that it reads itself; of a scenario's process only
the agent's visible result enters, as a digest. Called by `sessions` and `environment`.
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
"""Clocks of a world: its process reads the machine's, or the time that the server sets for each call."""


@dataclass(frozen=True)
class WorldStart:
    """The start of a world.

    The clock and the digest of its start database, a seed, its own first clock, a digest of the rows that it was made
    from, and its kind of clocks.
    """

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
        """Read from the wire; None for an invalid value."""
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
class CallMark:
    """One call: its clock, a digest of its result, and after a write digests of the database and of the changed rows.

    `put_back` says that a call of a replay left another database, which was then replaced by the recorded one: how, in
    a word.
    """

    clock: int
    answer: str = ""
    database: str = ""
    rows: str = ""
    put_back: str = ""

    def wire(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value != ""}

    def changes_what(self, recorded: CallMark) -> bool:
        """Return whether this call changed the same rows as a recorded one, or left the same bytes."""
        return self.database == recorded.database or (self.rows != "" and self.rows == recorded.rows)

    @classmethod
    def from_wire(cls, data: Any) -> Self | None:
        """Read from the wire; None for an invalid value."""
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
    """The clock of one world.

    It is paused during a call, never runs back, and continues from the last call after a replay, however long ago that
    is. Real clocks are the machine's, and a moment then has only a seed.
    """

    seed: str = field(default_factory=lambda: secrets.token_hex(8))
    clocks: str = RECORDED
    calls: int = 0
    _ahead_ms: int = 0
    _last_ms: int = 0

    def begin(self, clock: int | None = None) -> int:
        """Return the start time: the recorded one, if there is one and the clocks are not real."""
        if clock is None or self.clocks == REAL:
            return self.now()
        self.set(clock)
        return clock

    def set(self, clock: int) -> None:
        self._ahead_ms, self._last_ms = clock - _system_ms(), clock

    def now(self) -> int:
        self._last_ms = max(self._last_ms, _system_ms() + self._ahead_ms)
        return self._last_ms

    def moment(self, clock: int | None = None) -> dict[str, Any]:
        """Return the clock and the seed of the next request to the process."""
        self.calls += 1
        return {"clock": self.begin(clock), "seed": f"{self.seed}/{self.calls}"}

    def sent_moment(self, moment: dict[str, Any]) -> dict[str, Any]:
        """Return the part of a moment that the process gets."""
        return {"seed": moment["seed"]} if self.clocks == REAL else moment


def _system_ms() -> int:
    return time.time_ns() // 1_000_000


def digest_of(*parts: Any) -> str:
    """Hash a result or rows: bytes unchanged, everything else as JSON."""
    hasher = hashlib.blake2b(digest_size=16)
    for part in parts:
        hasher.update(part if isinstance(part, bytes) else json.dumps(part, sort_keys=True).encode())
        # A separator, so that other borders between the parts give another digest.
        hasher.update(b"\0")
    return hasher.hexdigest()
