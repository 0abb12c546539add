"""`make train-real`: rounds of SmolLM2-135M on help desks, each served by llama.cpp and tried by the product as an arm.

1. *base*: the packaged model. 2. *sft*: demonstrations. 3. *ask*: its own rollouts with a simulated human, kept where
they are verified, and the demonstrations; *alone* is the same without anyone to ask. 4. *dpo*: pairs of actions at one
state. 5. *grpo*: rollouts on the environment server, drawn by llama.cpp.

SEED, DESKS and HELD (desks of TASKS tasks each), STEPS (optimizer steps of a round), ROLLOUTS (of every third task, for
*ask*), ROUNDS, MINUTES (no round begins later), STATE and REPORT are read from the environment. A stopped call goes on.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from examples.grpo.rollouts import Place
from examples.train_demo.playing import answer_of, answering
from examples.train_real import drawing, page
from examples.train_real.lab import DRAWN, GREEDY, NAMES, NEW_TOKENS, SLOTS, Lab, Size, lab, ordered
from tests.running import ROOT


def setting(name: str, default: str) -> str:
    return os.environ.get(name) or default


SIZE = Size(*(int(setting(name, default)) for name, default in (
    ("SEED", "1"), ("DESKS", "12"), ("HELD", "10"), ("TASKS", "20"), ("STEPS", "240"), ("ROLLOUTS", "4"),
)))  # fmt: skip
ROUNDS = setting("ROUNDS", "sft,ask,alone,dpo,grpo").split(",")
MINUTES = float(setting("MINUTES", "100000"))
STATE = Path(setting("STATE", str(ROOT / "var" / "train-real"))) / f"seed-{SIZE.seed}"
REPORT = Path(setting("REPORT", str(ROOT / "docs" / "measured" / "train-real.md")))
ASKING = {"expert": "plain", "experts": "registry"}
BEGAN = time.monotonic()
BEFORE = float((STATE / "seconds").read_text()) if (STATE / "seconds").exists() else 0.0


def say(text: str) -> None:
    print(f"[{time.monotonic() - BEGAN:5.0f} s] {text}", flush=True)


class Rounds:
    """The rounds of one seed, in their order. Each begins where the one that it names ended."""

    def __init__(self, at: Lab) -> None:
        self.lab, self.size = at, at.size
        self.run = at.learner_run()
        self.done: dict[str, dict[str, Any]] = {}
        self.demos, self.rolled = "", list[str]()

    def go(self) -> None:
        self.lab.load()
        self.lab.unpack()
        for at, name in enumerate(ROUNDS, 1):
            if time.monotonic() - BEGAN > 60 * MINUTES:
                say(f"{name} and later rounds: no time is left")
                return
            say(f"round {at} of {len(ROUNDS)}, {name}")
            took = getattr(self, name)()
            if took is None:
                say(f"{name}: no rows, so no round")
                continue
            self.done[name] = took
            self.lab.report(self.run, NAMES.index(name), name, took, took["dataset"])

    def _learned(self, name: str, kind: str, begin: str, rows: list[Any], dataset: str) -> dict[str, Any] | None:
        if not rows:
            return None
        took = self.lab.learn(kind, begin, rows, name)
        say(f"{name}: {took}")
        return {**took, "rows": len(rows), "dataset": dataset, "begin": begin}

    def sft(self) -> dict[str, Any] | None:
        """Learn from the demonstrations. Those that ask are answered by the registry of the task."""
        self.demos = self.lab.run("demonstrations", self.lab.tasks, [{"name": "demo", **ASKING}], policy="script:demo")
        rows, dataset = self.lab.export("demonstrations", "sft", {"run": [self.demos]})
        return self._learned("sft", "sft", "base", rows, dataset)

    def ask(self) -> dict[str, Any] | None:
        """Learn from its own verified rollouts with someone to ask, beside the demonstrations."""
        return self._sampled("ask", ASKING)

    def alone(self) -> dict[str, Any] | None:
        """Learn from the same without anyone to ask, with as many steps."""
        return self._sampled("alone", {"expert": "off"})

    def _sampled(self, name: str, help_of: dict[str, Any]) -> dict[str, Any] | None:
        arms = [{"name": name, "policy": "model:sft", "options": DRAWN, **help_of}]
        with self.lab.serving("sft"):
            run = self.lab.run(f"rollouts {name}", self.lab.tasks[::3], arms, seeds=self.size.rollouts)
        self.rolled.append(run)
        rows, dataset = self.lab.export(name, "sft", {"run": [self.demos, run]})
        return self._learned(name, "sft", "sft", rows, dataset)

    def dpo(self) -> dict[str, Any] | None:
        """Learn from pairs of actions at one state: siblings of the rollouts, and what people corrected or forked."""
        rows, dataset = self.lab.export("dpo", "dpo", {"run": self.rolled}, include=["corrections"])
        return self._learned("dpo", "dpo", self._last("ask", "sft"), rows, dataset)

    def grpo(self) -> dict[str, Any] | None:
        """Learn from rollouts on the environment server, drawn by llama.cpp: one on-policy step of all groups."""
        begin = self._last("dpo", "ask", "sft")
        limits = {"longest": 2048, "new_tokens": NEW_TOKENS, "max_steps": 8, "ask_deadline_s": 60, "timeout_s": 3600}
        place = Place(self.lab.product.url, self.lab.agent, self.lab.environment_url, **limits)
        tasks = [(name.rpartition("/")[0], int(name.rpartition("/")[2])) for name in self.lab.tasks[:: self.size.desks]]

        def draw() -> list[dict[str, Any]]:
            about = {"run": self.run, "training_step": NAMES.index("grpo")}
            # no simulated human is behind the asks of a loop of one's own
            with self.lab.serving(begin) as at, answering(self.lab.desk, answer_of(self.size.worlds())):
                return asyncio.run(drawing.rows(place, at[begin], self.lab.folder_of(begin), tasks, 4, about, say))

        return self._learned("grpo", "grpo", begin, self.lab.once("grpo.rollouts", draw), "")

    def _last(self, *names: str) -> str:
        return next(name for name in names if name in self.done)

    def tried(self) -> list[dict[str, Any]]:
        """Try every round's model on the held-out tasks, greedily and with someone to ask: the rounds beside their
        start, and in a run of its own *ask* beside *alone*, the question that both are for."""
        of_question = [name for name in ("alone", "ask") if name in self.done]
        beside = of_question if len(of_question) == 2 else []
        rounds = [name for name in ("base", *self.done) if name not in beside]
        return [self._compared(names) for names in (rounds, beside) if names]

    def _compared(self, names: list[str]) -> dict[str, Any]:
        arms = [{"name": name, "policy": f"model:{name}", "options": GREEDY, **ASKING} for name in names]
        key, parallel = f"{len(self.lab.held)} held out, {' '.join(names)}", SLOTS * len(names)
        with self.lab.serving(*names):
            return self.lab.comparison(self.lab.run(key, self.lab.held, arms, control=names[0], parallel=parallel))


def spent() -> float:
    """Return the seconds of all calls so far, and keep them."""
    file = STATE / "seconds"
    seconds = BEFORE + time.monotonic() - BEGAN
    file.write_text(f"{seconds:.0f}")
    return seconds


def main() -> None:
    ordered(ROUNDS)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what it started ends with it
    with lab(STATE, NAMES, SIZE, say) as at:
        try:
            rounds = Rounds(at)
            rounds.go()
            comparisons = rounds.tried()
            page.write(REPORT, SIZE.seed, asdict(SIZE), rounds.done, at.rounds(rounds.run), comparisons, spent())
        finally:
            spent()
        say(f"written: {REPORT}")


if __name__ == "__main__":
    main()
