"""Reads the free space of the disks of the data folder and, where it is embedded, of the database."""

from __future__ import annotations

import os

from django.conf import settings

from awmweb.embedded import space
from awmweb.embedded.paths import data_paths
from awmweb.metrics.stored import Figure, Series


def read() -> list[Figure]:
    """Return free bytes and size of each disk, of the machine that is asked."""
    here = data_paths(settings.VAR)
    folders = {"data": here.var} | ({} if os.environ.get("DATABASE_URL", "").strip() else {"database": here.home})
    by_folder = {(name,): space.sizes(folder) for name, folder in folders.items()}
    free: Series = {name: float(sizes[0]) for name, sizes in by_folder.items()}
    size: Series = {name: float(sizes[1]) for name, sizes in by_folder.items()}
    return [
        Figure("awmweb_disk_free_bytes", "Space that awmweb can use on its disks.", ("folder",), free),
        Figure("awmweb_disk_size_bytes", "The size of these disks.", ("folder",), size),
    ]
