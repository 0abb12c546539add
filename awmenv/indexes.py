"""A cache of pack indexes between starts, so that unchanged files are not read again.

Owns where a cache file is, when it is valid (size and time of every file of the pack), and that an unwritable folder
only costs time. Knows nothing of the contents. Called by `packs`.
"""

import contextlib
import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

log = logging.getLogger("awmenv.indexes")

VERSION = 4  # of what `packs` keeps; another one is not read

Prints = tuple[tuple[str, int, int], ...]


def prints(folder: Path, names: Iterable[str]) -> Prints:
    """Return size and modification time of each existing file, which identify a state of a pack."""
    states = []
    for name in names:
        with contextlib.suppress(OSError):
            stat = (folder / name).stat()
            states.append((name, stat.st_size, stat.st_mtime_ns))
    return tuple(states)


def read(cache: Path, folder: Path, state: Prints, kind: str = "index") -> dict[str, Any] | None:
    """Return the cached value of the folder in its current state, or None."""
    try:
        kept = json.loads(_place(cache, folder, kind).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    same = isinstance(kept, dict) and kept.get("state") == [VERSION, *map(list, state)]
    return kept["index"] if same and isinstance(kept.get("index"), dict) else None


def write(cache: Path, folder: Path, state: Prints, index: dict[str, Any], kind: str = "index") -> None:
    """Write atomically; an unwritable cache is skipped."""
    place = _place(cache, folder, kind)
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.parent.mkdir(mode=0o700, exist_ok=True)
        # Under another name first, so that no reader sees half an index.
        handle, draft = tempfile.mkstemp(dir=place.parent)
        try:
            with os.fdopen(handle, "w", encoding="ascii") as stream:
                json.dump({"state": [VERSION, *state], "index": index}, stream, separators=(",", ":"))
            os.replace(draft, place)
        except BaseException:
            os.unlink(draft)
            raise
    except OSError as error:
        log.info("the index of %s is not kept: %s", folder, error)


def _place(cache: Path, folder: Path, kind: str) -> Path:
    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:32]
    return cache / "indexes" / f"{name}.json" if kind == "index" else cache / "indexes" / f"{name}.{kind}.json"
