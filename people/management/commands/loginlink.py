"""`manage.py loginlink USER --role R --project P`: another person, or the same again; the link is the last line."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from people import members
from people.errors import AppError
from people.models import Role


class Command(BaseCommand):
    help = "Print a link that signs USER in, once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user")
        parser.add_argument("--role", default=Role.EXPERT, choices=Role.values)
        parser.add_argument("--project", default="demo")
        parser.add_argument("--hours", type=int, default=24, help="until the link ends")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            membership = members.ensure_member(
                members.project_named(options["project"]), options["user"], options["role"]
            )
        except AppError as refused:
            raise CommandError(refused.message) from refused
        secret = members.issue_login_link(membership.user, life=timedelta(hours=options["hours"]))
        self.stdout.write(f"{settings.AWMWEB_PUBLIC_URL}/login/once/{secret}")
