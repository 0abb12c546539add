"""`manage.py resetfactor USER`: a person who has lost their second factor signs in without, and adds another."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from people import access
from people.errors import AppError
from people.models import Membership


class Command(BaseCommand):
    help = "Remove all second factors and recovery codes of a person."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user")

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.AWMWEB_MFA:
            raise CommandError("Second factors are off. Set AWMWEB_MFA=1 to use them.")
        from people.record import factors

        membership = Membership.objects.select_related("project").filter(user__username=options["user"]).first()
        if membership is None:
            raise CommandError(f"No member has the username {options['user']!r}.")
        try:
            name = factors.reset(access.system(membership.project), membership.pk)
        except AppError as refused:
            raise CommandError(refused.message) from refused
        self.stdout.write(f"{name} signs in without a second factor now.")
