"""Rows that were read and wait to be stored, in a file without a name.

A file comes in whole or not at all, so all of it is read before the first row is stored. What was read waits on disk:
memory holds a few rows at a time, however large the file is. The kernel removes the file however the process ends.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from episodes.stored import entries
from episodes.stored.arrivals import Arrival
from imports.readers import BadFile

BYTES_MAX = 8 * 1024**3
"""What may wait of one file. Escapes make up to three times as much of it as was read."""
BATCH_ROWS, BATCH_BYTES = 200, 8 * 1024 * 1024


@dataclass(frozen=True)
class Waiting:
    """An episode that waits to be stored: where in the file it was, and what was lost of it."""

    place: str
    lost: dict[str, int]
    arrival: Arrival


@contextmanager
def spooling(folder: Path) -> Iterator[Spool]:
    with tempfile.TemporaryFile(dir=folder) as file:
        yield Spool(file)


class Spool:
    """What waits of one file, in its order."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def add(self, row: Waiting) -> None:
        """Write a row: a line of JSON, and behind it its steps, whose length the line says. Raises `BadFile`."""
        one = row.arrival
        said = {"episode": one.episode, "outcome": one.outcome, "about": one.about}
        head = {"place": row.place, "lost": row.lost, "arrival": said, "bytes": len(one.steps)}
        self._file.write(json.dumps(head).encode() + b"\n")
        self._file.write(one.steps)
        if self._file.tell() > BYTES_MAX:
            raise BadFile(f"The file comes to more than {BYTES_MAX // 1024**3} GB of steps.")

    def batches(self) -> Iterator[list[Waiting]]:
        """Yield all rows, a few at a time: enough for one statement, and little enough for memory."""
        self._file.seek(0)
        batch: list[Waiting] = []
        size = 0
        while line := self._file.readline():
            head = entries.read(line.decode())
            arrival = Arrival(**head["arrival"], steps=self._file.read(head["bytes"]))
            batch.append(Waiting(head["place"], head["lost"], arrival))
            size += len(line) + head["bytes"]
            if len(batch) >= BATCH_ROWS or size >= BATCH_BYTES:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch
