"""`manage.py world NAME`: a public benchmark from another package, as a pack with a split of its tasks."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from awmenv.errors import PackError
from awmenv.worlds import bfcl
from episodes.record import pinning
from people.access import system_actor
from people.errors import AppError
from people.text.in_words import count
from runs.taskset.splitting import Sides

REQUIREMENTS = "requirements-worlds.txt"


class Command(BaseCommand):
    help = (
        "Make a pack of a public benchmark: install its package if it is missing, write the pack, load it, and pin its "
        "tasks as a held-out split. bfcl: BFCL v4 multi-turn."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", choices=["bfcl"])
        parser.add_argument(
            "--category", action="append", choices=bfcl.CATEGORIES, help="only this category; may be repeated"
        )
        parser.add_argument("--limit", type=int, metavar="N", help="the first N tasks of each category")
        parser.add_argument("--replace", action="store_true", help="replace the loaded world")
        parser.add_argument("--project", default="demo", help="where the split is pinned")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["limit"] is not None and options["limit"] < 1:
            raise CommandError("--limit is 1 or more.")
        name, folder = str(options["name"]), Path(settings.VAR) / "worlds" / str(options["name"])
        categories = tuple(one for one in bfcl.CATEGORIES if one in (options["category"] or bfcl.CATEGORIES))
        try:
            manifest = self._written(folder, categories, options["limit"])
        except PackError as refused:
            raise CommandError(str(refused)) from refused
        self.stdout.write(f"{bfcl.PACKAGE} {manifest['package_version']}, {bfcl.LICENSE}, {bfcl.SOURCE}")
        # its grader is the package's own, and a check of hundreds takes minutes
        call_command("loadpack", folder, name=name, replace=options["replace"], unchecked=True, stdout=self.stdout)
        self._pin(folder, manifest, options["project"])

    def _written(self, folder: Path, categories: tuple[str, ...], most: int | None) -> dict[str, Any]:
        try:
            bfcl.BfclPackage()
        except PackError:
            self._install()
        return bfcl.write(folder, categories, most)

    def _install(self) -> None:
        self.stdout.write(f"Installing {REQUIREMENTS}, without dependencies.")
        self.stdout.flush()
        options = ["--no-deps", "--require-hashes", "--quiet", "-r", str(settings.BASE_DIR / REQUIREMENTS)]
        if subprocess.run([sys.executable, "-m", "pip", "install", *options], check=False).returncode:
            raise CommandError(f"pip could not install {REQUIREMENTS}; see its message above.")
        importlib.invalidate_caches()

    def _pin(self, folder: Path, manifest: dict[str, Any], project: str) -> None:
        """Pin every task as held out: they are public, and nothing may be trained on them."""
        about = {name: manifest[name] for name in ("package", "package_version", "license", "source")}
        places = [(key.rpartition("/")[0], int(key.rpartition("/")[2])) for key in manifest["tasks"]]
        split = "-".join([manifest["world"], *manifest["categories"], str(len(places))])
        (folder / "split.json").write_text(Sides([], places, about).as_json(), encoding="utf-8")
        try:
            actor = system_actor(project)
            pinning.pin(actor, split, unit="task", seed=0, train=[], val=manifest["tasks"], about=about)
        except AppError as refused:
            raise CommandError(refused.message) from refused
        self.stdout.write(f"{count(len(places), 'held-out task')}, pinned as {split}; also in {folder / 'split.json'}")
