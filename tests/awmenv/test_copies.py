"""When two copies of a session's database are read as databases: only where their bytes differ."""

import shutil
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from awmenv.server.session.verifying import Case
from awmenv.server.verify import diffing


class Children:
    """The two parts of a world that a comparison uses, in this process; `runs` counts the children that it would be."""

    def __init__(self) -> None:
        self.runs = 0
        self.verifiers = SimpleNamespace(run=self.run)

    def run(self, _work: str, paths: list[str], *, private: bool) -> Any:
        assert private
        self.runs += 1
        return SimpleNamespace(value=diffing.diff(*paths))

    async def in_worker(self, _scenario: str, function: Any, *arguments: Any) -> Any:
        return function(*arguments)


@pytest.fixture
def start(tmp_path: Path) -> Path:
    path = tmp_path / "start.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()
    return path


def copied(source: Path, name: str, *statements: str) -> Path:
    target = source.with_name(name)
    shutil.copyfile(source, target)
    connection = sqlite3.connect(target)
    for statement in statements:
        with connection:
            connection.execute(statement)
    connection.close()
    return target


def case() -> tuple[Case, Children]:
    children = Children()
    return Case(children, scenario="s"), children  # type: ignore[arg-type]


async def test_copies_with_the_same_bytes_need_no_child(start: Path) -> None:
    mine, children = case()
    assert await mine.compare(start, copied(start, "same.db")) == {}
    undone = copied(start, "undone.db", "PRAGMA user_version = 0")
    assert await mine.compare(start, undone) == {} and children.runs == 0


async def test_final_copy_after_one_write_is_not_read_again(start: Path) -> None:
    mine, children = case()
    after = copied(start, "1.db", "INSERT INTO t VALUES (1)")
    written = await mine.compare(start, after)
    assert written == await mine.compare(start, copied(after, "final.db")) and written
    assert children.runs == 1


async def test_final_copy_after_two_writes_is_compared_with_the_start(start: Path) -> None:
    mine, children = case()
    first = copied(start, "1.db", "INSERT INTO t VALUES (1)")
    second = copied(first, "2.db", "INSERT INTO t VALUES (2)")
    await mine.compare(start, first)
    await mine.compare(first, second)
    first.unlink()
    found = await mine.compare(start, copied(second, "final.db"))
    assert found is not None and [row["x"] for row in found["t"]["added"]] == [1, 2] and children.runs == 3


async def test_bytes_changed_behind_the_counter_are_compared(start: Path) -> None:
    """A process can write to the file without SQLite: the counters stay, and the rows change all the same."""
    mine, children = case()
    after = copied(start, "1.db", "INSERT INTO t VALUES ('honest')")
    await mine.compare(start, after)
    forged = after.with_name("final.db")
    forged.write_bytes(after.read_bytes().replace(b"honest", b"forged"))
    found = await mine.compare(start, forged)
    assert found is not None and found["t"]["added"] == [{"x": "forged"}] and children.runs == 2
