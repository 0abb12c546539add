"""Reads: the packs on disk, as rows of text. No code in them is ever run here.

Called by the apps that show a task, plan a run, or let an informed expert read a verifier.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Hashable
from pathlib import Path

from django.conf import settings

from awmenv.packs import Pack, load_pack
from awmenv.packs import state_of as state_of


def pack_folders() -> list[Path]:
    """Return the folders of packs that came with the product or were loaded since."""
    found = [folder for root in (settings.PACKS_DIR, settings.VAR / "packs") for folder in root.glob("*/")]
    return sorted(folder for folder in found if (folder / "gen_tasks.jsonl").exists())


def state() -> Hashable:
    """Return a value that changes whenever a file of any pack changes."""
    return tuple(state_of(folder) for folder in pack_folders())


def row_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl"))


def rows_digest(folder: Path) -> str:
    """Return a digest of a pack's rows: its revision."""
    return _digest(folder, state_of(folder))


@functools.lru_cache(maxsize=64)
def _digest(folder: Path, _state: Hashable) -> str:
    digest = hashlib.sha256()
    for file in row_files(folder):
        digest.update(file.name.encode())
        with file.open("rb") as source:
            while block := source.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


@functools.lru_cache(maxsize=32)
def _pack(folder: Path, _state: Hashable) -> Pack:
    return load_pack(folder, cache=settings.VAR / "cache")


def packs() -> list[Pack]:
    """Return the current packs on disk; they are read again when their files change."""
    return [_pack(folder, state_of(folder)) for folder in pack_folders()]


def find_pack(scenario: str) -> Pack | None:
    return next((pack for pack in packs() if scenario in pack.scenarios), None)


def verifier_text(scenario: str, task_idx: int | None) -> str:
    """Return the code verifier of a task, for readers with verifier access; "" if no pack here holds it."""
    pack = find_pack(scenario) if scenario and task_idx is not None else None
    found = pack.verifier(scenario, task_idx, "code") if pack is not None and task_idx is not None else None
    return found.code if found is not None else ""
