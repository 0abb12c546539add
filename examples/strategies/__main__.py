"""`make strategies` and `make prices`: ways of offering help, each trained from the same starts on the same tasks.

Everything is kept in a state folder (`state.py`): a command that was killed goes on where it was, and one that is
through only writes its page. SEEDS (a number, or several: `1,2,3`), STATE, REPORT and SMALL (a plan of seconds, to try
the command) are read from the environment.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from examples.strategies import page
from examples.strategies.plan import PRICED, STRATEGIES, Plan
from examples.strategies.state import State, write_whole
from examples.strategies.training import look_at_start, train
from examples.train_demo.house import House, Start, held_worlds, kept_start, trained_start, training_worlds
from examples.train_demo.playing import answer_of, answering, ground, places
from tests.running import ROOT, product

RECORDED = 1 / 32
"""The chance of a rollout to be recorded in the product; counts and rewards are of all."""
HELD_SEED = 40
"""Held-out desks are the same for all seeds."""
PLANS = {"strategies": Plan(STRATEGIES), "prices": Plan(PRICED)}
SMALL = {"sft_updates": 60, "steps": 3, "groups": 2, "group": 4, "held_desks": 1, "looks": 1, "look_tasks": 10}


def main() -> None:
    kind = sys.argv[1] if len(sys.argv) > 1 else "strategies"
    plan = replace(PLANS[kind], **(SMALL if os.environ.get("SMALL") else {}))
    said = os.environ.get("SEEDS", "6")
    seeds = [int(one) for one in said.split(",")] if "," in said else list(range(1, int(said) + 1))
    state = State(Path(os.environ.get("STATE") or ROOT / "var" / "strategies"), plan)
    report = Path(os.environ.get("REPORT") or ROOT / "docs" / "measured" / f"{kind}.md")
    if any(unit.result is None for unit in state.units(seeds)):
        torch.set_num_threads(1)
        play(state, seeds, lambda: show(kind, state, seeds, report))
    show(kind, state, seeds, report)


def show(kind: str, state: State, seeds: list[int], report: Path) -> None:
    """Write the page of the seeds that are through."""
    results = state.whole(seeds)
    starts = {seed: json.loads((state.seed(seed) / "start.json").read_text()) for seed in results}
    page.write(kind, state.plan, starts, results, report)
    say(f"{report} is written, of {len(results)} of {len(seeds)} seeds")


BEGAN = time.monotonic()


def say(text: str) -> None:
    print(f"[{time.monotonic() - BEGAN:5.0f} s] {text}", flush=True)


def play(state: State, seeds: list[int], ended: Callable[[], None]) -> None:
    """Play what is left, one seed after another, in one product. `ended` is called after each."""
    plan = state.plan
    held = held_worlds(HELD_SEED, plan.held_desks)
    with product() as running:
        house = House(running, say)
        say("the product is ready")
        house.load(held, "held")
        house.pin([world for seed in seeds for world in training_worlds(seed)], held)
        for seed in seeds:
            left = [unit for unit in state.units([seed]) if unit.result is None]
            if not left:
                say(f"seed {seed} is through")
                continue
            worlds = training_worlds(seed)
            house.load(worlds, f"desks_{seed}")
            start = kept_start(state.seed(seed), lambda: made_start(house, seed, plan, worlds))  # noqa: B023
            say(f"seed {seed} starts from {start.digest}: {len(start.rows)} rows, {start.updates} updates")
            with answering(house.desk, answer_of([*worlds, *held])):
                asyncio.run(arms(state, seed, left, house, start, worlds, held))
            ended()


def made_start(house: House, seed: int, plan: Plan, worlds: list[Any]) -> Start:
    return trained_start(house.demonstrations(worlds), seed, plan.sft_updates, say)


async def arms(
    state: State, seed: int, left: list[Any], house: House, start: Start, worlds: list[Any], held: list[Any]
) -> None:
    plan, file = state.plan, state.seed(seed) / "start.json"
    on = (house.environment_url, house.product.url, house.agent)
    async with ground(*on, share=RECORDED, seed=seed) as place:
        if not file.exists():
            about = {"digest": start.digest, "rows": len(start.rows), "updates": start.updates}
            about |= {"look": await look_at_start(start, place, places(held), plan)}
            write_whole(file, lambda unready: unready.write_text(json.dumps(about)))
        for unit in left:
            began = time.monotonic()
            await train(unit, plan, start, place, places(worlds), places(held), say)
            last = (unit.result or {})["looks"][-1]
            say(f"seed {seed}, {unit.arm.name}: alone {last['solo']:.0%}, with an expert {last['offered']:.0%} "
                f"complete of held-out tasks, {time.monotonic() - began:.0f} s")  # fmt: skip


if __name__ == "__main__":
    main()
