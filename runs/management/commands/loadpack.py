"""`manage.py loadpack DIR`: check a folder of AWM-1K rows and load it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from awmenv.packs import Report
from episodes.stored.packs import VERSION_LENGTH
from people.errors import AppError
from people.text.in_words import count
from runs.errors import LoadedAlready
from runs.launch import launching
from runs.taskset.ask_controls import sentence_of

SHOWN = 40
STEP = 200


class Command(BaseCommand):
    help = "Read a folder of AWM-1K rows, report invalid rows, and copy the folder to the packs of the data folder."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path)
        parser.add_argument("--name", default="", help="the pack's name; by default the folder's")
        parser.add_argument(
            "--replace", action="store_true", help="replace the loaded pack of this name; its episodes keep its version"
        )
        parser.add_argument(
            "--unchecked", action="store_true", help="skip the check of the verifiers; `checkpack` can run it later"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            name = options["name"] or options["folder"].resolve().name
            pack = launching.take_in(options["folder"], name, self._built, replace=options["replace"])
        except LoadedAlready as same:
            if not options["replace"]:
                raise CommandError(same.message) from same
            self.stdout.write(f"{same.message} Nothing to replace.")
            return
        except AppError as refused:
            raise CommandError(refused.message) from refused
        self._report(pack.report)
        partial = sum(bool(scenario.partial) for scenario in pack.scenarios.values())
        also_partial = f", {partial} partial" if partial else ""
        self.stdout.write(
            f"{count(len(pack.scenarios), 'scenario')} in {settings.VAR / 'packs' / pack.name}{also_partial}, "
            f"{len(pack.rejected)} rejected, version {pack.digest[:VERSION_LENGTH]}"
        )
        if asking := sentence_of(pack):
            self.stdout.write(asking)
        if not options["unchecked"]:
            self._verifiers(pack.name)
        if settings.RUNS_ON(settings.VAR):
            self.stdout.write("A running environment server loads them within 5 s.")
        else:
            self.stdout.write(f"Nothing is running on {settings.VAR}. The next start loads them.")

    def _built(self, done: int, total: int) -> None:
        if done % STEP == 0:
            self.stdout.write(f"  {done} of {count(total, 'database')}")
            self.stdout.flush()

    def _verifiers(self, name: str) -> None:
        """Check the verifiers of a pack that is already loaded. If that is impossible here, print so; the pack stays
        loaded."""
        try:
            call_command("checkpack", name, guesses=False, stdout=self.stdout)
        except CommandError as refused:
            self.stdout.write(f"The verifiers were not checked: {refused}")

    def _report(self, report: Report) -> None:
        for finding in report.findings[:SHOWN]:
            place = f"{finding.file}:{finding.line}" if finding.line else finding.file
            where = " ".join(filter(None, [finding.level, place, finding.scenario]))
            self.stdout.write(f"  {where}: {finding.message}")
        if len(report.findings) > SHOWN:
            self.stdout.write(f"  and {len(report.findings) - SHOWN} more")
