"""`manage.py export --format sft --output FILE`: rows out, with a manifest beside the file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from exports import exporting
from people.errors import AppError
from people.members import house_actor


class Command(BaseCommand):
    help = "Write verified episodes as training data, with a manifest FILE.manifest.json beside FILE."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--format", required=True, dest="shape", help="sft")
        parser.add_argument("--filter", action="append", default=[], metavar="K=V", dest="filters")
        parser.add_argument("--project", default="demo")
        parser.add_argument("--output", required=True, type=Path)

    def handle(self, *args: Any, **options: Any) -> None:
        output: Path = options["output"]
        try:
            manifest = self._write(options, output)
        except AppError as refused:
            raise CommandError(refused.message) from refused
        except OSError as error:
            raise CommandError(f"cannot write {output}: {error}") from error
        beside = output.with_name(output.name + ".manifest.json")
        beside.write_text(json.dumps(manifest.as_json(), indent=2, sort_keys=True) + "\n")
        self.stdout.write(f"{manifest.rows} rows of {manifest.episodes} ended episodes in {output}")
        for reason, count in sorted(manifest.left_out.items()):
            self.stdout.write(f"  left out, {reason}: {count}")

    def _write(self, options: dict[str, Any], output: Path) -> exporting.Manifest:
        """Into a file beside it first, so that an interrupted export never looks like a whole one."""
        draft = output.with_name(output.name + ".part")
        filters = dict(self._pair(one) for one in options["filters"])
        with draft.open("wb") as out:
            manifest = exporting.write(house_actor(options["project"]), options["shape"], filters, out)
        os.replace(draft, output)
        return manifest

    def _pair(self, one: str) -> tuple[str, str]:
        name, sign, value = one.partition("=")
        if not sign:
            raise CommandError(f"--filter takes K=V, got {one!r}")
        return name, value
