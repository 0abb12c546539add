"""`manage.py explain DATASET --row R | --episode E`: why a row is in a dataset, or why an episode is not."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from exports.explain import explaining
from exports.explain.explaining import Dataset
from people.access import system_actor
from people.errors import AppError


class Command(BaseCommand):
    help = "Say where a row of a dataset comes from, or why an episode is not in it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("dataset", help="a folder, an export's ID, or the first 8 letters of a dataset's ID")
        group = parser.add_mutually_exclusive_group(required=True)
        group.add_argument("--row", metavar="R", help="the row's number from 1, or its key in rows.jsonl")
        group.add_argument("--episode", metavar="E", help="an episode's ID")
        parser.add_argument("--project", default="demo")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            dataset = explaining.named(system_actor(options["project"]), options["dataset"])
            lines = self._row(dataset, options["row"]) if options["row"] else self._fate(dataset, options["episode"])
        except AppError as refused:
            raise CommandError(refused.message) from refused
        self.stdout.write("\n".join(lines))

    def _row(self, dataset: Dataset, row_id: str) -> list[str]:
        origin = explaining.row_origin(dataset, row_id)
        steps = f"step {origin.seq} and the steps before it" if origin.seq else f"all {origin.last_seq} steps"
        lines = [f"Row {origin.number}: {origin.key}"]
        lines.append(f"  Episode {origin.episode}, {steps if origin.exists else 'deleted since'}")
        lines += [f"  Rejected side: episode {origin.rejected}"] if origin.rejected else []
        lines += [f"  Outcome: {origin.outcome}"] if origin.outcome else []
        for answer in origin.answers:
            text = (
                f"{answer.author or answer.source} ({answer.source}, {answer.privilege}): {answer.text}"
                if answer.text
                else "no answer"
            )
            lines += [f"  Step {answer.seq} asked: {answer.question}", f"    {text}"]
        return lines

    def _fate(self, dataset: Dataset, episode: str) -> list[str]:
        fate = explaining.fate_of(dataset, episode)
        lines = [f"Episode {episode}: {fate.why}"]
        lines += [f"  Rule: {fate.reason}"] if fate.reason else []
        lines += [f"  To keep such episodes, include {fate.opt_in}."] if fate.opt_in else []
        lines += [f"  First row: {fate.first_row}"] if fate.first_row else []
        return lines
