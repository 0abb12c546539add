"""The page of `make train-real`: what the product's own records and comparison say, and how much was done."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HEAD = """# A real model that learns here

Written by `make train-real` ([how](../training.md#a-real-model-that-learns)); no figure is by hand. Each part is one
seed. Counts are of the product's *Curriculum* (*Rounds*), sentences of its comparison. All models try the same held-out
tasks, greedily, with a simulated human to ask. A task that two runs tried counts once for each.
"""
COLUMNS = (
    "round",
    "from",
    "rows",
    "tokens a row",
    "steps",
    "seconds",
    "loss",
    "complete",
    "needed asks",
    "needless asks",
)


def write(
    file: Path,
    seed: int,
    size: Mapping[str, int],
    done: Mapping[str, Any],
    rounds: Sequence[Any],
    comparisons: Sequence[Mapping[str, Any]],
    seconds: float,
) -> None:
    """Replace this seed's part of the page; those of other seeds stay if they are of this form."""
    head, *parts = (file.read_text() if file.exists() else HEAD).split("\n## Seed ")
    kept = (
        {int(part.partition("\n")[0]): part.partition("\n")[2] for part in parts}
        if head.strip() == HEAD.strip()
        else {}
    )
    kept[seed] = "\n" + "\n".join(part_of(size, done, rounds, comparisons, seconds)) + "\n"
    file.write_text(HEAD + "".join(f"\n## Seed {number}\n{kept[number].rstrip()}\n" for number in sorted(kept)))


def part_of(
    size: Mapping[str, int],
    done: Mapping[str, Any],
    rounds: Sequence[Any],
    comparisons: Sequence[Mapping[str, Any]],
    seconds: float,
) -> list[str]:
    first = comparisons[0]["arms"][0]
    held = first["complete"] + first["others"]
    return [
        f"- Size: {size['desks']} desks of {size['tasks']} tasks to train on, {held} held-out tasks that count, "
        f"{size['steps']} optimizer steps a round, {size['rollouts']} rollouts of "
        "every third task in *ask* and *alone*.",
        f"- {seconds / 60:.0f} minutes in all on {os.cpu_count()} cores with a load of {os.getloadavg()[2]:.0f} "
        "(the mean of fifteen minutes, with other work): above the number of cores, all times are longer than on a "
        "quiet machine.",
        "",
        f"| {' | '.join(COLUMNS)} |",
        "|---|---|" + "---:|" * (len(COLUMNS) - 2),
        *(row_of(one, done.get(one["checkpoint"], {})) for one in rounds),
        "",
        *(
            f"- {one['arm']} against {one['control']}: {one['sentence']}"
            for comparison in comparisons
            for one in comparison["contrasts"]
        ),
    ]


def row_of(one: Mapping[str, Any], took: Mapping[str, Any]) -> str:
    def share(name: str) -> str:
        return f"{one[name]['part']} of {one[name]['of']}"

    loss = f"{took['loss']:.3f}" if took else ""
    cells = [one["checkpoint"], *(took.get(name, "") for name in ("begin", "rows", "tokens", "steps", "seconds")), loss]
    return f"| {' | '.join(map(str, [*cells, share('complete'), share('needed'), share('needless')]))} |"
