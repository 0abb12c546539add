"""`manage.py restore FILE`: restore a backup into an empty data folder, or with --force over existing data."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.migrations.loader import MigrationLoader

from awmweb.embedded import EmbeddedError, backup, upgrades
from awmweb.embedded.client_programs import database
from awmweb.embedded.paths import data_paths
from awmweb.embedded.servers import database_of
from awmweb.management.commands.prepare import known_migrations


class Command(BaseCommand):
    """Restores, then migrates to this version of the code."""

    help = "Restore a backup, all or nothing. Refuses to overwrite data without --force."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="a file written by backup")
        parser.add_argument("--force", action="store_true", help="overwrite the database and the folder")

    def handle(self, *args: Any, **options: Any) -> None:
        here = data_paths(settings.VAR)
        loader = MigrationLoader(None, ignore_no_migrations=True)
        migrations = {f"{app}.{name}" for app, name in known_migrations(loader)}
        try:
            with database_of(settings.VAR, os.environ.get("DATABASE_URL", "").strip()) as url:
                target = database(url, here)
                manifest = backup.restore(options["file"], target, here, migrations, options["force"])
                upgrades.restored(here, manifest.version)
                self.migrate()
                upgrades.restored(here, settings.VERSION)
        except EmbeddedError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"Restored to {settings.VAR} a backup made by {manifest.version} on {manifest.created_at}. Restart awmweb "
            "if it is running: sessions are signed with the restored key."
        )

    def migrate(self) -> None:
        """Migrate in a separate process: this one read its settings before the folder had a key or a password."""
        command = [sys.executable, str(settings.BASE_DIR / "manage.py"), "migrate", "--no-input", "--verbosity", "0"]
        environment = os.environ | {"AWMWEB_VAR": str(settings.VAR)}
        done = subprocess.run(
            command, cwd=settings.BASE_DIR, env=environment, stderr=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            reason = (done.stderr.strip() or "no reason was given").rsplit("\n", 1)[-1]
            raise CommandError(
                f"The data is restored, but migrating it to this version failed: {reason}. "
                "To see all of it, run `python manage.py migrate`."
            )
