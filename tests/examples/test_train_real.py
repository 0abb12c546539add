"""The example `make train-real`: its worlds, and its page. Training itself is walked by the command."""

from __future__ import annotations

import json

from awmenv.blockers import matched, read_blockers
from examples.train_demo.worlds import UNGUESSED, World, write_worlds
from examples.train_real import page

TASKS = 10


def test_tasks_that_lack_a_fact_have_its_registry(tmp_path):
    world = World(1, UNGUESSED, TASKS)
    write_worlds(tmp_path / "sources", [world])
    for at, task in enumerate(world.tasks):
        about = json.loads((tmp_path / "sources" / world.name / "tasks" / f"{at:02d}" / "about.json").read_text())
        assert ("blockers" in about) is task.needs is (task.family == "agreed")
        if task.needs:
            blockers = read_blockers(about["blockers"], task.text)
            assert matched(f"how much was agreed with {task.name}", blockers).answer == task.note
            assert matched(f"what is known of {task.name}", blockers) is None
        if task.family == "which":
            assert task.numbers and min(task.numbers) >= 100


def test_page_keeps_other_seeds_and_says_its_size(tmp_path):
    file, size = tmp_path / "page.md", {"desks": 4, "tasks": 10, "steps": 24, "rollouts": 1}
    tally = {name: {"part": 1, "of": 2} for name in ("complete", "needed", "needless")}
    rounds = [{"checkpoint": "base", **tally}, {"checkpoint": "sft", **tally}]
    took = {"sft": {"begin": "base", "rows": 40, "tokens": 1161, "steps": 24, "seconds": 785, "loss": 0.11}}
    contrast = {"arm": "sft", "control": "base", "sentence": "No difference shown."}
    comparison = {"arms": [{"complete": 0, "others": 10}], "contrasts": [contrast]}
    for seed in (2, 1):
        page.write(file, seed, size, took, rounds, [comparison], 600)
    text = file.read_text()
    assert text.startswith(page.HEAD) and text.index("## Seed 1") < text.index("## Seed 2")
    assert "4 desks of 10 tasks to train on, 10 held-out tasks that count, 24 optimizer steps a round" in text
    assert "| sft | base | 40 | 1161 | 24 | 785 | 0.110 | 1 of 2 | 1 of 2 | 1 of 2 |" in text
    assert "- sft against base: No difference shown." in text
