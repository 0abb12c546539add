"""Files that hostile code wrote, seen by the server as bytes: copied and removed beside everything else."""

import asyncio
import os
import shutil
import time
from pathlib import Path

import pytest

from awmenv.errors import DatabaseBroken
from awmenv.server import database
from tests.awmenv.conftest import eventually


async def test_a_copy_is_of_a_regular_file_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 100)
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("link", "pipe", "folder", "missing"):
        with pytest.raises((DatabaseBroken, OSError)):
            await asyncio.wait_for(database.copy_aside(tmp_path / name, tmp_path / "copy"), 5)
        assert not (tmp_path / "copy").exists()
    await database.copy_aside(tmp_path / "file", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"x" * 100
    with pytest.raises(DatabaseBroken, match="copied"):
        await database.copy_aside(tmp_path / "file", tmp_path / "copy")


async def test_a_large_copy_holds_nobody(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * (64 << 20))
    started, before = time.thread_time(), time.process_time()
    await database.copy_aside(tmp_path / "large", tmp_path / "copy", 0o600)
    mine, all_ = time.thread_time() - started, time.process_time() - before
    assert mine < 0.3 * all_, "a thread did it"
    assert (tmp_path / "copy").stat().st_size == 64 << 20
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o600


async def test_what_is_removed_is_gone_soon_and_holds_nobody(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(3_000):
        (folder / str(number)).touch()
    (tmp_path / "file").touch()
    shutil.copytree(folder, tmp_path / "same")
    started = time.thread_time()
    shutil.rmtree(tmp_path / "same")
    whole, started = time.thread_time() - started, time.thread_time()
    for path in (folder, tmp_path / "file", tmp_path / "missing"):
        database.remove(path)
    assert time.thread_time() - started < whole / 2, "the loop did the work itself"
    for _ in range(200):
        if not folder.exists() and not (tmp_path / "file").exists():
            break
        await asyncio.sleep(0.05)
    assert list(tmp_path.iterdir()) == []


def test_folder_over_the_file_limit_is_not_scanned(tmp_path: Path) -> None:
    for number in range(database.MAX_FILES):
        (tmp_path / str(number)).touch()
    assert database.disk_use(tmp_path) == database.MAX_FILES * 4096
    (tmp_path / "one more").touch()
    assert database.disk_use(tmp_path) == database.TOO_MUCH


def test_folder_goes_though_a_process_still_writes_into_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a scenario does while it is being ended: a file comes after the folder was read and before it is removed."""
    monkeypatch.setattr(database, "REMOVED_AGAIN_S", 0.01)
    folder, plain, late = tmp_path / "template", shutil.rmtree, [0]
    folder.mkdir()

    def removed(path: Path, **how: bool) -> None:
        if late[0] < 2:
            late[0] += 1
            (path / f"late{late[0]}").write_bytes(b"x")
            return
        plain(path, **how)

    monkeypatch.setattr(shutil, "rmtree", removed)
    database.remove(folder)
    assert eventually(lambda: not folder.exists()) and late == [2]
