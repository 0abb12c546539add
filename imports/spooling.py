"""Rows that were read and wait to be stored, and their pictures, in unnamed temporary files.

A file is imported completely or not at all, so all of it is read before the first row is stored. The rows wait on disk:
memory holds a few rows at a time at any file size. The kernel removes the file however the process ends.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from os import SEEK_END
from pathlib import Path
from typing import IO, Any

from episodes.stored import entries
from episodes.stored.arrivals import Arrival
from episodes.stored.decoding import DecodedPicture
from imports.readers import BadFile

BYTES_MAX = 8 * 1024**3
"""The most bytes that can wait for one file. Escapes can triple the size of the input."""
BATCH_ROWS, BATCH_BYTES = 200, 8 * 1024 * 1024


@dataclass(frozen=True)
class SpooledEpisode:
    """An episode that waits to be stored: its place in the file, and the values that were lost."""

    place: str
    lost: dict[str, int]
    arrival: Arrival


@contextmanager
def spooling(folder: Path) -> Iterator[Spool]:
    # In the data folder: a system's folder for temporary files can be memory, and rows take gigabytes.
    with tempfile.TemporaryFile(dir=folder) as file, tempfile.TemporaryFile(dir=folder) as pictures:
        yield Spool(file, SpooledPictures(pictures))


class SpooledPictures(Mapping[str, DecodedPicture]):
    """The waiting pictures of one file, by digest: each is once on disk, and memory has where it is."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._places: dict[str, tuple[int, dict[str, Any], int, int]] = {}

    def add(self, digest: str, picture: DecodedPicture) -> None:
        """Write a picture. Raises `BadFile` if they come to too much."""
        if digest in self._places:
            return
        facts = {"media_type": picture.media_type, "width": picture.width, "height": picture.height}
        place = self._file.seek(0, SEEK_END)
        self._file.write(picture.data + picture.thumbnail)
        self._places[digest] = (place, facts, len(picture.data), len(picture.thumbnail))
        if self._file.tell() > BYTES_MAX:
            raise BadFile(f"The file comes to more than {BYTES_MAX // 1024**3} GB of pictures.")

    def __getitem__(self, digest: str) -> DecodedPicture:
        place, facts, size, small = self._places[digest]
        self._file.seek(place)
        return DecodedPicture(**facts, data=self._file.read(size), thumbnail=self._file.read(small))

    def size(self, digest: str) -> int:
        """Return the bytes of a picture."""
        return self._places[digest][2]

    def __contains__(self, digest: object) -> bool:
        return digest in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class Spool:
    """The waiting rows of one file, in their order."""

    def __init__(self, file: IO[bytes], pictures: SpooledPictures) -> None:
        self._file = file
        self.pictures = pictures

    def add(self, row: SpooledEpisode) -> None:
        """Write a row: a line of JSON, then its steps, whose length the line contains. Raises `BadFile`."""
        arrival = row.arrival
        row_fields = {"episode": arrival.episode, "outcome": arrival.outcome, "about": arrival.about}
        fields = {**row_fields, "pictures": list(arrival.pictures)}
        # Steps follow as bytes: inside the JSON they would be escaped a second time.
        head = {"place": row.place, "lost": row.lost, "arrival": fields, "bytes": len(arrival.steps)}
        self._file.write(json.dumps(head).encode() + b"\n")
        self._file.write(arrival.steps)
        if self._file.tell() > BYTES_MAX:
            raise BadFile(f"The file comes to more than {BYTES_MAX // 1024**3} GB of steps.")

    def batches(self) -> Iterator[list[SpooledEpisode]]:
        """Yield all rows, a few at a time: enough for one statement, and little enough for memory."""
        self._file.seek(0)
        batch: list[SpooledEpisode] = []
        size = 0
        while line := self._file.readline():
            head = entries.read(line.decode())
            arrival = Arrival(**head["arrival"], steps=self._file.read(head["bytes"]))
            batch.append(SpooledEpisode(head["place"], head["lost"], arrival))
            size += len(line) + head["bytes"]
            if len(batch) >= BATCH_ROWS or size >= BATCH_BYTES:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch
