"""The cost of model calls: counts of tokens times a table of prices, and the total cost of an arm. Pure.

A sum is given only if every part is known: a model without a price, or a call that reported no counts, makes the money
of its arm unknown and is named. Called by `spending.py`, which reads the counts, and by the settings, which read the
table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from people.errors import words_of
from people.text import yaml_text
from people.text.in_words import duration

MILLION = 1_000_000


class TokenPrice(BaseModel):
    """US dollars per million tokens of one model. Input from the endpoint's cache costs `cached`, or as other input if
    that is not given."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached: float | None = Field(None, ge=0)


@dataclass(frozen=True)
class Tokens:
    """Counts of some calls. `cached` ones are part of `prompt`, `reasoning` of `completion`; of `untold` ones only the
    total is known."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    untold: int = 0
    reasoning: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            self.prompt + other.prompt,
            self.completion + other.completion,
            self.cached + other.cached,
            self.untold + other.untold,
            self.reasoning + other.reasoning,
        )

    @property
    def all(self) -> int:
        return self.prompt + self.completion + self.untold


@dataclass(frozen=True)
class Cost:
    """The cost of one arm's episodes so far, including those that a retry replaced.

    `priced` is the known part of the money, `unknown` says why it is not all. `wall_s` adds up the time of the ended
    episodes, `human_s` people's time from claim to answer. `expert` are tokens for asks, `briefing` those for briefings
    that a model distilled.
    """

    arm: str
    episodes: int
    agent: Tokens = Tokens()
    expert: Tokens = Tokens()
    briefing: Tokens = Tokens()
    priced: float = 0.0
    unknown: tuple[str, ...] = ()
    wall_s: float = 0.0
    human_s: float = 0.0

    @property
    def usd(self) -> float | None:
        """The money of the arm, or None if a part of it is unknown."""
        return None if self.unknown else self.priced

    @property
    def money(self) -> str:
        """The money in words."""
        if not self.unknown:
            return dollars(self.priced)
        why = "; ".join(self.unknown)
        return f"{dollars(self.priced)} and more: {why}" if self.priced else f"unknown: {why}"

    @property
    def counts(self) -> tuple[str, str, str, str]:
        """Tokens of the agent in and out, of expert models for asks, and for briefings, as pages show them."""
        counts = (self.agent.prompt, self.agent.completion, self.expert.all, self.briefing.all)
        agent_in, agent_out, asks, briefings = (f"{count:,}" for count in counts)
        return agent_in, agent_out, asks, briefings

    @property
    def minutes(self) -> tuple[str, str]:
        """Elapsed time and people's time, as pages show them; 0 if there was none."""
        return duration(self.wall_s) if self.wall_s else "0", duration(self.human_s) if self.human_s else "0"


@dataclass
class Bill:
    """The money of some calls: the part that has a price, and the calls that have none."""

    priced: float = 0.0
    unknown: list[str] = field(default_factory=list)

    def add(self, model: str, tokens: Tokens, rate: TokenPrice | None) -> None:
        """Add a model's calls; calls without a price are named once."""
        if not tokens.all:
            return
        if rate is None:
            self._note(f"{model} has no price")
            return
        self.priced += price_of(tokens, rate)
        if tokens.untold:
            self._note(f"{tokens.untold:,} tokens of {model} are not told apart")

    def uncounted(self, episodes: int) -> None:
        """Record episodes of a model whose endpoint counted nothing."""
        if episodes:
            self._note(f"{episodes:,} episode{'' if episodes == 1 else 's'} without counted tokens")

    def cut(self, calls: int) -> None:
        """Record calls on which an endpoint worked, and of which nothing came back."""
        if calls:
            self._note(f"{calls:,} call{' was' if calls == 1 else 's were'} cut before tokens were counted")

    def _note(self, reason: str) -> None:
        if reason not in self.unknown:
            self.unknown.append(reason)


def price_of(tokens: Tokens, rate: TokenPrice) -> float:
    """Return the dollars of tokens whose kinds are known."""
    cached = rate.input if rate.cached is None else rate.cached
    fresh = tokens.prompt - tokens.cached
    return (fresh * rate.input + tokens.cached * cached + tokens.completion * rate.output) / MILLION


def tokens_of(usage: Any) -> Tokens:
    """Return the counts in an endpoint's `usage`; values that are not counts are None."""
    if not isinstance(usage, Mapping):
        return Tokens()
    prompt, completion = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    details = usage.get("prompt_tokens_details")
    cached = _count(details, "cached_tokens") if isinstance(details, Mapping) else 0
    untold = 0 if prompt or completion else _count(usage, "total_tokens")
    of_answer = usage.get("completion_tokens_details")
    thought = _count(of_answer, "reasoning_tokens") if isinstance(of_answer, Mapping) else 0
    # cached tokens are part of the prompt and reasoning of the completion, whatever an endpoint reports
    return Tokens(prompt, completion, min(cached, prompt), untold, min(thought, completion))


def _count(counts: Mapping[str, Any], name: str) -> int:
    value = counts.get(name)
    # not isinstance: a bool is an int in Python
    return value if type(value) is int and value > 0 else 0


def summed(counts: Iterable[Tokens]) -> Tokens:
    """Return the sum of counts."""
    return sum(counts, Tokens())


def dollars(amount: float) -> str:
    """Return an amount as pages show it."""
    return "<$0.01" if 0 < amount < 0.01 else f"${amount:,.2f}"


def rates_in(text: str) -> dict[str, TokenPrice]:
    """Return the prices in a table, YAML or JSON, by the model's name. Raises `ValueError`, which names the model."""
    try:
        table = yaml_text.read(text)
    except yaml_text.BadYaml as error:
        raise ValueError(f"the table is not YAML: {error}") from error
    if not isinstance(table, dict):
        raise ValueError("expected models with their prices, such as my-model: {input: 0.5, output: 1.5}")
    return {str(model): _rate(str(model), given) for model, given in table.items()}


def _rate(model: str, fields: Any) -> TokenPrice:
    try:
        return TokenPrice.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(one) for one in first["loc"])
        raise ValueError(f"{model}{'.' if where else ''}{where}: {words_of(first)}") from error
