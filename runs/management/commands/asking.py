"""`manage.py asking --run RUN --out gate.json`: fit a gate, the learned rule of when agents are offered help."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from episodes.find.selection import run_named
from people.access import system_actor
from people.errors import AppError
from runs.show.comparison import compare_run
from runs.show.gating import fit_run, words_of
from runs.statistics.gating import PRICE


class Command(BaseCommand):
    help = (
        "Fit a gate on a run with an arm that draws its offers by turn (ask: random:0.3), and say what it is worth. "
        "The plan of another run names the file as an arm's `ask`."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--run", required=True, metavar="RUN", help="its ID or name")
        parser.add_argument("--out", "--output", type=Path, metavar="FILE", help="where the gate is written, as JSON")
        parser.add_argument(
            "--price",
            type=float,
            default=PRICE,
            help=f"what an offer must add to completion, 0 to 1 (default: {PRICE})",
        )
        parser.add_argument("--project", default="demo")

    def handle(self, *args: Any, **options: Any) -> None:
        if not 0 <= options["price"] <= 1:
            raise CommandError("--price is a number from 0 to 1.")
        actor = system_actor(options["project"])
        try:
            comparison = compare_run(actor, run_named(actor.project, options["run"]).pk, is_bare=True)
            fitted = fit_run(comparison, options["price"])
        except AppError as refused:
            raise CommandError(refused.message) from refused
        for line in words_of(fitted):
            self.stdout.write(line)
        if options["out"]:
            text = json.dumps(fitted.gate.model_dump(), indent=2, sort_keys=True)
            try:
                options["out"].write_text(f"{text}\n", encoding="utf-8")
            except OSError as error:
                raise CommandError(f"The gate cannot be written: {error}") from error
            self.stdout.write(f"{options['out']}: SHA-256 {fitted.gate.digest}")
