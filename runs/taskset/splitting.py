"""Splits tasks into training and held-out ones, and finds faults in a split from elsewhere. Pure.

The file is `{"meta": …, "train": [[scenario, task_idx], …], "val": …}`, as in TRL's pull request 833. `unit="task"`
draws like that pull request: sort, shuffle by the seed, hold out the first `int(n * val_fraction)`.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any, Literal

from episodes.find.near_tasks import NearTasks
from people.errors import Invalid
from people.text.in_words import count

Unit = Literal["scenario", "task"]
VERIFIERS = "verifiers"
"""The key in `meta` for the SHA-256 of each task's verifier, by task key."""
VERSIONS = "scenario_versions"
"""The key in `meta` for the version (`scenario_digest`) of each scenario."""
Place = tuple[str, int]
SHOWN = 3
MAX_SEED = 2**63


@dataclass(frozen=True)
class TaskFacts:
    """The facts that a split needs about a task: its place, its text, and why it cannot be used, if it cannot."""

    scenario: str
    task_idx: int
    text: str
    unusable: str = ""

    @property
    def place(self) -> Place:
        return self.scenario, self.task_idx


@dataclass(frozen=True)
class Sides:
    """A split: sorted places for training and held-out ones, and how it was made."""

    train: list[Place]
    val: list[Place]
    meta: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> str:
        return json.dumps({"meta": self.meta, "train": self.train, "val": self.val}, indent=2) + "\n"

    @property
    def shared(self) -> set[str]:
        """Scenarios on both sides."""
        return {scenario for scenario, _ in self.train} & {scenario for scenario, _ in self.val}

    @property
    def unit(self) -> Unit:
        """The unit that was kept together: single tasks if the file says so or a scenario is on both sides."""
        return "task" if self.shared or self.meta.get("unit") == "task" else "scenario"

    @property
    def seed(self) -> int:
        """The seed that the file names, else 0."""
        number = self.meta.get("seed")
        # not isinstance: a bool is an int in Python
        return number if type(number) is int and abs(number) < MAX_SEED else 0


def split(
    tasks: Sequence[TaskFacts], *, unit: Unit, seed: int, val_fraction: float = 0.35, max_tasks: int | None = None
) -> Sides:
    """Split the first `max_tasks` usable tasks by scenario or by task. The same tasks and seed give the same split.

    Training tasks whose text is nearly that of a held-out one are left out and named in `meta`. Raises `Invalid` if one
    side would be empty.

    """
    if not 0 < val_fraction < 1:
        raise Invalid("val_fraction: a number between 0 and 1.")
    # cut before it is sorted: the first tasks in the order of packs
    usable = sorted([task for task in tasks if not task.unusable][:max_tasks], key=lambda task: task.place)
    units = sorted({task.scenario if unit == "scenario" else task.place for task in usable})
    random.Random(seed).shuffle(units)
    # at least one unit, if there are two
    held = set(units[: int(len(units) * val_fraction) or (1 if len(units) > 1 else 0)])
    val = [task for task in usable if (task.scenario if unit == "scenario" else task.place) in held]
    others = [task for task in usable if (task.scenario if unit == "scenario" else task.place) not in held]
    near = NearTasks(task.text for task in val)
    train = [task for task in others if not near.holds_like(task.text)]
    if not train or not val:
        raise Invalid(f"{len(usable)} usable tasks of {len(units)} {unit}s cannot be split.")
    meta = {
        "unit": unit,
        "seed": seed,
        "val_fraction": val_fraction,
        "max_tasks": max_tasks,
        "unusable": dict(sorted(Counter(task.unusable for task in tasks if task.unusable).items())),
        "near_duplicates_left_out": [task.place for task in others if near.holds_like(task.text)],
        "num_train": len(train),
        "num_val": len(val),
    }
    return Sides([task.place for task in train], [task.place for task in val], meta)


def read(text: str) -> Sides:
    """Return the split in a file. Raises `Invalid`, which names the fault."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"The split is not JSON: {error}") from error
    if not isinstance(document, Mapping):
        raise Invalid("The split is not a JSON object.")
    return Sides(_places(document, "train"), _places(document, "val"), _meta(document.get("meta")))


def _meta(meta: object) -> dict[str, Any]:
    """Return a file's metadata of its split, which is stored with the pinned one. Raises `Invalid` if that is
    impossible."""
    try:
        text = json.dumps(meta, ensure_ascii=False, allow_nan=False)
        # fails for half of a surrogate pair
        text.encode()
    except (ValueError, RecursionError) as error:
        raise Invalid(f"meta: it cannot be stored: {error}.") from error
    # PostgreSQL stores JSON without U+0000
    if "\\u0000" in text:
        raise Invalid("meta: it cannot be stored: a text has U+0000.")
    return dict(meta) if isinstance(meta, Mapping) else {}


def _places(document: Mapping[str, Any], side: str) -> list[Place]:
    listed = document.get(side)
    if not isinstance(listed, list) or not listed:
        raise Invalid(f"{side}: a list of [scenario, task number] that is not empty.")
    for pair in listed:
        is_pair = isinstance(pair, list) and len(pair) == 2
        if not is_pair or not isinstance(pair[0], str) or type(pair[1]) is not int or pair[1] < 0:
            raise Invalid(f"{side}: {pair!r} is not a pair of scenario and task number.")
    return [(scenario, idx) for scenario, idx in listed]


def faults(sides: Sides, tasks: Sequence[TaskFacts]) -> list[str]:
    """Return the weaknesses of a split, in sentences; `tasks` are those of loaded packs."""
    by_place = {task.place: task for task in tasks}
    sentences = []
    if repeated := sorted(place for place, times in Counter([*sides.train, *sides.val]).items() if times > 1):
        sentences.append(f"{_are(repeated)} listed more than once, for example {_named(repeated)}.")
    if shared := sides.shared:
        seen = sum(scenario in shared for scenario, _ in sides.val)
        sentences.append(
            f"{seen} of {len(sides.val)} held-out tasks are in scenarios with training tasks"
            f" ({_are(shared, 'scenario')} on both sides): it measures new tasks, not new environments."
        )
    if missing := sorted({*sides.train, *sides.val} - set(by_place)):
        sentences.append(f"{_are(missing)} in no loaded pack, for example {_named(missing)}.")
    unusable = [place for place in (*sides.train, *sides.val) if place in by_place and by_place[place].unusable]
    for reason in sorted({by_place[place].unusable for place in unusable}):
        those = [place for place in unusable if by_place[place].unusable == reason]
        sentences.append(f"{count(len(those), 'task')} cannot be used ({reason}), for example {_named(those)}.")
    near = NearTasks(by_place[place].text for place in sides.val if place in by_place)
    if alike := [place for place in sides.train if place in by_place and near.holds_like(by_place[place].text)]:
        sentences.append(f"{_are(alike, 'training task')} nearly a held-out one, for example {_named(alike)}.")
    return sentences


def changes(pinned: object, now: Mapping[str, str], name: str = "") -> list[str]:
    """Return which tasks have another verifier than in a split's hashes, in a sentence. `now` are the current
    hashes."""
    hashes = pinned if isinstance(pinned, Mapping) else {}
    changed = [task for task, digest in now.items() if hashes.get(task, digest) != digest]
    if not changed:
        return []
    split = f"the split {name}" if name else "the split"
    has = "has" if len(changed) == 1 else "have"
    some = ", ".join(sorted(changed)[:SHOWN])
    return [f"{count(len(changed), 'task')} {has} another verifier than {split} names, for example {some}."]


def changed_versions(pinned: object, now: Mapping[str, str], name: str = "") -> list[str]:
    """Return which scenarios are loaded in another version than a split names, in a sentence. `now` are the loaded
    versions."""
    versions = pinned if isinstance(pinned, Mapping) else {}
    changed = [scenario for scenario, digest in now.items() if digest and versions.get(scenario, digest) != digest]
    if not changed:
        return []
    split = f"the split {name}" if name else "the split"
    some = ", ".join(sorted(changed)[:SHOWN])
    return [f"{_are(changed, 'scenario')} loaded in another version than {split} names, for example {some}."]


def _are(group: Sized, noun: str = "task") -> str:
    return f"{count(len(group), noun)} {'is' if len(group) == 1 else 'are'}"


def _named(places: Sequence[Place]) -> str:
    return ", ".join(f"{scenario}/{idx}" for scenario, idx in places[:SHOWN])
