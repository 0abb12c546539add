"""`manage.py block --scenario S --output DIR [--per-fact N] [--seed N]`: make tasks with blockers, each proven."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections import Counter
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from awmenv.models import MAX_TASKS
from people.errors import AppError
from people.text.in_words import count, duration
from people.text.plain_text import first_line
from runs.play import blocking

SHOWN = 200
STEP = 20


class Command(BaseCommand):
    help = (
        "Take one value out of the text of each task, prove on the environment server that nothing but the registry "
        "has it, and write the tasks as a pack that `loadpack` takes."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--scenario", action="append", required=True, help="a scenario of a loaded pack, or `all`; can be repeated"
        )
        parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="a new folder for the pack")
        parser.add_argument(
            "--per-fact", type=int, default=blocking.PER_FACT, metavar="N", help="tasks for each fact, 1 to 1000"
        )
        parser.add_argument("--seed", type=int, default=1, help="of the new values")

    def handle(self, *args: Any, **options: Any) -> None:
        output, began = options["output"], time.monotonic()
        if output.exists() and any(output.iterdir() if output.is_dir() else [output]):
            raise CommandError(f"{output} exists. Name a new folder.")
        if not 1 <= options["per_fact"] <= MAX_TASKS:
            raise CommandError(f"--per-fact is 1 to {MAX_TASKS}.")
        try:
            scenarios = blocking.chosen(options["scenario"])
            made = asyncio.run(blocking.made(scenarios, options["per_fact"], options["seed"], self._proven))
        except AppError as refused:
            raise CommandError(refused.message) from refused
        self._say("no candidate was made of {}", "task or value", "tasks and values", made.unfit)
        self._say("not proven: {}", "candidate", "candidates", made.refused)
        took = f"{count(made.sessions, 'session')} in {duration(time.monotonic() - began)}"
        if not made.count:
            raise CommandError(f"No task was made; {took}.")
        blocking.write(output, blocking.sources_of(scenarios), made.tasks, blocking.SUFFIX)
        candidates = count(made.count + made.refused.total(), "candidate")
        into = f"{count(len(made.tasks), 'scenario')} in {output}"
        self.stdout.write(f"Proven: {made.count} of {candidates}, now tasks of {into}; {took}.")
        self.stdout.write(f"Load them: .venv/bin/python manage.py loadpack {shlex.quote(str(output))}")

    def _say(self, words: str, singular: str, many: str, refused: Counter[str]) -> None:
        """Print how many fell at one place, and for which reasons; nothing if none did."""
        if not (total := refused.total()):
            return
        self.stdout.write(f"  {words.format(f'{total:,} {singular if total == 1 else many}')}:")
        for reason, number in refused.most_common():
            self.stdout.write(f"    {number:,}: {first_line(reason, SHOWN)}")

    def _proven(self, done: int, total: int) -> None:
        if done % STEP == 0 or done == total:
            self.stdout.write(f"  tried {done} of {count(total, 'candidate')}")
            self.stdout.flush()
