"""An ended episode as reward profiles read it, and the result of a profile. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from awmclient.nouns.kinds import is_call, is_question
from awmclient.schema import NOT_COUNTED

NOT_EXECUTABLE = frozenset({"tool_not_found", "invalid_args", "invalid_action"})
"""Results of a call that the environment cannot execute: the three format errors of AWM."""
FURTHER_NAMES = ("additionalProperties", "patternProperties", "allOf", "anyOf", "oneOf", "$ref")
"""Keywords by which a schema can accept arguments outside its `properties`."""
COMPLETE = "complete"


@dataclass(frozen=True)
class Played:
    """One ended episode: its steps as they cross the wire, in order, and the verifier's outcome.

    `reference_steps` is the median of calls and asks over verified complete episodes of the task, where there are at
    least three.
    """

    steps: Sequence[Mapping[str, Any]]
    reward_type: str
    tools: Sequence[Mapping[str, Any]] = ()
    final_answer: str = ""
    expert_available: bool = False
    max_turns: int = 15
    reference_steps: float | None = None
    ask_price: float | None = None
    """What its arm says that an ask costs."""

    @property
    def is_complete(self) -> bool:
        return self.reward_type == COMPLETE

    @property
    def is_excluded(self) -> bool:
        return self.reward_type in NOT_COUNTED

    @cached_property
    def calls(self) -> list[Mapping[str, Any]]:
        """Calls of the environment's tools. Asking an expert does not count."""
        return [step for step in self.steps if is_call(step)]

    @cached_property
    def executed(self) -> list[Mapping[str, Any]]:
        return [call for call in self.calls if is_executed(call)]

    @cached_property
    def asks(self) -> list[Mapping[str, Any]]:
        return [step for step in self.steps if is_question(step)]

    @property
    def is_ended_by_environment(self) -> bool:
        """Whether a step ended the episode, so that its agent had no turn for a final answer."""
        return any(step.get("done") is True for step in self.steps)

    @property
    def is_format_error(self) -> bool:
        """Whether no call of the whole episode could be executed."""
        return not self.executed


@dataclass(frozen=True)
class Reward:
    """The reward of a profile: null for an excluded outcome. `pattern` names the kind of episode, `flags` hold
    notes."""

    profile: str
    total: float | None
    components: dict[str, float] = field(default_factory=dict)
    pattern: str = ""
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class RewardProfile:
    """What a module of this package offers: `pay`, and the names of all components that its rewards can have."""

    pay: Callable[[Played], Reward]
    components: tuple[str, ...]
    needs_price: bool = False
    """Whether it pays only episodes whose arm states a price of an ask."""


def is_executed(call: Mapping[str, Any]) -> bool:
    return call.get("reward_type") not in NOT_EXECUTABLE


def is_error(call: Mapping[str, Any]) -> bool:
    return call.get("error") is not None or not is_executed(call)


def identity(call: Mapping[str, Any], tools: Sequence[Mapping[str, Any]]) -> str:
    """Return a text that is equal for calls of one tool with equal arguments: in any order, whole numbers with or
    without decimals, and without arguments that the tool's schema lacks, which a tool ignores."""
    schema = next((tool.get("input_schema") for tool in tools if tool.get("name") == call.get("name")), None)
    return json.dumps([call.get("name"), _canonical(call.get("arguments") or {}, schema)], sort_keys=True)


def _canonical(value: Any, schema: Any) -> Any:
    schema = schema if isinstance(schema, dict) else {}
    if isinstance(value, dict):
        named = schema.get("properties")
        # an open schema can take any name, so no argument is known to be ignored
        if not isinstance(named, dict) or any(word in schema for word in FURTHER_NAMES):
            return {name: _canonical(one, None) for name, one in value.items()}
        return {name: _canonical(one, named[name]) for name, one in value.items() if name in named}
    if isinstance(value, list):
        return [_canonical(one, schema.get("items")) for one in value]
    # 1 and 1.0 are one number to JSON Schema
    return int(value) if isinstance(value, float) and value.is_integer() else value
