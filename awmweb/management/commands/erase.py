"""`manage.py erase --episode E | --person P`: delete it for good, and print what fell from where."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from awmweb.erasing import episodes, persons, telling
from episodes.models import Episode
from people.access import system
from people.errors import AppError, NotFound
from people.models import Tombstone


class Command(BaseCommand):
    help = "Erase an episode with all that hangs on it, or what a person wrote. There is no way back."

    def add_arguments(self, parser: CommandParser) -> None:
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("--episode", metavar="ID")
        what.add_argument("--person", metavar="USER", help="an account, as `loginlink` names it")
        parser.add_argument(
            "--with-episodes",
            action="store_true",
            help="with --person: erase also the episodes in which their words can still be",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        username = options["person"]
        if options["with_episodes"] and not username:
            raise CommandError("--with-episodes needs --person.")
        try:
            tombstones = [_episode(options["episode"])] if options["episode"] else persons.erase_person(username)
        except AppError as refused:
            raise CommandError(refused.message) from refused
        for tombstone in tombstones:
            if username:
                self.stdout.write(f"Project {tombstone.project.slug}:")
            for line in telling.lines_of(tombstone):
                self.stdout.write(line)
        erased = self._erase_named(username) if options["with_episodes"] else 0
        if not tombstones and not erased:
            self.stdout.write("Nothing that this account wrote is left.")

    def _erase_named(self, username: str) -> int:
        erased = 0
        for project, pk in persons.named_episodes(username):
            if not Episode.every.filter(pk=pk).exists():
                continue  # a branch that went with its parent
            self.stdout.write(f"Episode {pk} of {project.slug}:")
            try:
                for line in telling.lines_of(episodes.erase_episode(system(project), pk)):
                    self.stdout.write(line)
                erased += 1
            except AppError as refused:
                self.stdout.write(f"Left: {refused.message}")
        return erased


def _episode(episode_id: str) -> Tombstone:
    episode = Episode.every.filter(pk=episode_id).select_related("project").first()
    if episode is None:
        raise NotFound(f"Episode {episode_id!r} not found.")
    return episodes.erase_episode(system(episode.project), episode.pk)
