"""GRPO on the environment server: groups of fresh desks, help offered to a part of each group, one update a step."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from examples.train_demo.learning import Played, grpo_update
from examples.train_demo.model import Tiny
from examples.train_demo.playing import Ground, Place, Sampler
from examples.train_demo.words import Redrawn

GROUPS, GROUP, LR, WARM_UP = 16, 8, 1e-3, 5
PASSES, PARTS = 1, 1
Helped = Callable[[str], int]
"""How many rollouts of a group may ask the expert, by the family of their task."""


def adamw(model: Tiny) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.0)


def tasks_of(places: Sequence[Place], seed: int, step: int, groups: int = GROUPS) -> list[tuple[Place, Redrawn]]:
    """Return the tasks of a step, each with names and numbers of its own; the same for every arm of a seed."""
    chance = random.Random(f"tasks {seed} {step}")  # noqa: S311
    return [(place, Redrawn(chance)) for place in chance.sample(list(places), groups)]


@dataclass
class Stepped:
    """The counts of one training step, by family and by whether help was offered."""

    step: int
    rollouts: int = 0
    counted: int = 0
    errors: int = 0
    """Counted rollouts without one call that could be executed."""
    asks: int = 0
    reward: float = 0.0
    learned_from: int = 0
    solo: dict[str, list[int]] = field(default_factory=dict)
    """By family, complete and counted rollouts without an expert; `helped` has complete, asking and counted ones."""
    helped: dict[str, list[int]] = field(default_factory=dict)

    @property
    def primary(self) -> float:
        """The share of complete ones."""
        complete = sum(one[0] for one in (*self.solo.values(), *self.helped.values()))
        return complete / max(1, self.counted)


async def stepped(
    ground: Ground,
    model: Tiny,
    optimizer: torch.optim.Optimizer,
    tasks: Sequence[tuple[Place, Redrawn]],
    helped: Helped,
    *,
    step: int,
    share: float,
    sampler: Sampler,
    price: float = 0.0,
    group: int = GROUP,
    **about: Any,
) -> tuple[Stepped, dict[str, float]]:
    """Play a group of each task and learn from them; `share` is the part of the learning rate that is used."""

    async def play(place: Place, redrawn: Redrawn) -> list[Played]:
        offers = helped(place.task.family)
        more = {"split": "train", "training_step": step, **about}
        return await asyncio.gather(
            *(ground.play(sampler, place, helped=at < offers, redrawn=redrawn, **more) for at in range(group))
        )

    groups = await asyncio.gather(*(play(*task) for task in tasks))
    for one in (one for group_ in groups for one in group_):
        one.reward = one.complete - price * one.asks
    parted = [[one for one in group_ if one.helped is offer] for group_ in groups for offer in (False, True)]
    losses = grpo_update(model, [optimizer], parted, share, passes=PASSES, parts=PARTS)
    return counts_of(step, [(place.task.family, group_) for (place, _), group_ in zip(tasks, groups, strict=True)],
                     int(losses["learned_from"])), losses  # fmt: skip


def counts_of(step: int, groups: Sequence[tuple[str, Sequence[Played]]], learned_from: int) -> Stepped:
    found = Stepped(step, learned_from=learned_from, rollouts=sum(len(group) for _, group in groups))
    counted = [(family, one) for family, group in groups for one in group if one.counts]
    found.counted = len(counted)
    found.errors = sum(not one.executed for _, one in counted)
    found.asks = sum(one.asks for _, one in counted)
    found.reward = sum(one.reward for _, one in counted) / max(1, len(counted))
    for family in Counter(family for family, _ in counted):
        solo, helped = ([one for name, one in counted if name == family and one.helped is offer]
                        for offer in (False, True))  # fmt: skip
        found.solo[family] = [sum(one.complete for one in solo), len(solo)]
        found.helped[family] = [
            sum(one.complete for one in helped), sum(one.asks > 0 for one in helped), len(helped)
        ]  # fmt: skip
    return found


def share_of(step: int, steps: int) -> float:
    """Return the part of the learning rate at a step: a short warm-up, then a fall to a tenth."""
    return min(1.0, step / WARM_UP) * (1 - 0.9 * (step - 1) / max(1, steps))
