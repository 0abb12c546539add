"""`manage.py createtoken NAME --project P --scope S`: the last line on stdout is the token alone."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from people import members
from people.errors import AppError
from people.models import TokenScope


class Command(BaseCommand):
    help = "Issue a token and print it; it cannot be shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--project", default="demo")
        parser.add_argument("--scope", required=True, choices=TokenScope.values)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            _, secret = members.issue_token(members.house_actor(options["project"]), options["name"], options["scope"])
        except AppError as refused:
            raise CommandError(refused.message) from refused
        self.stdout.write(secret)
