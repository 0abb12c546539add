"""The shared part of the commands `curves` and `report`: the run, and the folder that they write into."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Q

from episodes.find.selection import run_named
from episodes.models import Run
from people.access import Actor, scoped, system_actor
from people.errors import AppError


class OfRun(BaseCommand, ABC):
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--run", required=True, metavar="RUN", help="the run, by ID or name")
        parser.add_argument("--output", required=True, type=Path, metavar="DIR")
        parser.add_argument("--project", default="demo")

    def handle(self, *args: Any, **options: Any) -> None:
        folder: Path = options["output"]
        try:
            actor = system_actor(options["project"])
            named = scoped(Run.objects.filter(Q(pk=options["run"]) | Q(name=options["run"])), actor.project)
            if not named.exists():
                raise CommandError(f"There is no run {options['run']}.")
            message = self.write(actor, run_named(actor.project, options["run"]), folder)
        except AppError as refused:
            raise CommandError(refused.message) from refused
        except OSError as error:
            raise CommandError(f"Could not write to {folder}: {error.strerror}.") from error
        self.stdout.write(message)

    @abstractmethod
    def write(self, actor: Actor, run: Run, folder: Path) -> str:
        """Write the files into the folder, which is created if needed, and return the text to print. Raises
        `CommandError` if there are none."""
