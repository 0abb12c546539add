"""Both embedded servers together, and the lock that keeps two starts off one data folder.

Called by `supervisor`, which keeps them running, and by commands and tests that need them for a while.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from awmweb.embedded import postgres, valkey
from awmweb.embedded.paths import EmbeddedError, Paths, Urls, data_paths, ensure_folders, make_var, urls
from awmweb.embedded.processes import ChildProcess, end_leftovers


class AlreadyRunning(EmbeddedError):
    """Another process runs on this data folder."""


@contextmanager
def locked(here: Paths) -> Iterator[None]:
    """Lock the data folder. The kernel releases the lock however the process ends."""
    make_var(here.var)
    handle = os.open(here.lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            pid = os.pread(handle, 20, 0).decode().strip()
            raise AlreadyRunning(
                f"awmweb already runs on {here.var} (process {pid}). Stop it, or set AWMWEB_VAR to another folder."
            ) from error
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


@contextmanager
def running(var: Path, queue: bool = True) -> Iterator[Urls]:
    """Run the servers of a data folder while the block lasts. Raises `AlreadyRunning` if another process uses it."""
    here = data_paths(var)
    with locked(here):
        postgres.check_version(here)
        passwords = ensure_folders(here)
        # `postgres.start` ends these itself, gently first.
        end_leftovers(here.children, keep=lambda name: name == postgres.NAME)
        started: list[ChildProcess] = []
        try:
            started.append(postgres.start(here, passwords))
            if queue:
                started.append(valkey.start(here, passwords))
            yield urls(var)
        finally:
            for child in reversed(started):
                child.stop(15)


@contextmanager
def found_or_started(var: Path) -> Iterator[Urls]:
    """Provide the database of a data folder, running already or started for this block."""
    with ExitStack() as stack:
        try:
            addresses = stack.enter_context(running(var, queue=False))
        except AlreadyRunning:
            addresses = urls(var)
        yield addresses


@contextmanager
def database_of(var: Path, external: str) -> Iterator[str]:
    """Provide the address of the operator's database if set, else of the embedded one, started if needed."""
    if external:
        yield external
        return
    with found_or_started(var) as addresses:
        yield addresses.database
