"""Loaded before the settings (`-p tests.house`): gives the tests a data folder of their own, and servers in it.

The servers start with the first test that needs the database and stop with the session. Nothing of `var/` is touched.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

# Where bytecode is not kept, each of the hundreds of processes that a test run starts compiles the product anew
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

VAR = Path(tempfile.mkdtemp(prefix="awmweb-tests-"))
VAR.chmod(0o711)
for name in [name for name in os.environ if name.startswith(("AWMWEB_", "AWMENV_"))]:
    if name != "AWMWEB_REQUIRE_BROWSER":
        del os.environ[name]
for name in ("DATABASE_URL", "REDIS_URL"):
    os.environ.pop(name, None)
os.environ["AWMWEB_VAR"] = str(VAR)
# most tests send an answer and look at what its agent gets
os.environ["AWMWEB_UNDO_S"] = "0"
os.environ["AWMENV_CACHE_DIR"] = str(VAR / "cache")

from awmweb.embedded import paths, servers  # noqa: E402  the environment had to be set first
from tests import schema  # noqa: E402

schema.bring(VAR)
paths.ensure_folders(paths.data_paths(VAR))
_stack = ExitStack()

TEMPLATE = "TESTS_PRODUCT_TEMPLATE"
"""Names the folder in which all processes of one test run share a product's data after its first start (`running`)."""
_mine = TEMPLATE not in os.environ
if _mine:
    os.environ[TEMPLATE] = tempfile.mkdtemp(prefix="awmweb-template-")
    Path(os.environ[TEMPLATE]).chmod(0o711)


def _end() -> None:
    _stack.close()
    for folder in (VAR, paths.data_paths(VAR).home, *([Path(os.environ[TEMPLATE])] if _mine else [])):
        shutil.rmtree(folder, ignore_errors=True)


atexit.register(_end)


@pytest.fixture(scope="session")
def house_servers() -> Iterator[None]:
    """PostgreSQL and Valkey of this session."""
    _stack.enter_context(servers.running(VAR))
    yield
    from django.db import connections

    connections.close_all()
    for connection in connections.all(initialized_only=True):
        if hasattr(connection, "close_pool"):
            connection.close_pool()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(house_servers: None) -> None:
    """pytest-django asks for this before it makes the test database."""
    from django.conf import settings
    from django.core.management.commands import flush
    from django.db.backends.postgresql.operations import DatabaseOperations

    DatabaseOperations.sql_flush = _deletions
    settings.DATABASES["default"].setdefault("TEST", {})["TEMPLATE"] = settings.DATABASES["default"]["NAME"]
    flush.emit_post_migrate_signal = lambda *given: None  # it would only make what `OF_MIGRATIONS` holds


OF_MIGRATIONS = {"auth_permission", "django_content_type"}
"""Tables that are filled with the schema, and never by a test."""


def _deletions(self: Any, style: object, tables: list[str], **how: object) -> list[str]:
    """Empty the tables that have rows, after a test that commits. TRUNCATE makes new files for each table and index,
    which is thirty times the work where most are empty. Foreign keys are looked at when all rows are gone.
    """
    names = [self.quote_name(table) for table in tables if table not in OF_MIGRATIONS]
    with self.connection.cursor() as cursor:
        cursor.execute("SELECT " + ", ".join(f"EXISTS (SELECT FROM {name})" for name in names))
        return [f"DELETE FROM {name};" for name, filled in zip(names, cursor.fetchone(), strict=True) if filled]
