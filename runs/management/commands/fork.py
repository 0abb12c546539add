"""`manage.py fork --episode E --step K [--change FILE] [--tries N] [--tokens N]`: fork an episode at a step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from episodes.models import Episode
from people.access import system
from people.errors import AppError
from people.text import yaml_text
from runs.play import forking


class Command(BaseCommand):
    help = (
        "Fork an ended built-in episode: restore its world before a step, and queue branches with and without a "
        "change. Prints the branches."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--episode", required=True)
        parser.add_argument("--step", required=True, type=int)
        parser.add_argument(
            "--change",
            type=Path,
            metavar="FILE",
            help="YAML with one of `call: {name, arguments}`, `advice: TEXT`, `words: TEXT`, `ask: {question}`, "
            "`policy: NAME`; without it the agent chooses again",
        )
        parser.add_argument("--tries", type=int, default=4, help="branches per arm, 4 by default")
        parser.add_argument("--tokens", type=int, default=0, help="the most tokens of all branches, 0 for no limit")
        parser.add_argument("--estimate", action="store_true", help="print what the branches will take, and stop")

    def handle(self, *args: Any, **options: Any) -> None:
        episode = Episode.every.filter(pk=options["episode"]).select_related("project").first()
        if episode is None:
            raise CommandError(f"There is no episode {options['episode']!r}.")
        try:
            change = forking.change_of(self._read(options["change"]))
            actor, place = system(episode.project), (episode.pk, options["step"])
            self.stdout.write(forking.estimated(actor, *place).words(2 * options["tries"]))
            if options["estimate"]:
                return
            limits = {"tries": options["tries"], "tokens": options["tokens"]}
            made = forking.fork(actor, *place, change, **limits)
        except AppError as refused:
            raise CommandError(refused.message) from refused
        for branch in made.branches:
            self.stdout.write(f"{branch.pk} {branch.branch_arm}")
        self.stdout.write(f"World restored: {made.fork.grade}. {settings.LINK_BASE}{made.fork.get_absolute_url()}")

    def _read(self, file: Path | None) -> Any:
        try:
            return yaml_text.read(file.read_text()) if file is not None else None
        except (OSError, UnicodeDecodeError, yaml_text.BadYaml) as error:
            raise CommandError(f"{file}: {error}") from error
