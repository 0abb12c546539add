"""`manage.py unloadpack NAME`: take a loaded pack out; its episodes stay."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from people.errors import AppError
from people.text.in_words import count
from runs.launch import launching


class Command(BaseCommand):
    help = "Unload a pack. Its episodes stay, and so do the rows of its versions, which old episodes name."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the name of a loaded pack")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            unloaded = launching.take_out(options["name"])
        except AppError as refused:
            raise CommandError(refused.message) from refused
        self.stdout.write(
            f"Unloaded {count(unloaded.scenarios, 'scenario')} of {unloaded.name}, version {unloaded.version}."
        )
        self.stdout.write(f"The rows stay in {unloaded.folder}. Delete the folder if no episode needs its verifiers.")
