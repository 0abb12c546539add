"""Does a backup hold what was saved? Its own file is read as a restore would read it.

Owns the comparison: the checksum of every file, and for each table of the dump the number of its rows, counted in
what pg_restore makes of it. Called by `backup` before a file gets its name.
"""

import hashlib
import re
import tarfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import IO, Any

from awmweb.embedded.client_programs import Database
from awmweb.embedded.paths import EmbeddedError

DUMP = "database.dump"
BLOCK = 1 << 20
TABLE = re.compile(rb'COPY ((?:"[^"]+"|[^" ])+) \(.*\) FROM stdin;\n')
END_OF_TABLE = b"\\.\n"
# Recent minor releases of PostgreSQL note such versions of columns. An older pg_dump copies them as if they were
# options of the columns, which an older server refuses.
OF_SERVER = re.compile(rb"ALTER TABLE ONLY .+ ALTER COLUMN .+ SET \(pg_attver=\d+\);\n")


def check(file: Path, files: Mapping[str, Mapping[str, Any]], programs: Database) -> None:
    """Raise if the file lacks a byte or a row of what its manifest names."""
    with tarfile.open(file, "r:") as archive:
        for name, saved in files.items():
            content = archive.extractfile(name)
            if content is None:
                raise EmbeddedError(f"The backup was not kept: {name} is missing in it.")
            with closing(content):
                reader = DigestingReader(content)
                if name == DUMP:
                    _check_rows(_rows_in(reader, programs), saved["rows"])
                reader.finish()
            if reader.digest.hexdigest() != saved["sha256"]:
                raise EmbeddedError(f"The backup was not kept: {name} is not what was saved. Is the disk all right?")


class DigestingReader:
    """A file whose bytes are hashed as they are read."""

    def __init__(self, content: IO[bytes]) -> None:
        self._content, self.digest = content, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        block = self._content.read(size)
        self.digest.update(block)
        return block

    def finish(self) -> None:
        """Read what is left."""
        while self.read(BLOCK):
            pass


def _rows_in(dump: DigestingReader, programs: Database) -> dict[str, int]:
    """Return the number of rows of each table in what pg_restore makes of a dump."""
    with programs.piped("pg_restore", "--file=-") as restoring:
        assert restoring.stdin and restoring.stdout
        feeding = threading.Thread(target=_feed, args=(dump, restoring.stdin))
        feeding.start()
        try:
            return _counted(restoring.stdout)
        finally:
            if restoring.poll() is None:
                restoring.stdout.close()  # so that neither waits for the other if reading has failed
            feeding.join()


def _feed(dump: DigestingReader, program: IO[bytes]) -> None:
    with suppress(BrokenPipeError), program:  # it has ended, and its error is raised where it was started
        while block := dump.read(BLOCK):
            program.write(block)


def _counted(script: Iterable[bytes]) -> dict[str, int]:
    """Count the lines of each table: a line break inside a value is written as two letters."""
    counts: dict[str, int] = {}
    for table, line in lines_by_table(script):
        if begun := TABLE.fullmatch(line) if not table else None:
            counts[begun[1].decode()] = 0
        elif table and line != END_OF_TABLE:
            counts[table] += 1
    return counts


def loadable(script: Iterable[bytes]) -> Iterator[bytes]:
    """Leave out what a server writes for itself alone, which others refuse to read."""
    return (line for table, line in lines_by_table(script) if table or not OF_SERVER.fullmatch(line))


def lines_by_table(script: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
    """Yield the lines of a script with the table that they are rows of; "" for statements."""
    table = ""
    for line in script:
        yield table, line
        if table and line == END_OF_TABLE:
            table = ""
        elif not table and (begun := TABLE.fullmatch(line)):
            table = begun[1].decode()


def _check_rows(counts: dict[str, int], saved: dict[str, int]) -> None:
    different = sorted(table for table in counts.keys() | saved.keys() if counts.get(table) != saved.get(table))
    if different:
        table = different[0]
        raise EmbeddedError(
            f"The backup was not kept: {table} had {saved.get(table, 'no')} rows, and the file has "
            f"{counts.get(table, 'none')}."
        )
