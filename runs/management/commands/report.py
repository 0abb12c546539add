"""`manage.py report`: write what a run shows into a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from people.errors import AppError
from people.members import house_actor
from runs import report
from runs.comparison import compare_run


class Command(BaseCommand):
    help = "Write a run's report: Markdown, CSV tables, PNG charts, and the plan as YAML."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--run", required=True, metavar="RUN")
        parser.add_argument("--output", required=True, type=Path, metavar="DIR")
        parser.add_argument("--project", default="demo")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            found = compare_run(house_actor(options["project"]), options["run"])
        except AppError as refused:
            raise CommandError(refused.message) from refused
        try:
            files = report.write(found, options["output"])
        except OSError as error:
            raise CommandError(f"Could not write to {options['output']}: {error.strerror}.") from error
        self.stdout.write("\n".join(str(file) for file in files))
