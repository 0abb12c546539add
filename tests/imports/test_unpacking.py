"""Members of a ZIP by strangers: which packings are read, and the memory and time that reading one can take."""

from __future__ import annotations

import io
import json
import struct
import subprocess
import sys
import zipfile
import zlib

import pyarrow
import pytest

from imports import readers
from imports.readers import unpacking
from tests.imports.files import HEAD, SAMPLE

MB = 1024**2
LOCAL, CENTRAL, END = "<4s5H3I2H", "<4s6H3I5H2I", "<4s4H2IH"


def zipped(members: dict[str, bytes], method: int, pack, *, checksum: int | None = None, states: int | None = None):
    """Return a ZIP by any method, which may state another size and another checksum than those of its members."""
    out, directory = io.BytesIO(), b""
    for name, plain in members.items():
        packed, start, raw = pack(plain), out.tell(), name.encode()
        about = (0, method, 0, 0, zlib.crc32(plain) if checksum is None else checksum, len(packed))
        about += (len(plain) if states is None else states,)
        out.write(struct.pack(LOCAL, b"PK\x03\x04", 63, *about, len(raw), 0) + raw + packed)
        directory += struct.pack(CENTRAL, b"PK\x01\x02", 63, 63, *about, len(raw), 0, 0, 0, 0, 0, start) + raw
    where = out.tell()
    count = len(members)
    out.write(directory + struct.pack(END, b"PK\x05\x06", 0, 0, count, count, len(directory), where, 0))
    return out.getvalue()


def zstandard(plain: bytes) -> bytes:
    """Pack as a stream does, which states no size."""
    out = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(out, "zstd") as stream:
        stream.write(plain)
    return out.getvalue().to_pybytes()


def log_of(sample: bytes) -> dict[str, bytes]:
    return {"header.json": json.dumps(HEAD).encode(), "samples/1.json": sample}


@pytest.fixture
def rows_of(tmp_path):
    def read(content: bytes):
        path = tmp_path / "run.eval"
        path.write_bytes(content)
        return list(readers.read(path))

    return read


def test_log_that_inspect_packs_today_is_read(rows_of):
    (found,) = rows_of(zipped(log_of(json.dumps(SAMPLE).encode()), unpacking.ZSTANDARD, zstandard))
    assert (found.format, found.place, found.refusal) == ("inspect", "samples/1.json", "")
    assert found.trajectory.steps[-1].content == "Merged into 7."
    (plain,) = rows_of(zipped(log_of(json.dumps(SAMPLE).encode()), zipfile.ZIP_STORED, bytes))
    assert plain.digest == found.digest  # the same sample, however it is packed, is one episode


def test_large_member_of_zstandard_comes_back_whole(rows_of):
    sample = {**SAMPLE, "events": [{"event": f"{number} {'x' * 200}"} for number in range(20_000)]}
    text = json.dumps(sample).encode()
    twice = lambda plain: zstandard(plain[: len(plain) // 2]) + zstandard(plain[len(plain) // 2 :])  # noqa: E731
    for pack in (zstandard, twice):  # a member can have several frames
        (found,) = rows_of(zipped(log_of(text), unpacking.ZSTANDARD, pack))
        assert found.lost["events"] == 1 and not found.refusal


@pytest.mark.parametrize(("method", "name"), [(zipfile.ZIP_BZIP2, "bzip2"), (zipfile.ZIP_LZMA, "LZMA")])
def test_packing_without_a_bound_is_refused_by_name(rows_of, method, name):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as log:
        for member, text in log_of(b"{}").items():
            log.writestr(member, text)
    with pytest.raises(readers.BadFile, match=f"is packed by {name}. Pack the archive by deflate or Zstandard."):
        rows_of(out.getvalue())


@pytest.mark.parametrize(("method", "name"), [(98, "PPMd"), (9, "deflate64"), (95, "xz"), (77, "method 77")])
def test_unknown_packing_is_refused_by_name(rows_of, method, name):
    with pytest.raises(readers.BadFile, match=f"is packed by {name}"):
        rows_of(zipped(log_of(b"{}"), method, bytes))


@pytest.mark.parametrize("states", [0, 1, 2**32 - 2])
def test_sizes_that_an_archive_states_bound_nothing(rows_of, states):
    deflate = lambda plain: zlib.compress(plain)[2:-4]  # noqa: E731
    for method, pack in ((unpacking.ZSTANDARD, zstandard), (zipfile.ZIP_DEFLATED, deflate)):
        log = zipped(log_of(b" " * (40 * MB)), method, pack, states=states)
        with pytest.raises(readers.BadFile):
            rows_of(log)


@pytest.mark.parametrize(
    ("pack", "why"),
    [
        (lambda raw: zstandard(raw)[:-5], "Truncated"),
        (lambda raw: b"no frame at all", "cannot be unpacked"),
        (lambda raw: b"", "Bad CRC-32"),
    ],
)
def test_broken_zstandard_is_refused(rows_of, pack, why):
    with pytest.raises(readers.BadFile, match=why):
        rows_of(zipped(log_of(json.dumps(SAMPLE).encode()), unpacking.ZSTANDARD, pack))


def test_wrong_checksum_of_zstandard_is_refused(rows_of):
    with pytest.raises(readers.BadFile, match="Bad CRC-32"):
        rows_of(zipped(log_of(b"{}"), unpacking.ZSTANDARD, zstandard, checksum=7))


MEASURE = """
import resource, sys
from pathlib import Path
import pyarrow
from imports import readers
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    list(readers.read(Path(sys.argv[1])))
except readers.BadFile as error:
    print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, unpacking.ZSTANDARD])
def test_small_archive_takes_little_memory(tmp_path, method):
    """A process of its own, because only that has a highest use of its own."""
    path, bomb = tmp_path / "run.eval", log_of(b" " * (256 * MB))
    if method == unpacking.ZSTANDARD:
        path.write_bytes(zipped(bomb, method, zstandard))
    else:
        with zipfile.ZipFile(path, "w", method) as log:
            for member, text in bomb.items():
                log.writestr(member, text)
    assert path.stat().st_size < MB
    done = subprocess.run([sys.executable, "-c", MEASURE, path], capture_output=True, text=True, check=True)
    said, grown = done.stdout.strip().splitlines()
    assert "packed by" in said or "unpacks to too much" in said
    assert int(grown) < 100  # MB; unpacking all of it takes 256
