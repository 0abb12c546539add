"""Pinned splits: which tasks of a project are for training and which are held out.

Owns writing a split once. A pinned split never changes; another seed or unit is another split. Called by exports, runs
and the curriculum. Leaves choosing the tasks to its callers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any

from django.db import IntegrityError, transaction

from episodes.errors import SplitExists
from episodes.models import Split, SplitTask
from episodes.stored.splits import TRAIN, VAL
from people.access import Actor, may_launch
from people.errors import Invalid
from people.record.audit import record

UNITS = ("scenario", "task", "instance")


@transaction.atomic
def pin(
    actor: Actor,
    name: str,
    *,
    unit: str,
    seed: int,
    train: Collection[str],
    val: Collection[str],
    about: Mapping[str, Any] | None = None,
) -> Split:
    """Write a split: task keys for training and held-out ones. The same name with the same tasks is the same split.
    `about` holds how it was made: its filters, and the SHA-256 of verifiers.

    Raises:
        Invalid: a task is on both sides, or the unit is unknown.
        SplitExists: the name is taken by a split with other tasks, unit or seed.
    """
    may_launch(actor)
    if unit not in UNITS:
        raise Invalid(f"unit: one of {', '.join(UNITS)}.")
    if both := sorted(set(train) & set(val)):
        raise Invalid(f"{len(both)} tasks are in train and val, for example {both[0]}.")
    sides = {TRAIN: sorted(set(train)), VAL: sorted(set(val))}
    # sorted lists: the order in which tasks are given makes no other split
    digest = hashlib.sha256(json.dumps([unit, seed, sides]).encode()).hexdigest()
    try:
        # a savepoint: the insert of a taken name must not end the caller's transaction
        with transaction.atomic():
            row = {"unit": unit, "seed": seed, "digest": digest, "about": dict(about or {}), "created_by": actor.name}
            split = Split.objects.create(project=actor.project, name=name, **row)
    except IntegrityError:
        split = Split.objects.get(project=actor.project, name=name)
        if split.digest != digest:
            raise SplitExists(f"A split named {name!r} exists with different tasks, unit or seed.") from None
        return split
    rows = [SplitTask(split=split, task=task, side=side) for side, tasks in sides.items() for task in tasks]
    SplitTask.objects.bulk_create(rows, batch_size=5000)
    record(actor, "split.pinned", name, f"{len(sides[TRAIN])} train, {len(sides[VAL])} val, by {unit}, seed {seed}")
    return split
