"""Reads: arguments from the project's pinned splits for and against a comparison on the tasks of a plan.

Called by `preflight.py`. Leaves pinning to `episodes.record.pinning`, and faults of a whole file to `splitting.py`.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass

from episodes.find.near_tasks import NearTasks
from episodes.models import Split, SplitTask
from episodes.stored import packs
from episodes.stored.splits import TRAIN, VAL
from people.models import Project
from people.text.in_words import count
from runs.taskset import probes, splitting

CACHED = 64


@dataclass(frozen=True)
class SplitNotes:
    """Sentences: the weaknesses of the comparison, and the arguments for it, empty if no split is pinned or one
    leaks."""

    doubts: list[str]
    passed: str = ""


def of_tasks(project: Project, tasks: Sequence[tuple[str, int, str]]) -> SplitNotes:
    """Return the findings of splits on these tasks: training tasks among them, held-out ones in a scenario with
    training ones or nearly equal to one, and verifiers that differ from those of the split."""
    texts = {f"{scenario}/{idx}": text for scenario, idx, text in tasks}
    listed = SplitTask.objects.filter(split__project=project)
    sides: dict[str, dict[str, list[str]]] = defaultdict(lambda: {TRAIN: [], VAL: []})
    for pk, side, task in listed.filter(task__in=texts).values_list("split_id", "side", "task"):
        sides[pk][side].append(task)
    training, leaks, verifiers = [], [], []
    for split in Split.objects.filter(pk__in=sides).order_by("name"):
        mine = sides[split.pk]
        if number := len(mine[TRAIN]):
            which = "is a training task" if number == 1 else "are training tasks"
            training.append(f"{count(number, 'task')} of {len(tasks):,} {which} of the split {split}.")
        if mine[VAL]:
            leaks += _leaks(split, {task: texts[task] for task in mine[VAL]})
        verifiers += _changed(split, [*mine[TRAIN], *mine[VAL]])
    passed = ""
    if not training and not leaks and listed.exists():
        is_held = any(mine[VAL] for mine in sides.values())
        more = ", and no held-out one is nearly one or in a scenario with one" if is_held else ""
        passed = f"Splits: no task is a training task{more}."
    return SplitNotes([*training, *leaks, *verifiers], passed)


def _leaks(split: Split, held: dict[str, str]) -> list[str]:
    train = set(split.tasks.filter(side=TRAIN).values_list("task", flat=True))
    seen = {task.rpartition("/")[0] for task in train}
    shared = sum(task.rpartition("/")[0] in seen for task in held)
    sentences = []
    if shared:
        sentences.append(
            f"{shared:,} of {count(len(held), 'held-out task')} {_is(shared)} in scenarios with training tasks of the "
            f"split {split}: it measures new tasks, not new environments."
        )
    if alike := _nearly(tuple(held.values()), frozenset(train), packs.state()):
        nearly = f"{_is(alike)} nearly a training task of the split {split}."
        sentences.append(f"{alike:,} of {count(len(held), 'held-out task')} {nearly}")
    return sentences


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


@functools.lru_cache(maxsize=CACHED)
# the state of the packs is part of the key, because the texts come from them
def _nearly(held: tuple[str, ...], train: Collection[str], _state: Hashable) -> int:
    """Return how many held-out texts are nearly a training task's; cached, because a form asks again at each change."""
    near = NearTasks(_texts(train))
    return sum(near.holds_like(text) for text in held)


def _texts(tasks: Collection[str]) -> Iterator[str]:
    """Yield the texts of the tasks in loaded packs."""
    for scenario in sorted({task.rpartition("/")[0] for task in tasks}):
        pack = packs.find_pack(scenario)
        texts = pack.tasks(scenario) if pack is not None else []
        yield from (text for idx, text in enumerate(texts) if f"{scenario}/{idx}" in tasks)


def _changed(split: Split, tasks: Sequence[str]) -> list[str]:
    """Return what these tasks have now that is not what the split was made for: verifiers, versions of scenarios."""
    sentences = []
    if pinned := split.about.get(splitting.VERIFIERS):
        sentences += splitting.changes(pinned, probes.verifiers_now(tasks), split.name)
    if pinned := split.about.get(splitting.VERSIONS):
        now = {name: packs.scenario_digest(name) for name in {task.rpartition("/")[0] for task in tasks}}
        sentences += splitting.changed_versions(pinned, now, split.name)
    return sentences
