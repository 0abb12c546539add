"""The recipe of an export: format, filters and options, one value for files, forms and calls.

Pure. Owns the names and defaults of options and the canonical text that a dataset's ID is made from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self

import re2
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from exports.errors import BadRecipe
from people.errors import words_of
from people.text import yaml_text
from people.text.plain_text import is_storable

Needs = Literal["complete", "both", "tasks", "curriculum"]
"""Complete episodes; those that were judged, complete or not; tasks, whatever came of their episodes; or the tasks of a
curriculum, without episodes."""


ReasoningChoice = Literal["keep", "keep_masked", "drop"]
"""What a row does with the reasoning of a model: it carries it, it carries it without loss, or it leaves it out."""


class FormatKind(NamedTuple):
    """What a recipe has to know of a format. `trains` is false for files that report: they hold every episode of the
    selection, and mark those that the rules keep out of training. `takes_verdicts`: it can learn from what people
    rejected. `reasoning`: what its rows can do with the reasoning of a model. `takes_pictures`: its rows can have them.
    """

    title: str
    needs: Needs = "complete"
    trains: bool = True
    takes_verdicts: bool = False
    takes_tokenizer: bool = False
    reasoning: tuple[ReasoningChoice, ...] = ()
    is_vendors: bool = False
    takes_pictures: bool = False

    @property
    def is_table(self) -> bool:
        """Whether rows have columns of fixed types, and so fit Parquet."""
        return self.trains and not self.is_vendors

    @property
    def is_curriculum(self) -> bool:
        return self.needs == "curriculum"


_LEARNED: tuple[ReasoningChoice, ...] = ("keep", "keep_masked", "drop")
KINDS: dict[str, FormatKind] = {
    "sft": FormatKind("SFT: conversations with tools", reasoning=_LEARNED, takes_pictures=True),
    "steps": FormatKind("SFT by turn: prompt and completion", reasoning=_LEARNED, takes_pictures=True),
    "tokens": FormatKind("Token IDs: captured, or of a local tokenizer", takes_tokenizer=True, reasoning=_LEARNED),
    "dpo": FormatKind("DPO: pairs of single actions", "both", takes_verdicts=True, takes_pictures=True),
    "kto": FormatKind("KTO: single actions with a label", "both", takes_verdicts=True, takes_pictures=True),
    "openai": FormatKind("OpenAI fine-tuning", is_vendors=True, reasoning=("keep", "drop")),
    "prompts": FormatKind("Prompts to run (GRPO)", "tasks", takes_pictures=True),
    "curriculum": FormatKind("Curriculum: tasks with level and weight", "curriculum"),
    "ask_decision": FormatKind("When to ask: one row per turn", "both"),
    "atif": FormatKind("ATIF trajectories", "both", trains=False, reasoning=("keep", "drop")),
    "inspect": FormatKind("Inspect log", "both", trains=False, reasoning=("keep", "drop")),
    "openenv": FormatKind("OpenEnv episode records", "both", trains=False),
    "raw": FormatKind("Raw record", "both", trains=False),
}
"""The formats. How rows of each are made is in `formats`."""
# a type checker reads no computed literal, and pydantic needs one to refuse unknown names
if TYPE_CHECKING:
    FormatName = str
else:
    FormatName = Literal[tuple(KINDS)]
AdviceMode = Literal["keep", "keep_masked", "drop", "distil"]
OptIn = Literal[
    "reported",
    "informed",
    "gave_up",
    "passes_untouched",
    "duplicates",
    "partial",
    "ruled",
    "rejected",
    "corrections",
    "verdicts",
    "ungrounded",
    "evaluation",
    "branches",
    "assisted",
    "continued",
    "compared",
]
FILTERS = (
    *("run", "arm", "scenario", "task_idx", "split", "policy", "policy_kind", "expert", "outcome", "origin"),
    *("stop_reason", "environment", "group_key", "training_step", "checkpoint", "seed", "id", "since", "until"),
)


def quiet() -> re2.Options:
    """Return options for RE2 that write no line of a log for a pattern that cannot be read."""
    options = re2.Options()
    options.log_errors = False
    return options


def linear(regex: str) -> re2._Regexp[str]:
    """Compile a pattern with RE2, whose time follows the text alone; `\\Z` is Python's word for the end of a text."""
    return re2.compile(regex.replace(r"\Z", r"\z"), options=quiet())


class Pattern(BaseModel):
    """A project's own secret: a name and a regular expression."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    # the form of kinds that `marks_in` finds
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
    regex: Annotated[str, Field(min_length=3, max_length=500)]

    @field_validator("regex")
    @classmethod
    def _compiles(cls, value: str) -> str:
        try:
            linear(value)
        except re2.error as error:
            # RE2 raises its message as bytes
            why = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else str(error)
            raise ValueError(f"not a regular expression: {why} (RE2 has no look-around and no references)") from error
        return value


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        # the names of an object are texts as well
        for part in (*value.keys(), *value.values()) if isinstance(value, Mapping) else value:
            yield from _texts(part)


def _error_text(wrong: Mapping[str, Any]) -> str:
    """Return the error without pydantic's prefix; messages of the recipe itself name their field."""
    place, message = ".".join(map(str, wrong["loc"])), words_of(wrong)
    names_its_field = wrong["type"] == "value_error" and place in ("", "filter")
    return message if names_its_field else f"{place or 'recipe'}: {message}"


class Recipe(BaseModel):
    """Everything that decides what an export holds, except the rows it selects from.

    `include` names what is left out by default. Formats that report leave nothing out, so they need no `evaluation`,
    and no training format accepts it. `authors` names experts and reviewers instead of giving them opaque IDs.
    `weights` of pairs can be what forks measured. `tokenizer` is the name of a folder below `tokenizers/` of the data
    folder; without one, `tokens` has captured IDs. `pictures` are kept where the format can, or their episodes are left
    out.

    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: FormatName
    filter: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    advice: AdviceMode = "keep"
    include: tuple[OptIn, ...] = ()
    parquet: bool = False
    redact: Literal["secrets", "personal", "off"] = "secrets"
    patterns: Annotated[tuple[Pattern, ...], Field(max_length=50)] = ()
    authors: bool = False
    pairs_per_task: Annotated[int, Field(ge=1, le=1000)] = 4
    weights: Literal["none", "worth"] = "none"
    license: Annotated[str, Field(max_length=100)] = "other"
    # a folder's name: no slash, and no dot at its start
    tokenizer: Annotated[str, Field(pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.-]{0,99})?$")] = ""
    reasoning: ReasoningChoice | None = None
    pictures: Literal["keep", "leave_out"] = "keep"

    @property
    def keeps_pictures(self) -> bool:
        """Whether rows have the pictures of their episodes."""
        return self.kind.takes_pictures and self.pictures == "keep"

    @property
    def reasoning_choice(self) -> ReasoningChoice:
        """What the rows do with reasoning: what the recipe says, else *keep* where the format can."""
        return self.reasoning or ("keep" if self.kind.reasoning else "drop")

    @property
    def kind(self) -> FormatKind:
        return KINDS[self.format]

    @property
    def has_advice(self) -> bool:
        """Whether rows hold what experts said."""
        return self.advice in ("keep", "keep_masked")

    @field_validator("filter", mode="before")
    @classmethod
    def _filters(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError("filter: an object of names and values")
        unknown = sorted(set(value) - set(FILTERS))
        if unknown:
            raise ValueError(f"Unknown filter: {', '.join(unknown)}. Use one of {', '.join(FILTERS)}.")
        lists = {name: one if isinstance(one, list | tuple) else [one] for name, one in value.items()}
        # sorted, each once: the same selection is the same dataset
        return {name: tuple(sorted({str(item) for item in lists[name]})) for name in sorted(lists) if lists[name]}

    @field_validator("include", mode="after")
    @classmethod
    def _in_order(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        # as of filters: the order in which they were sent changes no dataset
        return tuple(sorted(set(value)))

    @model_validator(mode="after")
    def _never_trained_on(self) -> Self:
        if "evaluation" in self.include and self.kind.trains:
            viewers = ", ".join(name for name, one in KINDS.items() if not one.trains)
            raise ValueError(f"include: evaluation requires a format for viewers: {viewers}")
        return self

    @model_validator(mode="after")
    def _not_alone(self) -> Self:
        # a format that learns from outcomes would give the agent what a person did, or another episode
        for name in ("assisted", "continued"):
            if name in self.include and not (self.kind.trains and self.kind.needs == "complete"):
                able = ", ".join(name for name, one in KINDS.items() if one.trains and one.needs == "complete")
                raise ValueError(f"include: {name} requires one of the formats {able}")
        return self

    @model_validator(mode="after")
    def _verdicts(self) -> Self:
        # `rejected` trains on what `verdicts` makes the bad side
        if "verdicts" in self.include and (not self.kind.takes_verdicts or "rejected" in self.include):
            formats = ", ".join(name for name, one in KINDS.items() if one.takes_verdicts)
            raise ValueError(f"include: verdicts requires one of the formats {formats}, and no include: rejected")
        return self

    @model_validator(mode="after")
    def _forks(self) -> Self:
        if "compared" in self.include and self.format != "dpo":
            raise ValueError("include: compared requires the format dpo")
        if "branches" in self.include and self.format != "sft":
            raise ValueError("include: branches requires the format sft")
        if self.weights != "none" and self.format != "dpo":
            raise ValueError("weights: only pairs have one. Use the format dpo, or leave it out")
        return self

    @model_validator(mode="after")
    def _tables(self) -> Self:
        if self.parquet and not self.kind.is_table:
            tables = ", ".join(name for name, one in KINDS.items() if one.is_table)
            raise ValueError(f"parquet: {self.format} rows are no table. Use one of {tables}, or leave it out")
        return self

    @model_validator(mode="after")
    def _tokenizer(self) -> Self:
        if self.tokenizer and not self.kind.takes_tokenizer:
            raise ValueError("tokenizer: only format tokens accepts one")
        is_captured = self.kind.takes_tokenizer and not self.tokenizer
        if is_captured and (not self.has_advice or self.reasoning_choice != "keep"):
            raise ValueError(
                "tokens without a tokenizer has the captured token IDs, from which nothing can be cut. Use advice keep "
                "or keep_masked and reasoning keep, or name a tokenizer"
            )
        return self

    @model_validator(mode="after")
    def _reasoning(self) -> Self:
        # a format without reasoning accepts `drop`, which it does anyway
        if self.reasoning is not None and self.reasoning not in (self.kind.reasoning or ("drop",)):
            able = ", ".join(name for name, one in KINDS.items() if self.reasoning in one.reasoning)
            raise ValueError(f"reasoning: {self.reasoning} requires one of the formats {able}")
        return self

    @model_validator(mode="after")
    def _pictures(self) -> Self:
        if self.pictures == "leave_out" and not self.kind.trains:
            raise ValueError("pictures: formats that report have every episode. Leave it out")
        return self

    @classmethod
    def read(cls, value: Any) -> Self:
        """Return the recipe of this object. Raises `BadRecipe`, which names each invalid field."""
        # PostgreSQL stores the recipe, and refuses both
        if not all(map(is_storable, _texts(value))):
            raise BadRecipe("A recipe has no U+0000 and no half of a surrogate pair.")
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            raise BadRecipe("; ".join(map(_error_text, error.errors()))[:2000]) from error

    @classmethod
    def from_yaml(cls, text: str) -> Self:
        try:
            value = yaml_text.read(text)
        except yaml_text.BadYaml as error:
            raise BadRecipe(f"not YAML: {error}"[:500]) from error
        return cls.read(value)

    def as_yaml(self) -> str:
        return str(yaml.safe_dump(self.model_dump(mode="json", exclude_defaults=True), sort_keys=False))

    @property
    def canonical(self) -> str:
        # recipes without them keep their digests
        unsaid = {*(["reasoning"] if self.reasoning is None else []), *(["weights"] if self.weights == "none" else [])}
        return json.dumps(self.as_fields(*unsaid), sort_keys=True)

    def as_fields(self, *without: str) -> dict[str, Any]:
        """Return all fields, `pictures` only if the recipe says it: manifests of before keep their bytes."""
        return self.model_dump(mode="json", exclude={*without, *(["pictures"] if self.pictures == "keep" else [])})

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.canonical.encode()).hexdigest()
