"""Reads files of untrusted JSON rows: one object per line, with its position, in bounded memory.

Owns the size limit of a line that becomes Python objects, which are up to a hundred times as large as their text.
Knows nothing of the meaning of rows. Called by `packs`.
"""

import hashlib
import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

MAX_ROW_BYTES = 32 * 1024 * 1024
MAX_ROWS = 200_000
"""Rows of one file: twenty times those of AgentWorldModel-1K."""
MAX_VALUES = 250_000
"""Texts, lists and objects of one row, and commas between values."""

# Possessive, so that a text without its closing mark is given up in one pass instead of quadratic time.
_VALUE = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[{,]', re.DOTALL)


class BadRow(ValueError):
    """A line that is not a valid row; `code` is for machines."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class RowPosition:
    """The position of a row in a file, enough to read it again, and the SHA-256 of its line."""

    file: str
    offset: int
    length: int
    line: int
    sha256: str


def places(folder: Path, file: str) -> Iterator[tuple[RowPosition, dict[str, Any] | BadRow]]:
    """Yield every line that is not blank: its position, and the row or its error. Above MAX_ROWS one last BadRow."""
    with (folder / file).open("rb") as stream:
        for number, (line, place) in enumerate(_lines(stream, file)):
            if number == MAX_ROWS:
                yield place, BadRow("too_many", f"{file} has more than {MAX_ROWS} rows; the others are not read")
                return
            try:
                yield place, parse(line)
            except BadRow as bad:
                yield place, bad


def read(folder: Path, place: RowPosition) -> dict[str, Any]:
    """Read one row again. Raises BadRow if the file has another row there now."""
    with (folder / place.file).open("rb") as stream:
        stream.seek(place.offset)
        line = stream.read(place.length)
    if hashlib.sha256(line).hexdigest() != place.sha256:
        raise BadRow("changed", f"{place.file} line {place.line} is another row now")
    return parse(line)


def parse(line: bytes) -> dict[str, Any]:
    """Return the object of a line. Raises BadRow."""
    if len(line) > MAX_ROW_BYTES:
        raise BadRow("too_long", f"the row is longer than {MAX_ROW_BYTES} bytes")
    if _holds_too_many_values(line):
        raise BadRow("too_many", f"the row holds more than {MAX_VALUES} values")
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadRow("bad_json", f"not JSON: {error}") from error
    if not isinstance(row, dict):
        raise BadRow("bad_json", "not a JSON object")
    return row


def _holds_too_many_values(line: bytes) -> bool:
    """Return whether a line has too many values.

    Counts candidates at memory speed first, and separates text from structure only if there are too many.
    """
    if sum(line.count(mark) for mark in (b",", b"[", b"{", b'"')) <= MAX_VALUES:
        return False
    return next(itertools.islice(_VALUE.finditer(line), MAX_VALUES, None), None) is not None


def _lines(stream: IO[bytes], file: str) -> Iterator[tuple[bytes, RowPosition]]:
    """Yield every line that is not blank, with its position; of a long one only its beginning is in memory."""
    offset = 0
    for number in itertools.count(1):
        line = stream.readline(MAX_ROW_BYTES + 1)
        length = len(line)
        digest = hashlib.sha256(line)
        last = line
        while len(last) > MAX_ROW_BYTES and not last.endswith(b"\n"):
            last = stream.readline(MAX_ROW_BYTES + 1)
            length += len(last)
            digest.update(last)
        if not line:
            return
        if line.strip():
            yield line, RowPosition(file, offset, length, number, digest.hexdigest())
        offset += length
