"""Static files of other versions: each web process keeps its own in Valkey, where those of another version find them.

In a rolling update a page of one version asks any process for its files, and a page that stays open asks after the
processes of its version have ended. The address of a file contains the digest of all files of its version.
"""

from __future__ import annotations

import gzip
import logging
import re
import time
from collections.abc import Iterator
from pathlib import Path

import redis
from django.conf import settings
from django.contrib.staticfiles import finders

from people import measures

log = logging.getLogger(__name__)
VERSIONS, FILES = "awmweb:static", "awmweb:static:{}"
KEPT = 4
"""How many versions are kept, the last started ones."""
VERSIONED = re.compile(r"/static/([0-9a-f]{12})/(.+)")


def version_of(path: str) -> tuple[str, str]:
    """Return the version that the address of a file names, and the file; ours without one."""
    found = VERSIONED.fullmatch(path)
    return (found[1], found[2]) if found else ("", path.removeprefix("/static/"))


def keep() -> None:
    """Store the files of this version. Without Valkey they are not kept: pages of other versions miss them."""
    ours, connection = FILES.format(settings.STATIC_DIGEST), measures.connection()
    try:
        connection.zadd(VERSIONS, {settings.STATIC_DIGEST: time.time()})
        if not connection.exists(ours):
            connection.hset(ours, mapping={name: gzip.compress(content, 6) for name, content in _files()})
        for old in connection.zrange(VERSIONS, 0, -KEPT - 1):
            name = old.decode() if isinstance(old, bytes) else str(old)
            connection.delete(FILES.format(name))
            connection.zrem(VERSIONS, name)
    except (redis.RedisError, OSError) as error:
        log.warning("static files are not kept for other versions: %s", error)


def read(version: str, name: str) -> bytes | None:
    """Return a file of another version, compressed by gzip."""
    try:
        found = measures.connection().hget(FILES.format(version), name)
    except (redis.RedisError, OSError):
        return None
    return found if isinstance(found, bytes) else None


def _files() -> Iterator[tuple[str, bytes]]:
    for finder in finders.get_finders():
        for name, storage in finder.list([]):
            yield name, Path(storage.path(name)).read_bytes()
