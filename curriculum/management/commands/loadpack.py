"""`manage.py loadpack DIR`: check a folder of AWM-1K rows and take it in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from awmenv.packs import Report
from curriculum import launching
from people.errors import AppError

SHOWN = 40


class Command(BaseCommand):
    help = (
        "Read a folder of AWM-1K rows, report on every row that is wrong, and copy the folder to where packs are found."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path)
        parser.add_argument("--name", default="", help="the pack's name; by default the folder's")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            pack = launching.take_in(options["folder"], options["name"] or options["folder"].resolve().name)
        except AppError as refused:
            raise CommandError(refused.message) from refused
        self._report(pack.report)
        self.stdout.write(f"{len(pack.scenarios)} scenarios in {pack.folder}, {len(pack.rejected)} rejected")
        self.stdout.write("Restart awmweb, so that the environment server serves them.")

    def _report(self, report: Report) -> None:
        for finding in report.findings[:SHOWN]:
            place = f"{finding.file}:{finding.line}" if finding.line else finding.file
            self.stdout.write(f"  {finding.level} {place} {finding.scenario}: {finding.message}")
        if len(report.findings) > SHOWN:
            self.stdout.write(f"  and {len(report.findings) - SHOWN} more")
