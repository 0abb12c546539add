"""The rows of a file: JSON Lines, one JSON document, a list, an Inspect log as `.json` or as a ZIP, trials of Harbor as
a folder or as a ZIP.

Everything here is untrusted input: sizes, depth and counts are bounded before a value is created. `unpacking.py` reads
the members of a ZIP.
"""

from __future__ import annotations

import os
import posixpath
import zipfile
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any

from awmclient.nouns.pictures import PICTURE_BYTES
from imports.readers import doubled, tau2
from imports.readers.found import RowWithFiles, UnreadableRow
from imports.readers.unpacking import LINE_MAX, BadFile, UnpackBudget
from people.errors import BadJson

FILE_MAX = 2 * 1024**3
MEMBERS_MAX = 50_000
ROWS_MAX = 200_000
# Five times that of a request's body: one row can be a whole episode.
VALUES_MAX = 2_000_000
MARK = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8, which some editors write at the start of a file. It has no meaning."""
ENCODINGS = {
    # UTF-32 first: its mark begins with that of UTF-16.
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    # Those with a zero byte are UTF-16 without a mark: every other byte of an ASCII text is zero.
    **dict.fromkeys((b"\xff\xfe", b"\xfe\xff", b"{\x00", b"\x00{", b"[\x00", b"\x00["), "UTF-16"),
}
"""Encodings by the first bytes of a file. JSON is UTF-8."""
ZIP = b"PK\x03\x04"
TRIAL_RESULT, TRIAL_CONFIG, TRIAL_STEPS = "result.json", "config.json", "agent/trajectory.json"
PICTURES = (".png", ".jpg", ".jpeg", ".webp")
"""Files of an agent that its trajectory can name."""
TRIAL_DEPTH = 3
"""Folders above a trial's files in an archive."""
PACKED = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PAR1": "Parquet",
    b"7z\xbc\xaf": "7z",
}


Row = tuple[str, Any, int]


def rows(path: Path) -> Iterator[tuple[str, Any, int, int]]:
    """Yield place, value, the number of bytes read so far, and how many values repeated names dropped.

    Raises `BadFile`.
    """
    repeats = Repeats()
    if path.is_dir():
        for place, value, behind in _of_folder(path, repeats):
            yield place, value, behind, 0
        return
    size = path.stat().st_size
    if size > FILE_MAX:
        raise BadFile(f"The file has more than {FILE_MAX // 1024**3} GB.")
    with path.open("rb") as file:
        start = file.read(8)
        file.seek(0)
        if not start.removeprefix(MARK).strip():
            raise BadFile("The file is empty.")
        if start.startswith(ZIP):
            values = _of_archive(file, repeats)
        elif kind := next((word for mark, word in PACKED.items() if start.startswith(mark)), ""):
            raise BadFile(f"The file is packed as {kind}. Unpack it first.")
        elif kind := next((word for mark, word in ENCODINGS.items() if start.startswith(mark)), ""):
            raise BadFile(f"The file is encoded as {kind}. Save it as UTF-8.")
        else:
            values = _of_text(file, size, repeats)
        for number, (place, value, behind) in enumerate(values):
            if number >= ROWS_MAX:
                raise BadFile(f"The file has more than {ROWS_MAX:,} rows.")
            yield place, value, behind, repeats.dropped(value)


class Repeats:
    """Whether the value that was parsed last repeats names: only then is it searched for them."""

    def __init__(self) -> None:
        self._is_possible = False

    def parse(self, raw: bytes, most: int) -> Any:
        value, self._is_possible = doubled.parse(raw, most)
        return value

    def dropped(self, value: Any) -> int:
        if not self._is_possible:
            return 0
        # the head is that of all samples
        of = next((name for name in ("sample", "simulation") if isinstance(value, dict) and name in value), None)
        return doubled.dropped_in(value if of is None else value[of])


def _of_text(file: IO[bytes], size: int, repeats: Repeats) -> Iterator[Row]:
    """Yield one document if the whole file is one JSON value, else one value per line."""
    # The first line decides: if it is a JSON value and more text follows, each line is a row.
    first = _value(file.readline(LINE_MAX + 1), repeats)
    if not isinstance(first, UnreadableRow) and not _is_blank_after(file):
        file.seek(0)
        yield from _lines(file, repeats)
        return
    file.seek(0)
    if isinstance(first, UnreadableRow) and size > LINE_MAX:
        # Too large for one document, so each line is read, and refused, by its own number.
        yield from _lines(file, repeats)
        return
    whole = _value(file.read(LINE_MAX + 1), repeats)
    if isinstance(whole, UnreadableRow) and _looks_like_lines(file, repeats):
        yield from _lines(file, repeats)
    elif isinstance(whole, list):
        yield from ((f"item {number}", one, size) for number, one in enumerate(whole, 1))
    elif isinstance(whole, dict) and isinstance(whole.get("samples"), list) and "eval" in whole:
        # An Inspect log as one document: its head is that of every sample.
        yield from _samples(whole, size)
    elif isinstance(whole, dict) and isinstance(whole.get("simulations"), list):
        yield from ((place, one, size) for place, one in tau2.rows_of(whole))
    else:
        yield "document", whole, size


def _is_blank_after(file: IO[bytes]) -> bool:
    place = file.tell()
    rest = file.read(64)
    file.seek(place)
    return not rest.strip()


def _looks_like_lines(file: IO[bytes], repeats: Repeats) -> bool:
    """Return whether any of the first lines is a JSON object: then one line is invalid, not the document."""
    file.seek(0)
    lines = (file.readline(LINE_MAX + 1) for _ in range(5))
    has_object = any(isinstance(_value(line, repeats), dict) for line in lines if line)
    file.seek(0)
    return has_object


def _lines(file: IO[bytes], repeats: Repeats) -> Iterator[Row]:
    behind = number = 0
    # One byte beyond the limit shows that a line is too long, without reading all of it into memory.
    while line := file.readline(LINE_MAX + 1):
        number += 1
        behind += len(line)
        if len(line) > LINE_MAX:
            yield f"line {number}", UnreadableRow(f"The line has more than {LINE_MAX // 1024**2} MB."), behind
            # What follows is the rest of that line, not the start of another.
            return
        if line.removeprefix(MARK).strip():
            yield f"line {number}", _value(line, repeats), behind


def _value(raw: bytes, repeats: Repeats) -> Any:
    if len(raw) > LINE_MAX:
        return UnreadableRow(f"It has more than {LINE_MAX // 1024**2} MB.")
    try:
        return repeats.parse(raw.removeprefix(MARK), VALUES_MAX)
    except BadJson as error:
        # `parse_json` calls its input a body; here it is a row.
        return UnreadableRow(error.message.replace("The body", "It"))


def _samples(log: Mapping[str, Any], size: int) -> Iterator[Row]:
    for number, sample in enumerate(log["samples"], 1):
        yield f"sample {number}", {"eval": log["eval"], "sample": sample}, size


def _of_archive(file: IO[bytes], repeats: Repeats) -> Iterator[Row]:
    """Yield the samples of Inspect's `.eval`, or the trials of a packed folder of Harbor."""
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            if len(members) > MEMBERS_MAX:
                raise BadFile(f"The archive has more than {MEMBERS_MAX:,} members.")
            # The real size of the file: the sizes in the archive's directory are its author's claims.
            room = UnpackBudget(os.fstat(file.fileno()).st_size)
            names = {member.filename for member in members}
            if trials := trials_of(names):
                small = {member.filename for member in members if member.file_size <= PICTURE_BYTES}
                yield from _of_trials(
                    trials, names, small, lambda name: room.read(archive, archive.getinfo(name)), repeats
                )
            else:
                yield from _of_log(archive, members, names, room, repeats)
    # `zipfile` raises RuntimeError for a password, and NotImplementedError for an encryption that Python lacks.
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError) as error:
        raise BadFile(f"The archive cannot be unpacked: {error}") from error


def _of_log(
    log: zipfile.ZipFile, members: Sequence[zipfile.ZipInfo], names: set[str], room: UnpackBudget, repeats: Repeats
) -> Iterator[Row]:
    about = next((name for name in ("header.json", "_journal/start.json") if name in names), None)
    if about is None:
        raise BadFile("The archive is not an Inspect log: it has no header.json. Nor does it have a trial of Harbor.")
    head = _value(room.read(log, log.getinfo(about)), repeats)
    if isinstance(head, UnreadableRow) or not isinstance(head, dict) or not isinstance(head.get("eval"), dict):
        raise BadFile(f"{about}: {head if isinstance(head, UnreadableRow) else 'it has no object eval.'}")
    samples = [one for one in members if one.filename.startswith("samples/") and not one.is_dir()]
    for member in samples:
        value = _value(room.read(log, member), repeats)
        sample = value if isinstance(value, UnreadableRow) else {"eval": head["eval"], "sample": value}
        yield member.filename, sample, room.behind


def trials_of(names: set[str]) -> list[str]:
    """Return the folders of Harbor's trials among these files, with a slash at the end: those with a result, without
    the folder of their job, and without what an agent left below a trial."""
    folders = {name.removesuffix(TRIAL_RESULT) for name in names if f"/{name}".endswith(f"/{TRIAL_RESULT}")}
    trials = {one for one in folders if f"{one}{TRIAL_CONFIG}" in names and one.count("/") <= TRIAL_DEPTH}
    above = {_parent(one) for one in trials if one}
    jobs = {one for one in trials & above if f"{one}{TRIAL_STEPS}" not in names}
    kept: list[str] = []
    for trial in sorted(trials - jobs):
        # what is below a folder follows it in this order
        if not kept or not trial.startswith(kept[-1]):
            kept.append(trial)
    return kept


def _parent(folder: str) -> str:
    return folder[: folder.rstrip("/").rfind("/") + 1]


def _of_trials(
    trials: Sequence[str], names: set[str], small: set[str], read: Callable[[str], bytes], repeats: Repeats
) -> Iterator[Row]:
    """Yield the trials. `small` are the files that can be pictures: a larger one is lost, and refuses no trial."""
    behind, ordered = 0, sorted(names)
    for trial in trials:
        parts: dict[str, Any] = {}
        for part, name in {"result": TRIAL_RESULT, "trajectory": TRIAL_STEPS}.items():
            if f"{trial}{name}" in names:
                raw = read(f"{trial}{name}")
                behind += len(raw)
                parts[part] = _value(raw, repeats)
        further = f"{trial}{TRIAL_STEPS.removesuffix('.json')}."
        parts["further"] = [name for name in _starting(ordered, further) if not name.endswith(TRIAL_STEPS)]
        bad = next((one for one in parts.values() if isinstance(one, UnreadableRow)), None)
        row = RowWithFiles({"harbor": parts}, partial(_beside, f"{trial}{TRIAL_STEPS}", small, read))
        yield trial.rstrip("/") or "trial", bad or row, behind


def _beside(steps: str, small: set[str], read: Callable[[str], bytes], path: str) -> bytes | None:
    """Read a picture that a trajectory names by a path from its own folder."""
    name = posixpath.normpath(posixpath.join(posixpath.dirname(steps), path))
    return read(name) if name in small and name.startswith(f"{posixpath.dirname(steps)}/") else None


def _starting(ordered: Sequence[str], start: str) -> Iterator[str]:
    """Yield the names that start so, out of names in their order: a file can have as many trials as it has names."""
    for place in range(bisect_left(ordered, start), len(ordered)):
        if not ordered[place].startswith(start):
            return
        yield ordered[place]


def _of_folder(folder: Path, repeats: Repeats) -> Iterator[Row]:
    """Yield the trials of a folder of Harbor. Only files that a trial is made of are looked at."""
    paths = [path for depth in ("", "*/", "*/*/") for path in folder.glob(f"{depth}{TRIAL_RESULT}")]
    beside = [path.parent for path in paths]
    files = {*paths, *(one / TRIAL_CONFIG for one in beside), *(one / TRIAL_STEPS for one in beside)}
    files |= {path for one in beside for path in one.glob(TRIAL_STEPS.replace(".json", ".*.json"))}
    files |= {path for one in beside for path in _pictures_below(one)}
    names = {path.relative_to(folder).as_posix() for path in files if path.is_file()}
    trials = trials_of(names)
    if not trials:
        raise BadFile(f"The folder has no trial of Harbor: no {TRIAL_RESULT} beside a {TRIAL_CONFIG}.")
    small = {name for name in names if (folder / name).stat().st_size <= PICTURE_BYTES}
    yield from _of_trials(trials, names, small, lambda name: _whole(folder / name), repeats)


def _pictures_below(trial: Path) -> Iterator[Path]:
    """Yield the pictures of a trial's agent. A sandbox wrote them, so no link is followed out of the trial."""
    inside = trial.resolve()
    for path in islice((trial / posixpath.dirname(TRIAL_STEPS)).rglob("*"), MEMBERS_MAX):
        if path.suffix.lower() in PICTURES and path.resolve().is_relative_to(inside):
            yield path


def _whole(path: Path) -> bytes:
    # one byte more shows that a file is too large
    with path.open("rb") as file:
        return file.read(LINE_MAX + 1)
