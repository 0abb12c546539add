"""Free space of the disks that awmweb writes to.

Owns what counts as too little. Called by `supervisor` and `valkey`, and by `awmweb.metrics` for Prometheus.
"""

import errno
import os
from pathlib import Path

SCARCE = 32_000_000
"""Bytes below which a disk counts as full. PostgreSQL stops if it cannot add 16 MB to its log."""
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""What the kernel answers to a write where no space is left, or none of a quota."""


def sizes(folder: Path) -> tuple[int, int]:
    """Return the free bytes of a folder's disk that awmweb can use, and its size. The folder may be missing yet."""
    disk = os.statvfs(next(step for step in (folder, *folder.parents) if step.exists()))
    return disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize


def full_among(*folders: Path) -> Path | None:
    """Return the first of these folders whose disk counts as full."""
    return next((folder for folder in folders if sizes(folder)[0] < SCARCE), None)


def in_words(folder: Path) -> str:
    """Return the sentence about a full disk."""
    return f"The disk of {folder} is full: {sizes(folder)[0] / 1e6:.1f} MB free"
