"""What is kept of a long comparison, so that it goes on where it was killed: a folder for each seed and arm.

    plan.json                 the plan that all of it belongs to
    seed-1/start.pt           the model before the arms part
    seed-1/none/going.pt      the last checkpoint of an arm that goes on
    seed-1/none/result.json   an arm that is through

Every file is written beside its place and then moved there, so that none is ever half there. Knows no model.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from examples.strategies.plan import Arm, Plan

Result = dict[str, Any]


class OtherPlan(Exception):
    """A state folder of another plan: its numbers must not stand beside new ones."""


@dataclass(frozen=True)
class Unit:
    """One arm of one seed: what is done whole, or goes on from its checkpoint."""

    seed: int
    arm: Arm
    folder: Path

    @property
    def checkpoint(self) -> Path:
        return self.folder / "going.pt"

    @property
    def result(self) -> Result | None:
        file = self.folder / "result.json"
        return json.loads(file.read_text()) if file.exists() else None

    def finish(self, result: Result) -> None:
        write_whole(self.folder / "result.json", lambda file: file.write_text(json.dumps(result)))
        self.checkpoint.unlink(missing_ok=True)


class State:
    """The folder of a comparison."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder, self.plan = folder, plan
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "plan.json"
        if file.exists() and json.loads(file.read_text())["digest"] != plan.digest:
            raise OtherPlan(f"{folder} belongs to another plan ({file}). Name another folder with STATE, or remove it.")
        if not file.exists():
            numbers = {name: value for name, value in asdict(plan).items() if name != "arms"}
            said = json.dumps({"digest": plan.digest, **numbers}, indent=1)
            write_whole(file, lambda unready: unready.write_text(said))

    def seed(self, seed: int) -> Path:
        return self.folder / f"seed-{seed}"

    def units(self, seeds: Sequence[int]) -> Iterator[Unit]:
        """Yield every unit, one seed after another, so that what is there early is whole seeds."""
        for seed in seeds:
            for arm in self.plan.arms:
                yield Unit(seed, arm, self.seed(seed) / arm.name)

    def whole(self, seeds: Sequence[int]) -> dict[int, dict[str, Result]]:
        """Return the results of the seeds whose arms are all through, by seed and arm."""
        found: dict[int, dict[str, Result]] = {}
        for seed in seeds:
            results = {unit.arm.name: unit.result for unit in self.units([seed])}
            if all(one is not None for one in results.values()):
                found[seed] = {name: one for name, one in results.items() if one is not None}
        return found


def write_whole(file: Path, write: Callable[[Path], object]) -> None:
    """Write a file so that it is there whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    unready = file.with_name(file.name + ".new")
    write(unready)
    unready.replace(file)
