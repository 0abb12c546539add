"""The curriculum that a run asks for: the object `curriculum` of its metadata.

Pure. Without one every field has its default. A run's metadata never changes, so neither does its plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from curriculum.errors import BadCurriculumPlan
from curriculum.rules.levels import LEVELS, Level
from curriculum.rules.ratio import Strategy
from people.errors import words_of


class PlannedLevel(BaseModel):
    """One level: its name, its lower bound of solo rates, and its limits."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1, max_length=40, pattern=r"^[a-z][a-z0-9_]*$")]
    above: Annotated[float, Field(ge=-1, lt=1)]
    max_steps: Annotated[int, Field(ge=1, le=1000)] | None = None
    tools: Annotated[tuple[Annotated[str, Field(max_length=200)], ...], Field(max_length=200)] = ()
    hint: Annotated[str, Field(max_length=2000)] = ""


class PlannedTools(BaseModel):
    """How many tools a task offers: those that its oracle or demonstration calls, and others up to `per_task`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    per_task: Annotated[int, Field(ge=1, le=500)]


class CurriculumPlan(BaseModel):
    """Strategy and group size of the ratio, method of the weights, levels, and the reference run.

    `reference` is the ID of a run of the project whose solo episodes decide the levels; the default is the run itself.

    """

    # A misspelled field would otherwise leave its default in force, without a word.
    model_config = ConfigDict(extra="forbid", frozen=True)

    strategy: Strategy = Strategy.ADAPTIVE
    # The smallest group in which one rollout has an expert and one has none.
    group_size: Annotated[int, Field(ge=2, le=1024)] = 8
    method: Literal["uniform", "uncertainty", "regret"] = "uncertainty"
    reference: Annotated[str, Field(max_length=40)] = ""
    tools: PlannedTools | None = None
    levels: Annotated[tuple[PlannedLevel, ...], Field(min_length=1, max_length=10)] = tuple(
        PlannedLevel(name=one.name, above=one.above) for one in LEVELS
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        """Check that levels are ordered from easy to hard and that the last one takes every rate, zero too."""
        bounds = [one.above for one in self.levels]
        if bounds != sorted(set(bounds), reverse=True) or bounds[-1] >= 0:
            raise ValueError("levels: `above` must fall from level to level, and be -1 in the last one")
        # One name too few means a double, or a level that is called `unknown`.
        if len({one.name for one in self.levels} | {"unknown"}) <= len(self.levels):
            raise ValueError("levels: each needs a name of its own, and `unknown` is taken")
        return self

    @model_validator(mode="after")
    def _measures_its_weights(self) -> Self:
        """Check that regret has helped rollouts to compare: without them it draws worse than by chance."""
        if self.method == "regret" and self.strategy == Strategy.BASELINE:
            raise ValueError("method: regret needs rollouts with an expert, and the strategy `baseline` has none")
        return self

    @classmethod
    def of(cls, metadata: object) -> Self:
        """Return the plan in a run's metadata. Raises `BadCurriculumPlan`, which names the field."""
        fields: Any = metadata.get("curriculum", {}) if isinstance(metadata, Mapping) else {}
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, one['loc']))}: {words_of(one)}" for one in error.errors()[:5])
            raise BadCurriculumPlan(f"The run's metadata.curriculum cannot be read: {wrong}"[:1000]) from error

    def as_levels(self) -> tuple[Level, ...]:
        return tuple(Level(one.name, one.above, one.max_steps, one.tools, one.hint) for one in self.levels)
