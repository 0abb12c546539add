"""`manage.py backup FILE`: write everything into one file, also while the product runs. In a folder: one file a day."""

import os
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from awmweb.embedded import EmbeddedError, backup, daily
from awmweb.embedded.client_programs import database
from awmweb.embedded.paths import data_paths
from awmweb.embedded.servers import database_of


class Command(BaseCommand):
    """Saves database, files and signing key."""

    help = "Back up everything to one file. It contains secrets: only you can read it."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="the tar file to write, or a folder for one file a day")
        parser.add_argument("--keep", type=int, metavar="DAYS", help="in a folder: the number of days to keep")

    def handle(self, *args: Any, **options: Any) -> None:
        target: Path = options["file"].absolute()
        keep: int | None = options["keep"]
        if keep is not None and keep < 1:
            raise CommandError(f"--keep {keep}: keep at least 1 day.")
        if keep is not None and not target.is_dir():
            raise CommandError(f"--keep {keep}: {target} is not a folder that exists, so it holds no files of days.")
        try:
            if not target.is_dir():
                self.save(target)
                return
            with daily.turn(target) as file:
                self.save(file)
                for path in daily.forget(target, keep, file) if keep else ():
                    self.stdout.write(f"removed {path}: {keep} days are kept")
        except EmbeddedError as error:
            raise CommandError(str(error)) from error

    def save(self, file: Path) -> None:
        """Write the file, and say what is in it."""
        here = data_paths(settings.VAR)
        if not file.parent.is_dir():
            raise CommandError(f"{file.parent} is not a folder.")
        with database_of(settings.VAR, os.environ.get("DATABASE_URL", "").strip()) as url:
            manifest = backup.save(file, database(url, here), here, settings.VERSION)
        try:
            backup.note_last(here, file)
        except OSError as error:
            self.stderr.write(f"The backup is complete, but its time was not noted for metrics: {error}")
        size = file.stat().st_size / 1e6
        self.stdout.write(
            f"{file}: {size:.1f} MB, the database and {len(manifest.files) - 1} files. Read back: "
            f"{sum(manifest.rows.values()):,} rows of {len(manifest.rows)} tables, and every file."
        )
