"""`make train-demo`: demonstrations on the environment server, SFT on their export up to a start that still rises, then
GRPO on fresh desks against more SFT, and what held-out tasks show.

Everything is from scratch: desks drawn from seeds, a product in a temporary folder, a tokenizer and a model of its own.
SEED, SFT_UPDATES, GRPO_S (seconds), HELD (desks of 20 tasks), STATE (where the start is kept) and REPORT (the page to
write) are read from the environment.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from examples.train_demo import results
from examples.train_demo.grpo import GROUP, GROUPS, Stepped, adamw, share_of, stepped, tasks_of
from examples.train_demo.house import (
    TASKS,
    House,
    Start,
    held_worlds,
    kept_start,
    trained_start,
    training_worlds,
)
from examples.train_demo.learning import Until, sft
from examples.train_demo.model import Tiny
from examples.train_demo.playing import Ground, Reading, Sampler, answer_of, answering, ground, places
from examples.train_demo.worlds import FAMILIES, World
from runs.statistics.compare import Try, contrasts
from runs.statistics.deciding import PLANNED, RUNNING, Statement
from tests.running import ROOT, product

SEED = int(os.environ.get("SEED") or "1")
SFT_UPDATES, GRPO_S = int(os.environ.get("SFT_UPDATES") or "600"), float(os.environ.get("GRPO_S") or "170")
HELD = int(os.environ.get("HELD") or "25")
STATE = Path(os.environ.get("STATE") or ROOT / "var" / "train-demo")
REPORT = Path(os.environ.get("REPORT") or ROOT / "docs" / "measured" / "train-demo.md")
RECORDED = 1 / 16
"""The chance of a rollout to be recorded in the product; counts and rewards are of all."""
AGAINST = ("start", "more_sft_time", "more_sft_episodes")
READINGS = {"greedily": 0.0, "at temperature 1": 1.0}


class Report:
    """The page, written line by line and shown as it grows."""

    def __init__(self) -> None:
        self._began, self._lines = time.monotonic(), list[str]()

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self._began:4.0f} s] {text}", flush=True)

    def add(self, *lines: str) -> None:
        for line in lines:
            self.say(line)
        self._lines += lines

    def write(self) -> None:
        """Replace this seed's part of the page; those of other seeds stay if they are of this form."""
        head, *parts = (REPORT.read_text() if REPORT.exists() else HEAD).split("\n## Seed ")
        kept = {int(part.partition("\n")[0]): f"\n## Seed {part}" for part in parts} if head == HEAD else {}
        kept[SEED] = f"\n## Seed {SEED}\n\n" + "\n".join(self._lines) + "\n"
        page = HEAD + "".join(kept[seed].rstrip("\n") + "\n" for seed in sorted(kept))
        REPORT.write_text(page)
        if not os.environ.get("REPORT"):
            results.write(ROOT / "awmenv" / "README.md", page)


HEAD = """# A small model that learns here

Written by `make train-demo` ([how](../training.md)); no figure is by hand. Each part is one seed. All models try the
same held-out tasks, where an expert may be asked, and the environment's verifier judges. *Needed* asks are of the 20%
of tasks whose fact only the expert has.
"""


async def grpo(
    place: Ground, start: Start, worlds: Sequence[World], report: Report
) -> tuple[Tiny, float, list[Stepped]]:
    """Train a copy of the start on rollouts of fresh desks for GRPO_S seconds; half of each group may ask."""
    model = start.model()
    optimizer, sampler, steps = adamw(model), Sampler(model, start.tokenizer, 1.0), list[Stepped]()
    run = await place.start_run(f"grpo seed {SEED}", {})
    began = time.monotonic()
    while (gone := (time.monotonic() - began) / GRPO_S) < 1:
        step = len(steps) + 1
        # as many steps in all as this pace allows
        share = share_of(step, max(step, round((step - 1) / gone) if step > 1 else step))
        counts, losses = await stepped(
            place, model, optimizer, tasks_of(places(worlds), SEED, step), lambda _: GROUP // 2,
            step=step, share=share, sampler=sampler, **run,
        )  # fmt: skip
        steps.append(counts)
        await place.report(run, step, losses, counts)
        report.say(f"  step {step}: {counts.primary:.2f} complete, {counts.asks} asks, {losses}")
    return model, time.monotonic() - began, steps


async def play(house: House, start: Start, worlds: list[World], held: list[World], report: Report) -> None:
    on = (house.environment_url, house.product.url, house.agent)
    async with ground(*on, share=RECORDED, seed=SEED) as place:
        model, took, steps = await grpo(place, start, worlds, report)
        rollouts, half = sum(one.rollouts for one in steps), (len(steps) + 1) // 2
        taught = sum(one.learned_from for one in steps) / max(1, rollouts)
        early, late = (sum(one.primary for one in some) / len(some) for some in (steps[:half], steps[-half:]))
        report.add(
            f"- GRPO: {len(steps)} steps of {GROUPS} groups of {GROUP}, {rollouts:,} rollouts on the environment "
            f"server, {took:.0f} s; {taught:.0%} of them in groups that differ; complete {early:.0%} in the first "
            f"half of the steps, {late:.0%} in the last"
        )
        models = {
            "start": start.model(),
            "more_sft_time": start.model(),
            "more_sft_episodes": start.model(),
            "grpo": model,
        }
        for name, until in (("more_sft_time", Until(seconds=took)), ("more_sft_episodes", Until(rows=rollouts))):
            learned = sft(models[name], start.tokenizer, start.rows, seed=SEED + 1, until=until, say=report.say)
            report.add(f"- {name}: {learned.updates:,} updates, {learned.rows:,} rows, {learned.seconds:.0f} s")
        for how, temperature in READINGS.items():
            tried = {
                name: await place.read(Sampler(one, start.tokenizer, temperature), places(held), helped=True)
                for name, one in models.items()
            }
            report.add("", f"**Read {how}**, the product's comparison:", "", *found(tried), "", *by_family(tried))
            report.write()


def found(tried: Mapping[str, Sequence[Reading]]) -> list[str]:
    """Return the counts, and what the product's comparison says of GRPO against each other model."""
    tries = [
        Try(one.place, one.place.partition("/")[0], name, 0, at, complete=one.complete, asked=one.asks > 0)
        for name, readings in tried.items()
        for at, one in enumerate(readings)
    ]
    counts = [
        f"- {name}: {sum(one.complete for one in readings)} of {len(readings)} complete"
        for name, readings in tried.items()
    ]
    planned = [Statement("grpo", other, PLANNED, RUNNING / len(AGAINST)) for other in AGAINST]
    return counts + [f"- {one.arm} against {one.control}: {one.sentence}" for one in contrasts(tries, planned)]


def by_family(tried: Mapping[str, Sequence[Reading]]) -> list[str]:
    lines = [
        f"| model | {' | '.join(FAMILIES)} | needed asks | needless asks |",
        "|---|" + "---:|" * (len(FAMILIES) + 2),
    ]
    for name, readings in tried.items():
        cells = []
        for family in FAMILIES:
            some = [one.complete for one in readings if one.family == family]
            cells.append(f"{sum(some)} of {len(some)}")
        for needs in (True, False):
            some = [one.asks > 0 for one in readings if one.needs is needs]
            cells.append(f"{sum(some)} of {len(some)}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    torch.set_num_threads(1)
    began, report = time.monotonic(), Report()
    worlds, held = training_worlds(SEED), held_worlds(SEED, HELD)
    with product() as running:
        house = House(running, report.say)
        report.say("the product is ready")
        house.load([*worlds, *held], "desks")
        house.pin(worlds, held)

        def made() -> Start:
            return trained_start(house.demonstrations(worlds), SEED, SFT_UPDATES, report.say)

        start = kept_start(STATE / f"seed-{SEED}-{SFT_UPDATES}", made)
        asked, size = sum(row["expert_calls"] > 0 for row in start.rows), sum(w.numel() for w in start.weights.values())
        report.add(
            f"- {len(start.rows)} rows of the `sft` export, {asked} with an ask; {HELD * TASKS} held-out tasks",
            f"- start {start.digest}: {size:,} parameters, {start.tokenizer.get_vocab_size()} tokens, "
            f"{start.updates} updates of SFT in {start.seconds:.0f} s",
        )
        with answering(house.desk, answer_of([*worlds, *held])):
            asyncio.run(play(house, start, worlds, held, report))
    load = os.getloadavg()[1]
    report.add(
        "",
        f"- {time.monotonic() - began:.0f} s in all, on {os.cpu_count()} cores with a load of {load:.0f} (the mean of "
        "five minutes, with other work): above the number of cores, all times are longer than on a quiet machine",
    )
    report.write()


if __name__ == "__main__":
    main()
