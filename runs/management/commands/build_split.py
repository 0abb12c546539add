"""`manage.py build_split --unit U --seed N --output FILE`: pin training and held-out tasks of the loaded packs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from awmenv.packs import Pack
from episodes.record import pinning
from episodes.stored.packs import rows_digest
from people.access import system_actor
from people.errors import AppError
from runs.launch import preflight
from runs.taskset import checking, probes, splitting
from runs.taskset.splitting import VERIFIERS, VERSIONS, Sides, TaskFacts


class Command(BaseCommand):
    help = (
        "Split the tasks of loaded packs into training and held-out ones, by scenario or by task, write the split to a "
        "file and pin it in the project. Tasks without a code verifier, those whose verifier passes on the "
        "unmodified database or for a probe, and those that the court ruled at fault are left out. "
        "--read says what is wrong with a split that others made."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--unit", default="scenario", choices=["scenario", "task"])
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--val-fraction", type=float, default=0.35)
        parser.add_argument("--max-tasks", type=int)
        parser.add_argument("--scenario", action="append", metavar="PREFIX", help="only scenarios with this beginning")
        parser.add_argument("--output", type=Path, metavar="FILE")
        parser.add_argument("--read", type=Path, metavar="FILE", help="read this split instead of making one")
        parser.add_argument("--name", help="the name under which it is pinned; by default the name of the file")
        parser.add_argument("--project", default="demo")

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["output"] and not options["read"]:
            raise CommandError("Name a file with --output, or one to read with --read.")
        try:
            self._work(options)
        except AppError as refused:
            raise CommandError(refused.message) from refused
        except OSError as error:
            raise CommandError(f"{error.filename}: {error.strerror}.") from error

    def _work(self, options: dict[str, Any]) -> None:
        packs = checking.packs_named([])
        # `unusable` below reads the reports that this fills
        for _checked in checking.verifiers(packs):
            continue
        unfit = probes.unfit(system_actor(options["project"]).project)
        tasks = [task for pack in packs for task in _tasks(pack, unfit) if _is_wanted(task, options["scenario"])]
        if options["read"]:
            sides, name = splitting.read(options["read"].read_text(encoding="utf-8")), options["name"]
            now, versions = _digests(packs, sides), _versions(packs, sides)
            faults = splitting.faults(sides, tasks) + splitting.changes(sides.meta.get(VERIFIERS), now)
            for fault in faults + splitting.changed_versions(sides.meta.get(VERSIONS), versions):
                self.stdout.write(f"  {fault}")
            # hashes of the file win: they say which verifiers and versions the split was made for
            about = {VERIFIERS: now, VERSIONS: versions, **sides.meta}
        else:
            sizes = {"val_fraction": options["val_fraction"], "max_tasks": options["max_tasks"]}
            sides = splitting.split(tasks, unit=options["unit"], seed=options["seed"], **sizes)
            sides.meta.update(
                {
                    "prefixes": options["scenario"],
                    "verifier_mode": "code",
                    "packs": {pack.name: rows_digest(pack.folder) for pack in packs if _is_in(pack, sides)},
                    VERIFIERS: _digests(packs, sides),
                    VERSIONS: _versions(packs, sides),
                }
            )
            name, about = options["name"] or options["output"].stem, sides.meta
        if name:
            train, val = ([f"{scenario}/{idx}" for scenario, idx in side] for side in (sides.train, sides.val))
            actor = system_actor(options["project"])
            pinning.pin(actor, name, unit=sides.unit, seed=sides.seed, train=train, val=val, about=about)
        if not options["read"]:  # if the name is refused, the file of the existing split must stay
            options["output"].write_text(sides.as_json(), encoding="utf-8")
        self.stdout.write(
            f"{len(sides.train)} training and {len(sides.val)} held-out tasks" + (f", pinned as {name}" if name else "")
        )


def _is_wanted(task: TaskFacts, prefixes: Sequence[str] | None) -> bool:
    return not prefixes or task.scenario.startswith(tuple(prefixes))


def _tasks(pack: Pack, unfit: Mapping[str, str]) -> list[TaskFacts]:
    return [
        TaskFacts(scenario, idx, text, preflight.unusable(pack, scenario, idx, unfit))
        for scenario in sorted(pack.scenarios)
        for idx, text in enumerate(pack.tasks(scenario))
    ]


def _is_in(pack: Pack, sides: Sides) -> bool:
    return any(scenario in pack.scenarios for scenario, _ in (*sides.train, *sides.val))


def _versions(packs: Sequence[Pack], sides: Sides) -> dict[str, str]:
    """Return the version of each scenario of a split."""
    named = {scenario for scenario, _ in (*sides.train, *sides.val)}
    return {name: digest for pack in packs for name, digest in sorted(pack.digests.items()) if name in named}


def _digests(packs: Sequence[Pack], sides: Sides) -> dict[str, str]:
    """Return the SHA-256 of each task's code verifier, so that a later change of one can be detected."""
    places = {*sides.train, *sides.val}
    digests = {}
    for pack in packs:
        for scenario, idx in sorted(place for place in places if place[0] in pack.scenarios):
            digests[f"{scenario}/{idx}"] = probes.digest(pack, scenario, idx)
    return digests
