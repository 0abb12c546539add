"""`manage.py diff OLD NEW`: rows that were added, removed or changed between two datasets, and why."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from exports.explain import comparing, explaining
from people.access import system_actor
from people.errors import AppError


class Command(BaseCommand):
    help = "Compare two datasets row by row."

    def add_arguments(self, parser: CommandParser) -> None:
        for name in ("old", "new"):
            parser.add_argument(name, help="a folder, an export's ID, or the first 8 letters of a dataset's ID")
        parser.add_argument("--rows", action="store_true", help=f"name the first {comparing.LISTED} rows of each kind")
        parser.add_argument("--project", default="demo")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            actor = system_actor(options["project"])
            diff = comparing.compare(*(explaining.named(actor, options[name]) for name in ("old", "new")))
        except AppError as refused:
            raise CommandError(refused.message) from refused
        counts = f"{diff.added.count:,} added, {diff.removed.count:,} removed, {diff.changed.count:,} changed"
        self.stdout.write(f"{counts}, {diff.same:,} unchanged")
        for name, before, after in diff.recipe:
            self.stdout.write(f"  Recipe: {name} {before} -> {after}")
        for word, change in (("added", diff.added), ("removed", diff.removed), ("changed", diff.changed)):
            for why, count in change.why.most_common():
                self.stdout.write(f"  {count:,} {word}: {why}")
            for row in change.rows if options["rows"] else ():
                self.stdout.write(f"    row {row.number} {row.key}")
