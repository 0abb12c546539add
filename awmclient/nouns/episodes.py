"""Episodes: how one starts and ends, whole ones in one request, and the trajectory that readers get."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StrictInt, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from awmclient.nouns.answers import ErrorBody
from awmclient.nouns.fields import WHOLE, Count, Line, Moment, Number, Object, Prose, Shape, Text, bounded
from awmclient.nouns.steps import AgentStep, Step
from awmclient.nouns.tools import MAX_TOOLS, ToolSpec, _bounded_tools
from awmclient.nouns.values import MAX_WHOLE_EPISODES, SCHEMA_VERSION, EpisodeState, ExpertMode, OwnFault, StopReason


class EpisodeStart(Shape):
    """Opens an episode. `key` makes a retry safe: the same key and body give the same episode. With `parent` and
    `branch_seq` it continues from the prompt of an ended episode before that step, and is in no run."""

    key: Line
    task: Prose
    scenario: Line | None = None
    task_idx: Count | None = None
    scenario_digest: Line | None = None
    environment: Line = "awm"
    tools: Annotated[list[ToolSpec], Field(max_length=MAX_TOOLS), AfterValidator(_bounded_tools)] | None = None
    run: Line | None = None
    arm: Line | None = None
    # What a 64-bit column holds.
    seed: Annotated[StrictInt, Field(ge=-(2**63), le=2**63 - 1), WHOLE] | None = None
    split: Line | None = None
    policy: Object | None = None
    training_step: Count | None = None
    checkpoint: Line | None = None
    group_key: Line | None = None
    expert: ExpertMode = "off"
    parent: Line | None = None
    branch_seq: Annotated[StrictInt, Field(ge=1, le=2**31 - 1), WHOLE] | None = None

    @model_validator(mode="after")
    def _continues(self) -> EpisodeStart:
        if (self.parent is None) != (self.branch_seq is None):
            raise ValueError("parent and branch_seq are given together")
        if self.parent is not None and (self.run is not None or self.group_key is not None):
            raise ValueError("an episode with a parent is in no run and no group")
        return self


class EpisodeRef(Shape):
    id: str
    url: str


class EpisodeToken(Shape):
    """A token that asks at the desk's `/mcp`, for one episode and while that is live."""

    token: str


class EpisodeView(Shape):
    """The state of an episode. `reported` outcomes and rewards of verifiers are not in it: agents read this."""

    id: str
    url: str
    state: EpisodeState
    last_seq: int
    stop_reason: str | None = None
    fault: str | None = None
    task: str
    scenario: str | None = None
    task_idx: int | None = None
    scenario_digest: str | None = None


class HeartbeatView(EpisodeView):
    """The same, and whether there is something to read at `GET /episodes/{id}/wheel`."""

    steered: bool = False


class OutcomeView(Shape):
    """Whose word an outcome is: `verifier`, `attested` or `reported`."""

    reward_type: str
    reward: float | None = None
    source: str


class EpisodeItem(Shape):
    """An episode in a list. Agents get no `outcomes`; `scenario_digest` is the version that they are of. What is
    `assisted` counts in no rate: a person took part."""

    id: str
    url: str
    key: str
    state: EpisodeState
    run: str | None = None
    arm: str | None = None
    scenario: str | None = None
    task_idx: int | None = None
    scenario_digest: str | None = None
    task: str
    environment: str
    expert: ExpertMode
    origin: str
    seed: int | None = None
    split: str | None = None
    policy_kind: str | None = None
    policy_name: str | None = None
    training_step: int | None = None
    checkpoint: str | None = None
    group_key: str | None = None
    last_seq: int
    stop_reason: str | None = None
    fault: str | None = None
    created_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    assisted: bool = False
    outcomes: list[OutcomeView] | None = None


class EpisodePage(Shape):
    """Newest first. `next` is the cursor of the next page; null on the last one."""

    items: list[EpisodeItem]
    next: str | None = None


class ReportedOutcome(Shape):
    """A loop's own judgement, kept as *reported* and never mixed with the verifier's. With a statement that the
    environment server signed for this very session it counts as *attested*, too."""

    reward_type: Line
    reward: Number
    details: Object | None = None
    attestation: Object | None = Field(
        default=None, description="what the environment server signed after `verify`: `statement` and `signature`"
    )


DETAIL_MAX = 4000


class Finish(Shape):
    """Why a loop ended. With `error` it can name the boundary that failed, and how: a `fault` is no result of the
    agent."""

    stop_reason: StopReason
    final_answer: Text | None = None
    outcome: ReportedOutcome | None = None
    fault: OwnFault | None = None
    detail: Annotated[Any, bounded(DETAIL_MAX), WithJsonSchema(
        {"type": "string", "maxLength": DETAIL_MAX, "description": "what failed, in words"}
    )] | None = None  # fmt: skip

    @model_validator(mode="after")
    def _has_a_fault_only_with_error(self) -> Finish:
        if self.fault is not None and self.stop_reason != "error":
            raise PydanticCustomError("fault", "A fault needs the stop_reason error")
        if self.detail is not None and self.fault is None:
            raise PydanticCustomError("detail", "A detail needs a fault")
        return self


class WholeEpisode(Shape):
    """A finished episode in one piece: what the calls that start it, append its steps and finish it would say.

    `steps` are numbered from 1 without gaps. It cannot have asks: an episode that asks is recorded live. The fields of
    `episode` and `finish` can also stand beside `steps`, without these two objects.
    """

    episode: EpisodeStart
    steps: Annotated[list[AgentStep], Field(max_length=2000)]
    finish: Finish

    @model_validator(mode="before")
    @classmethod
    def _nest(cls, fields: Any) -> Any:
        if not isinstance(fields, dict) or "episode" in fields or "finish" in fields:
            return fields
        of_finish = {name: fields[name] for name in Finish.model_fields if name in fields}
        of_episode = {name: value for name, value in fields.items() if name not in (*of_finish, "steps")}
        steps = {"steps": fields["steps"]} if "steps" in fields else {}
        return {"episode": of_episode, **steps, "finish": of_finish}


class WholeBatch(Shape):
    """Finished episodes to record. Each is checked by itself: one that is refused does not touch the others."""

    episodes: Annotated[
        list[Any],
        Field(min_length=1, max_length=MAX_WHOLE_EPISODES),
        WithJsonSchema({"type": "array", "minItems": 1, "maxItems": MAX_WHOLE_EPISODES, "items": {"type": "object"}}),
    ]


class WholeResult(Shape):
    """What became of one of them: `id` and `url`, or `error`. `known` says that it was recorded before."""

    id: str | None = None
    url: str | None = None
    known: bool = False
    error: ErrorBody | None = None


class WholeResults(Shape):
    """One result for each episode, in their order."""

    results: list[WholeResult]


class Outcome(Shape):
    """What the verifier found, or what a loop, a file or an environment without a verifier reported."""

    reward_type: str
    reward: float | None = None
    details: Object = Field(default_factory=dict)
    state_diff: Object = Field(default_factory=dict)
    source: Literal["verifier", "attested", "reported"] = "verifier"


class Trajectory(Shape):
    """All steps of an episode in order, with what is needed to train on it or replay it."""

    schema_version: str = SCHEMA_VERSION
    episode: str
    project: str
    state: EpisodeState
    task: str
    scenario: str | None = None
    task_idx: int | None = None
    scenario_digest: str | None = None
    environment: str = "awm"
    tools: list[ToolSpec] = Field(default_factory=list)
    run: str | None = None
    arm: str | None = None
    seed: int | None = None
    split: str | None = None
    policy: Object = Field(default_factory=dict)
    training_step: int | None = None
    checkpoint: str | None = None
    group_key: str | None = None
    expert: ExpertMode = "off"
    stop_reason: str | None = None
    fault: str | None = None
    final_answer: Text | None = None
    steps: list[Step] = Field(default_factory=list)
    outcome: Outcome | None = None
    reported: Outcome | None = None
    started_at: Moment | None = None
    ended_at: Moment | None = None
    """Both of a file whose steps have no times."""
    not_for_training: str | None = None
    """Of an export: the rule that keeps the episode out of training."""
