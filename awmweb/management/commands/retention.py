"""`manage.py retention [--project P] [--preview]`: run the retention rules now, as each night."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from awmweb.retention import passes, telling
from people.access import project_named
from people.errors import AppError
from people.record.holding import in_force, words_of


class Command(BaseCommand):
    help = "Erase what the retention rules of projects say. There is no way back."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--project", metavar="P", help="run the rules of this project only")
        parser.add_argument("--preview", action="store_true", help="write nothing; print what a pass would do")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            projects = [project_named(options["project"])] if options["project"] else list(passes.with_rules())
            any_rule = False
            for project in projects:
                for hold in in_force(project):
                    self.stdout.write(f"{project.slug}: {words_of(hold)}")
                for report in passes.preview(project) if options["preview"] else passes.work([project]):
                    any_rule = True
                    for line in telling.lines_of(report, done=not options["preview"]):
                        self.stdout.write(line)
        except AppError as refused:
            raise CommandError(refused.message) from refused
        if not any_rule:
            self.stdout.write("No retention rules. Everything is kept.")
