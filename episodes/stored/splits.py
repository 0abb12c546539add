"""Reads: pinned splits: the side of a task, and whether it is held out. Called by exports, runs and the curriculum.

Leaves writing a split to `episodes/record/pinning.py`, and choosing the tasks to the callers.

"""

from __future__ import annotations

import hashlib

from episodes.models import SplitTask
from people.models import Project

TRAIN, VAL = "train", "val"


def task_key(scenario: str | None, task_idx: int | None, task: str = "") -> str:
    """Return the key of a task: `scenario/idx`, or a digest of its text if it belongs to no scenario."""
    if scenario and task_idx is not None:
        return f"{scenario}/{task_idx}"
    # half of a surrogate pair cannot be encoded, and a task is a stranger's text
    return f"text/{hashlib.sha256(task.encode('utf-8', 'replace')).hexdigest()[:32]}"


def held_out(project: Project) -> set[str]:
    """Return the keys of all tasks that a split of this project holds out."""
    rows = SplitTask.objects.filter(split__project=project, side=VAL)
    return set(rows.values_list("task", flat=True))


def is_training_name(name: str | None) -> bool:
    """Return whether a split name from a loop means training; an empty name makes no claim.

    Loops write `validation`, `VAL` or `dev`: everything except *train* counts as held out.

    """
    return (name or TRAIN).strip().casefold() in (TRAIN, "training")
