"""The product as the examples use it: desks loaded, demonstrations run and exported, a start trained and kept."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from examples.train_demo.learning import Say, Until, sft
from examples.train_demo.model import Size, Tiny
from examples.train_demo.playing import LIMITS, answer_all, answer_of, places
from examples.train_demo.words import told, trained_tokenizer
from examples.train_demo.worlds import FAMILIES, World, write_worlds
from tests.running import ROOT, Product

WORLDS, TASKS = 12, 20
HELD_FIRST = 900_000
"""The seeds of held-out desks begin here, so that no training desk is one."""


def training_worlds(seed: int) -> list[World]:
    return [World(1000 * seed + at, FAMILIES, TASKS) for at in range(WORLDS)]


def held_worlds(seed: int, count: int) -> list[World]:
    return [World(HELD_FIRST + 1000 * seed + at, FAMILIES, TASKS) for at in range(count)]


class House:
    """A running product."""

    def __init__(self, running: Product, say: Say) -> None:
        self.product, self.say = running, say
        self.agent, self._expert = running.token("agent"), running.token("expert")
        self._launch = running.http(running.token("launch"))
        self.environment_url = f"http://127.0.0.1:{running.environment['AWMENV_PORT']}"

    def desk(self) -> Any:
        """Return a client of an expert."""
        return self.product.http(self._expert)

    def load(self, worlds: Sequence[World], name: str) -> None:
        """Load these desks as a pack of this name."""
        with tempfile.TemporaryDirectory() as folder:
            pack = write_pack(Path(folder), worlds, name)
            self.say(self.product.manage("loadpack", str(pack), "--unchecked").strip().replace("\n", " | "))

    def pin(self, worlds: Sequence[World], held: Sequence[World]) -> None:
        """Pin the tasks of the desks held out, so that no export has them."""
        sides = {side: [[one.world.name, one.at] for one in places(some)]
                 for side, some in (("train", worlds), ("val", held))}  # fmt: skip
        with tempfile.NamedTemporaryFile("w", suffix=".json") as split:
            json.dump(sides, split)
            split.flush()
            self.say(self.product.manage("build_split", "--read", split.name, "--name", "desks").strip())

    def demonstrations(self, worlds: Sequence[World]) -> list[dict[str, Any]]:
        """Play each task's demonstration, and return the rows of an `sft` export of them in an order of their own."""
        alone, helped = (
            [one.name for one in places(worlds) if (one.task.demo == "alone") is solo] for solo in (True, False)
        )
        runs = [self._play("alone", alone, "off", worlds), self._play("helped", helped, "plain", worlds)]
        file = self.product.var / "demonstrations.jsonl"
        filters = [word for run in runs for word in ("--filter", f"run={run}")]
        said = self.product.manage("export", "--format", "sft", *filters, "--output", str(file))
        self.say(said.strip().replace("\n", " | "))
        found = [json.loads(line) for line in file.read_text().splitlines()]
        # episodes end in any order, and IDs differ each time: only what is learned from may decide the start
        kept = [{name: row[name] for name in ("messages", "tools", "expert_calls")} for row in found]
        return sorted(kept, key=lambda row: json.dumps(told(row["messages"], row["tools"])))

    def _play(self, name: str, tasks: Sequence[str], expert: str, worlds: Sequence[World]) -> str:
        """Launch a run of demonstrations and wait for its end, answering what is asked; returns the run's ID."""
        plan = {"name": name, "tasks": tasks, "arms": [{"name": "demo", "expert": expert}], "policy": "script:demo"}
        made = self._launch.post("/runs", json={"name": name, "plan": {**LIMITS, "parallel": 12, **plan}})
        if made.is_error:
            raise RuntimeError(made.text)
        run, began = str(made.json()["id"]), time.monotonic()
        with self.desk() as desk:
            while self._launch.get(f"/runs/{run}/comparison").raise_for_status().json()["state"] != "finished":
                answer_all(desk, answer_of(worlds))
                time.sleep(0.5)
        self.say(f"run {name} took {time.monotonic() - began:.0f} s")
        return run


def write_pack(folder: Path, worlds: Sequence[World], name: str) -> Path:
    write_worlds(folder / "sources", list(worlds))
    command = [sys.executable, str(ROOT / "packs/sources/build.py"), "--sources", str(folder / "sources")]
    subprocess.run([*command, "--output", str(folder / name)], check=True, stdout=subprocess.DEVNULL)
    return folder / name


@dataclass(frozen=True)
class Start:
    """What a seed makes before the arms part: the rows of demonstrations, a tokenizer and the weights after SFT."""

    rows: list[dict[str, Any]]
    tokenizer: Tokenizer
    weights: dict[str, torch.Tensor]
    updates: int
    seconds: float

    def model(self) -> Tiny:
        """Return a copy of the model."""
        model = Tiny(Size(self.tokenizer.get_vocab_size()))
        model.load_state_dict(self.weights)
        return model

    @property
    def digest(self) -> str:
        """A name of tokenizer and weights: equal in every process that made them from the same seed."""
        return digest_of(self.tokenizer, self.weights)


def digest_of(tokenizer: Tokenizer, weights: dict[str, torch.Tensor]) -> str:
    found = hashlib.sha256(tokenizer.to_str().encode())
    for name in sorted(weights):
        found.update(name.encode() + weights[name].detach().numpy().tobytes())
    return found.hexdigest()[:12]


def trained_start(rows: list[dict[str, Any]], seed: int, updates: int, say: Say) -> Start:
    """Train tokenizer and model from nothing, by the seed alone."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    tokenizer = trained_tokenizer([text for row in rows for text, _ in told(row["messages"], row["tools"])])
    model = Tiny(Size(tokenizer.get_vocab_size()))
    learned = sft(model, tokenizer, rows, seed=seed, until=Until(updates=updates), say=say)
    return Start(rows, tokenizer, model.state_dict(), learned.updates, learned.seconds)


def kept_start(folder: Path, make: Callable[[], Start]) -> Start:
    """Return the start in a folder, made and written there if there is none."""
    file = folder / "start.pt"
    if not file.exists():
        start = make()
        folder.mkdir(parents=True, exist_ok=True)
        unready = file.with_suffix(".new")
        torch.save({**vars(start), "tokenizer": start.tokenizer.to_str()}, unready)
        unready.replace(file)
    found = torch.load(file, weights_only=True)
    return Start(**{**found, "tokenizer": Tokenizer.from_str(found["tokenizer"])})
