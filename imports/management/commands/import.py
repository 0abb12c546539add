"""`manage.py import FILE... --project P`: import trajectories, each file completely or not at all."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from imports.readers import FORMATS
from imports.readers.found import lost_words
from imports.record import importing
from people.access import system_actor
from people.errors import AppError

EVERY_S = 0.2
BAR = 30


class Command(BaseCommand):
    help = "Import trajectories from files. Imports all rows of a file, or none."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
        parser.add_argument("--project", default="demo")
        parser.add_argument("--format", choices=FORMATS, default="", help="default: recognized from the first row")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            actor = system_actor(options["project"])
        except AppError as refused:
            raise CommandError(refused.message) from refused
        refusals = []
        for path in options["files"]:
            try:
                self._take(actor, path, options["format"])
            except (AppError, OSError) as refused:
                refusals.append(f"{path}: {refused}")
                self.stderr.write(f"Refused {refusals[-1]}")
        if refusals:
            count, were = len(options["files"]), "was" if len(refusals) == 1 else "were"
            raise CommandError(f"{len(refusals)} of {count} {'file' if count == 1 else 'files'} {were} refused.")

    def _take(self, actor: Any, path: Path, format_name: str) -> None:
        job = importing.take(actor, path, format_name, self._bar())
        episodes = "episode" if job.episodes == 1 else "episodes"
        repeats = f" {job.known:,} already imported." if job.known else ""
        self.stdout.write(f"Imported {job.episodes:,} {episodes} from {path} ({FORMATS[job.format].title}).{repeats}")
        for line in lost_words(job.lost):
            self.stdout.write(f"  Not imported: {line}")

    def _bar(self) -> importing.Tell:
        """Return a progress bar that updates itself in a terminal."""
        last = time.monotonic()

        def tell(behind: int, size: int) -> None:
            nonlocal last
            if sys.stderr.isatty() and (time.monotonic() - last > EVERY_S or behind == size):
                last = time.monotonic()
                full = BAR * behind // max(size, 1)
                self.stderr.write(f"\r[{'#' * full}{'.' * (BAR - full)}] {behind:,} of {size:,} bytes", ending="")

        return tell
