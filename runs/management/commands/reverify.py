"""`manage.py reverify --scenario S --task-idx N [--verifier FILE] [--project P]`: judge stored episodes again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from episodes.models import RejudgedEpisode, Rejudging
from episodes.record import rejudging
from episodes.stored import repairs
from people.access import system_actor
from people.errors import AppError
from people.text.in_words import count
from people.text.plain_text import first_line
from runs.play import reverifying

SHOWN, LISTED = 200, 20
"""Characters of a reason, which dataset code can shape, and the number of episodes that are named."""


class Command(BaseCommand):
    help = (
        "Judge the stored episodes of a task again, each in its restored world. With --verifier by a repaired one, "
        "which becomes the next version and takes effect if it fails on none; else by the one in force. Prints how "
        "many outcomes were kept, changed and not restorable, and which errata follow."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--scenario", required=True)
        parser.add_argument("--task-idx", required=True, type=int)
        parser.add_argument("--verifier", type=Path, metavar="FILE", help="the code of the repaired verifier")
        parser.add_argument("--reason", default="Repaired by a command.", help="why the earlier one is wrong")
        parser.add_argument("--project", default="demo")

    def handle(self, *args: Any, **options: Any) -> None:
        place = options["scenario"], options["task_idx"]
        try:
            code = options["verifier"].read_text() if options["verifier"] else ""
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{options['verifier']}: {error}") from error
        if options["verifier"] and not code.strip():
            raise CommandError(f"{options['verifier']} is empty.")
        judging: Rejudging | None = None
        try:
            judging = reverifying.prepare(system_actor(options["project"]), *place, code, options["reason"])
            done = reverifying.judge_all(judging.pk, self._tell)
        except AppError as refused:
            if judging is not None:
                rejudging.give_up(judging.pk, refused.message)
            raise CommandError(refused.message) from refused
        self._report(done)

    def _tell(self, done: int, total: int) -> None:
        if done < total:
            self.stdout.write(f"  {done} of {count(total, 'episode')}")
            self.stdout.flush()

    def _report(self, done: Rejudging) -> None:
        result = RejudgedEpisode.Result
        for row in done.episodes.exclude(result=result.KEPT).order_by("result", "pk")[:LISTED]:
            how = f"{row.before} -> {row.after}" if row.result == result.CHANGED else first_line(row.why, SHOWN)
            self.stdout.write(f"  {row.episode_id} {row.get_result_display().lower()}: {how}")
        counts = repairs.counts_of([done])[done.pk]
        parts = [f"{counts['kept']} kept", f"{counts['changed']} changed", f"{counts['lost']} not restorable"]
        parts += [f"{counts['failed']} failed"] if counts["failed"] else []
        by = done.version or "the verifier of the pack"
        self.stdout.write(f"Judged {sum(counts.values())} by {by}: {', '.join(parts)}")
        for erratum in done.errata.select_related("run").order_by("pk"):
            other = f"campaign {erratum.campaign}" if erratum.campaign else f"export {erratum.export}"
            self.stdout.write(f"  erratum of {f'run {erratum.run.name}' if erratum.run else other}")
        if done.version is None and counts["changed"]:
            self.stdout.write("The verifier of the pack disagrees with itself; no outcome was changed.")
        if done.problem:
            raise CommandError(f"No outcome was changed. {first_line(done.problem, SHOWN)}")
