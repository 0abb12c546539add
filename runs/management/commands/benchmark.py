"""`manage.py benchmark --report DIR`: launch arms, wait for the run, write its report."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from people import access
from people.access import Actor, system_actor
from people.errors import AppError
from people.record import members
from people.text.in_words import count
from runs.launch import benchmarking, planning, preflight, selecting
from runs.models import Plan
from runs.plan import plans
from runs.show import overview, report
from runs.show.comparison import compare_run, is_settled
from runs.taskset import splitting

EVERY_S = 1.0


class Command(BaseCommand):
    help = (
        "Run expert settings side by side on the tasks of loaded packs, and write the report. Asks are answered from "
        "the notes that the packs hold for the expert. The product must be running; Ctrl-C leaves the run going."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--arms", default="", help="arms, the control first (default: baseline,expert)")
        parser.add_argument("--seeds", type=int, help="episodes of each task and arm (default: 1)")
        parser.add_argument("--policy", help="script:NAME of each task, or model (default: script:demo)")
        parser.add_argument(
            "--recipe", default="", metavar="NAME", help=f"start from a recipe: {', '.join(plans.recipes())}"
        )
        parser.add_argument("--split", default="", metavar="FILE", help="held-out tasks of a split: a file or a name")
        parser.add_argument(
            "--scenario", action="append", default=[], metavar="S", help="only these scenarios; * matches any text"
        )
        parser.add_argument("--report", required=True, type=Path, metavar="DIR")
        parser.add_argument("--project", default="demo")

    def handle(self, *args: Any, **options: Any) -> None:
        arms = [one.strip() for one in options["arms"].split(",") if one.strip()]
        if unknown := sorted(set(arms) - set(benchmarking.ARMS)):
            raise CommandError(f"Unknown arm {', '.join(unknown)}. Arms are {', '.join(benchmarking.ARMS)}.")
        actor = system_actor(options["project"])
        try:
            plan = self._launched(actor, arms, options)
            with _notes_expert(actor) as expert:
                self._wait(plan, expert)
            comparison = compare_run(actor, plan.pk)
        except AppError as refused:
            raise CommandError(refused.message) from refused
        for file in report.write(comparison, options["report"]):
            self.stdout.write(str(file))
        self.stdout.write(comparison.sentence)

    def _launched(self, actor: Actor, arms: list[str], options: dict[str, Any]) -> Plan:
        split, tasks = options["split"], None
        if split and options["scenario"]:
            raise CommandError("A split names its tasks: use either --split or --scenario.")
        if split and Path(split).is_file():
            sides = splitting.read(Path(split).read_text(encoding="utf-8"))
            split, tasks = "", [f"{scenario}/{idx}" for scenario, idx in sides.val]
        fields = {"seeds": options["seeds"], "policy": options["policy"], "tasks": tasks, "split": split}
        document = benchmarking.plan_for(arms, named=options["recipe"], scenarios=options["scenario"], **fields)
        for doubt in preflight.doubts(actor, document, selecting.tasks_of(actor, document)):
            self.stdout.write(f"  {doubt}")
        plan, _ = planning.launch(actor, document)
        self.stdout.write(f"run {plan.pk}: {count(plan.tries.count(), 'episode')}")
        return plan

    def _wait(self, plan: Plan, expert: Actor) -> None:
        reported, answered = -1, 0
        while not is_settled(plan):
            answered += benchmarking.answer_from_notes(expert, plan.run)
            [card] = overview.cards(access.system(expert.project), [plan.run])
            if card.ended != reported:
                reported = card.ended
                self.stdout.write(
                    f"  {reported} of {count(card.planned, 'episode')} ended, {count(answered, 'ask')} answered"
                )
                self.stdout.flush()
            time.sleep(EVERY_S)
            plan.refresh_from_db()


@contextmanager
def _notes_expert(actor: Actor) -> Iterator[Actor]:
    """Yield a program that can answer, with a token of its own that ends with the benchmark."""
    token, _ = members.issue_token(actor, "benchmark notes", "expert")
    try:
        yield access.bearer(token)
    finally:
        members.revoke_token(actor, token.pk)
