"""An upgrade that fails, however often it is started, keeps the backup from before it.

The upgrade is an app more with two migrations, of which the second fails until a file is there.
"""

import json
import re
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from awmenv.version import version
from awmweb.embedded import client_programs, upgrades
from awmweb.embedded.paths import data_paths
from awmweb.embedded.servers import running
from tests.awmweb.accounts import ROOT, wait_until
from tests.awmweb.test_commands import environment
from tests.commands import Commands

SETTINGS = """
from awmweb.settings import *
INSTALLED_APPS = [*INSTALLED_APPS, "later"]
"""
FIRST = """
from django.db import migrations
class Migration(migrations.Migration):
    operations = [migrations.RunSQL("CREATE TABLE later_rows (id int)")]
"""
SECOND = """
from pathlib import Path
from django.db import migrations
def end(apps, editor):
    if not Path(__file__).with_name("mended").exists():
        raise RuntimeError("this migration cannot finish")
class Migration(migrations.Migration):
    dependencies = [("later", "0001_first")]
    operations = [migrations.RunPython(end)]
"""


class Upgrade:
    """A data folder with running servers, commands of the version that wrote it, and of the one that cannot migrate."""

    def __init__(self, folder) -> None:
        self.var, self.code = folder / "var", folder / "code"
        self.app = self.code / "later" / "migrations"
        self.app.mkdir(parents=True)
        (self.code / "with_later.py").write_text(SETTINGS)
        for name, text in (("0001_first", FIRST), ("0002_second", SECOND), ("__init__", "")):
            (self.app / f"{name}.py").write_text(text)
        (self.app.parent / "__init__.py").write_text("")
        self.older = Commands(environment(self.var) | {"AWMWEB_DEMO": "0"})
        more = {"DJANGO_SETTINGS_MODULE": "with_later", "PYTHONPATH": f"{self.code}:{ROOT}"}
        self.newer = Commands(self.older.environment | more)
        self.database = client_programs.database("postgres://", data_paths(self.var))

    def files(self):
        return sorted((self.var / "backups").glob("before-*"), key=lambda file: file.stat().st_mtime_ns)

    def start(self, commands, fails=False):
        code, out, err = commands.run("prepare")
        assert bool(code) == fails and ("cannot finish" in err) == fails, out + err
        if fails:
            *_, last = err.strip().splitlines()  # below the traceback: why, and how to go back
            (saved,) = re.findall(r"^backup: (/.*?\.tar)", out, re.MULTILINE)
            assert "A migration failed: " in last and "cannot finish" in last and f"restore {saved} with" in last
        return out


@pytest.fixture
def upgrade(own_folder) -> Iterator[Upgrade]:
    made = Upgrade(own_folder)
    with running(made.var) as known:
        made.database = client_programs.database(known.database, data_paths(made.var))
        yield made
        made.older.stop()
        made.newer.stop()


def migrations_in(file):
    with tarfile.open(file) as archive:
        return json.load(archive.extractfile("manifest.json"))["migrations"]


@contextmanager
def locked(database, table):
    """Hold a table, so that pg_dump waits for it."""
    with database.piped("psql", "-XqAt") as session:
        session.stdin.write(f"BEGIN; LOCK TABLE {table}; SELECT 'held';\n".encode())
        session.stdin.flush()
        assert session.stdout.readline() == b"held\n"
        yield
        session.stdin.close()


def killed_in_its_backup(upgrade):
    """The start of an upgrade that is killed while it writes its backup."""
    with locked(upgrade.database, "people_project"):
        command = [sys.executable, "manage.py", "prepare"]
        process = subprocess.Popen(command, cwd=ROOT, env=upgrade.newer.environment)
        wait_until(upgrade.files, 120, "a backup that is being written")
        process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.mark.long
@pytest.mark.slow
def test_upgrade_that_fails_seven_times_keeps_its_first_backup(upgrade):
    upgrade.start(upgrade.older)
    killed_in_its_backup(upgrade)
    (left,) = upgrade.files()
    assert left.name.endswith(".unfinished")
    for number in range(7):
        said = upgrade.start(upgrade.newer, fails=True)
        (first,) = upgrade.files()
        assert f"backup: {first}{', from before the first try of this upgrade' if number else ''}\n" in said
    assert first.name.startswith(f"before-{version()}-to-{version()}-") and first.suffix == ".tar"
    before = migrations_in(first)
    assert not any(name.startswith("later.") for name in before)
    assert upgrade.database.rows("SELECT name FROM django_migrations WHERE app = 'later'") == ["0001_first"]

    # back to the older version, which is used for a while before the next try
    assert upgrade.older.run("restore", str(first), "--force")[0] == 0
    assert upgrade.database.rows("SELECT to_regclass('later_rows') IS NULL") == ["t"]
    upgrade.start(upgrade.newer, fails=True)
    assert upgrade.files() == [first]  # nobody has worked in it
    assert upgrade.older.run("restore", str(first), "--force")[0] == 0
    upgrade.database.rows("CREATE TABLE work AS SELECT 1")
    upgrade.start(upgrade.newer, fails=True)
    upgrade.start(upgrade.newer, fails=True)
    kept, second = upgrade.files()
    assert kept == first and migrations_in(second) == before

    (upgrade.app / "mended").touch()
    assert "migrations: applying 1" in upgrade.start(upgrade.newer)
    assert upgrade.files() == [first, second] and not (upgrade.var / "backups" / "upgrade.json").exists()
    assert upgrades.stamp_of(data_paths(upgrade.var)).version == version()
    assert upgrade.database.rows("SELECT count(*) FROM django_migrations WHERE app = 'later'") == ["2"]


def test_old_backups_go_and_that_of_a_failing_upgrade_stays(tmp_path, monkeypatch):
    """Each try finds the database used since the last one, as where old pods go on working."""
    here = data_paths(tmp_path)
    manifests = [SimpleNamespace(migrations=["a.0001"], rows={"t": number}) for number in range(12)]
    tries = iter(manifests)

    def saved(file, *rest):
        file.write_text("")
        return next(tries)

    monkeypatch.setattr(upgrades.backup, "save", saved)
    monkeypatch.setattr(upgrades.backup, "migrations_of", lambda source: ["a.0001"])
    times = iter(range(100))
    monkeypatch.setattr(upgrades.time, "strftime", lambda *rest: f"2026{next(times):04}")
    kept = [upgrades.save_before(SimpleNamespace(row_counts=lambda: {"t": -1}), here, "2").file for _ in range(10)]
    files = sorted((tmp_path / "backups").glob("*.tar"))
    assert files == [kept[0], *kept[-5:]]
    upgrades.succeeded(here, "2")
    again = upgrades.save_before(SimpleNamespace(row_counts=lambda: {"t": -1}), here, "3").file
    assert again.name.startswith("before-2-to-3-")
    assert sorted((tmp_path / "backups").glob("*.tar")) == sorted([*kept[-4:], again])
    assert (tmp_path / "backups").stat().st_mode & 0o077 == 0
    shutil.rmtree(tmp_path / "backups")


def test_full_disk_ends_no_start_that_has_migrated(tmp_path, monkeypatch, capsys):
    """The note goes, so that the next upgrade saves; the stamp is written by the next start."""

    def full(file, text):
        raise OSError(28, "No space left on device")

    (tmp_path / "backups").mkdir()
    (tmp_path / "backups" / "upgrade.json").write_text("{}")
    monkeypatch.setattr(upgrades, "replace_file", full)
    with pytest.raises(OSError, match="No space left"):
        upgrades.succeeded(data_paths(tmp_path), "2")
    assert not (tmp_path / "backups" / "upgrade.json").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 1, "more": 2}', '"x"'])
def test_damaged_stamp_and_note_are_no_stamp_and_no_note(tmp_path, text):
    here = data_paths(tmp_path)
    (tmp_path / "backups").mkdir()
    (tmp_path / upgrades.STAMP).write_text(text)
    (tmp_path / "backups" / "upgrade.json").write_text(text)
    assert upgrades.stamp_of(here).version == "unknown" and upgrades._unfinished(here) is None
