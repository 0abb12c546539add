"""Where the files of datasets stand: in the data folder, or in any store that Django's storages reach.

Owns paths inside the store and the folder in which an export is built. A dataset is stored file by file, its manifest
last: a dataset with a manifest is whole.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from django.conf import settings
from django.core.files import File
from django.core.files.storage import Storage, storages

from exports.datasets import MANIFEST


def store() -> Storage:
    return storages["exports"]


def work_folder(export_id: str) -> Path:
    """The folder in which an export is built; it stays until the export is done, so that any process goes on there."""
    folder: Path = settings.VAR / "exports" / "work" / export_id
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def forget_work(export_id: str) -> None:
    shutil.rmtree(settings.VAR / "exports" / "work" / export_id, ignore_errors=True)


def keep(project_id: str, dataset: str, folder: Path) -> None:
    """Store all files of a built dataset, unless it is stored already."""
    if is_kept(project_id, dataset):
        return
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in sorted(files, key=lambda path: path.name == MANIFEST):
        name = name_of(project_id, dataset, str(path.relative_to(folder)))
        if store().exists(name):
            store().delete(name)  # left by an attempt that ended in the middle
        with path.open("rb") as source:
            store().save(name, File(source))


def is_kept(project_id: str, dataset: str) -> bool:
    return store().exists(name_of(project_id, dataset, MANIFEST))


def name_of(project_id: str, dataset: str, path: str) -> str:
    return f"{project_id}/{dataset}/{path}"


def open_file(project_id: str, dataset: str, path: str) -> IO[bytes]:
    """Open a file of a dataset. Raises FileNotFoundError."""
    return store().open(name_of(project_id, dataset, path), "rb")


def manifest_of(project_id: str, dataset: str) -> dict[str, Any]:
    with open_file(project_id, dataset, MANIFEST) as source:
        manifest: dict[str, Any] = json.load(source)
    return manifest


def files_of(project_id: str, dataset: str) -> Iterator[tuple[str, int]]:
    """Yield path and size of every file of a dataset."""
    root = name_of(project_id, dataset, "")
    waiting = [""]
    while waiting:
        inner = waiting.pop()
        folders, files = store().listdir(root + inner)
        waiting += [f"{inner}{name}/" for name in sorted(folders)]
        for name in sorted(files):
            yield f"{inner}{name}", store().size(root + inner + name)


def delete(project_id: str, dataset: str) -> None:
    for path, _ in list(files_of(project_id, dataset)):
        store().delete(name_of(project_id, dataset, path))
