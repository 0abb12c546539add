"""`manage.py briefing`: read and write the briefing of a task, or list the tasks of a plan that have none."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from people.access import Actor, system_actor
from people.errors import AppError
from runs.launch import briefings, selecting
from runs.plan.plans import plan_from_yaml


class Command(BaseCommand):
    help = "Print the newest briefing of a task, write one, or list the tasks of a plan without one."

    def add_arguments(self, parser: CommandParser) -> None:
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("task", nargs="?", metavar="SCENARIO/IDX")
        what.add_argument("--lacking", metavar="PLAN.yaml", help="Name the tasks that would have no briefing, by arm")
        parser.add_argument("--text", metavar="FILE", help="Write this text; - reads standard input")
        parser.add_argument("--sources", nargs="*", default=[], metavar="EPISODE", help="Earlier episodes it is from")
        parser.add_argument("--saw-outcomes", action="store_true", help="Its author knew outcomes or the verifier")
        parser.add_argument("--project", default="demo")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.stdout.write(self._done(system_actor(options["project"]), options))
        except AppError as refused:
            raise CommandError(refused.message) from refused

    def _done(self, actor: Actor, options: dict[str, Any]) -> str:
        if options["lacking"]:
            document = plan_from_yaml(_read_text(options["lacking"]))
            lacking = briefings.lacking(actor, document, selecting.tasks_of(actor, document))
            lines = [f"{arm}: {', '.join(tasks)}" for arm, tasks in lacking.items()]
            return "\n".join(lines) or "Every task has a briefing in the arms that give one."
        scenario, _, idx = options["task"].rpartition("/")
        if not scenario or not idx.isdecimal():
            raise CommandError(f"{options['task']!r} is not a task such as workflow_automation_1/0.")
        if options["text"] is not None:
            flags = {"saw_outcomes": options["saw_outcomes"]}
            made = briefings.write(actor, scenario, int(idx), _read_text(options["text"]), options["sources"], **flags)
            return f"written {made.pk} for {made.task}, {made.privilege}"
        seen = [one for one in briefings.of_task(actor, scenario, int(idx)) if one.text]
        return seen[0].text if seen else f"{options['task']} has no briefing."


def _read_text(name: str) -> str:
    if name == "-":
        return sys.stdin.read()
    if not Path(name).is_file():
        raise CommandError(f"There is no file {name}.")
    return Path(name).read_text(encoding="utf-8")
