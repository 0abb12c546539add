"""`manage.py push_export ID`: the command that the worker runs for a push that was requested on the page."""

from __future__ import annotations

import logging
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from exports.jobs import hub_commits, pushing
from people.errors import AppError
from people.record import jobs

log = logging.getLogger(__name__)


class Command(BaseCommand):
    help = "Push one export to the Hub. Called by the worker."
    requires_system_checks: list[str] = []  # they load every page

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id")

    def handle(self, *args: Any, **options: Any) -> None:
        push = pushing.claim(options["id"])
        if push is None:
            return
        export = push.export
        if export is None:
            pushing.fail(push, "The command that pushed this folder was killed. Run it again.")
            return
        try:
            with pushing.heard(push), pushing.files_of(export) as folder:
                address = hub_commits.push(
                    folder,
                    push.repo,
                    private=push.private,
                    message=f"awmweb dataset {export.dataset[:12]}",
                    progress=lambda done, total: jobs.progress(push, bytes_done=done, bytes_total=total),
                )
        except AppError as refused:
            pushing.fail(push, refused.message)
        except OSError as error:
            log.exception("push %s failed", push.pk)
            pushing.fail(push, f"{type(error).__name__}: {error}")
        else:
            pushing.finish(push, address)
