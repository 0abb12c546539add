"""`manage.py push DATASET --repo NAME`: push a dataset's folder to a Hugging Face dataset repository."""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from exports.explain import explaining
from exports.jobs import hub_commits, pushing
from exports.models import Push
from people.access import system_actor
from people.errors import AppError
from people.record import jobs
from people.record.audit import record
from people.text.in_words import count

WAIT_S = 1.0


class Command(BaseCommand):
    help = "Push a dataset to the Hub. The token comes from AWMWEB_HUB_TOKEN or HF_TOKEN, the address from HF_ENDPOINT."
    _waits = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("dataset", help="a folder, an export's ID, or the first 8 letters of a dataset's ID")
        parser.add_argument("--repo", required=True, metavar="OWNER/NAME")
        parser.add_argument("--public", action="store_true", help="make a missing repository public (default: private)")
        parser.add_argument("--project", default="demo")

    def handle(self, *args: Any, **options: Any) -> None:
        name, repo = options["dataset"], options["repo"]
        try:
            # before the dataset is read, because without a token nothing can follow
            hub_commits.token_or_refuse()
            actor = system_actor(options["project"])
            dataset = explaining.named(actor, name)
            private = not options["public"]
            with (
                pushing.by_command(actor, dataset.export, repo, private=private, wait=self._wait) as push,
                self._folder(dataset) as folder,
            ):
                message = f"awmweb dataset {dataset.manifest['dataset'][:12]}"
                address = hub_commits.push(
                    folder, repo, private=private, message=message, progress=functools.partial(self._progress, push)
                )
                pushing.finish(push, address)
            record(actor, "export.pushed", name, f"{dataset.manifest['dataset'][:12]} to {repo}")
        except AppError as refused:
            raise CommandError(refused.message) from refused
        self.stdout.write(f"Pushed {count(dataset.manifest['rows'], 'row')} to {address}")

    def _folder(self, dataset: explaining.Dataset) -> contextlib.AbstractContextManager[Path]:
        if dataset.export is not None:
            return pushing.files_of(dataset.export)
        return contextlib.nullcontext(Path(dataset.name))

    def _wait(self) -> None:
        if not self._waits:
            self._waits = True
            self.stderr.write("Waiting: others are pushing, two at a time and one of a project.")
        time.sleep(WAIT_S)

    def _progress(self, push: Push, done: int, total: int) -> None:
        jobs.progress(push, bytes_done=done, bytes_total=total)
        if sys.stderr.isatty():
            self.stderr.write(f"\r{done:,} of {total:,} bytes", ending="\n" if done == total else "")
