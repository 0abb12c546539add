"""`manage.py fetchpack`: download AgentWorldModel-1K from the hub, with a progress bar, and load it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError

DATASET = "Snowflake/AgentWorldModel-1K"


class Command(BaseCommand):
    help = "Download the 1,000 scenarios of AgentWorldModel-1K (about 500 MB) and load them like any other pack."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dataset", default=DATASET)
        parser.add_argument("--name", default="awm-1k")
        parser.add_argument(
            "--replace", action="store_true", help="replace the loaded pack of this name; its episodes keep its version"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        with tempfile.TemporaryDirectory() as folder:
            try:
                snapshot_download(options["dataset"], repo_type="dataset", local_dir=folder, allow_patterns="*.jsonl")
            except (HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError, OSError) as error:
                raise CommandError(f"{options['dataset']} could not be downloaded: {error}") from error
            how = {"name": options["name"], "replace": options["replace"]}
            call_command("loadpack", str(self._rows(Path(folder))), **how, stdout=self.stdout)

    def _rows(self, folder: Path) -> Path:
        path = next(folder.rglob("gen_tasks.jsonl"), None)
        if path is None:
            raise CommandError("The download contains no gen_tasks.jsonl.")
        return path.parent
