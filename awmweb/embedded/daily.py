"""Backups of a schedule: a folder with one file a day, and how many days of it stay.

Owns the names of these files, and that one backup at a time is written there. Needs no Django. Called by `manage.py
backup FOLDER`, which a timer, the compose file and the chart run.
"""

import contextlib
import fcntl
import re
import time
from collections.abc import Iterator
from pathlib import Path

from awmweb.embedded.paths import EmbeddedError

NAME = re.compile(r"awmweb-\d{4}-\d\d-\d\d\.tar")


@contextlib.contextmanager
def turn(folder: Path) -> Iterator[Path]:
    """Yield the file of today (UTC), which no other backup writes meanwhile.

    A second one of a day takes the place of the first: however often a schedule starts, it pushes no other day out.
    """
    try:
        # a file and no folder is locked, because NFS locks only what is open for writing
        with (folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for left in folder.glob("awmweb-*.tar.unfinished"):  # of a backup that was killed
                left.unlink()
            yield folder / time.strftime("awmweb-%Y-%m-%d.tar", time.gmtime())
    except BlockingIOError as error:
        raise EmbeddedError(f"Another backup is being written to {folder}.") from error
    except OSError as error:
        raise EmbeddedError(f"{folder} cannot be written: {error.strerror or error}.") from error


def forget(folder: Path, days: int, newest: Path) -> list[Path]:
    """Keep this number of days, up to the newest; return what was removed.

    A file that is younger than the newest comes from a clock that was ahead. It stays, and counts for no day.
    """
    older = sorted(path for path in folder.iterdir() if NAME.fullmatch(path.name) and path.name < newest.name)
    removed = older[: max(0, len(older) - (days - 1))]
    for path in removed:
        path.unlink()
    return removed
