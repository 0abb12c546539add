"""`manage.py probe [--scenario S] [--report FILE]`: find tasks that pass without work."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from people.errors import AppError
from people.text.in_words import count
from people.text.plain_text import first_line
from runs.models import Probe
from runs.play import probing

SHOWN = 300
"""Characters of a shown reason: it contains untrusted text, and this is an operator's terminal."""


class Command(BaseCommand):
    help = (
        "Probe the tasks of loaded packs: do nothing, answer with the task's own text, and only read. A task that "
        "passes so, or whose verifier does not run, is left out of comparisons, new splits and next tasks."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--scenario", default="", help="only the tasks of this scenario")
        parser.add_argument("--report", type=Path, metavar="FILE", help="write each result, one JSON object per line")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            rows = asyncio.run(self._probe(options["scenario"]))
        except AppError as refused:
            raise CommandError(refused.message) from refused
        if options["report"]:
            about = ("scenario", "task_idx", "scenario_digest", "verifier", "server")
            columns = (*about, "state", "attempts", "reason", "health")
            lines = [json.dumps({name: getattr(row, name) for name in columns}) + "\n" for row in rows]
            options["report"].write_text("".join(lines), encoding="utf-8")
        counts = Counter(row.state for row in rows)
        summary = ", ".join(
            f"{counts[state.value]} {state.value.replace('_', ' ')}" for state in Probe.State if counts[state.value]
        )
        self.stdout.write(f"Probed {count(len(rows), 'task')}: {summary or 'none'}.")

    async def _probe(self, scenario: str) -> list[Probe]:
        """Probe one task after another, and print those that are not clean as they finish."""
        chosen, rows = await asyncio.to_thread(probing.tasks, scenario), []
        async for row in probing.probed(chosen):
            rows.append(row)
            if row.state != Probe.State.CLEAN:
                self.stdout.write(f"  {row.task} {row.state.replace('_', ' ')}: {first_line(row.reason, SHOWN)}")
            if len(rows) % 100 == 0:
                self.stdout.write(f"  {len(rows)} of {count(len(chosen), 'task')}")
        return rows
