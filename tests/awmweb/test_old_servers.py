"""A PostgreSQL that could not load a backup is refused before anything is changed."""

import json
import time
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from django.core.management.base import CommandError

from awmweb.embedded import EmbeddedError, backup, client_programs, postgres
from awmweb.embedded.paths import data_paths
from awmweb.embedded.reading_back import loadable
from awmweb.management.commands import prepare

OLD = "15.14 (Debian 15.14-0+deb12u1)"


@pytest.mark.parametrize("version", [OLD, "9.6.24", "16.10", "", "unknown"])
def test_old_server_is_refused_with_what_to_do(version):
    with pytest.raises(EmbeddedError) as refused:
        postgres.refuse_older(version)
    said = str(refused.value)
    assert said.startswith(f"DATABASE_URL names PostgreSQL {version}. awmweb needs 17 or newer")
    assert "manage.py backup FILE" in said and "manage.py restore FILE" in said


@pytest.mark.parametrize("version", ["17.0", "18.4", "18.4 (Debian 18.4-1.pgdg12+1)", "19devel", "20beta1"])
def test_newer_server_is_accepted(version):
    postgres.refuse_older(version)


def test_start_refuses_an_old_server_before_migrations(monkeypatch):
    """The server's own words are put in the place of those of this one, which is new."""
    cursor = SimpleNamespace(execute=lambda query: None, fetchone=lambda: (OLD,))
    monkeypatch.setattr(prepare, "connection", SimpleNamespace(cursor=lambda: nullcontext(cursor)))
    with pytest.raises(CommandError, match="names PostgreSQL 15.14"):
        prepare.Command().handle()


def test_restore_into_an_old_server_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(client_programs.Database, "server_version", lambda self: OLD)
    target = client_programs.database("postgres://desk@127.0.0.1:1/lab", data_paths(tmp_path))
    with pytest.raises(EmbeddedError, match="names PostgreSQL 15.14"):
        backup.restore(tmp_path / "no file", target, data_paths(tmp_path), set())
    assert list(tmp_path.iterdir()) == []


def test_versions_of_columns_are_not_loaded_and_rows_stay():
    of_server = b"ALTER TABLE ONLY public.steps ALTER COLUMN id SET (pg_attver=30890504);\n"
    kept = [
        b"ALTER TABLE ONLY public.steps ALTER COLUMN id SET STATISTICS 500;\n",
        b'COPY public."Odd name" (id, body) FROM stdin;\n',
        of_server,  # a row with these words
        b"\\.\n",
    ]
    assert list(loadable([of_server, *kept, of_server])) == kept


def test_time_of_last_backup_is_known_and_not_in_the_future(tmp_path):
    here = data_paths(tmp_path)
    assert backup.last_at(tmp_path) == 0
    before = time.time()
    backup.note_last(here, tmp_path / "x.tar")
    assert before <= backup.last_at(tmp_path) <= time.time()
    for text in ("", "{", "[]", '{"at": "x"}', json.dumps({"at": time.time() + 3600})):
        (tmp_path / backup.LAST).write_text(text)
        assert backup.last_at(tmp_path) == 0
