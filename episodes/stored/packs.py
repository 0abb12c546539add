"""Reads: the packs on disk, as rows of text. No code in them is ever run here.

Called by the apps that show a task, plan a run, or let an informed expert read a verifier.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Hashable
from pathlib import Path

from django.conf import settings

from awmenv.blockers import Blocker
from awmenv.errors import PackError
from awmenv.packs import Pack, load_pack
from awmenv.packs import state_of as state_of


def pack_folders() -> list[Path]:
    """Return the folders of packs that came with the product, then of those that were loaded since.

    The environment server has the same order: of two packs with a scenario, the first has it.
    """
    folders = [folder for root in (settings.PACKS_DIR, loaded_folder()) for folder in sorted(root.glob("*/"))]
    return [folder for folder in folders if (folder / "gen_tasks.jsonl").exists()]


def loaded_folder() -> Path:
    """Return the folder of loaded packs. Each is a link to the folder of its version."""
    root: Path = settings.VAR / "packs"
    return root


def version_folder(name: str, digest: str) -> Path:
    """Return the folder of one version of a loaded pack. A version stays after its replacement."""
    return loaded_folder() / VERSIONS / name / digest[:VERSION_LENGTH]


VERSIONS = ".versions"
VERSION_LENGTH = 16
"""Characters of a digest that name a version in folders and messages."""


def state() -> Hashable:
    """Return a value that changes whenever a file of any pack changes."""
    return tuple((folder.resolve(), state_of(folder)) for folder in pack_folders())


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
# the last two arguments are only the cache's key: when a link or a file changes, the pack is read again
def _pack(folder: Path, _version: Path, _state: Hashable) -> Pack:
    return load_pack(folder, cache=settings.VAR / "cache")


def packs() -> list[Pack]:
    """Return the current packs on disk; they are read again when their files change."""
    return [_pack(folder, folder.resolve(), state_of(folder)) for folder in pack_folders()]


def find_pack(scenario: str) -> Pack | None:
    return next((pack for pack in packs() if scenario in pack.scenarios), None)


def scenario_digest(scenario: str) -> str:
    """Return the version of a scenario in the loaded packs, or ""."""
    pack = find_pack(scenario) if scenario else None
    return pack.digests[scenario] if pack is not None else ""


def find_version(scenario: str, digest: str) -> Pack | None:
    """Return the pack that has this version of a scenario, also if it was replaced; the loaded one without a digest."""
    now = find_pack(scenario)
    if not digest or (now is not None and now.digests[scenario] == digest):
        return now
    for folder in sorted((loaded_folder() / VERSIONS).glob("*/*/")):
        pack = _pack(folder, folder, state_of(folder))
        if pack.digests.get(scenario) == digest:
            return pack
    return None


def verifier_text(scenario: str, task_idx: int | None, version: str = "") -> str:
    """Return the code verifier of a task, for readers with verifier access; "" if no pack here holds it.

    `version` is that of an episode's scenario.
    """
    pack = find_version(scenario, version) if scenario and task_idx is not None else None
    verifier = pack.verifier(scenario, task_idx, "code") if pack is not None and task_idx is not None else None
    return verifier.code if verifier is not None else ""


def has_task(scenario: str, task_idx: int | None) -> bool:
    """Return whether a loaded pack has this task."""
    pack = find_pack(scenario) if scenario and task_idx is not None else None
    return pack is not None and task_idx is not None and 0 <= task_idx < len(pack.tasks(scenario))


def blockers_of(scenario: str, task_idx: int | None, version: str = "") -> list[Blocker]:
    """Return the registry of a task: what is missing in it; empty if no pack here has one.

    `version` is that of an episode's scenario. Agents never see any of it before they ask.
    """
    if not scenario or task_idx is None:
        return []
    try:
        pack = find_version(scenario, version)
        return pack.blockers(scenario, task_idx) if pack is not None else []
    except (OSError, PackError):
        # a pack that is being replaced has no registry for a moment
        return []
