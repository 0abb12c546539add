"""Databases of interrupted worlds: whose they are, and how they are deleted with their episode.

Owns their owner's name; `awmenv.server.session.snapshots` stores them below it. Called there and by what erases.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = "worlds"
"""Where they are, in the folder `AWMENV_CACHE_DIR`."""


def owner_of(scenario: str, world: Mapping[str, Any]) -> str:
    """Return whose databases these are: a scenario's, from one start, of one session and those that continue it."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (scenario, world["base"]["digest"], world["clock"], world["seed"]):
        digest.update(json.dumps(part, sort_keys=True).encode() + b"\0")
    return digest.hexdigest()


def forget(cache: Path, scenario: str, world: Mapping[str, Any]) -> int:
    """Delete the databases that are kept of this world, and return their number."""
    paths = list((cache / FOLDER).glob(f"{owner_of(scenario, world)}-*"))
    for path in paths:
        path.unlink(missing_ok=True)
    return len(paths)
