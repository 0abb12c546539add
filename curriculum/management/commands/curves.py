"""`manage.py curves --run R --output DIR`: a run's training curves, and its beginning beside its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from curriculum import series, training_report
from episodes.selection import run_named
from people.errors import AppError
from people.members import house_actor


class Command(BaseCommand):
    help = (
        "Write what a trainer reported, and the rates counted from its episodes, by training step: training.csv, and "
        "a TensorBoard event file for TensorBoard, W&B or MLflow. turns.jsonl has five turns of each step as the model "
        "wrote them, with their rewards. summary.json and before_after.png compare the first "
        "and the last 20 episodes without an expert."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--run", required=True, metavar="R", help="the run, by ID or name")
        parser.add_argument("--output", required=True, type=Path, metavar="DIR")
        parser.add_argument("--project", default="demo")

    def handle(self, *args: Any, **options: Any) -> None:
        folder: Path = options["output"]
        try:
            actor = house_actor(options["project"])
            run = run_named(actor.project, options["run"])
            found = series.of_run(run)
            if not found:
                raise CommandError("The run has no training steps.")
            folder.mkdir(parents=True, exist_ok=True)
            training_report.write_curves(run, found, folder)
        except AppError as refused:
            raise CommandError(refused.message) from refused
        except OSError as error:
            raise CommandError(f"Cannot write to {folder}: {error}") from error
        self.stdout.write(f"Wrote {len(found)} curves to {folder}.")
