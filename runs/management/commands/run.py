"""`manage.py run`: launch a run from a plan, and change its state."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Q

from episodes.find.selection import run_named
from episodes.models import Run
from people.access import Actor, scoped, system_actor
from people.errors import AppError
from people.text.in_words import count
from runs.launch import estimating, planning, preflight, selecting
from runs.plan.plans import PlanDocument, plan_from_yaml
from runs.show.comparison import compare_run, is_settled

EVERY_S = 1.0


class Command(BaseCommand):
    help = "Launch a run from a plan in YAML, or pause, resume, cancel, retry, extend or compare one."

    def add_arguments(self, parser: CommandParser) -> None:
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("plan", nargs="?", metavar="PLAN.yaml")
        for name in ("pause", "resume", "cancel", "retry", "compare"):
            what.add_argument(f"--{name}", metavar="RUN")
        what.add_argument("--add-seeds", nargs=2, metavar=("RUN", "N"))
        parser.add_argument("--estimate", action="store_true", help="Say what the plan would take, and launch nothing")
        parser.add_argument(
            "--preflight",
            action="store_true",
            help="Check the plan and run up to ten rollouts of its control arm; fails if none earns a reward",
        )
        parser.add_argument("--key", default="", help="The same key and plan launch one run only")
        parser.add_argument("--project", default="demo")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            if line := self._done(options):
                self.stdout.write(line)
        except AppError as refused:
            raise CommandError(refused.message) from refused

    def _done(self, options: dict[str, Any]) -> str:
        actor = system_actor(options["project"])
        if options["plan"]:
            file = Path(options["plan"])
            if not file.exists() or file.is_dir():  # a pipe is accepted like a file
                raise CommandError(f"There is no file {file}.")
            try:
                document = plan_from_yaml(file.read_text(encoding="utf-8"), file.parent)
            except UnicodeDecodeError as error:
                raise CommandError(f"{file} is not UTF-8: {error.reason} at byte {error.start}.") from error
            if options["estimate"]:
                planning.check(document)
                tasks = selecting.tasks_of(actor, document)
                cost = estimating.estimate(actor, document, len(tasks))
                self.stdout.write(f"{count(cost.episodes, 'episode')}. {cost.words}")
                self._check(actor, document, tasks)
                return ""
            if options["preflight"]:
                return self._preflight(actor, document)
            plan, made = planning.launch(actor, document, options["key"])
            # on standard error: standard output is the one line that scripts read
            for doubt in preflight.doubts(actor, document, selecting.tasks_of(actor, document)) if made else ():
                self.stderr.write(f"  {doubt}")
            return (
                f"{'launched' if made else 'known'} {plan.run_id}: {count(plan.tries.count(), 'episode')}, {plan.state}"
            )
        for name in ("pause", "resume", "cancel", "retry", "compare"):
            if options[name]:
                options[name] = self._run(actor, options[name])
        for name, change in (("pause", planning.pause), ("resume", planning.resume), ("cancel", planning.cancel)):
            if options[name]:
                return f"{options[name]} is {change(actor, options[name]).state}"
        if options["retry"]:
            return f"queued {count(planning.retry(actor, options['retry']), 'episode')} again"
        if options["add_seeds"]:
            run, number = self._run(actor, options["add_seeds"][0]), options["add_seeds"][1]
            if not number.isdecimal():
                raise CommandError("The number of seeds is a whole number.")
            return f"{run} has {planning.add_seeds(actor, run, int(number)).seeds} seeds"
        return compare_run(actor, options["compare"], is_bare=True).sentence

    def _run(self, actor: Actor, named: str) -> str:
        """Return the ID of a run by its ID or name."""
        if not scoped(Run.objects.filter(Q(pk=named) | Q(name=named)), actor.project).exists():
            raise CommandError(f"There is no run {named}.")
        return run_named(actor.project, named).pk

    def _check(self, actor: Actor, document: PlanDocument, tasks: Sequence[selecting.Task]) -> None:
        """Print the arguments for and against the plan's comparison."""
        for line in (*preflight.doubts(actor, document, tasks), *preflight.checked(actor, document, tasks)):
            self.stdout.write(f"  {line}")

    def _preflight(self, actor: Actor, document: PlanDocument) -> str:
        tasks = selecting.tasks_of(actor, document)
        self._check(actor, document, tasks)
        plan, _ = planning.launch(actor, preflight.trial(document, tasks))
        self.stdout.write(f"run {plan.pk}: {count(plan.tries.count(), 'rollout')}")
        while not is_settled(plan):
            time.sleep(EVERY_S)
            plan.refresh_from_db()
        finding = preflight.finding(plan)
        if not finding.earned:
            raise CommandError(f"{finding.words} A comparison of arms that earn nothing shows nothing.")
        return finding.words
