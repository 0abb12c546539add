"""`manage.py checkpack [NAME ...]`: the health of verifiers in loaded packs, and the whole load report as a file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from awmenv.packs import Pack
from people.errors import AppError
from people.text.in_words import count
from runs.taskset import checking

SHOWN = 40
STEP = 200


class Command(BaseCommand):
    help = (
        "Run both forms of every verifier on its unmodified database, in the sandbox, try answers that show no work, "
        "and list those with problems. "
        "Results of the same content are reused."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "names", nargs="*", metavar="NAME", help="loaded packs, or folders of rows; by default all loaded packs"
        )
        parser.add_argument("--judge", action="store_true", help="let the judge rule on SQL evidence (AWMENV_JUDGE_*)")
        parser.add_argument(
            "--no-guesses", dest="guesses", action="store_false", help="try no answers that show no work"
        )
        parser.add_argument(
            "--report", type=Path, metavar="FILE", help="write the full load report, one JSON object per line"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            packs = checking.packs_named(options["names"])
            if options["report"]:
                checking.note_databases(packs)
            remarked = [
                checked
                for checked in self._with_progress(packs, options["judge"], options["guesses"])
                if checked.health.remarks or checked.health.unchecked
            ]
        except AppError as refused:
            raise CommandError(refused.message) from refused
        for finding in (one for pack in packs for one in pack.report.findings if one.code in ("bad_app", "bad_script")):
            self.stdout.write(f"  {finding.level} {finding.scenario}: {finding.message}")
        for one in remarked[:SHOWN]:
            words = one.health.words or "verifier: not checked"
            self.stdout.write(f"  {one.scenario}/{one.task_idx} {words}. {one.health.explanation}")
        if len(remarked) > SHOWN:
            self.stdout.write(f"  and {len(remarked) - SHOWN} more; --report FILE lists all")
        tasks = count(sum(len(pack.report.health) for pack in packs), "task")
        self.stdout.write(f"Checked the verifiers of {tasks}: {len(remarked)} with warnings")
        if options["report"]:
            options["report"].write_text("".join(json.dumps(row) + "\n" for row in _rows(packs)))

    def _with_progress(self, packs: Sequence[Pack], judge: bool, guesses: bool) -> Iterator[checking.Checked]:
        for checked in checking.verifiers(packs, judge=judge, guesses=guesses):
            if checked.done % STEP == 0:
                self.stdout.write(f"  {checked.done} of {count(checked.total, 'task')}")
                self.stdout.flush()
            yield checked


def _rows(packs: Sequence[Pack]) -> Iterator[dict[str, Any]]:
    for pack in packs:
        for finding in pack.report.findings:
            yield {"pack": pack.name, **asdict(finding)}
        for (scenario, task_idx), health in sorted(pack.report.health.items()):
            report = {"remarks": health.remarks, "explanation": health.explanation, **health.wire()}
            yield {"pack": pack.name, "scenario": scenario, "task_idx": task_idx, "health": report}
