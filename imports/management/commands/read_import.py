"""`manage.py read_import ID`: the command that the worker runs for a file from the page or the API."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from imports.record import importing


class Command(BaseCommand):
    help = "Read one file that was uploaded. Called by the worker."
    requires_system_checks: list[str] = []  # they load every page

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id")

    def handle(self, *args: Any, **options: Any) -> None:
        importing.carry_out(options["id"])
