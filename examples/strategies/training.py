"""One arm of one seed: GRPO from the seed's start to the end of the plan, with checkpoints, and its held-out tasks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from examples.strategies.plan import help_of
from examples.strategies.state import Plan, Unit, write_whole
from examples.train_demo.grpo import adamw, share_of, stepped, tasks_of
from examples.train_demo.house import Start
from examples.train_demo.learning import Say
from examples.train_demo.playing import Ground, Place, Reading, Sampler

EVERY = 5
"""Steps from one checkpoint to the next."""


async def train(unit: Unit, plan: Plan, start: Start, ground: Ground, training: Sequence[Place],
                held: Sequence[Place], say: Say) -> None:  # fmt: skip
    """Train the unit from its last checkpoint on, read its model on held-out tasks, and keep the result."""
    model = start.model()
    optimizer = adamw(model)
    steps: list[dict[str, Any]] = []
    looks: list[dict[str, Any]] = []
    took = 0.0
    if unit.checkpoint.exists():
        kept = torch.load(unit.checkpoint, weights_only=True)
        model.load_state_dict(kept["model"])
        optimizer.load_state_dict(kept["optimizer"])
        steps, looks, took = kept["steps"], kept["looks"], kept["took"]
        say(f"  goes on after step {len(steps)}")
    name = f"seed {unit.seed} {unit.arm.name}"
    run = await ground.start_run(name, {"ask_price": unit.arm.price})
    sampler = Sampler(model, start.tokenizer, 1.0)
    began = time.monotonic() - took
    for step in range(len(steps) + 1, plan.steps + 1):
        # by seed and step: one that was killed draws as it would have
        torch.manual_seed(1_000_000 * unit.seed + step)
        tasks = tasks_of(training, unit.seed, step, plan.groups)
        counts, losses = await stepped(
            ground, model, optimizer, tasks, help_of(unit.arm, plan.group, steps),
            step=step, share=share_of(step, plan.steps), sampler=sampler, price=unit.arm.price, group=plan.group, **run,
        )  # fmt: skip
        steps.append(asdict(counts))
        await ground.report(run, step, losses, counts)
        if plan.looks_at(step) and step < plan.steps:
            looks.append({"step": step, **await _looked(ground, model, start, held[: plan.look_tasks])})
        if step % EVERY == 0:
            took = time.monotonic() - began
            kept = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "took": took}
            write_whole(
                unit.checkpoint, lambda file, kept=kept: torch.save({**kept, "steps": steps, "looks": looks}, file)
            )
            say(f"  {name}: step {step} of {plan.steps}, reward {counts.reward:.2f}, {counts.asks} asks, {took:.0f} s")
    solo, offered = [await ground.read(_greedy(model, start), held, helped=helped) for helped in (False, True)]
    looks.append({"step": plan.steps, "solo": _rate(solo), "offered": _rate(offered)})
    weights = dict(model.state_dict())
    write_whole(unit.folder / "model.pt", lambda file: torch.save(weights, file))
    unit.finish({
        "seed": unit.seed, "arm": unit.arm.name, "price": unit.arm.price, "start": start.digest, "steps": steps,
        "looks": looks, "solo": [asdict(one) for one in solo], "offered": [asdict(one) for one in offered],
        "seconds": time.monotonic() - began,
    })  # fmt: skip


async def look_at_start(start: Start, ground: Ground, held: Sequence[Place], plan: Plan) -> dict[str, Any]:
    """Return what every arm of the seed begins with."""
    return {"step": 0, **await _looked(ground, start.model(), start, held[: plan.look_tasks])}


async def _looked(ground: Ground, model: Any, start: Start, some: Sequence[Place]) -> dict[str, float]:
    greedy = _greedy(model, start)
    return {name: _rate(await ground.read(greedy, some, helped=helped))
            for name, helped in (("solo", False), ("offered", True))}  # fmt: skip


def _greedy(model: Any, start: Start) -> Sampler:
    return Sampler(model, start.tokenizer, 0.0)


def _rate(readings: Sequence[Reading]) -> float:
    return sum(one.complete for one in readings) / len(readings)
