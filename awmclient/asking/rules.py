"""When an agent is offered help: rules that decide it turn by turn from what is recorded before. Pure.

A rule decides once after each turn of calls. *Offered* reminds the agent that it can ask, and its asks reach the
experts; *declined* does neither, and an ask gets the answer `NOT_NOW`. `RULES` is the only list of rules: a new one is
a class here and its entry there, and plans, the form, the curve and docs/asking.md have it. The learned rule holds an
`AskGate`: two logistic regressions over few features, evaluated here by hand. `runs` fits gates
(`runs/statistics/gating.py`); called by the loop.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from awmclient.asking.gates import WRITES, is_gated
from awmclient.nouns.kinds import is_call
from awmclient.nouns.values import ASK_TOOL
from awmclient.record.progress import LoopProgress

FORMAT: Literal["awmweb.gate/1"] = "awmweb.gate/1"
CHANCES = (0.1, 0.9)
NOT_NOW = {"status": "no_advice", "reason": "no help is offered at this point"}
"""What an agent reads that asks while its rule declines."""
WEIGHT_MAX, CARD_MAX = 1000.0, 100_000
"""The largest weight of a gate, and the most characters of its card as JSON."""


@dataclass(frozen=True)
class Seen:
    """What is known before an ask: the steps so far, their fold, and whether the task was part of earlier runs."""

    steps: Sequence[Mapping[str, Any]]
    progress: LoopProgress
    task_seen: bool = False


@dataclass(frozen=True)
class Feature:
    """One number that exists before the ask. Values above `most` count as `most`; a weight is for the whole range."""

    words: str
    most: float
    of: Callable[[Seen], float]

    def value(self, seen: Seen) -> float:
        return min(self.most, max(0.0, self.of(seen))) / self.most


def _calls(seen: Seen) -> list[Mapping[str, Any]]:
    return [step for step in seen.steps if is_call(step) and step.get("name") != ASK_TOOL]


def _repeats(seen: Seen) -> int:
    """Return how many of the last calls in a row were made before, with the same arguments."""
    made = [(step["name"], step.get("arguments") or {}) for step in _calls(seen)]
    back = 0
    while made and made.pop() in made:
        back += 1
    return back


def _writes(seen: Seen) -> bool:
    calls = _calls(seen)
    return bool(calls) and is_gated(str(calls[-1]["name"]), (WRITES,))


def _doubt(seen: Seen) -> float:
    """Return the mean negative log-probability of the last turn's tokens; 0 where none are stored."""
    for step in reversed(seen.steps):
        if step.get("turn") != seen.progress.turn:
            break
        stored = (step.get("meta") or {}).get("logprobs")
        logprobs = [float(one) for one in stored if isinstance(one, int | float)] if isinstance(stored, list) else []
        if logprobs and math.isfinite(total := sum(logprobs)):
            return -total / len(logprobs)
    return 0.0


FEATURES: dict[str, Feature] = {
    "turn": Feature("turns so far", 20, lambda seen: seen.progress.turn),
    "errors": Feature("failed calls in a row", 4, lambda seen: seen.progress.errors),
    "repeats": Feature("last calls in a row that were made before", 4, _repeats),
    "stalled": Feature("turns in a row without anything new", 5, lambda seen: seen.progress.stalled),
    "doubt": Feature("mean negative log-probability of the last turn, where stored", 3, _doubt),
    "writes": Feature("whether the last call writes", 1, _writes),
    "asks": Feature("asks so far", 5, lambda seen: seen.progress.asks),
    "seen": Feature("whether an earlier run had the task", 1, lambda seen: seen.task_seen),
}
"""What a gate can read, by name. The order is that of a row."""
Row = tuple[float, ...]


def row_of(seen: Seen) -> Row:
    """Return the features before an ask, each from 0 to 1."""
    return tuple(one.value(seen) for one in FEATURES.values())


def is_decision(progress: LoopProgress, max_asks: int) -> bool:
    """Return whether a rule decides here: a turn of calls is through, and the agent may still ask."""
    return progress.may_be_reminded and progress.end is None and progress.asks < max_asks


Weight = Annotated[float, Field(ge=-WEIGHT_MAX, le=WEIGHT_MAX, allow_inf_nan=False)]


class Side(BaseModel):
    """A logistic regression: its chance is 1 / (1 + exp(-(intercept + the sum of weight times feature)))."""

    model_config = ConfigDict(extra="forbid")

    intercept: Weight
    weights: dict[str, Weight]

    @field_validator("weights")
    @classmethod
    def _are_known(cls, value: dict[str, float]) -> dict[str, float]:
        if unknown := sorted(value.keys() - FEATURES.keys()):
            raise ValueError(f"{unknown[0][:40]!r} is not a feature; known are {', '.join(FEATURES)}")
        return value

    def of(self, row: Row) -> float:
        return self.intercept + sum(
            self.weights.get(name, 0.0) * value for name, value in zip(FEATURES, row, strict=True)
        )


class AskGate(BaseModel):
    """A learned rule: help is offered where it adds at least `threshold` to the chance of a complete episode.

    `alone` is the chance without an offer at this turn, `offered` what an offer adds to it (in log-odds). `card` says
    what it was fitted on, and `digest` is the SHA-256 of everything else.
    """

    model_config = ConfigDict(extra="forbid")

    format: Literal["awmweb.gate/1"] = FORMAT
    alone: Side
    offered: Side
    threshold: Annotated[float, Field(ge=0, le=1)]
    card: dict[str, Any] = Field(default_factory=dict)
    digest: str = ""

    @field_validator("card")
    @classmethod
    def _is_storable(cls, value: dict[str, Any]) -> dict[str, Any]:
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False)
            text.encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError("is no JSON that can be stored") from error
        if len(text) > CARD_MAX or "\\u0000" in text:
            raise ValueError(f"has more than {CARD_MAX:,} characters, or U+0000")
        return value

    @model_validator(mode="after")
    def _is_whole(self) -> AskGate:
        digest = digest_of(self.model_dump())
        if self.digest and self.digest != digest:
            raise ValueError("the gate was changed after it was fitted: its digest is not that of its content")
        self.digest = digest
        return self

    def gain(self, row: Row) -> float:
        """Return what an offer at this turn adds to the chance of a complete episode."""
        alone = self.alone.of(row)
        return chance_of(alone + self.offered.of(row)) - chance_of(alone)

    def offers(self, row: Row) -> bool:
        return self.gain(row) >= self.threshold


def chance_of(odds: float) -> float:
    """Return the chance of log-odds, without overflow."""
    return 1 / (1 + math.exp(-odds)) if odds >= 0 else math.exp(odds) / (1 + math.exp(odds))


def digest_of(gate: Mapping[str, Any]) -> str:
    content = {name: value for name, value in gate.items() if name != "digest"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


def is_drawn(key: str, turn: int, chance: float) -> bool:
    """Draw whether help is offered after a turn: the same for the same key and turn, so that a crash changes none."""
    words = f"{key}\n{turn}".encode()
    # the first 64 bits of the hash, as a share of 2**64
    return int.from_bytes(hashlib.sha256(words).digest()[:8]) < chance * 2**64


@dataclass(frozen=True)
class AskingRule:
    """A rule, with its parameters if it has any. This one offers always, and a class below says what it does else."""

    name: ClassVar[str]
    words: ClassVar[str]
    """When it offers, for docs/asking.md."""
    example: ClassVar[str]
    """How plans write it."""
    reminds: ClassVar[bool] = True
    is_untimed: ClassVar[bool] = False
    """Whether it looks at nothing that happens: the curve shows what timing pays against such rules."""

    @property
    def chance(self) -> float | None:
        """The chance of an offer at each turn, of a rule that draws."""
        return None

    @classmethod
    def is_in(cls, value: object) -> bool:
        """Return whether an arm's `ask` is of this rule, even with wrong parameters."""
        return value == cls.name

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Return the rule in a value that is of it. Raises `ValueError`."""
        return cls()

    @classmethod
    def label_of(cls, value: Any) -> str:
        """Return the name of a value that was launched, without checking it again."""
        return str(value)

    def offers(self, seen: Seen, key: str) -> bool:
        """Return whether help is offered after these steps; `key` names the draws of the episode."""
        return True

    def __str__(self) -> str:
        return self.name


class OwnAsking(AskingRule):
    """Help without a reminder."""

    name = example = "own"
    words = "always, without a reminder: the agent's own asking"
    reminds = False


class AlwaysOffered(AskingRule):
    """A reminder after every turn of calls."""

    name = example = "always"
    words = "always, with a reminder after every turn of calls"
    is_untimed = True


@dataclass(frozen=True)
class OfferedByDraw(AskingRule):
    """A reminder by a draw at each turn."""

    name, example = "random", "random:0.3"
    words = f"by a draw at each turn, with a chance from {CHANCES[0]} to {CHANCES[1]}"
    is_untimed = True
    text: str

    @property
    def chance(self) -> float:
        return float(self.text.removeprefix(f"{self.name}:"))

    @classmethod
    def is_in(cls, value: object) -> bool:
        return isinstance(value, str) and value.startswith(f"{cls.name}:")

    @classmethod
    def parse(cls, value: Any) -> Self:
        rule, (low, high) = cls(value), CHANCES
        with suppress(ValueError):
            if low <= rule.chance <= high:
                return rule
        raise ValueError(f"{cls.name}: a chance from {low} to {high}, as in {cls.example}")

    def offers(self, seen: Seen, key: str) -> bool:
        return is_drawn(key, seen.progress.turn, self.chance)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class OfferedByGate(AskingRule):
    """The learned rule."""

    name, example = "gate", "a gate"
    words = "where a learned rule expects enough of it"
    gate: AskGate

    @classmethod
    def is_in(cls, value: object) -> bool:
        return isinstance(value, Mapping | AskGate)

    @classmethod
    def parse(cls, value: Any) -> Self:
        return cls(AskGate.model_validate(value))

    @classmethod
    def label_of(cls, value: Any) -> str:
        return f"{cls.name} {str(value['digest'])[:8]}"

    def offers(self, seen: Seen, key: str) -> bool:
        return self.gate.offers(row_of(seen))

    def __str__(self) -> str:
        return f"{self.name} {self.gate.digest[:8]}"


RULES: list[type[AskingRule]] = [OwnAsking, AlwaysOffered, OfferedByDraw, OfferedByGate]


def kind_of_rule(value: object) -> type[AskingRule] | None:
    """Return the class of the rule in an arm's `ask`; None if it is of no rule."""
    return next((kind for kind in RULES if kind.is_in(value)), None)


def asking_rule(value: object) -> AskingRule:
    """Return the rule in an arm's `ask`. Raises `ValueError`."""
    if (kind := kind_of_rule(value)) is None:
        known = ", ".join(kind.example for kind in RULES)
        raise ValueError(f"one of {known} (its content; only the command run reads a file)")
    return kind.parse(value)


@dataclass(frozen=True)
class AskRule:
    """Decides for one episode. `rule` is an arm's `ask`; `key` names its draws."""

    rule: str | AskGate
    key: str = ""
    task_seen: bool = False

    @cached_property
    def _decides(self) -> AskingRule:
        return asking_rule(self.rule)

    @property
    def reminds(self) -> bool:
        return self._decides.reminds

    def offers(self, steps: Iterable[Mapping[str, Any]], progress: LoopProgress) -> bool:
        """Return whether help is offered after these steps."""
        return self._decides.offers(Seen(list(steps), progress, self.task_seen), self.key)
