"""`manage.py prepare`, `backup` and `restore` on the real tables of the product."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from awmenv.version import version
from awmweb.embedded import client_programs, nothing_to_save, upgrades
from awmweb.embedded.paths import data_paths
from awmweb.embedded.servers import running
from awmweb.management.commands.prepare import LAST_BEFORE_0_2
from tests.commands import Commands
from tests.managing import managed

TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1"


def environment(var: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(var.parent), "LANG": "C.UTF-8", "AWMWEB_VAR": str(var)}


def manage(var: Path, *arguments: str, fails: bool = False, **settings: str) -> str:
    """Run a command of the product on this data folder; returns all it said."""
    code, output = managed(*arguments, environment=environment(var) | settings)
    assert bool(code) == fails, output
    return output


def rows(var: Path, query: str) -> list[str]:
    """Ask the running database of this folder."""
    with running(var, queue=False) as known:
        return client_programs.database(known.database, data_paths(var)).rows(query)


def content(var: Path) -> dict[str, str]:
    """A checksum of every table."""
    with running(var, queue=False) as known:
        database = client_programs.database(known.database, data_paths(var))
        digest = "SELECT count(*) || ' ' || coalesce(md5(string_agg(t::text, '|' ORDER BY t::text)), '') FROM {} t"
        return {name: database.rows(digest.format(f'"{name}"'))[0] for name in database.rows(TABLES)}


@pytest.fixture(scope="module")
def filled():
    """A data folder with the demo in it, not running, and what its preparation said."""
    folder = Path(tempfile.mkdtemp(prefix="awm-", dir="/tmp"))
    folder.chmod(0o755)
    with running(folder / "var"):
        said = manage(folder / "var", "prepare")
    yield folder / "var", said
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def again(filled):
    """The same commands on the filled folder, each in a child of a process that has loaded Django."""
    commands = Commands(environment(filled[0]))

    def run(*arguments: str, fails: bool = False) -> str:
        code, out, err = commands.run(*arguments)
        assert bool(code) == fails, out + err
        return out + err

    yield run
    commands.stop()


def test_prepare_migrates_and_prints_the_owner_link(filled):
    var, said = filled
    lines = said.splitlines()
    assert lines[0].startswith("migrations: applying") and lines[1] == "@migrated"
    assert lines[-1].startswith("@login /login/once/")
    assert "@login" not in "".join(lines[:-1]) and not (var / "backups").exists()


def test_preparing_again_changes_nothing_but_the_link(filled, again):
    var, said = filled
    before = set(content(var))
    with running(var):
        later = again("prepare")
    assert "migrations" not in later and later.splitlines()[-1] != said.splitlines()[-1]
    assert set(content(var)) == before and not (var / "backups").exists()


def test_restore_into_an_empty_folder_is_complete(filled, again, own_folder):
    var, _ = filled
    (var / "media").mkdir(exist_ok=True)
    (var / "media" / "blob").write_bytes(b"\0" * 5000)
    (var / "settings.json").write_text('{"AWMENV_PORT": "8123"}')  # of this machine
    file, other = own_folder / "saved.tar", own_folder / "other"
    assert "the database and 4 files" in again("backup", str(file))
    said = manage(other, "restore", str(file))
    assert said.splitlines()[-1].startswith(f"Restored to {other} a backup made by 0.")
    expected = content(var)
    assert content(other) == expected and len(expected) > 15
    assert (other / "media" / "blob").read_bytes() == b"\0" * 5000
    assert upgrades.stamp_of(data_paths(other)).version == version()
    assert (other / "secret_key").read_text() == (var / "secret_key").read_text()
    assert (other / "credentials.json").read_text() != (var / "credentials.json").read_text()


def test_backup_and_restore_work_online_overwrite_needs_force(filled, again, own_folder):
    var, _ = filled
    file = own_folder / "saved.tar"
    with running(var):
        again("backup", str(file))
        assert "not empty" in again("restore", str(file), fails=True)
        again("restore", str(file), "--force")
    assert rows(var, "SELECT count(*) > 0 FROM django_migrations") == ["t"]


def test_new_migrations_are_preceded_by_a_backup(filled, again):
    var, _ = filled
    with running(var):
        again("migrate", "sessions", "zero")
        said = again("prepare")
    (saved,) = (var / "backups").iterdir()
    assert f"backup: {saved}" in said and "migrations: applying 1" in said
    assert saved.name.startswith(f"before-{version()}-to-{version()}-")
    shutil.rmtree(var / "backups")


@pytest.mark.long
def test_database_of_replaced_migrations_is_up_to_date(filled, again):
    var, _ = filled
    ours = "name = '0001_initial' AND app IN ('people', 'episodes', 'experts', 'notices', 'reviews', 'runs')"
    assert rows(var, f"DELETE FROM django_migrations WHERE {ours} RETURNING 1") == ["1"] * 6
    with running(var):
        said = again("prepare")
    assert said.startswith("@migrated") and not (var / "backups").exists()
    assert rows(var, f"SELECT count(*) FROM django_migrations WHERE {ours}") == ["6"]


def test_database_with_some_replaced_migrations_is_refused(filled, again):
    var, _ = filled
    missing = "VALUES ('runs', '0008_stored_rewards', now())"
    rows(var, "DELETE FROM django_migrations WHERE app = 'runs' AND name = '0008_stored_rewards'")
    with running(var):
        said = again("prepare", fails=True)
    assert "lacks runs.0008_stored_rewards" in said and LAST_BEFORE_0_2 in said and "@migrated" not in said
    rows(var, f"INSERT INTO django_migrations (app, name, applied) {missing}")


def test_a_database_changed_by_newer_code_is_refused(filled, again):
    var, _ = filled
    rows(var, "INSERT INTO django_migrations (app, name, applied) VALUES ('people', '9999_future', now())")
    with running(var):
        said = again("prepare", fails=True)
        assert "changed the database (people.9999_future)" in said and "@migrated" not in said
    rows(var, "DELETE FROM django_migrations WHERE name = '9999_future'")


def test_second_factors_and_a_provider_can_be_turned_off_again(filled, again):
    var, _ = filled
    with running(var):
        manage(var, "prepare", AWMWEB_MFA="1")
        link = again("prepare").strip().splitlines()[-1]
    assert link.startswith("@login ") and rows(var, "SELECT count(*) FROM mfa_authenticator") == ["0"]


@pytest.mark.long
def test_backup_with_second_factors_is_restored_without_them(filled, again, own_folder):
    var, _ = filled
    with running(var):
        manage(var, "prepare", AWMWEB_MFA="1")
    again("backup", str(own_folder / "saved.tar"))
    manage(own_folder / "var", "restore", str(own_folder / "saved.tar"))
    assert rows(own_folder / "var", "SELECT count(*) FROM mfa_authenticator") == ["0"]


def test_a_backup_into_a_folder_that_is_not_there_says_so(again):
    assert "is not a folder" in again("backup", "/nowhere/at/all.tar", fails=True)


@pytest.mark.parametrize("found", [None, "secret_key"])
def test_backup_of_folder_without_database_writes_nothing(own_folder, found):
    var = own_folder / "wrong"
    if found:
        var.mkdir()
        (var / found).write_text("a key")
    said = manage(var, "backup", str(own_folder / "x.bak"), fails=True)
    assert said == f"Nothing is running on {var}. Is AWMWEB_VAR set?\n"
    assert not (own_folder / "x.bak").exists()
    assert [path.name for path in var.glob("*")] == [found] * bool(found)


def test_backup_needs_a_data_folder_beside_its_own_database(own_folder, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgres://me@127.0.0.1:9/awmweb")
    environment = os.environ | {"AWMWEB_VAR": str(own_folder / "wrong")}
    assert nothing_to_save(environment) == str(own_folder / "wrong")
    assert nothing_to_save(environment | {"AWMWEB_VAR": str(own_folder)}) == ""


def test_a_file_that_is_no_backup_says_so(filled, own_folder):
    (own_folder / "text").write_text("hello")
    assert "not a complete backup" in manage(own_folder / "other", "restore", str(own_folder / "text"), fails=True)
