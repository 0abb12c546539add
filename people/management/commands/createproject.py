"""`manage.py createproject SLUG [--name N]`: create a project. The last line on stdout is its slug."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from people.errors import AppError
from people.record import members


class Command(BaseCommand):
    help = "Make a project. People get in by `loginlink USER --project SLUG`."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="lower-case letters, digits and hyphens")
        parser.add_argument("--name", default="", help="name shown on pages (default: the slug)")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            project = members.create_project(options["slug"], options["name"])
        except AppError as refused:
            raise CommandError(refused.message) from refused
        self.stdout.write(project.slug)
