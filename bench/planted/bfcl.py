"""Ask-F1 of simple policies on BFCL v4 `miss_param`, with scripted agents that act by the ground truth.

In a turn without ground truth a parameter is missing until the user's next words, so that is where an agent must ask.
An ask matches if its turn is one of those. No model takes part: the table is what any other policy has to beat. Run as
`python -m bench.planted.bfcl` where the package `bfcl-eval` is installed (`make test-worlds` makes such an
environment); it writes docs/measured/asking-bfcl.md.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "awmweb.settings")
import django

django.setup()

from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.model_selection import GroupKFold, cross_val_predict  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402

from awmenv.worlds.bfcl import PACKAGE, BfclPackage, BfclTask  # noqa: E402
from runs.statistics.asking import EpisodeAsks, of_arms  # noqa: E402

DRAWS = 200
PAGE = Path(__file__).resolve().parents[2] / "docs" / "measured" / "asking-bfcl.md"
Policy = Callable[[Sequence[int]], list[bool]]
"""From the numbers of a task's turns, from 0, to whether it asks in each."""


@dataclass(frozen=True)
class Turns:
    """The turns of one task: the user's words, and whether something is missing in them."""

    name: str
    words: list[str]
    needed: list[bool]


def turns_of(task: BfclTask) -> Turns:
    words = [" ".join(message.get("content", "") for message in turn) for turn in task.entry["question"]]
    return Turns(task.scenario, words, [not calls for calls in task.truth])


def asked(arm: str, task: Turns, asks: Sequence[bool]) -> EpisodeAsks:
    matched = sum(ask and needed for ask, needed in zip(asks, task.needed, strict=True))
    return EpisodeAsks(task.name, task.name, arm, sum(asks), matched, matched, sum(task.needed))


def features(task: Turns) -> list[list[float]]:
    """Return what is known before a turn's calls: its number, and the form of the user's words."""
    return [
        [number, len(text.split()), len(re.findall(r"\d", text)), text.count("'") + text.count('"'), text.count("?")]
        for number, text in enumerate(task.words)
    ]


def learned(tasks: Sequence[Turns]) -> dict[str, list[bool]]:
    """Return where a logistic regression asks in each task, fitted on other tasks; it asks as often as is needed."""
    rows = [row for task in tasks for row in features(task)]
    needed = [one for task in tasks for one in task.needed]
    groups = [task.name for task in tasks for _ in task.needed]
    model = make_pipeline(StandardScaler(), LogisticRegression())
    chances = cross_val_predict(model, rows, needed, groups=groups, cv=GroupKFold(5), method="predict_proba")[:, 1]
    least = sorted(chances, reverse=True)[sum(needed) - 1]
    left = iter(chances >= least)
    return {task.name: [bool(next(left)) for _ in task.needed] for task in tasks}


def main() -> None:
    package = BfclPackage()
    tasks = [turns_of(task) for task in package.tasks("miss_param")]
    turns, needed = sum(len(task.needed) for task in tasks), sum(sum(task.needed) for task in tasks)
    rate, draw, gate = needed / turns, random.Random(1), learned(tasks)
    policies: dict[str, Callable[[Turns], list[bool]]] = {
        "never": lambda task: [False] * len(task.needed),
        "in the first turn": lambda task: [number == 0 for number in range(len(task.needed))],
        "in every second turn": lambda task: [number % 2 == 1 for number in range(len(task.needed))],
        f"random, {rate:.0%} of turns": lambda task: [draw.random() < rate for _ in task.needed],
        "regression on the user's words": lambda task: gate[task.name],
        "in every turn": lambda task: [True] * len(task.needed),
        "ground truth": lambda task: task.needed,
    }
    lines = []
    for name, policy in policies.items():
        again = DRAWS if name.startswith("random") else 1
        found = [of_arms([asked(name, task, policy(task)) for task in tasks], [name])[0] for _ in range(again)]
        per_task = sum(one.asks for one in found) / again / len(tasks)
        mean = {key: sum(getattr(one, key) or 0.0 for one in found) / again for key in ("precision", "recall", "f1")}
        lines.append(f"| {name} | {per_task:.2f} | " + " | ".join(f"{value:.2f}" for value in mean.values()) + " |")
        print(lines[-1], flush=True)
    PAGE.write_text(
        f"""\
# When to ask: BFCL v4 miss_param

`python -m bench.planted.bfcl`, from {PACKAGE} {package.version}: {len(tasks)} tasks with {turns} turns. \
In {needed} of them a
parameter is missing, and an agent must not act before the user's next words. Agents are scripts that act by the ground
truth, so no model takes part. The regression sees a turn's number and the form of the \
user's words. It is fitted on other tasks.

| asks | asks per task | precision | recall | Ask-F1 |
| --- | ---: | ---: | ---: | ---: |
"""
        + "\n".join(lines)
        + "\n"
    )


if __name__ == "__main__":
    main()
