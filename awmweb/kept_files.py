"""Addresses of static files, by version: each web process keeps its own files in Valkey, where others find them.

In a rolling update a page of one version asks any process for its files, and a page that stays open asks after the
processes of its version have ended. The address of a file contains the digest of all files of its version. So what is
at an address never changes, and browsers ask for it once.
"""

from __future__ import annotations

import gzip
import hashlib
import logging
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import redis
from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import StaticFilesStorage

from people import measures

log = logging.getLogger(__name__)
VERSIONS, FILES = "awmweb:static", "awmweb:static:{}"
KEPT = 4
"""How many versions are kept, the last started ones."""
LOOKED_S = 1.0
"""How long files are taken to be as they were: pages have many addresses."""
VERSIONED = re.compile(r"/static/([0-9a-f]{12})/(.+)")


def version_of(path: str) -> tuple[str, str]:
    """Return the version that the address of a file names, and the file; ours without one."""
    match = VERSIONED.fullmatch(path)
    return (match[1], match[2]) if match else ("", path.removeprefix("/static/"))


class Version:
    """The version of the files as they are. An edit makes another one, and needs no restart."""

    def __init__(self) -> None:
        self.digest, self._marks, self._until = "", dict[str, tuple[int, int]](), 0.0

    def look(self) -> str:
        """Return the digest of all files, with their names. It is `LOOKED_S` old at most."""
        if (now := time.monotonic()) >= self._until:
            # an editor takes a file away for a moment: the next look finds it
            with suppress(FileNotFoundError):
                self._read()
            self._until = now + LOOKED_S
        return self.digest

    def _read(self) -> None:
        marks = {name: _mark(path) for name, path in _paths()}
        if marks == self._marks:
            return
        was, self.digest, self._marks = self.digest, _digest(), marks
        # the first version is kept at the start; a page of a later one can stay open over the next edit
        if was:
            keep(self.digest)

    def has(self, version: str, name: str) -> bool:
        """Return whether a file is still as it was in this version, which is then ours."""
        if version != self.digest or name not in self._marks:
            return False
        path = finders.find(name)
        return isinstance(path, str) and _mark(path) == self._marks[name]


ours = Version()


class VersionedFiles(StaticFilesStorage):
    """Gives each file the address of its version."""

    def url(self, name: str | None) -> str:
        return super().url(f"{ours.look()}/{name}")


def keep(version: str) -> None:
    """Store the files of this version. Without Valkey they are not kept: pages of other versions miss them."""
    key, connection = FILES.format(version), measures.connection()
    try:
        connection.zadd(VERSIONS, {version: time.time()})
        if not connection.exists(key):
            connection.hset(key, mapping={name: gzip.compress(content, 6) for name, content in _files()})
        for old in connection.zrange(VERSIONS, 0, -KEPT - 1):
            name = old.decode() if isinstance(old, bytes) else str(old)
            connection.delete(FILES.format(name))
            connection.zrem(VERSIONS, name)
    except (redis.RedisError, OSError) as error:
        log.warning("static files are not kept for other versions: %s", error)


def read(version: str, name: str) -> bytes | None:
    """Return a file of another version, compressed by gzip."""
    try:
        content = measures.connection().hget(FILES.format(version), name)
    except (redis.RedisError, OSError):
        return None
    return content if isinstance(content, bytes) else None


def _digest() -> str:
    digest = hashlib.sha256()
    for name, content in sorted(_files()):
        digest.update(f"{name}\0".encode() + hashlib.sha256(content).digest())
    return digest.hexdigest()[:12]


def _files() -> Iterator[tuple[str, bytes]]:
    for name, path in _paths():
        yield name, Path(path).read_bytes()


def _paths() -> Iterator[tuple[str, str]]:
    for finder in finders.get_finders():
        for name, storage in finder.list([]):
            yield name, storage.path(name)


def _mark(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_mtime_ns, status.st_size
