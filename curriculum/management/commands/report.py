"""`manage.py report`: write the results of a run into a folder."""

from __future__ import annotations

from pathlib import Path

from django.core.management.base import CommandError

from curriculum.management.commands._of_run import OfRun
from curriculum.show import series, training_report
from episodes.models import Run
from people.access import Actor
from runs.models import Plan
from runs.show import pictures, report
from runs.show.comparison import compare_run


class Command(OfRun):
    help = (
        "Write a run's report: Markdown, CSV tables, PNG charts, and the plan as YAML; for a run that trained also its "
        "curves and turns."
    )

    def write(self, actor: Actor, run: Run, folder: Path) -> str:
        comparison = compare_run(actor, run.pk) if Plan.objects.filter(run=run).exists() else None
        trained = series.of_run(run)
        if comparison is None and not trained:
            raise CommandError("The run has no plan and no training steps, so there is nothing to report.")
        folder.mkdir(parents=True, exist_ok=True)
        sections, names = training_report.write(run, trained, folder) if trained else ([], [])
        files = [folder / name for name in names]
        if comparison is not None:
            files += report.write(comparison, folder, sections)
        else:
            files.append(folder / "report.md")
            sections += [] if pictures.are_possible() else [pictures.MISSING]
            files[-1].write_text("\n\n".join([f"# {report.plain(run.name)}", *sections]) + "\n", encoding="utf-8")
        return "\n".join(str(file) for file in files)
