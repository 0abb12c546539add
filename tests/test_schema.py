"""The database that test processes copy is built again as soon as what it is made from changes."""

from __future__ import annotations

from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from tests import schema


def test_changed_migration_makes_another_schema(tmp_path, monkeypatch):
    monkeypatch.setattr(schema, "ROOT", tmp_path)
    files = ("people/migrations/0001_a.py", "requirements.lock", "awmweb/embedded/postgres.py")
    for name in (*files, "awmweb/management/commands/migrate.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    seen = {schema.digest()}
    for name in files:
        (tmp_path / name).write_text("changed")
        seen.add(schema.digest())
    (tmp_path / "people/migrations/0002_b.py").write_text("")
    seen.add(schema.digest())
    assert len(seen) == 5


def test_copied_database_lacks_no_migration(db):
    executor = MigrationExecutor(connection)
    assert executor.migration_plan(executor.loader.graph.leaf_nodes()) == []
    with connection.cursor() as cursor:
        cursor.execute("SELECT datname FROM pg_database")
        assert ("awmweb",) in cursor.fetchall(), "its template"
