"""`make train-demo`: demonstrations on the environment server, SFT on their export, GRPO on the environment server, and
what held-out tasks show, as a run of the product.

Everything is from scratch: a pack drawn from seeds, a product in a temporary folder, a tokenizer and a model of its
own. SEED, SFT_S, GRPO_S (seconds) and REPORT (the page to write) are read from the environment.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from tokenizers import Tokenizer

from awmclient.client import HttpDashboard
from awmclient.collecting import CollectingDashboard
from awmclient.rollout import rollout
from awmenv.batches import EnvironmentBatch
from awmenv.client import EnvironmentClient
from examples.train_demo import results
from examples.train_demo.learning import Played, grpo_update, sft
from examples.train_demo.model import Size, Tiny, optimizers
from examples.train_demo.playing import Endpoint, Sampler, TinyPolicy
from examples.train_demo.words import told, trained_tokenizer
from examples.train_demo.worlds import FAMILIES, World, write_worlds
from tests.running import ROOT, Product, free_ports, product

SEED = int(os.environ.get("SEED", "1"))
SFT_S, GRPO_S = float(os.environ.get("SFT_S", "130")), float(os.environ.get("GRPO_S", "100"))
REPORT = Path(os.environ.get("REPORT", str(ROOT / "docs" / "measured" / "train-demo.md")))
WORLDS, HELD_WORLDS, TASKS = 12, 5, 20
GROUPS, GROUP, GRPO_LR = 6, 8, 5e-4
MODELS = ("untrained", "sft", "more_sft", "grpo")
LIMITS = {"max_steps": 8, "nudge_after": 0, "stall_after": 0}


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
        """Replace this seed's part of the page; those of other seeds stay."""
        mark = f"\n## Seed {SEED}\n"
        head, *parts = (REPORT.read_text() if REPORT.exists() else HEAD).split("\n## Seed ")
        kept = {int(part.partition("\n")[0]): f"\n## Seed {part}" for part in parts}
        kept[SEED] = mark + "\n" + "\n".join(self._lines) + "\n"
        page = head + "".join(kept[seed].rstrip("\n") + "\n" for seed in sorted(kept))
        REPORT.write_text(page)
        if "REPORT" not in os.environ:
            results.write(ROOT / "awmenv" / "README.md", page)


HEAD = """# A small model that learns here

Written by `make train-demo` ([how](../training.md)); no figure is by hand. Each part is one seed. All arms of a
run play the same held-out tasks without an expert, greedily, and the environment's verifier judges.
"""


class DemoProduct:
    """The product as the demo uses it."""

    def __init__(self, running: Product, report: Report) -> None:
        self.product, self._report = running, report
        self.agent = running.token("agent")
        self._launch, self._export = running.http(running.token("launch")), running.http(running.token("export"))
        self._desk = running.http(running.token("expert"))

    def play(self, plan: dict[str, Any], notes: dict[str, str] | None = None) -> str:
        """Launch a plan and wait for its end, answering asks by the name in their question; returns the run's ID."""
        body = {"name": plan["name"], "plan": {**LIMITS, "parallel": 12, **plan}}
        made = self._launch.post("/runs", json=body)
        if made.is_error:
            raise RuntimeError(made.text)
        run, began = str(made.json()["id"]), time.monotonic()
        while self._comparison(run)["state"] != "finished":
            for ask in self._desk.get("/asks", params={"status": "open"}).raise_for_status().json()["asks"]:
                self._answer(ask, notes or {})
            time.sleep(1.0)
        self._report.say(f"run {plan['name']} took {time.monotonic() - began:.0f} s")
        return run

    def _answer(self, ask: dict[str, Any], notes: dict[str, str]) -> None:
        known = [text for name, text in notes.items() if ask["question"].rstrip("?. ").endswith(name)]
        claimed = self._desk.post(f"/asks/{ask['id']}/claim", json={})
        if claimed.is_error or not known:
            return
        lease = claimed.json()
        body = {"lease_token": lease["lease_token"], "text": known[0], "nonce": f"note-{ask['id']}"}
        self._desk.post(f"/assignments/{lease['assignment']}/answer", json=body).raise_for_status()

    def rows(self, runs: list[str]) -> list[dict[str, Any]]:
        """Return the rows of an `sft` export of these runs."""
        file = self.product.var / "demonstrations.jsonl"
        filters = [word for run in runs for word in ("--filter", f"run={run}")]
        said = self.product.manage("export", "--format", "sft", *filters, "--output", str(file))
        self._report.say(said.strip().replace("\n", " | "))
        return [json.loads(line) for line in file.read_text().splitlines()]

    def shown(self, run: str) -> list[str]:
        """Return what the product's comparison of a run says."""
        found = self._comparison(run)
        counts = [
            f"- {arm['name']}: {arm['complete']} of {arm['complete'] + arm['others']} complete" for arm in found["arms"]
        ]
        return counts + [f"- {one['arm']} against {found['control']}: {one['sentence']}" for one in found["contrasts"]]

    def _comparison(self, run: str) -> dict[str, Any]:
        return dict(self._launch.get(f"/runs/{run}/comparison").raise_for_status().json())


async def _group(
    dash: CollectingDashboard, batch: EnvironmentBatch, sampler: Sampler, world: World, at: int, **about: Any
) -> list[Played]:
    async def one() -> Played:
        policy, rewards = TinyPolicy(sampler), list[float]()

        async def verdict(env: EnvironmentClient, answer: str | None) -> None:
            rewards.append(float((await env.verify(answer)).reward_type == "complete"))

        async with batch.client() as env:
            place = {"scenario": world.name, "task_idx": at, "split": "train"}
            text = world.tasks[at].text
            await rollout(policy, env, dash, task=text, on_end=verdict, verify=True, **LIMITS, **place, **about)
        policy.played.reward, policy.played.counts = (rewards or [0.0])[0], bool(rewards)
        return policy.played

    return list(await asyncio.gather(*(one() for _ in range(GROUP))))


async def grpo(house: DemoProduct, model: Tiny, tokenizer: Tokenizer, worlds: list[World], report: Report) -> float:
    """Train on rollouts of training tasks for GRPO_S seconds; returns the seconds it took."""
    places = [(world, at) for world in worlds for at, task in enumerate(world.tasks) if not task.note]
    order = torch.randperm(len(places), generator=torch.Generator().manual_seed(SEED)).tolist()
    both, sampler = optimizers(model, GRPO_LR), Sampler(model, tokenizer, 1.0)
    url = f"http://127.0.0.1:{house.product.environment['AWMENV_PORT']}"
    began, step, rollouts, means = time.monotonic(), 0, 0, list[float]()
    async with HttpDashboard(house.product.url, house.agent) as http, EnvironmentBatch(url) as batch:
        dash = CollectingDashboard(http)
        run = await http.start_run(f"grpo seed {SEED}")
        while (gone := (time.monotonic() - began) / GRPO_S) < 1:
            chosen = [places[order[(step * GROUPS + at) % len(order)]] for at in range(GROUPS)]
            step += 1
            about = {"run": run, "training_step": step}
            groups = await asyncio.gather(*(_group(dash, batch, sampler, world, at, **about) for world, at in chosen))
            losses = grpo_update(model, both, groups, min(1.0, step / 5) * (1 - 0.9 * gone))
            means.append(fmean(one.reward for group in groups for one in group))
            rollouts += sum(len(group) for group in groups)
            await http.report_step(run, step, losses=losses, components={"primary": means[-1]})
            report.say(f"  step {step}: mean reward {means[-1]:.2f}, {losses}")
    took = time.monotonic() - began
    half = (step + 1) // 2
    report.add(
        f"- GRPO: {step} steps, {rollouts} rollouts on the environment server, {took:.0f} s; mean reward "
        f"{fmean(means[:half]):.2f} in the first half of the steps, {fmean(means[-half:]):.2f} in the last"
    )
    return took


def write_pack(folder: Path, worlds: list[World]) -> Path:
    write_worlds(folder / "sources", worlds)
    command = [sys.executable, str(ROOT / "packs/sources/build.py"), "--sources", str(folder / "sources")]
    subprocess.run([*command, "--output", str(folder / "desks")], check=True, stdout=subprocess.DEVNULL)
    return folder / "desks"


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    began, report = time.monotonic(), Report()
    worlds = [World(1000 * SEED + at, FAMILIES, TASKS) for at in range(WORLDS)]
    held = [World(900_000 + 1000 * SEED + at, FAMILIES[:4], TASKS) for at in range(HELD_WORLDS)]
    (port,) = free_ports(1)
    endpoint = Endpoint(port)
    agents = {f"AWMWEB_AGENT_{name.upper()}_BASE_URL": endpoint.base_url for name in MODELS}
    agents |= {f"AWMWEB_AGENT_{name.upper()}_MODEL": name for name in MODELS}
    with tempfile.TemporaryDirectory() as folder, endpoint.serving():
        pack = write_pack(Path(folder), [*worlds, *held])
        report.say("the pack is written")
        with product(AWMWEB_AGENTS=",".join(MODELS), **agents) as running:
            report.say("the product is ready")
            run_demo(DemoProduct(running, report), endpoint, worlds, held, pack, report)
    load = os.getloadavg()[1]
    report.add(
        f"- {time.monotonic() - began:.0f} s in all, on {os.cpu_count()} cores with a load of {load:.0f} (the mean of "
        "five minutes, with other work): above the number of cores, all times are longer than on a quiet machine"
    )
    report.write()


def run_demo(
    house: DemoProduct, endpoint: Endpoint, worlds: list[World], held: list[World], pack: Path, report: Report
) -> None:
    report.say(house.product.manage("loadpack", str(pack), "--unchecked").strip().replace("\n", " | "))
    pin(house, worlds, held, pack.parent, report)
    places = {f"{world.name}/{at}": task for world in worlds for at, task in enumerate(world.tasks)}
    solo, asking = ([place for place, task in places.items() if bool(task.note) is asks] for asks in (False, True))
    notes = {task.text.partition(" of ")[2]: task.note for world in worlds for task in world.tasks if task.note}
    scripted = {"policy": "script:demo"}
    alone, helped = [{"name": "solo", "expert": "off"}], [{"name": "helped", "expert": "plain"}]
    runs = [
        house.play({**scripted, "name": "demonstrations", "tasks": solo, "arms": alone}),
        house.play({**scripted, "name": "answered", "tasks": asking, "arms": helped}, notes),
    ]
    rows = house.rows(runs)
    asked = sum(row["expert_calls"] > 0 for row in rows)
    report.add(f"- {len(rows)} rows of the `sft` export, {asked} with an ask; {len(held) * TASKS} held-out tasks")
    tokenizer = trained_tokenizer([text for row in rows for text, _ in told(row["messages"], row["tools"])])
    models = {"untrained": Tiny(Size(tokenizer.get_vocab_size()))}
    models["sft"] = copy.deepcopy(models["untrained"])
    size = sum(weight.numel() for weight in models["sft"].parameters())
    updates = sft(models["sft"], tokenizer, rows, seed=SEED, seconds=SFT_S, say=report.say)
    report.add(f"- {size:,} parameters, {tokenizer.get_vocab_size()} tokens; SFT: {updates} updates in {SFT_S:.0f} s")
    models["grpo"], models["more_sft"] = copy.deepcopy(models["sft"]), copy.deepcopy(models["sft"])
    tasks = [f"{world.name}/{at}" for world in held for at in range(TASKS)]
    endpoint.models = {name: Sampler(model, tokenizer, 0.0) for name, model in models.items()}
    took = asyncio.run(grpo(house, models["grpo"], tokenizer, worlds, report))
    more = sft(models["more_sft"], tokenizer, rows, seed=SEED + 1, seconds=took, say=report.say)
    report.add(f"- more SFT for the same {took:.0f} s: {more} updates")
    for name, arms in (("Before and after", ("untrained", "sft", "grpo")), ("GRPO or more SFT", ("more_sft", "grpo"))):
        planned = [{"name": arm, "expert": "off", "policy": f"model:{arm}"} for arm in arms]
        run = house.play({"name": name, "tasks": tasks, "arms": planned})
        report.add("", f"**{name}**, the product's comparison:", "", *house.shown(run))
        report.write()
    report.add("")


def pin(house: DemoProduct, worlds: list[World], held: list[World], folder: Path, report: Report) -> None:
    """Pin the held-out tasks, so that no export has them."""
    sides = {
        side: [[world.name, at] for world in some for at in range(TASKS)]
        for side, some in (("train", worlds), ("val", held))
    }
    (folder / "split.json").write_text(json.dumps(sides))
    report.say(house.product.manage("build_split", "--read", str(folder / "split.json"), "--name", "desks").strip())


if __name__ == "__main__":
    main()
