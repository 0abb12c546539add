"""`manage.py prepare`: migrate the database to this version and fill it. The supervisor runs it at each start.

Prints lines for the operator, and two for the supervisor: `@migrated` once services can start, and `@login PATH` with
the owner's login path.
"""

import importlib.util
import io
import traceback
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from awmweb.embedded import EmbeddedError, gate, postgres, upgrades
from awmweb.embedded.client_programs import database
from awmweb.embedded.paths import data_paths
from episodes.stored.packs import loaded_folder
from people.text.in_words import count

LAST_BEFORE_0_2 = "bfac4d6b12eb6f3aae3e7eaccc0777d38fb92b19"
"""The last commit with all migrations that those of 0.2.0 replace."""
OPTIONAL = ("account", "mfa", "socialaccount")
"""Apps of allauth that settings turn on. Their tables stay when they are off again."""


def known_migrations(loader: MigrationLoader) -> set[tuple[str, str]]:
    """Return migrations of this version, those that they replace, and those of apps that its settings leave out."""
    ours = loader.disk_migrations or {}
    return {*ours, *(replaced for migration in ours.values() for replaced in migration.replaces), *_optional()}


def _optional() -> set[tuple[str, str]]:
    """Look for names of files alone: without its settings nothing of allauth is loaded."""
    spec = importlib.util.find_spec("allauth")
    folders = spec.submodule_search_locations or [] if spec else []
    files = ((app, Path(folder, app, "migrations")) for folder in folders for app in OPTIONAL)
    return {(app, file.stem) for app, folder in files for file in folder.glob("[0-9]*.py")}


def _refuse(applied: set[tuple[str, str]]) -> None:
    """Raise if the database was changed by a newer version, or by an older one than this version can go on from."""
    loader = MigrationLoader(None, ignore_no_migrations=True)
    unknown = sorted(applied - known_migrations(loader))
    if unknown:
        name = ".".join(unknown[0])
        raise CommandError(f"A newer version of awmweb changed the database ({name}). Start that version.")
    for migration in (loader.disk_migrations or {}).values():
        missing = sorted(set(migration.replaces) - applied)
        if missing and len(missing) < len(migration.replaces):  # Django would skip the app, without a word
            name = ".".join(missing[0])
            raise CommandError(
                f"The database is older than 0.2.0: it lacks {name}. No data was changed. Start commit "
                f"{LAST_BEFORE_0_2} once on it (`git checkout` and `make run`), then this version."
            )


def refuse_old_server() -> None:
    """Raise if the database server could not load a backup."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version")
        (version,) = cursor.fetchone()
    try:
        postgres.refuse_older(version)
    except EmbeddedError as error:
        raise CommandError(str(error)) from error


def _why_not_migrated(error: Exception, saved: Path | None) -> str:
    """Return the sentences after a migration that failed: they come last, below a long traceback."""
    reason = str(error).strip().split("\n", 1)[0]
    back = f" To go back, restore {saved} with the older version and --force." if saved else ""
    return f"A migration failed: {reason}. Start again, also with other code.{back}"


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
        gate.wait()
        refuse_old_server()
        # containers of environment servers mount this part of the data folder alone, and do not start without it
        loaded_folder().mkdir(mode=0o755, parents=True, exist_ok=True)
        self.migrate()
        print("@migrated", flush=True)
        lines = LastLine()
        call_command("bootstrap", stdout=lines)
        print(f"@login {lines.last}", flush=True)

    def migrate(self) -> None:
        """Apply what is missing; refuse a database that a newer version has changed already."""
        applied = set(MigrationRecorder(connection).applied_migrations())
        _refuse(applied)
        executor = MigrationExecutor(connection)
        plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
        if not plan:
            executor.check_replacements()
        else:
            saved = self.back_up(len(plan)) if applied else None
            print(f"migrations: applying {len(plan)}", flush=True)
            try:
                call_command("migrate", interactive=False, verbosity=0)
            except Exception as error:  # of any migration; what it says is printed, too
                traceback.print_exc()
                raise CommandError(_why_not_migrated(error, saved)) from None
        try:
            upgrades.succeeded(data_paths(settings.VAR), settings.VERSION)
        except OSError as error:  # a full disk: the next start notes it
            print(f"version: not noted in the data folder ({error})", flush=True)

    def back_up(self, number: int) -> Path:
        """Back up before an upgrade, so that it can be reverted."""
        here = data_paths(settings.VAR)
        print(f"backup: before {count(number, 'migration')}", flush=True)
        try:
            kept = upgrades.save_before(database(settings.DATABASE_URL, here), here, settings.VERSION)
        except EmbeddedError as error:
            raise CommandError(f"Not migrated, because the backup failed: {error}") from error
        print(f"backup: {kept.file}{'' if kept.is_new else ', from before the first try of this upgrade'}", flush=True)
        return kept.file
