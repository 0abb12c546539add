"""`manage.py export --format sft --output FILE`: write rows, with a manifest beside the file."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, get_args

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from exports.assembly import datasets
from exports.jobs import working
from exports.recipe import FILTERS, KINDS, AdviceMode, OptIn, ReasoningChoice, Recipe
from exports.select.reading import IMAGES
from exports.select.selecting import filters_of, selected
from people.access import system_actor
from people.errors import AppError
from people.text.in_words import count

EVERY_S = 0.5


class Command(BaseCommand):
    help = "Write episodes as training data. PATH is a file, or a folder if it ends with a slash."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--format", dest="format", choices=list(KINDS))
        parser.add_argument("--recipe", type=Path, metavar="FILE", help="a recipe in YAML; options override it")
        parser.add_argument(
            *("--filter",),
            action="append",
            default=[],
            metavar="K=V",
            dest="filters",
            help=f"keep episodes with this value; repeatable. K is one of {', '.join(FILTERS)}",
        )
        parser.add_argument(
            "--reasoning", choices=get_args(ReasoningChoice), help="what to do with a model's reasoning (default: keep)"
        )
        parser.add_argument("--advice", choices=get_args(AdviceMode), help="what to do with advice (default: keep)")
        parser.add_argument(
            *("--include",),
            action="append",
            default=[],
            choices=get_args(OptIn),
            help="include what is excluded by default",
        )
        parser.add_argument("--parquet", action="store_true")
        parser.add_argument(
            "--pictures",
            choices=("keep", "leave_out"),
            help="keep them where the format can (default), or leave out their episodes",
        )
        parser.add_argument(
            "--tokenizer",
            metavar="NAME",
            help="for tokens: a folder in tokenizers/ of the data folder; without it, IDs as captured",
        )
        parser.add_argument("--project", default="demo")
        parser.add_argument("--output", required=True, metavar="PATH")

    def handle(self, *args: Any, **options: Any) -> None:
        output: str = options["output"]
        try:
            manifest = self._write(self._recipe(options), options["project"], output)
        except AppError as refused:
            raise CommandError(refused.message) from refused
        except OSError as error:
            raise CommandError(f"cannot write {output}: {error}") from error
        source = "task" if KINDS[manifest["format"]].is_curriculum else "finished episode"
        of = f"{manifest['episodes_used']:,} of {count(manifest['episodes'], source)}"
        self.stdout.write(f"Wrote {count(manifest['rows'], 'row')} from {of} to {output}")
        for what in ("left_out", "rows_left_out"):
            for reason, number in manifest[what].items():
                skipped = count(number, "row") if what == "rows_left_out" else f"{number:,}"
                self.stdout.write(f"  Skipped {skipped}: {reason}")

    def _recipe(self, options: dict[str, Any]) -> Recipe:
        file_fields: dict[str, Any] = {}
        if options["recipe"] is not None:
            try:
                text = options["recipe"].read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise CommandError(f"Cannot read the recipe {options['recipe']}: {error}") from error
            file_fields = Recipe.from_yaml(text).model_dump(mode="json")
        pairs = [self._pair(one) for one in options["filters"]]
        option_fields = {
            name: options[name] for name in ("format", "advice", "reasoning", "tokenizer", "pictures") if options[name]
        }
        more: dict[str, Any] = {"filter": {**file_fields.get("filter", {}), **filters_of(pairs)}}
        more |= {"include": [*file_fields.get("include", []), *options["include"]]}
        if "format" not in {**file_fields, **option_fields}:
            raise CommandError("Pass --format or a recipe with a format.")
        return Recipe.read(
            {**file_fields, **option_fields, **more, "parquet": options["parquet"] or file_fields.get("parquet", False)}
        )

    def _pair(self, pair: str) -> tuple[str, str]:
        name, sign, value = pair.partition("=")
        if not sign:
            raise CommandError(f"--filter takes K=V, got {pair!r}")
        return name, value

    def _write(self, recipe: Recipe, project: str, output: str) -> dict[str, Any]:
        """Build beside the target first, so that an interrupted export never looks like a whole one."""
        actor = system_actor(project)
        # refuses an unknown filter value before anything is written
        selected(actor, recipe)
        target = Path(output)
        with tempfile.TemporaryDirectory(dir=_work_folder(), prefix="export-") as work:
            folder = Path(work)
            plan = working.select(actor.project, recipe, folder)
            progress = self._progress(plan.episodes)
            manifest = datasets.build(actor.project, plan, folder, progress, settings.EXPORT_PROCESSES)
            self._place(folder, target, is_folder=output.endswith("/") or target.is_dir())
        return manifest

    def _place(self, folder: Path, target: Path, *, is_folder: bool) -> None:
        if is_folder:
            shutil.copytree(folder, target, dirs_exist_ok=True)
            return
        paths = [Path(one["path"]) for one in datasets.read_manifest(folder)["files"]]
        # a log has two forms; the ending of the name picks one
        data = folder / next((one for one in paths if one.parts[0] == "data" and one.suffix == target.suffix), paths[0])
        # renamed at the end, so that readers never see a part of it
        draft = target.with_name(f"{target.name}.part")
        shutil.copyfile(data, draft)
        draft.replace(target)
        images = folder / "data" / IMAGES
        if images.exists():
            shutil.copytree(images, target.with_name(IMAGES), dirs_exist_ok=True)
        shutil.copyfile(folder / datasets.MANIFEST, target.with_name(f"{target.name}.{datasets.MANIFEST}"))

    def _progress(self, total: int) -> datasets.BuildProgress:
        """Return a progress line that updates itself in a terminal."""
        last = time.monotonic()

        def tell(episodes: int, rows: int, _files: int = 0) -> bool:
            nonlocal last
            now = time.monotonic()
            # a file of logs would fill with one long line
            if sys.stderr.isatty() and (now - last > EVERY_S or episodes == total):
                last = now
                end = "\n" if episodes == total else ""
                self.stderr.write(f"\r{episodes:,} of {count(total, 'episode')}, {count(rows, 'row')}", ending=end)
            return True

        return tell


def _work_folder() -> Path:
    folder: Path = settings.VAR / "exports" / "work"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
