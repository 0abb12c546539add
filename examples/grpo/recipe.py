"""What a training is made by: a YAML file that names a way of offering help, and what differs from the values here.

`help` is an arm of `examples/strategies/plan.py`: its rule is there, or in the curriculum of the product. The values
are for a model of 0.6 billion parameters on one GPU; docs/training.md says which of them were tried.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from examples.grpo.rollouts import Place
from examples.strategies.plan import PRICED, STRATEGIES, Arm, strategy_of

RECIPES = Path(__file__).parent / "recipes"
ARMS = {arm.name: arm for arm in (*STRATEGIES, *PRICED)}


class Recipe(BaseModel):
    """One way to train. A step has `groups` tasks with `group` rollouts each; `at_once` of them are learned from in
    one pass, which bounds memory and changes nothing else."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    help: Literal[tuple(ARMS)]
    groups: int = Field(8, ge=1)
    group: int = Field(8, ge=2)
    at_once: int = Field(1, ge=1)
    learning_rate: float = Field(1e-5, gt=0)
    beta: float = Field(0.0, ge=0)
    temperature: float = Field(1.0, gt=0)
    lora: bool = True
    vllm: Literal["", "colocate", "server"] = ""
    vllm_memory: float = Field(0.3, gt=0, lt=1)
    longest: int = Field(4096, ge=1)
    new_tokens: int = Field(512, ge=1)
    max_steps: int = Field(15, ge=1)
    ask_deadline_s: int = Field(120, ge=1)
    thinking: bool = False

    @model_validator(mode="after")
    def _is_divided(self) -> Self:
        if self.groups * self.group % self.at_once:
            raise ValueError(f"at_once: {self.at_once} does not divide {self.groups} groups of {self.group}")
        return self

    @classmethod
    def read(cls, file: Path, **changed: Any) -> Self:
        """Read a file; what is `changed` to something other than None counts instead of its line."""
        given = yaml.safe_load(file.read_text(encoding="utf-8"))
        return cls(**{**given, **{name: value for name, value in changed.items() if value is not None}})

    @property
    def arm(self) -> Arm:
        return ARMS[self.help]

    def place(self, url: str, token: str, environment_url: str) -> Place:
        """Return where to play, with the limits of this recipe."""
        limits = self.model_dump(include={"longest", "new_tokens", "max_steps", "ask_deadline_s", "thinking"})
        return Place(url, token, environment_url, **limits)

    def metadata(self) -> dict[str, Any]:
        """Return what a run is started with: its curriculum, and the recipe itself for readers of the run."""
        strategy = strategy_of(self.arm)
        plan = {"group_size": self.group} | ({"strategy": strategy.value} if strategy else {})
        return {"curriculum": plan, "recipe": self.model_dump()}
