"""The members of a ZIP: which packings are read, and how much they may unpack to.

A stranger made the archive, so the sizes that it states are ignored. Each packing is unpacked in blocks by a reader
whose memory does not depend on the input: `zipfile` bounds one read of deflate, but neither of bzip2 nor of LZMA.
"""

from __future__ import annotations

import copy
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing
from typing import IO

LINE_MAX = 64 * 1024 * 1024
"""The largest line, document or unpacked member of an archive."""
UNPACKED_MAX = 4 * 1024**3
RATIO_MAX = 200
"""The highest compression ratio, above `RATIO_FROM`: logs compress 5 to 30 times."""
RATIO_FROM = 8 * 1024 * 1024
BLOCK = 1 << 20
ZSTANDARD = 93
"""The number of Zstandard in a ZIP, which Python's `zipfile` knows from 3.14 on."""
NAMES = {1: "shrink", 6: "implode", 9: "deflate64", 12: "bzip2", 14: "LZMA", 95: "xz", 96: "JPEG", 98: "PPMd"}


class BadFile(Exception):
    """A file without a readable row."""


class UnpackBudget:
    """The bytes that can still be unpacked from an archive."""

    def __init__(self, packed: int) -> None:
        self._packed = packed
        self._unpacked = self.behind = 0

    def read(self, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
        """Read one member, up to the limit. Raises `BadFile` for an archive that expands too much."""
        blocks = []
        size = 0
        # In blocks: reading a member whole would unpack a bomb before its size is known.
        for block in _blocks(archive, member):
            size += len(block)
            self._unpacked += len(block)
            if size > LINE_MAX:
                raise BadFile(f"{member.filename} has more than {LINE_MAX // 1024**2} MB unpacked.")
            # Short files of repeated text exceed any ratio, so it counts only above a size.
            grown = self._unpacked > RATIO_FROM and self._unpacked > RATIO_MAX * self._packed
            if grown or self._unpacked > UNPACKED_MAX:
                raise BadFile("The archive unpacks to too much.")
            blocks.append(block)
        self.behind += member.compress_size
        return b"".join(blocks)


def _blocks(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[bytes]:
    if member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with archive.open(member) as unpacked:
            while block := unpacked.read(BLOCK):
                yield block
    elif member.compress_type == ZSTANDARD:
        with archive.open(_as_packed(member)) as packed:
            yield from _of_zstandard(packed, member)
    else:
        kind = NAMES.get(member.compress_type, f"method {member.compress_type}")
        raise BadFile(f"{member.filename} is packed by {kind}. Pack the archive by deflate or Zstandard.")


def _as_packed(member: zipfile.ZipInfo) -> zipfile.ZipInfo:
    """Return a member that `zipfile` reads as it is in the file."""
    stored = copy.copy(member)
    stored.compress_type, stored.file_size = zipfile.ZIP_STORED, member.compress_size
    # Its checksum is that of the unpacked bytes; without one, none is compared.
    del stored.CRC
    return stored


def _of_zstandard(packed: IO[bytes], member: zipfile.ZipInfo) -> Iterator[bytes]:
    import pyarrow  # takes 50 MB, and few archives need it

    total = 0
    with closing(pyarrow.CompressedInputStream(packed, "zstd")) as unpacked:
        while block := unpacked.read(BLOCK):
            total = zlib.crc32(block, total)
            yield block
    if total != member.CRC:
        raise zipfile.BadZipFile(f"Bad CRC-32 for file {member.filename!r}")
