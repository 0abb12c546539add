"""The typed plan of a run: tasks x arms x seeds x policy x expert, from YAML, JSON or a form; and the recipes, which
are plans that come with awmweb. Pure."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StrictFloat,
    StrictInt,
    Tag,
    ValidationError,
    field_validator,
    model_validator,
)

from awmclient.asking.rules import AskGate, asking_rule, kind_of_rule
from awmclient.choosing.options import options_of
from awmclient.nouns.fields import WHOLE, Prose, clean_text
from awmclient.schema import ExpertMode
from people.errors import BadJson, TooLarge, words_of
from people.text import yaml_text
from people.text.json_text import parse_json
from runs.errors import BadPlan
from runs.statistics.offers import CHANCES

MAX_EPISODES = 100_000
MAX_SEEDS = 100
"""The limit of one plan or one addition; a run can have more."""
RECIPES = Path(__file__).parents[1] / "recipes"
OF_LOOP = ("ask_deadline_s", "max_asks", "nudge_after", "stall_after")
"""Limits that an episode's loop gets from its plan, by their names in `awmclient.rollout`."""
HUMAN, MODEL = "human", "model"
PERSON = "person"
"""The policy of episodes in which a person acts for the agent."""
LISTED, FILTERED = "tasks by list", "tasks by filter"
BY_RULE, BY_GATE = "ask by rule", "ask by gate"
GATE_BYTES = 1_000_000
"""The largest file of a gate."""
ADDED = (
    "offer",
    "people",
    "briefing",
    "outcomes",
    "parallel",
    "approve",
    "ask_price",
    "environment",
    "experts",
    "ask",
    "person",
    "options",
)
COMPLETE_AT = 1.0
Whole = Annotated[StrictInt, WHOLE]
Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f/]+$")]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def _is_storable(cls, value: Any) -> Any:
        for part in value if isinstance(value, list) else [value]:
            clean_text(part)
        return value


class TaskFilter(Strict):
    """Tasks of loaded packs. `scenarios` are names with `*`; `split` is a pinned split and `side` its list. Without
    one, partial scenarios are left out unless `partial`."""

    scenarios: list[str] = ["*"]
    split: str = ""
    side: str = Field("val", pattern="^(train|val)$")
    limit: Whole | None = Field(None, ge=1)
    partial: bool = False


def _which(tasks: Any) -> str:
    return LISTED if isinstance(tasks, list) else FILTERED


Tasks = Annotated[
    Annotated[list[str], Tag(LISTED)] | Annotated[TaskFilter, Tag(FILTERED)],
    Discriminator(_which),
]
"""With a discriminator, an error of one form names no field of the other."""


def is_of_model(policy: str) -> bool:
    """Return whether a policy's name is that of a model."""
    return policy.partition(":")[0] == MODEL


def _is_rule(value: str) -> str:
    asking_rule(value)
    return value


def _ask_by(ask: Any) -> str:
    return BY_RULE if isinstance(ask, str) else BY_GATE


Ask = Annotated[
    Annotated[str, AfterValidator(_is_rule), Tag(BY_RULE)] | Annotated[AskGate, Tag(BY_GATE)], Discriminator(_ask_by)
]


Options = Annotated[dict[str, Any], AfterValidator(options_of)]


def _stripped(value: Any) -> Any:
    """Return the name of an arm without spaces around it: two names that look alike must not be two arms."""
    return value.strip() if isinstance(value, str) else value


class PlannedArm(Strict):
    """One condition. `policy` replaces the plan's for this arm. `offer` is the chance that an episode of this arm is
    offered the expert, drawn for each; without it all are. `people` is the share of its episodes that only people
    answer, drawn for each; models answer the others. Without it the project's routing decides. `experts` *registry* is
    a simulated human: its task's registry of blockers answers each question. `briefing` gives its agents advice
    before they begin: *human* a person's briefing of the task, *model* or *model:NAME* one that an expert
    model distills from earlier episodes, from their outcomes, too, if `outcomes` is true. `parallel` is the arm's own
    limit beside the plan's. `approve` names tools whose calls wait for an approval: patterns such as `create_*`, or
    `writes`. `ask_price` is what the reward profile *priced* takes for each ask. `environment` is another place to name
    the plan's: arms are compared on the same tasks, so it is the same for all. `ask` decides turn by turn whether help
    is offered, in place of the plan's reminders: a rule of `awmclient.asking`, or a gate, whole. In an arm with
    `person` a person acts for the agent, as a human baseline. `options` of its model, such as `max_tokens` and
    `temperature`, replace those of the plan one by one."""

    name: Name
    expert: ExpertMode = "off"
    policy: str = Field("", max_length=200)
    offer: StrictFloat | None = Field(None, ge=CHANCES[0], le=CHANCES[1])
    people: StrictFloat | None = Field(None, ge=0, le=1)
    briefing: str | None = Field(None, max_length=120, pattern=r"^(human|model(:[^\x00-\x1f]+)?)$")
    outcomes: bool | None = None
    parallel: Whole | None = Field(None, ge=1, le=1000)
    approve: list[Name] | None = Field(None, min_length=1, max_length=100)
    ask_price: StrictFloat | None = Field(None, ge=0, le=100)
    environment: str | None = Field(None, min_length=1, max_length=100)
    experts: Literal["registry"] | None = None
    ask: Ask | None = None
    person: Literal[True] | None = None
    options: Options | None = None

    @field_validator("name", mode="before")
    @classmethod
    def _is_told_apart(cls, value: Any) -> Any:
        return _stripped(value)

    @model_validator(mode="after")
    def _offers_something(self) -> PlannedArm:
        if self.offer is not None and self.expert == "off":
            raise ValueError("an arm that draws its offers names the expert that it offers")
        if self.people is not None and self.expert == "off":
            raise ValueError("an arm with a share of people names the expert that it offers")
        if self.person or self.policy == PERSON:
            if self.policy not in ("", PERSON):
                raise ValueError("a person acts in this arm, so it names no policy")
            self.policy, self.person = PERSON, True
        if self.experts is not None and self.expert == "off":
            raise ValueError("an arm that asks the registry has an expert: plain or informed")
        if self.experts is not None and self.people is not None:
            raise ValueError("the registry answers every question of an arm, so no share of people does")
        if self.approve and (self.expert == "off" or self.offer is not None):
            raise ValueError("an arm whose calls wait for approval has an expert in every episode")
        if self.ask is not None and (self.expert == "off" or self.offer is not None):
            raise ValueError("an arm with a rule of when to ask has an expert in every episode")
        if self.outcomes is not None and not (self.briefing or "").startswith(MODEL):
            raise ValueError("outcomes are for a model that distills a briefing")
        return self


class ToolsOffered(Strict):
    """How many tools a task offers: those that its oracle or demonstration calls, and others up to `per_task`."""

    per_task: Whole = Field(ge=1, le=500)


class PlanDocument(Strict):
    """A whole plan. `tasks` is a list of `scenario/idx` or a filter; `control` names the arm to compare with, the first
    by default; `primary` the one whose contrast with it leads, by default the first. `shuffle` seeds the order in which
    tasks are run and read. `environment` names a server of `AWMWEB_ENVIRONMENTS`; `texts` has the texts of listed tasks
    that only this server knows. `complete_at` is the reward from which an episode on a server without verifiers counts
    as complete. `options` are those of the models of all arms, and replace those of their endpoints. With `tools`
    each task offers fewer tools, the same ones in every arm."""

    name: Name
    tasks: Tasks = TaskFilter()
    arms: list[PlannedArm] = Field(min_length=1, max_length=10)
    control: str = ""
    primary: str = ""
    seeds: Whole = Field(1, ge=1, le=MAX_SEEDS)
    policy: str = Field("script:demo", max_length=200)
    max_steps: Whole = Field(30, ge=1, le=1000)
    # 30 days, for asks whose episode is parked
    ask_deadline_s: Whole = Field(300, ge=1, le=2_592_000)
    max_asks: Whole = Field(5, ge=0, le=100)
    nudge_after: Whole = Field(2, ge=0, le=1000)
    stall_after: Whole = Field(5, ge=0, le=1000)
    parallel: Whole = Field(8, ge=1, le=1000)
    shuffle: Whole = Field(1, ge=0, le=2**31 - 1)
    environment: str = Field("awm", min_length=1, max_length=100)
    texts: dict[str, Prose] | None = None
    complete_at: StrictFloat = Field(COMPLETE_AT, ge=-1e9, le=1e9)
    options: Options | None = None
    tools: ToolsOffered | None = None
    start: bool = True

    @field_validator("control", "primary", mode="before")
    @classmethod
    def _is_an_arm(cls, value: Any) -> Any:
        return _stripped(value)

    @model_validator(mode="after")
    def _fits(self) -> PlanDocument:
        self._share_environment()
        if self.policy == PERSON:
            raise ValueError("a person acts in single arms: give each of them `person: true`")
        for arm in self.arms:
            if arm.options and not is_of_model(arm.policy or self.policy):
                raise ValueError(f"arm {arm.name!r} asks no model, so it has no options")
        if self.options and not any(is_of_model(arm.policy or self.policy) for arm in self.arms):
            raise ValueError("no arm asks a model, so the plan has no options")
        names = [arm.name for arm in self.arms]
        if len(set(names)) < len(names):
            raise ValueError("two arms have the same name")
        self.control = self.control or names[0]
        if self.control not in names:
            raise ValueError(f"control {self.control!r} is not an arm of the plan")
        if self.primary and (self.primary not in names or self.primary == self.control):
            raise ValueError(f"primary {self.primary!r} is not an arm of the plan beside the control")
        listed = self.tasks if isinstance(self.tasks, list) else []
        if unlisted := [key for key in self.texts or () if key not in listed]:
            raise ValueError(f"texts: {unlisted[0]!r} is not in the list of tasks")
        if self.texts and self.environment == "awm":
            raise ValueError("texts are for tasks of a further server; the built-in one has those of its packs")
        if self.tools and self.environment != "awm":
            raise ValueError("tools are chosen by a task's oracle, which tasks of a further server do not have")
        return self

    def _share_environment(self) -> None:
        """Move the environment that arms name to the plan, so that one plan has one form."""
        named = {arm.environment for arm in self.arms if arm.environment is not None}
        if not named:
            return
        is_said = "environment" in self.model_fields_set
        if len({*named, *([self.environment] if is_said else [])}) > 1:
            raise ValueError("arms name different environments; they are compared on the tasks of one")
        if not is_said and any(arm.environment is None for arm in self.arms):
            raise ValueError("some arms name an environment and others do not; name it once for the plan")
        self.environment = named.pop()
        for arm in self.arms:
            arm.environment = None

    @property
    def digest(self) -> str:
        plan = self.model_dump()
        if self.environment == "awm":
            # plans from before there were other servers have no such field; this keeps their digest
            del plan["environment"]
        if self.texts is None:
            del plan["texts"]
        if self.complete_at == COMPLETE_AT:
            del plan["complete_at"]
        if not self.primary:
            del plan["primary"]
        for name in ("options", "tools"):
            if plan[name] is None:
                del plan[name]
        if isinstance(plan["tasks"], dict) and not plan["tasks"]["partial"]:
            del plan["tasks"]["partial"]
        for arm in plan["arms"]:
            for name in ADDED:
                if arm[name] is None:
                    del arm[name]  # plans from before arms had these fields keep their digest
        return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()


def plan_of(value: Any) -> PlanDocument:
    """Return the plan in a value. Raises `BadPlan`, which names the field."""
    try:
        return PlanDocument.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        # the tags of the two forms of `tasks` are part of a location, and no field
        where = ".".join(str(one) for one in first["loc"] if one not in (LISTED, FILTERED, BY_RULE, BY_GATE))
        raise BadPlan(f"plan{'.' if where else ''}{where}: {words_of(first)}.") from error


def differing(stored: Mapping[str, Any], plan: PlanDocument) -> list[str]:
    """Return the fields, except the name, in which a plan differs from a stored one."""
    before, now = _said_in(stored), _said_in(plan.model_dump())
    return [name for name in PlanDocument.model_fields if name != "name" and before.get(name) != now.get(name)]


def _said_in(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plan's fields without empty and derived ones; older plans may lack them."""
    fields: dict[str, Any] = {"environment": "awm", "complete_at": COMPLETE_AT, **_without_none(document)}
    if fields["control"] == fields["arms"][0]["name"]:
        del fields["control"]
    if not fields.get("primary"):
        fields.pop("primary", None)
    if isinstance(fields["tasks"], Mapping):
        fields["tasks"] = {"partial": False, **fields["tasks"]}
    return fields


def _without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_none(one) for name, one in value.items() if one is not None}
    return [_without_none(one) for one in value] if isinstance(value, list) else value


def plan_from_yaml(text: str, folder: Path | None = None) -> PlanDocument:
    """Return the plan in a YAML text. With a folder, the gates that its arms name are read from files there: a plan
    from elsewhere names none of this machine's. Raises `BadPlan`."""
    try:
        document = yaml_text.read(text)
        return plan_of(document if folder is None else _with_gates(document, folder))
    except yaml_text.BadYaml as error:
        raise BadPlan(f"The plan is not YAML: {error}") from error


def _with_gates(document: Any, folder: Path) -> Any:
    arms = document.get("arms") if isinstance(document, Mapping) else None
    if not isinstance(arms, list):
        return document
    return {**document, "arms": [_with_gate(arm, folder) for arm in arms]}


def _with_gate(arm: Any, folder: Path) -> Any:
    name = arm.get("ask") if isinstance(arm, Mapping) else None
    if not isinstance(name, str) or kind_of_rule(name):
        return arm
    try:
        with (folder / name).open("rb") as file:
            content = file.read(GATE_BYTES + 1)
        if len(content) > GATE_BYTES:
            raise BadPlan(f"The gate {name} has more than {GATE_BYTES:,} bytes.")
        return {**arm, "ask": parse_json(content)}
    except (OSError, ValueError, BadJson, TooLarge) as error:
        raise BadPlan(f"The gate {name} cannot be read: {error}") from error


def briefing_words(document: Mapping[str, Any], name: str) -> str:
    """Return the source of the briefings of an arm of a stored plan, or ""."""
    arm: Mapping[str, Any] = next((one for one in document["arms"] if one["name"] == name), {})
    if not arm.get("briefing"):
        return ""
    who = "people" if arm["briefing"] == HUMAN else str(arm["briefing"]).partition(":")[2] or "a model"
    return f"briefed by {who}{', from outcomes' if arm.get('outcomes') else ''}"


def to_yaml(plan: PlanDocument) -> str:
    """Return the plan as YAML that launches the same run elsewhere."""
    return yaml.safe_dump(plan.model_dump(), sort_keys=False, allow_unicode=True)


def repeatable(document: PlanDocument, tasks: Sequence[str]) -> str:
    """Return the plan as YAML that lists each of its tasks, so that other packs and splits elsewhere change nothing.
    `tasks` are in the order in which the plan shuffled them; listed in their original order, they are shuffled the
    same."""
    if isinstance(document.tasks, list):
        return to_yaml(document)
    places = list(range(len(tasks)))
    # a shuffle depends on the seed and the length alone: places move as the tasks did
    random.Random(document.shuffle).shuffle(places)
    before = [task for _, task in sorted(zip(places, tasks, strict=True))]
    filtered = json.dumps(document.tasks.model_dump(exclude_defaults=True))
    return f"# The tasks that this filter selected at the launch: {filtered}\n" + to_yaml(
        document.model_copy(update={"tasks": before})
    )


def recipes() -> dict[str, str]:
    """Return the recipes by name, each as its YAML text."""
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(RECIPES.glob("*.yaml"))}


def recipe(name: str) -> PlanDocument:
    """Return the plan of a recipe. Raises `BadPlan`."""
    by_name = recipes()
    if name not in by_name:
        raise BadPlan(f"There is no recipe {name!r}. Recipes are {', '.join(by_name)}.")
    return plan_from_yaml(by_name[name])
