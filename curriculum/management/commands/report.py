"""`manage.py report`: write what a run shows into a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from curriculum import training_report
from episodes.selection import run_named
from people.errors import AppError
from people.members import house_actor
from runs import report
from runs.comparison import compare_run
from runs.models import Plan


class Command(BaseCommand):
    help = (
        "Write a run's report: Markdown, CSV tables, PNG charts, and the plan as YAML; for a run that trained also its "
        "curves and turns."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--run", required=True, metavar="RUN", help="the run, by ID or name")
        parser.add_argument("--output", required=True, type=Path, metavar="DIR")
        parser.add_argument("--project", default="demo")

    def handle(self, *args: Any, **options: Any) -> None:
        folder: Path = options["output"]
        try:
            actor = house_actor(options["project"])
            run = run_named(actor.project, options["run"])
            found = compare_run(actor, run.pk) if Plan.objects.filter(run=run).exists() else None
        except AppError as refused:
            raise CommandError(refused.message) from refused
        try:
            folder.mkdir(parents=True, exist_ok=True)
            sections, names = training_report.write(run, folder)
            files = [folder / name for name in names]
            if found is not None:
                files += report.write(found, folder, sections)
            elif sections:
                files.append(folder / "report.md")
                files[-1].write_text("\n\n".join([f"# {report.plain(run.name)}", *sections]) + "\n", encoding="utf-8")
        except OSError as error:
            raise CommandError(f"Could not write to {folder}: {error.strerror}.") from error
        if not files:
            raise CommandError("The run has no plan and no training steps, so there is nothing to report.")
        self.stdout.write("\n".join(str(file) for file in files))
