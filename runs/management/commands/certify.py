"""`manage.py certify [--scenario S] [--episode E] [--report FILE]`: replay recorded calls and compare."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from episodes.models import Certificate, Episode
from people.access import may_launch, system
from people.errors import AppError
from people.text.plain_text import first_line
from runs.play import certifying

Row = dict[str, Any]
SHOWN = 300
"""Characters of a shown difference: it contains untrusted text, and this is an operator's terminal."""


class Command(BaseCommand):
    help = (
        "Replay recorded calls in a fresh world and compare every answer and the database. By default the oracle "
        "script of each task in the loaded packs. Exits with an error if one differs."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--scenario", default="", help="only the tasks of this scenario")
        parser.add_argument("--episode", default="", help="the recorded calls of this episode instead")
        parser.add_argument("--report", type=Path, metavar="FILE", help="write each result, one JSON object per line")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            episode = self._episode(options["episode"]) if options["episode"] else None
            rows = asyncio.run(self._rows(options["scenario"], episode))
        except AppError as refused:
            raise CommandError(refused.message) from refused
        if options["report"]:
            options["report"].write_text("".join(json.dumps(row) + "\n" for row in rows))
        self._tell(rows)

    def _episode(self, pk: str) -> Episode:
        episode = Episode.every.filter(pk=pk).select_related("project").first()
        if episode is None:
            raise CommandError(f"There is no episode {pk!r}.")
        may_launch(system(episode.project))
        return episode

    async def _rows(self, scenario: str, episode: Episode | None) -> list[Row]:
        if episode is not None:
            about = {"episode": episode.pk, "scenario_digest": episode.scenario_digest}
            return [{**about, **asdict(await certifying.certify_episode(episode))}]
        chosen = await asyncio.to_thread(certifying.tasks, scenario)
        if not chosen:
            raise CommandError("No task has an oracle script. Name an episode with --episode.")
        certificates = certifying.certified(chosen)
        return [
            {"scenario": task.scenario, "task_idx": task.task_idx, "scenario_digest": task.version, **asdict(how)}
            async for task, how in certificates
        ]

    def _tell(self, rows: Iterable[Row]) -> None:
        """Print the differences, then the rate of each scenario and of all."""
        graded: dict[str, Counter[str]] = {}
        for row in rows:
            place = row.get("episode") or row["scenario"]
            graded.setdefault(place, Counter())[row["grade"]] += 1
            if row["grade"] != Certificate.Grade.EXACT:
                name = place if "episode" in row else f"{place}/{row['task_idx']}"
                why = first_line(row["difference"], SHOWN)
                self.stdout.write(f"  {name} {row['grade']} at {row['checked']} of {row['calls']}: {why}")
        for place, grades in sorted(graded.items()):
            self.stdout.write(f"  {place}: {grades[Certificate.Grade.EXACT]} of {grades.total()} exact")
        total: Counter[str] = sum(graded.values(), Counter())
        exact, refused = total[Certificate.Grade.EXACT], total[Certificate.Grade.REFUSED]
        self.stdout.write(f"Certified {total.total()}: {exact} exact, {refused} refused ({exact / total.total():.0%})")
        if refused:
            raise CommandError(f"{refused} of {total.total()} cannot be replayed.")
