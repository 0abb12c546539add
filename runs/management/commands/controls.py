"""`manage.py controls RUN`: what no thought and no effect reach, beside the numbers of a run."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from episodes.find.selection import run_named
from people.access import system_actor
from people.errors import AppError
from runs.show import asking, curve
from runs.show.comparison import compare_run
from runs.statistics.self_control import WORDS, against_itself


class Command(BaseCommand):
    help = (
        "Compute the negative controls of a run: each arm against itself, the Ask-F1 of an agent that pastes its task "
        "and of one fixed sentence, and what a gate that knows nothing completes. A number no better than its control "
        "is no finding."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", metavar="RUN", help="its ID or name")
        parser.add_argument("--project", default="demo")

    def handle(self, *args: Any, **options: Any) -> None:
        actor = system_actor(options["project"])
        try:
            comparison = compare_run(actor, run_named(actor.project, options["run"]).pk, is_bare=True)
        except AppError as refused:
            raise CommandError(refused.message) from refused
        for arm in comparison.arms:
            sentence = against_itself(comparison.tries, arm.name)
            self.stdout.write(f"{WORDS.format(arm.name)} {sentence or 'needs two seeds and a run that has ended.'}")
        asked = asking.asking_of(comparison)
        if asked and asked.controls:
            self.stdout.write(f"Ask-F1 of no thought: {asked.controls.words}.")
        for row in curve.random_of(comparison, curve.points_of(comparison, asked)):
            low, high = row.interval
            self.stdout.write(
                f"A gate that knows nothing, at {row.per_task:.2f} asks per task: {row.complete:.0%} complete "
                f"[{100 * low:.0f}, {100 * high:.0f}]."
            )
