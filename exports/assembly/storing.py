"""Stores the files of datasets: in the data folder, or in any store that Django's storages support.

Owns paths inside the store and the folder in which an export is built. A dataset is stored file by file, its manifest
last. A dataset with a manifest is complete.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

from django.conf import settings
from django.core.files import File
from django.core.files.storage import FileSystemStorage, Storage, storages

from exports.assembly.datasets import MANIFEST
from exports.assembly.parts import Stopped
from exports.select.reading import IMAGES

BLOCK = 256 * 1024
PUSHES = "pushes"
"""The folder of pushes beside those of builds."""


def store() -> Storage:
    return storages["exports"]


def reaching() -> contextlib.AbstractContextManager[None]:
    """Turn errors of an S3 client into `StoreUnavailable`, or FileNotFoundError if a file is missing."""
    if isinstance(store(), FileSystemStorage):
        return contextlib.nullcontext()
    from exports.assembly import s3

    return s3.reaching()


def work_folder(export_id: str) -> Path:
    """Return the folder in which an export is built. It stays until the export is done, so that any process can
    continue."""
    folder: Path = settings.VAR / "exports" / "work" / export_id
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def forget_work(export_id: str) -> None:
    shutil.rmtree(settings.VAR / "exports" / "work" / export_id, ignore_errors=True)


def keep(project_id: str, dataset: str, folder: Path, goes_on: Callable[[int], bool] = lambda _files: True) -> None:
    """Store all files of a built dataset, unless it is stored already. Raises `Stopped` once `goes_on`, called with the
    number of files so far, is false."""
    if is_kept(project_id, dataset):
        return
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for number, path in enumerate(sorted(files, key=lambda path: path.name == MANIFEST), 1):
        if not goes_on(number):
            raise Stopped
        name = name_of(project_id, dataset, str(path.relative_to(folder)))
        # named by its digest, so that what an attempt before stored of it is the same
        if path.parent.name == IMAGES and _has(name, path.stat().st_size):
            continue
        with reaching():
            # a storage gives a second file of one name another name
            if store().exists(name):
                store().delete(name)  # left by an attempt that ended in the middle
            with path.open("rb") as source:
                store().save(name, File(source))


def _has(name: str, size: int) -> bool:
    with reaching():
        return store().exists(name) and store().size(name) == size


def is_kept(project_id: str, dataset: str) -> bool:
    with reaching():
        return store().exists(name_of(project_id, dataset, MANIFEST))


def name_of(project_id: str, dataset: str, path: str) -> str:
    """Return the name of a file in the store. Raises FileNotFoundError if the path leads out of its dataset."""
    # the path comes from the address of a download
    if ".." in PurePosixPath(path).parts or path.startswith("/") or "\x00" in path:
        raise FileNotFoundError(path)
    return f"{project_id}/{dataset}/{path}"


def open_file(project_id: str, dataset: str, path: str) -> IO[bytes]:
    """Open a file of a dataset; a file from S3 is downloaded completely first. Raises FileNotFoundError."""
    with reaching():
        return store().open(name_of(project_id, dataset, path), "rb")


def size_of(project_id: str, dataset: str, path: str) -> int:
    """Return a file's size. Raises FileNotFoundError."""
    with reaching():
        return store().size(name_of(project_id, dataset, path))


def blocks_of(project_id: str, dataset: str, path: str, first: int, last: int) -> Iterator[bytes]:
    """Yield the bytes from `first` to `last` of a file; the store sends no others. Raises FileNotFoundError."""
    name, storage = name_of(project_id, dataset, path), store()
    # only S3's storage has a bucket; its own `open` downloads the whole file first
    bucket = getattr(storage, "bucket", None)
    if bucket is None:
        yield from _blocks(storage.open(name, "rb"), first, last)
    # an empty file has no range that S3 accepts
    elif first <= last:
        key = f"{storage.location}/{name}" if storage.location else name  # type: ignore[attr-defined]
        with reaching():
            yield from bucket.Object(key).get(Range=f"bytes={first}-{last}")["Body"].iter_chunks(BLOCK)


def _blocks(source: IO[bytes], first: int, last: int) -> Iterator[bytes]:
    with source:
        source.seek(first)
        # both ends are inclusive, as in HTTP
        left = last - first + 1
        while left > 0 and (block := source.read(min(BLOCK, left))):
            left -= len(block)
            yield block


def manifest_of(project_id: str, dataset: str) -> dict[str, Any]:
    with open_file(project_id, dataset, MANIFEST) as source:
        manifest: dict[str, Any] = json.load(source)
    return manifest


def files_of(project_id: str, dataset: str, *, without: str = "") -> Iterator[tuple[str, int]]:
    """Yield path and size of every file of a dataset, but those of the folder `without`."""
    root = name_of(project_id, dataset, "")
    # a storage lists one folder at a time
    waiting = [""]
    while waiting:
        inner = waiting.pop()
        with reaching():
            folders, files = store().listdir(root + inner)
        waiting += [f"{inner}{name}/" for name in sorted(folders) if f"{inner}{name}" != without]
        for name in sorted(files):
            yield f"{inner}{name}", size_of(project_id, dataset, inner + name)


def delete(project_id: str, dataset: str) -> None:
    # listed first, so that no listing changes while it is read
    for path, _ in list(files_of(project_id, dataset)):
        with reaching():
            store().delete(name_of(project_id, dataset, path))
