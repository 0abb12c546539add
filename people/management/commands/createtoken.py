"""`manage.py createtoken NAME --project P --scope S`: the last line on stdout is the token alone."""

from __future__ import annotations

from argparse import ArgumentTypeError
from datetime import datetime, time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.timezone import is_naive, make_aware

from people import access
from people.errors import AppError
from people.models import TokenScope, TokenUser
from people.record import members


def moment(text: str) -> datetime:
    """Parse a day, up to its last microsecond, or a time. Without a zone it is UTC."""
    try:
        day = parse_date(text)
        parsed = datetime.combine(day, time.max) if day else parse_datetime(text)
    except ValueError:
        parsed = None
    if parsed is None:
        raise ArgumentTypeError("use a date such as 2026-12-31, or a time such as 2026-12-31T18:00+01:00")
    return make_aware(parsed) if is_naive(parsed) else parsed


def scopes(text: str) -> list[str]:
    words = text.replace(",", " ").split()
    if unknown := next((word for word in words or [text] if word not in TokenScope.values), None):
        raise ArgumentTypeError(f"invalid choice: {unknown!r} (choose from {', '.join(TokenScope.values)})")
    return words


class Command(BaseCommand):
    help = "Create an API token and print it. It cannot be shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--project", default="demo")
        parser.add_argument("--expires", type=moment, help="when it ends: 2026-12-31 or 2026-12-31T18:00+01:00")
        parser.add_argument(
            "--behind",
            choices=TokenUser.values,
            default=TokenUser.SCRIPT,
            help="who uses it: a program (script, the default), a person or a model; stored with its answers",
        )
        parser.add_argument(
            "--scope",
            required=True,
            action="append",
            type=scopes,
            help=f"one or more of {', '.join(TokenScope.values)}, with commas between",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            actor = access.system_actor(options["project"])
            about = {"ends_at": options["expires"], "behind": options["behind"]}
            scope = [word for words in options["scope"] for word in words]
            _, secret = members.issue_token(actor, options["name"], scope, **about)
        except AppError as refused:
            raise CommandError(refused.message) from refused
        self.stdout.write(secret)
