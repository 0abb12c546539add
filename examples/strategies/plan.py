"""The ways of helping that are compared, and what every one of them gets: a plan that a state folder belongs to.

Pure: it knows nothing of models. `help_of` is the whole of an arm: from the counts of the steps so far to how many
rollouts of the next group may ask the expert.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from curriculum.rules.levels import level_of
from curriculum.rules.ratio import LAST_STEP, Measured, Phase, Strategy, group, history

Step = Mapping[str, Any]
"""The counts of a training step, as `examples/train_demo/grpo.py` makes them."""
WINDOW = 10
"""The last steps whose solo rollouts decide the level of a family."""
PHASES = {"easy": Phase.INDEPENDENCE, "medium": Phase.BALANCED, "hard": Phase.SCAFFOLD, "unknown": Phase.SCAFFOLD}


@dataclass(frozen=True)
class Arm:
    """A way of helping: its rule, and what an ask costs the learner."""

    name: str
    rule: str
    price: float = 0.0


STRATEGIES = (
    Arm("none", "none"),
    Arm("always", "always"),
    Arm("mixed", "mixed"),
    Arm("adaptive_errors", "errors"),
    Arm("adaptive_levels", "levels"),
)
"""*none* is first: the others are compared with it. *adaptive_errors* is the rule of pull request 428, which looks at
format errors; *adaptive_levels* looks at what fails without help."""
PRICES = (0.01, 0.03, 0.1, 0.3)
PRICED = (Arm("always", "always"), *(Arm(f"price_{price:g}", "always", price) for price in PRICES))


@dataclass(frozen=True)
class Plan:
    """What decides the numbers of a state folder: all but which arms are run. A folder of another plan is refused."""

    arms: tuple[Arm, ...]
    sft_updates: int = 600
    steps: int = 40
    groups: int = 12
    group: int = 8
    held_desks: int = 10
    looks: int = 4
    """How often held-out tasks are tried on the way."""
    look_tasks: int = 60

    @property
    def digest(self) -> str:
        # without the arms, so that `make prices` goes on from the starts and the *always* of `make strategies`
        numbers = {name: value for name, value in asdict(self).items() if name != "arms"}
        return hashlib.sha256(json.dumps(numbers, sort_keys=True).encode()).hexdigest()[:12]

    @property
    def rollouts(self) -> int:
        return self.steps * self.groups * self.group

    def looks_at(self, step: int) -> bool:
        return step % max(1, self.steps // self.looks) == 0 or step == self.steps


def strategy_of(arm: Arm) -> Strategy | None:
    """Return the strategy of the product's curriculum that an arm is; None if the trainer has to decide."""
    return {
        "none": Strategy.BASELINE, "always": Strategy.ALWAYS, "mixed": Strategy.MIXED, "errors": Strategy.ADAPTIVE,
    }.get(arm.rule)  # fmt: skip


def help_of(arm: Arm, size: int, steps: Sequence[Step]) -> Callable[[str], int]:
    """Return how many of a group of `size` may ask, by the family of its task, after these steps."""
    strategy = strategy_of(arm)
    if strategy is None:
        return lambda family: group(Strategy.ADAPTIVE, PHASES[level(family, steps)], size)[0]
    measured = [Measured(one["step"], one["counted"], one["errors"], LAST_STEP) for one in steps]
    offered = group(strategy, history(measured, size=size)[-1].phase, size)[0]
    return lambda family: offered


def level(family: str, steps: Sequence[Step]) -> str:
    """Return the curriculum's level of a family by its last solo rollouts."""
    counts = [one["solo"].get(family, (0, 0)) for one in steps[-WINDOW:]]
    return level_of(sum(complete for complete, _ in counts), sum(of for _, of in counts))
