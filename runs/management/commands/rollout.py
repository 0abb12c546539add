"""`manage.py rollout`: queue one built-in episode."""

from __future__ import annotations

from typing import Any, get_args

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from awmclient.schema import ExpertMode
from people.access import system_actor
from people.errors import AppError
from runs.launch import launching


class Command(BaseCommand):
    help = "Queue one episode: a task of a loaded pack, run by a script of the pack or by the agent model."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--scenario", required=True)
        parser.add_argument("--task-idx", required=True, type=int)
        named = "`model`, `model:NAME`, or `script:NAME` such as script:oracle"
        parser.add_argument("--policy", required=True, help=named)
        parser.add_argument("--arm", default="")
        parser.add_argument("--expert", default="off", choices=get_args(ExpertMode))
        parser.add_argument("--project", default="demo")

    def handle(self, *args: Any, **options: Any) -> None:
        scenario, task_idx = options["scenario"], options["task_idx"]
        try:
            policy = launching.policy_named(options["policy"])
            start = launching.LaunchRequest(
                scenario,
                task_idx,
                launching.task_text(scenario, task_idx),
                launching.playable(scenario, task_idx, policy),
                expert=options["expert"],
                arm=options["arm"],
            )
            run = launching.launch(system_actor(options["project"]), f"{scenario}/{task_idx}", [start], options["arm"])
        except AppError as refused:
            raise CommandError(refused.message) from refused
        episode = run.episodes.get()
        self.stdout.write(f"queued {settings.LINK_BASE}{episode.get_absolute_url()}")
