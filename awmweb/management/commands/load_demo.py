"""`manage.py load_demo ID`: load the recorded demo into a project. Called by the worker, in a process of its own."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from awmweb.demo import loading


class Command(BaseCommand):
    help = "Load the recorded demo into a new project; does nothing if it was loaded before."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("project", metavar="ID")

    def handle(self, *args: Any, **options: Any) -> None:
        loading.load(options["project"])
