"""A sentence or number in a planted world, how it is counted, and the counts that a stop leaves for the next start."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import multiprocessing
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import django

FALSE, COVERED = 0.05, 0.93
ROOT = Path(__file__).resolve().parents[2]
READ = (
    "bench/planted",
    "curriculum",
    "experts/metrics",
    "people",
    "reviews/statistics",
    "runs",
    "awmclient/asking",
    "awmenv/blockers.py",
    "awmweb/erasing",
    "episodes",
    "experts/record",
    "exports/select",
)
"""The code on which counts depend: folders and modules."""
World = Callable[[random.Random], bool | None]
"""Play one world: whether a statement was false, or whether an interval covers; None if nothing was said."""


@dataclass(frozen=True)
class PlantedCase:
    """A sentence or number in one planted world. If it `covers`, at least 93% must hold: an interval the truth, a
    delay its limit; else at most 5% may be false. `share` is the part of the repeats that is made: less in slow
    worlds, more where few of them say anything. Those that are `stored` have rows in a database (`stored.py`)."""

    subject: str
    world: str
    play: World
    covers: bool = False
    share: float = 1.0
    stored: bool = False

    def counted(self, repeats: int) -> tuple[int, int]:
        """Return how many of these repeats were false or covered, and of how many."""
        part, said = self.counts(repeats)
        # where nothing is said, nothing is false
        return part, said if self.covers else self.worlds(repeats)

    def counts(self, repeats: int) -> tuple[int, int]:
        """Return how many of these repeats were false or covered, and how many said something."""
        dice = (random.Random(f"{self.subject}/{self.world}/{number}") for number in range(self.worlds(repeats)))
        results = [seen for seen in map(self.play, dice) if seen is not None]
        return sum(results), len(results)

    def worlds(self, repeats: int) -> int:
        return int(repeats * self.share)

    def holds(self, part: int, of: int) -> bool:
        """Return whether the limit is kept, within three Monte Carlo errors."""
        limit = COVERED if self.covers else FALSE
        reach = 3 * math.sqrt(limit * (1 - limit) / of) if of else 1.0
        return part >= (limit - reach) * of if self.covers else part <= (limit + reach) * of


class Kept:
    """Counts in a file, a line for each, so that a start after a stop makes only those that are missing. Counts of
    other code are no counts of this one: the file is named by a digest of what they depend on."""

    def __init__(self, name: str, folder: Path = ROOT / "var" / "planted") -> None:
        self.path = folder / f"{name}-{_digest()}.jsonl"
        self._counts: dict[str, Any] = {}
        self.is_resumed = self.path.exists()
        lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True) if self.path.exists() else []
        for line in lines:
            # a stop in the middle of a line leaves a part of it
            with contextlib.suppress(json.JSONDecodeError):
                key, counts = json.loads(line)
                self._counts[key] = counts

    def counted(self, key: Sequence[object], play: Callable[[], Any]) -> Any:
        """Return the counts of a case: those that were kept, else those that it makes now."""
        if key not in self:
            self.keep(key, play())
        return self[key]

    def keep(self, key: Sequence[object], counts: Any) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        is_torn = self.path.exists() and not self.path.read_bytes().endswith(b"\n")
        with self.path.open("a", encoding="utf-8") as file:
            file.write("\n" * is_torn + json.dumps([json.dumps(key), counts]) + "\n")
        self._counts[json.dumps(key)] = counts

    def __getitem__(self, key: Sequence[object]) -> Any:
        return self._counts[json.dumps(key)]

    def __contains__(self, key: Sequence[object]) -> bool:
        return json.dumps(key) in self._counts

    def took(self, begun: float) -> str:
        """Return how long all took, or its last part."""
        minutes = f"{(time.monotonic() - begun) / 60:.0f} minutes"
        return f"{minutes} since its last stop" if self.is_resumed else minutes

    def forget(self) -> None:
        """Delete the counts, once their page is written."""
        self.path.unlink(missing_ok=True)


def _digest() -> str:
    places = [ROOT / place for place in READ]
    paths = sorted(path for place in places for path in ([place] if place.is_file() else place.rglob("*.py")))
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:12]


def pool(processes: int) -> ProcessPoolExecutor:
    """Return a pool with Django whose processes end with this one, however it is stopped."""
    # forked ones hold each other's pipes, and would never see its end
    return ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _begin)


def _begin() -> None:
    django.setup()
    parent = multiprocessing.parent_process()
    assert parent is not None, "runs in a process of a pool"

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
