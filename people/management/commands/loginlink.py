"""`manage.py loginlink USER --role R --project P`: print a sign-in link for a new or known person, on the last line."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from people import access
from people.errors import AppError
from people.models import Role
from people.record import members


class Command(BaseCommand):
    help = "Print a one-time sign-in link for USER."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user")
        parser.add_argument(
            "--role", choices=Role.values, help="default: expert for a new member, unchanged for a current one"
        )
        parser.add_argument("--project", default="demo")
        parser.add_argument("--hours", type=int, default=24, choices=range(1, 24 * 366), metavar="N", help="1 to 8783")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            system = access.system_actor(options["project"])
            secret = members.link_for(system, options["user"], options["role"], timedelta(hours=options["hours"]))
        except AppError as refused:
            raise CommandError(refused.message) from refused
        self.stdout.write(f"{settings.LINK_BASE}/login/once/{secret}")
