"""`manage.py timing --episode E [--words FILE] [--points 0,10,25] [--tries N] [--tokens N]`: when advice helps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from episodes.models import Episode
from people.access import Actor, system
from people.errors import AppError
from people.text.plain_text import first_line
from runs.errors import NotForkable
from runs.play import forking
from runs.show import timing


class Command(BaseCommand):
    help = (
        "Give the same words to the agent of an ended built-in episode at several times, each in branches with and "
        "without them. Without --words it prints what the branches so far show."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--episode", required=True)
        parser.add_argument("--words", type=Path, metavar="FILE", help="the advice, as text")
        shares = ",".join(map(str, timing.SHARES))
        parser.add_argument(
            "--points", default=shares, help=f"shares of the turns in percent, below 100 (default: {shares})"
        )
        parser.add_argument("--tries", type=int, default=4, help="branches per time and arm, 4 by default")
        parser.add_argument("--tokens", type=int, default=0, help="the most tokens of each time, 0 for no limit")

    def handle(self, *args: Any, **options: Any) -> None:
        episode = Episode.every.filter(pk=options["episode"]).select_related("project", "fork").first()
        if episode is None:
            raise CommandError(f"There is no episode {options['episode']!r}.")
        actor = system(episode.project)
        if options["words"] is None:
            self._print(actor, episode)
            return
        try:
            self._fork(actor, episode, options)
        except AppError as refused:
            raise CommandError(refused.message) from refused

    def _fork(self, actor: Actor, episode: Episode, options: dict[str, Any]) -> None:
        change = forking.change_of({"words": self._read(options["words"])})
        times = timing.times_at(timing.times_of(episode), self._shares(options["points"]))
        most, there = forking.BRANCHES_MAX, Episode.every.filter(fork__parent=episode).count()
        # before the first fork: half of the times would show nothing
        if there + 2 * options["tries"] * len(times) > most:
            raise NotForkable(f"An episode can have {most} branches; this one has {there}. Use fewer times or tries.")
        limits = {"tries": options["tries"], "tokens": options["tokens"]}
        for moment in times:
            try:
                made = forking.fork(actor, episode.pk, moment.seq, change, **limits)
            except NotForkable as refused:
                self.stdout.write(f"{moment.words}: {refused.message}")
                continue
            self.stdout.write(f"{moment.words}: {len(made.branches)} branches, fork {made.fork.pk}")

    def _print(self, actor: Actor, episode: Episode) -> None:
        by_words = timing.timed(actor, episode)
        if not by_words:
            raise CommandError("No fork of this episode gave words to the agent. Pass --words.")
        for words, rows in by_words.items():
            self.stdout.write(first_line(words, 200))
            for row in rows:
                self.stdout.write(f"  {row.words}")
        self.stdout.write(
            "All forks of the episode share the error of 5%. No time is compared with another, and it is one episode."
        )

    def _read(self, file: Path) -> str:
        try:
            return file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{file}: {error}") from error

    def _shares(self, text: str) -> list[int]:
        parts = [one.strip() for one in text.split(",")]
        if not all(one.isascii() and one.isdecimal() and len(one) < 3 for one in parts):
            raise CommandError("--points are whole numbers from 0 to 99, separated by commas.")
        return [int(one) for one in parts]
