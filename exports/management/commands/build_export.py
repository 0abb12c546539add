"""`manage.py build_export ID`: what the worker runs for an export that was asked for by page or API."""

from __future__ import annotations

import os
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from exports.jobs import working

NICE = 10
"""People who answer and agents that wait go first on a busy machine."""


class Command(BaseCommand):
    help = "Build one requested export. Called by the worker."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id")

    def handle(self, *args: Any, **options: Any) -> None:
        os.nice(NICE)
        working.build(options["id"])
