"""`manage.py build_export ID`: the command that the worker runs for an export that a page or the API requested."""

from __future__ import annotations

import os
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from exports.jobs import working

NICE = 10
"""A low priority: on a busy machine, answering people and waiting agents come first."""


class Command(BaseCommand):
    help = "Build one requested export. Called by the worker."
    requires_system_checks: list[str] = []  # they load every page

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id")

    def handle(self, *args: Any, **options: Any) -> None:
        os.nice(NICE)
        working.build(options["id"])
