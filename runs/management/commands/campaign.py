"""`manage.py campaign --change FILE [--view V | --query Q] [--at error|times]`: the same change in many episodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from people.access import Actor, system_actor
from people.errors import AppError
from people.text import yaml_text
from people.text.in_words import count
from people.text.plain_text import first_line
from runs.play import campaigning
from runs.show import campaigns, timing

SHOWN = 200


class Command(BaseCommand):
    help = (
        "Fork each episode of a saved view or query at its first error, or at several times, with the same change. "
        "Prints what the branches will take; without --estimate it launches them. --show prints what a campaign shows."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument(
            "--change",
            type=Path,
            metavar="FILE",
            help="YAML with one of `words: TEXT`, `ask: {question}`, `policy: NAME`",
        )
        what.add_argument("--show", metavar="CAMPAIGN", help="print how far one is, and at its end what it shows")
        what.add_argument("--cancel", metavar="CAMPAIGN", help="cancel a campaign with its live branches")
        parser.add_argument("--view", default="", help="name or ID of a saved view of the episodes")
        parser.add_argument("--query", default="", help="filters of the list of episodes, as in its address")
        parser.add_argument("--at", choices=["error", "times"], default="error")
        shares = ",".join(map(str, timing.SHARES))
        parser.add_argument("--points", default=shares, help=f"shares of the turns in percent (default: {shares})")
        parser.add_argument("--tries", type=int, default=4, help="branches per place and arm, 4 by default")
        parser.add_argument("--tokens", type=int, default=0, help="the most tokens of all branches, 0 for no limit")
        parser.add_argument("--most", type=int, default=campaigning.ROOTS, help="the most episodes, drawn if more fit")
        parser.add_argument("--name", default="")
        parser.add_argument("--estimate", action="store_true", help="print what it will take, and launch nothing")
        parser.add_argument("--project", default="demo")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            actor = system_actor(options["project"])
            if options["change"] is not None:
                self._launch(actor, options)
            elif options["cancel"] is not None:
                campaigning.cancel(actor, options["cancel"])
                self.stdout.write("Campaign cancelled.")
            else:
                self._show(actor, options["show"])
        except AppError as refused:
            raise CommandError(refused.message) from refused

    def _launch(self, actor: Actor, options: dict[str, Any]) -> None:
        points = [part.strip() for part in options["points"].split(",")]
        if not all(one.isascii() and one.isdecimal() and len(one) < 3 for one in points):
            raise CommandError("--points are whole numbers from 0 to 99, separated by commas.")
        same = {name: options[name] for name in ("view", "query", "at", "tries", "most", "name")}
        fields = {**same, "points": [int(one) for one in points], "budget": options["tokens"]}
        start = campaigning.start_of({**fields, "change": self._read(options["change"])})
        plan = campaigning.planned(actor, start)
        self.stdout.write(plan.words)
        for reason, places in plan.left_out.items():
            self.stdout.write(f"  left out {count(places, 'place')}: {first_line(reason, SHOWN)}")
        if options["estimate"]:
            return
        made = campaigning.launch(actor, start)
        self.stdout.write(f"launched {made.pk} {settings.LINK_BASE}{made.get_absolute_url()}")

    def _show(self, actor: Actor, campaign_id: str) -> None:
        report = campaigns.seen(actor, campaigns.visible(actor, campaign_id))
        self.stdout.write(f"{report.state}: {report.sentence}")
        for reason, places in report.progress.left_out.items():
            self.stdout.write(f"  left out {count(places, 'place')}: {first_line(reason, SHOWN)}")
        if report.finding is None:
            return
        for sentence in report.finding.sentences[1:]:
            self.stdout.write(first_line(sentence, 2 * SHOWN))
        for cell in report.finding.cells:
            where = f"at {cell.at}%" if report.campaign.points else "at the first error"
            self.stdout.write(f"  {first_line(cell.kind or 'all tasks', SHOWN)} {where}: {cell.words}")

    def _read(self, file: Path) -> Any:
        try:
            return yaml_text.read(file.read_text(encoding="utf-8")) or {}
        except (OSError, UnicodeDecodeError, yaml_text.BadYaml) as error:
            raise CommandError(f"{file}: {error}") from error
