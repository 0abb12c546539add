"""`manage.py prepare`: migrate the database to this version and fill it. The supervisor runs it at each start.

Prints lines for the operator, and two for the supervisor: `@migrated` once services can start, and `@login PATH` with
the owner's login path.
"""

import io
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from awmweb.embedded import EmbeddedError, backup
from awmweb.embedded.paths import data_paths


class LastLine(io.TextIOBase):
    """A stream that passes lines on, except for the last one, which it keeps."""

    def __init__(self) -> None:
        self.last = ""
        self._open = ""

    def write(self, text: str) -> int:
        *complete, self._open = (self._open + text).split("\n")
        for line in filter(str.strip, complete):
            if self.last:
                print(self.last, flush=True)
            self.last = line.strip()
        return len(text)


class Command(BaseCommand):
    """Backs up before it changes anything, migrates, then hands over to `bootstrap` for project, packs and demo."""

    help = "Migrate the database (after a backup, if it is not empty) and create the demo project if it is missing."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        self.migrate()
        print("@migrated", flush=True)
        lines = LastLine()
        call_command("bootstrap", stdout=lines)
        print(f"@login {lines.last}", flush=True)

    def migrate(self) -> None:
        """Apply missing migrations. Raises if a newer version has changed the database."""
        executor = MigrationExecutor(connection)
        applied = set(executor.loader.applied_migrations)
        unknown = sorted(applied - set(executor.loader.disk_migrations or {}))
        if unknown:
            name = ".".join(unknown[0])
            raise CommandError(f"A newer version of awmweb changed the database ({name}). Start that version.")
        plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
        if not plan:
            return
        if applied:
            self.back_up(len(plan))
        print(f"migrations: applying {len(plan)}", flush=True)
        call_command("migrate", interactive=False, verbosity=0)

    def back_up(self, count: int) -> None:
        """Back up before an upgrade, so that it can be reverted."""
        here = data_paths(settings.VAR)
        print(f"backup: saving data before {count} migrations", flush=True)
        try:
            file = backup.save_before_upgrade(backup.database(settings.DATABASE_URL, here), here, settings.VERSION)
        except EmbeddedError as error:
            raise CommandError(f"Not migrated, because the backup failed: {error}") from error
        print(f"backup: {file}", flush=True)
