"""Help desks as a pack, and two plans over them: `python -m examples.train_real.desks FOLDER` (docs/training.md)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from examples.train_demo.house import HELD_FIRST, write_pack
from examples.train_demo.playing import places
from examples.train_demo.worlds import UNGUESSED, World
from examples.train_real.lab import GREEDY, LIMITS

DESKS, TASKS = 8, 20
HELP = {"expert": "plain", "experts": "registry"}
"""Someone to ask: the registry of the task answers for a person."""


def main(folder: Path) -> None:
    folder.mkdir()
    desks, held = [World(1000 + at, UNGUESSED, TASKS) for at in range(DESKS)], [World(HELD_FIRST, UNGUESSED, TASKS)]
    pack = write_pack(folder, [*desks, *held], "pack")
    demo = {"name": "demo", "policy": "script:demo", **HELP}
    named = {"before": "model:local", "after": "model:after"}
    models = [{"name": name, "policy": policy, "options": GREEDY, **HELP} for name, policy in named.items()]
    _write(folder / "demonstrations.yaml", desks, {"name": "demonstrations", "arms": [demo]})
    _write(folder / "compare.yaml", held, {"name": "before and after", "arms": models, "control": "before"})
    print(f"Wrote {pack}, {DESKS} desks of {TASKS} tasks to learn from and 1 to try, and two plans.")


def _write(file: Path, worlds: list[World], plan: dict[str, Any]) -> None:
    """Write a plan over all tasks of these worlds. JSON is YAML, too."""
    file.write_text(json.dumps({**plan, "tasks": [one.name for one in places(worlds)], **LIMITS}, indent=1) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m examples.train_real.desks FOLDER")
    main(Path(sys.argv[1]))
