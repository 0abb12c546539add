"""`manage.py curves --run R --output DIR`: a run's training curves, and its first and last episodes compared."""

from __future__ import annotations

from pathlib import Path

from django.core.management.base import CommandError

from curriculum.management.commands._of_run import OfRun
from curriculum.show import series, training_report
from episodes.models import Run
from people.access import Actor


class Command(OfRun):
    help = (
        "Write what a trainer reported, and the rates counted from its episodes, by training step: training.csv, and "
        "a TensorBoard event file for TensorBoard, W&B or MLflow. turns.jsonl has five turns of each step as the model "
        "wrote them, with their rewards."
    )

    def write(self, actor: Actor, run: Run, folder: Path) -> str:
        curves = series.of_run(run)
        if not curves:
            raise CommandError("The run has no training steps.")
        folder.mkdir(parents=True, exist_ok=True)
        training_report.write_curves(run, curves, folder)
        return f"Wrote {len(curves)} curves to {folder}."
