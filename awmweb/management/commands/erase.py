"""`manage.py erase --episode E [--project P]`: delete it for good, and print what fell from where."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from awmweb.erasing import episodes, telling
from episodes.models import Episode
from people.access import system
from people.errors import AppError


class Command(BaseCommand):
    help = "Erase an episode with its asks, labels, branches and rows of datasets. There is no way back."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--episode", metavar="ID", required=True)

    def handle(self, *args: Any, **options: Any) -> None:
        episode = Episode.every.filter(pk=options["episode"]).select_related("project").first()
        if episode is None:
            raise CommandError(f"Episode {options['episode']!r} not found.")
        try:
            tombstone = episodes.erase_episode(system(episode.project), episode.pk)
        except AppError as refused:
            raise CommandError(refused.message) from refused
        for line in telling.lines_of(tombstone):
            self.stdout.write(line)
