"""Every shape that crosses a process between a rollout loop and the dashboard, versioned.

Owns the record format: steps, asks, advice, episodes, trajectories. Leaves the bounds of a field to `fields.py`,
transport to `client.py` and storage to the dashboard. Called by the client, by the dashboard's API and by every reader
of trajectories.

Times are UTC datetimes in ISO 8601, durations are seconds, rewards are plain numbers, IDs are opaque strings.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    PrivateAttr,
    StrictBool,
    StrictInt,
    Tag,
    WithJsonSchema,
    model_validator,
)
from pydantic import TypeAdapter as TypeAdapter
from pydantic_core import PydanticCustomError

from awmclient.fields import (
    MAX_INT,
    WHOLE,
    Count,
    Line,
    Moment,
    Number,
    Object,
    Prose,
    StateDiff,
    Text,
    ZonedMoment,
    bounded,
    clean_text,
    too_large,
)
from awmclient.fields import (
    Shape as Shape,
)
from awmclient.typed import (
    TYPED_FIELDS,
    AskKind,
    DecidedBy,
    OnTimeout,
    Option,
    ProposedCall,
    TypedAsk,
    TypedDecision,
    Verdict,
)

SCHEMA_VERSION = "awmweb.trajectory/1"
ASK_TOOL = "ask_expert"
NOT_COUNTED = frozenset({"judge_error", "reset_error", "server_error", "verifier_error", "content_filter"})
"""Reward types that say something about verifier or server and nothing about the agent: no rate counts them."""
CONTROL_TOOLS = frozenset({"verify", "done", "__list_scenarios__", "reset", "step", "state", "close"})
"""Names of the control channel; an agent that calls one gets the error of an unknown tool."""

MAX_DEADLINE_S = 2_592_000
"""30 days, the longest wait of an ask; its episode is parked meanwhile."""
MAX_BATCH_BYTES = 2 * 1024 * 1024
MAX_STEP_BYTES = 8 * 1024 * 1024
MAX_WHOLE_BYTES = 8 * 1024 * 1024
MAX_WHOLE_EPISODES = 64
CUT_ABOVE_BYTES = 32 * 1024
"""A larger step goes through sockets in its cut form, marked by a field `cut` (`Cut`); over HTTP it comes whole."""

Privilege = Literal["blind", "sees_verifier"]
ExpertMode = Literal["off", "plain", "informed"]
EpisodeState = Literal["queued", "running", "waiting", "parked", "finished", "failed", "cancelled"]
AT_WORK_STATES: tuple[EpisodeState, ...] = ("running", "waiting")
"""A loop runs the episode and must send heartbeats."""
LIVE_STATES: tuple[EpisodeState, ...] = ("queued", *AT_WORK_STATES, "parked")
"""The episode has not ended."""
StopReason = Literal["done", "max_steps", "gave_up", "timeout", "error"]
Fault = Literal["policy", "model", "environment", "expert", "dashboard", "worker"]
OwnFault = Literal["environment", "policy", "model", "expert"]
"""Faults that a loop can report at its end; the dashboard detects the others."""
AskStatus = Literal["open", "answered", "fell_back", "cancelled"]
Tier = Literal["cache", "llm", "people", "senior"]
AdviceSource = Literal["human", "llm", "cache", "fallback"]


class ToolSpec(Shape):
    """A tool as the agent sees it: `name`, a description and the JSON Schema of its arguments.

    Taken in three forms, kept in this one: also as OpenAI has it, `{"type": "function", "function": {"name",
    "description", "parameters"}}`, and as MCP lists it, with `inputSchema`. What those say beside (`strict`, `title`,
    `annotations`) is let go.
    """

    name: Line
    description: Text = ""
    input_schema: Object = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _in_one_form(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        if given.get("type") == "function" and isinstance(given.get("function"), dict):
            said, schema = given["function"], "parameters"
        elif "inputSchema" in given:
            said, schema = given, "inputSchema"
        else:
            return given
        parts = {"name": said.get("name"), "description": said.get("description"), "input_schema": said.get(schema)}
        return {name: value for name, value in parts.items() if value is not None}


class ToolCall(Shape):
    """One call of a tool: its name and its arguments as an object, never as a JSON string."""

    name: Line
    arguments: Object = Field(default_factory=dict)


class FileRef(Shape):
    """A file attached to an ask or an answer. `GET /attachments/{id}` has its bytes; the type is read from these."""

    id: str
    name: str
    media_type: str
    size: int
    sha256: str


class AttachedFile(FileRef):
    """A file as a list of an ask has it: attached by the asker (`ask`) or by an expert (`answer`)."""

    side: Literal["ask", "answer"]


class AttachedFiles(Shape):
    files: list[AttachedFile]


Heard = Literal["deadline", "unreachable"]
"""The reason of the absent advice that an agent got from a loop that stopped waiting."""


ASKS_BACK = "asks_back"
"""The `reason` of an answer that is a question. The agent answers it with an ask whose `thread` is this one."""


class Advice(Shape):
    """What an ask came back with. A fallback has empty text; the agent then hears `no_advice`, never a sentence."""

    text: Text
    source: AdviceSource
    author: str | None = None
    behind: Literal["person", "script", "model"] | None = None
    """Who used the token that answered, as its issuer said; none for answers on a page and for expert models."""
    privilege: Privilege = "blind"
    tool_calls: list[ToolCall] | None = None
    reason: str | None = None
    files: list[FileRef] | None = None
    decision: TypedDecision | None = None
    """The typed answer to an approval, a choice or a form; also what silence means, if the asker said so."""
    by: DecidedBy | None = None
    """Who decided: a person, a model, a standing answer or the deadline; none for a plain question."""
    local: bool = False

    @property
    def is_fallback(self) -> bool:
        return self.source == "fallback"

    def observation(self) -> Object:
        """Return what the agent sees of it: the advice, the decision, or the typed absence of one."""
        if self.decision is not None:
            seen: Object = {"status": "decided", "by": self.by, "decision": self.decision.model_dump(exclude_none=True)}
            if self.text:
                seen["advice"] = self.text
            return seen
        if self.is_fallback:
            return {"status": "no_advice", "reason": self.reason or "deadline"}
        seen = {"status": "advice", "advice": self.text}
        if self.tool_calls:
            seen["tool_calls"] = [call.model_dump() for call in self.tool_calls]
        if self.files:
            seen["files"] = [one.model_dump() for one in self.files]
        return seen


class StepCommon(Shape):
    """The fields that any step may carry. `seq` counts from 1 without gaps inside its episode."""

    seq: Annotated[StrictInt, Field(ge=1, le=MAX_INT), WHOLE]
    at: Moment | None = None
    turn: Count | None = None
    call_id: Line | None = None
    acted_by: Annotated[Line | None, Field(description="who acted in place of the agent: an opaque ID")] = None
    reward: Number | None = None
    done: StrictBool | None = None
    state_diff: StateDiff | None = None
    usage: Object | None = None
    meta: Object | None = None


class PlannedCall(Shape):
    """A tool call that was decided and is about to be made."""

    name: Annotated[Text, Field(description="tool name as the agent wrote it")]
    arguments: Object = Field(default_factory=dict)
    call_id: Line | None = None


REASONING_MAX = 1_000_000


class Reasoning(Shape):
    """What a model thought before its message, and where its endpoint put it: in a field beside the content, in parts
    of the content, or in tags inside the text. `parts` are those parts as they came: some endpoints want them back
    unchanged, and check a signature in them.
    """

    text: Text
    form: Literal["field", "parts", "tags"] = "field"
    name: Line | None = Field(default=None, description="the name of the field")
    parts: list[Object] | None = None


class Message(StepCommon):
    """Something said in the conversation.

    `reasoning` is what an assistant thought before it.

    `calls` of an assistant's message are the calls that its turn is about to make: a loop that goes on after a crash
    makes those that no step records yet, and does not ask the agent again.
    """

    kind: Literal["message"] = "message"
    role: Literal["system", "user", "assistant", "tool"]
    content: Text
    reasoning: Reasoning | None = None
    calls: list[PlannedCall] | None = None


class CallApproval(Shape):
    """What was decided on a call before it was made. `proposed` are the agent's arguments, if a person edited them."""

    verdict: Verdict
    by: DecidedBy
    proposed: Object | None = None
    reason: Text | None = None


class ToolCallStep(StepCommon):
    """A tool call and what came back: a `result` of any JSON shape, or an `error`.

    With an `approval`, `arguments` are those that ran; a rejected call was not made.
    """

    kind: Literal["tool_call"] = "tool_call"
    name: Annotated[Text, Field(description="tool name as the agent wrote it")]
    arguments: Object = Field(default_factory=dict)
    result: Any = None
    error: Text | None = None
    reward_type: Line | None = None
    approval: CallApproval | None = None


class Action(StepCommon):
    """An action in an OpenEnv environment that has no tools."""

    kind: Literal["action"] = "action"
    action: Object
    observation: Object | None = None
    error: Text | None = None


class Nudge(StepCommon):
    """A reminder by the loop, kept apart from the tool result that it follows."""

    kind: Literal["nudge"] = "nudge"
    content: Text


class Note(StepCommon):
    """A remark by the loop that the agent does not see."""

    kind: Literal["note"] = "note"
    content: Text


BRIEFING_MAX = 20_000
SOURCES_MAX = 100


class Briefing(StepCommon):
    """Advice from before the agent begins, from a person or distilled by a model. The agent reads `text` alone.

    `sources` are ids of the earlier episodes that it is from; a privilege of *sees_verifier* says that its author
    knew outcomes of theirs, or the verifier.
    """

    kind: Literal["briefing"] = "briefing"
    text: Annotated[Any, bounded(BRIEFING_MAX, least=1), WithJsonSchema(
        {"type": "string", "minLength": 1, "maxLength": BRIEFING_MAX, "description": "what the agent reads"}
    )]  # fmt: skip
    source: Literal["human", "llm"] = "human"
    author: Line | None = None
    privilege: Privilege = "blind"
    sources: Annotated[list[Line], Field(max_length=SOURCES_MAX)] = Field(default_factory=list)


NO_BRIEFING_AFTER = frozenset({"tool_call", "action", "ask", "briefing"})
"""Kinds of steps after which none of kind *briefing* is taken: it is given once, before the agent acts."""
LATE_BRIEFING = "A briefing is recorded once, before the first action."


class AskStep(StepCommon):
    """A question to the experts; written by the server, which fills `advice` when the ask closes."""

    kind: Literal["ask"] = "ask"
    ask: str | None = None
    question: Text
    context: Text | None = None
    files: list[FileRef] | None = None
    typed: TypedAsk | None = None
    """What it wants, if that is a decision."""
    thread: str | None = None
    """The earlier ask that this one continues."""
    advice: Advice | None = None


class Verification(StepCommon):
    """The verifier's word; written by the server, never shown to an agent."""

    kind: Literal["verification"] = "verification"
    reward_type: str
    details: Object = Field(default_factory=dict)


def _kind(value: Any) -> str | None:
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    return kind if isinstance(kind, str) else None


_AgentKinds = (
    Annotated[Message, Tag("message")]
    | Annotated[ToolCallStep, Tag("tool_call")]
    | Annotated[Action, Tag("action")]
    | Annotated[Nudge, Tag("nudge")]
    | Annotated[Note, Tag("note")]
    | Annotated[Briefing, Tag("briefing")]
)
AgentStep = Annotated[_AgentKinds, Discriminator(_kind)]
"""What a loop may append; ask and verification steps are written by the server."""
Step = Annotated[
    _AgentKinds | Annotated[AskStep, Tag("ask")] | Annotated[Verification, Tag("verification")], Discriminator(_kind)
]
STEP: TypeAdapter[Any] = TypeAdapter(Step)


class Cut(Shape):
    """The mark of a step that a socket sends shortened: how large the whole one is, and which fields are not whole. A
    step of this seq is fetched whole with `GET /episodes/{id}/steps/{seq}`. No stored step carries it.

    `counts` has the entries of a shortened `result` or `observation`, and of lists in it (`result.orders`).
    """

    size: int
    fields: list[str]
    counts: dict[str, int] = {}


class StepBatch(Shape):
    """Body of an append: steps with ascending `seq`, no gap between them."""

    steps: Annotated[list[AgentStep], Field(min_length=1, max_length=2000)]


class Acknowledged(Shape):
    """The last `seq` that is durable."""

    acknowledged: int


class RunStart(Shape):
    """Opens a run. `key` makes a retry safe: the same key and body give the same run. `expert` is the most that an
    agent's token may give an episode of it; *informed* wants a launch right. With a `plan` awmweb runs them; name,
    arm, policy and expert then follow from the plan.
    """

    name: Line
    key: Line | None = None
    arm: Line | None = None
    policy: Object | None = None
    metadata: Object | None = None
    expert: ExpertMode = "plain"
    plan: Object | None = None


class RunView(Shape):
    """A run. `state` is there for a run with a plan."""

    id: str
    name: str
    expert: ExpertMode = "plain"
    state: str | None = None


MAX_TOOLS = 500
SCHEMA_VALUES, SCHEMA_LEVELS, SCHEMA_CHARACTERS = 20_000, 100, 250_000
ALL_SCHEMAS = 40_000, 1_000_000
"""Values and characters in the schemas of all tools together."""


def tools_problem(tools: Sequence[ToolSpec]) -> str:
    """Return why these tools cannot be accepted, in words; empty if they can.

    Schemas are untrusted, and all code that shows or checks a call relies on these bounds.
    """
    if len(tools) > MAX_TOOLS:
        return f"There are {len(tools)} tools, more than {MAX_TOOLS}."
    schemas = [tool.input_schema for tool in tools]
    # One level more, for the list around the schemas.
    if not too_large(schemas, SCHEMA_VALUES, SCHEMA_LEVELS + 1, SCHEMA_CHARACTERS):
        return ""  # the usual case: all of them together are within the bounds of one
    for tool in tools:
        if why := too_large(tool.input_schema, SCHEMA_VALUES, SCHEMA_LEVELS, SCHEMA_CHARACTERS):
            return f"The schema of the tool {tool.name} {why}."
    why = too_large(schemas, ALL_SCHEMAS[0], SCHEMA_LEVELS + 1, ALL_SCHEMAS[1])
    return f"The list of the tools' schemas {why}." if why else ""


def _bounded_tools(tools: list[ToolSpec]) -> list[ToolSpec]:
    if problem := tools_problem(tools):
        raise PydanticCustomError("tools", "{problem}", {"problem": problem})
    return tools


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


class RunItem(Shape):
    """A run in a list, with the number of its episodes by state, of the newest 10,000. Its own `state` is that of its
    plan, if it has one."""

    id: str
    name: str
    key: str | None = None
    arm: str | None = None
    expert: ExpertMode
    policy: Object
    metadata: Object
    state: str | None = None
    created_at: datetime
    episodes: dict[str, int]


class RunPage(Shape):
    """Newest first. `next` is the cursor of the next page; null on the last one."""

    items: list[RunItem]
    next: str | None = None


class TrainingStepReport(Shape):
    """A finished training step in a trainer's words. Format errors are counted from the record, not reported."""

    training_step: Annotated[StrictInt, Field(ge=1, le=MAX_INT), WHOLE]
    losses: Annotated[dict[Line, Number], Field(max_length=200)] | None = None
    components: Annotated[dict[Line, Number], Field(max_length=200)] | None = None
    checkpoint: Line | None = None


class Ratio(Shape):
    """How many rollouts of a group are offered an expert."""

    group_size: int
    expert: int
    solo: int


class TrainingStepView(Shape):
    """A reported training step. `rollouts` finished without a fault; `format_errors` of them held no executable call.

    `next_phase` and `next_ratio` say how much help the step to come gives; only the answer to a report has them.
    """

    training_step: int
    losses: Object
    components: Object
    checkpoint: str | None = None
    rollouts: int
    format_errors: int
    not_counted: int
    at: datetime
    next_phase: str | None = None
    next_ratio: Ratio | None = None


class TrainingStepPage(Shape):
    """All reported training steps of a run, the first one first."""

    items: list[TrainingStepView]


class NextTask(Shape):
    """A task to play. Its level may limit steps and tools and give a hint. Agents get no level, weight or rates."""

    task: str
    scenario: str | None = None
    task_idx: int | None = None
    split: str
    level: str | None = None
    weight: float | None = None
    pinned: bool = False
    max_steps: int | None = None
    tools: list[str] | None = None
    hint: str | None = None
    solo: int | None = None
    solo_solved: int | None = None
    helped: int | None = None
    helped_solved: int | None = None


class CurriculumNext(Shape):
    """What to play next and with how much help. The same `snapshot` and `seed` give the same tasks."""

    snapshot: str
    run: str
    training_step: int
    strategy: str
    phase: str
    decided_by: str
    format_error_rate: float | None = None
    ratio: Ratio
    method: str
    recommended: bool | None = None
    seed: int
    tasks: list[NextTask]


class StepPage(Shape):
    """Steps with `seq` above the asked one, in order. A page ends early at 4 MB: while there are `more`, ask again with
    `since` set to the `seq` of the last step."""

    steps: list[Object]
    more: bool = False


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


QUESTION_MAX = 20_000
CONTEXT_MAX = 100_000
Question = Annotated[
    Any,
    bounded(QUESTION_MAX, least=1),
    WithJsonSchema(
        {"type": "string", "minLength": 1, "maxLength": QUESTION_MAX, "description": "what the agent wants to know"}
    ),
]
Context = Annotated[
    Any,
    bounded(CONTEXT_MAX),
    WithJsonSchema({"type": "string", "maxLength": CONTEXT_MAX, "description": "what was tried and what came back"}),
]


class AskOpen(Shape):
    """A question. It takes step number `seq`; the loop goes on with `seq` + 1."""

    key: Line
    episode: Line
    seq: Annotated[StrictInt, Field(ge=1, le=MAX_INT), WHOLE]
    question: Question
    context: Context | None = None
    deadline_s: Annotated[StrictInt, Field(ge=1, le=MAX_DEADLINE_S), WHOLE] = 300
    human_deadline_s: Annotated[StrictInt, Field(ge=1, le=MAX_DEADLINE_S), WHOLE] | None = None
    priority: Annotated[StrictInt, Field(ge=-100, le=100), WHOLE] = 0
    skills: Annotated[list[Line], Field(max_length=20)] | None = None
    group_key: Line | None = None
    turn: Count | None = None
    call_id: Line | None = None
    kind: AskKind = "question"
    calls: Annotated[list[ProposedCall], Field(description="of an approval")] | None = None
    options: Annotated[list[Option], Field(description="of a choice")] | None = None
    many: StrictBool | None = None
    other: StrictBool | None = None
    response_schema: Annotated[Object, Field(description="of a form: a subset of JSON Schema")] | None = None
    on_timeout: OnTimeout | None = None
    thread: Line | None = None
    _typed: TypedAsk = PrivateAttr()

    @model_validator(mode="after")
    def _checks_its_kind(self) -> AskOpen:
        self._typed = TypedAsk(kind=self.kind, **{name: getattr(self, name) for name in TYPED_FIELDS})
        self.response_schema = self._typed.response_schema
        return self

    def typed(self) -> dict[str, Any]:
        """Return its typed part as `typed_of` does, without checking it again."""
        return self._typed.model_dump(by_alias=True, exclude_none=True) if self.kind != "question" else {}


class AskView(Shape):
    """An ask as its asker sees it. `advice` is always there once answered or fell back."""

    id: str
    status: AskStatus
    deadline_at: datetime
    expected_wait_s: float | None = None
    reason: str | None = None
    advice: Advice | None = None
    delivered_at: datetime | None = None
    consumed_at: datetime | None = None


class AskListing(Shape):
    """An ask as an expert sees it on the queue."""

    id: str
    episode: str
    seq: int
    status: AskStatus
    question: Text
    context: Text | None = None
    deadline_at: datetime
    tier: Tier = "people"
    priority: int
    scenario: str | None = None
    task: str
    privilege: Privilege
    held_by: str | None = None
    lease_until: datetime | None = None
    kind: AskKind = "question"
    typed: TypedAsk | None = None
    """What it wants, if that is a decision: `calls`, `options` or `response_schema`, and what silence means."""
    thread: str | None = None
    model_fault: str | None = None
    """Why the last call of an expert model gave no advice. Experts read it, agents do not."""


class AskList(Shape):
    """`next` is the cursor of the next page; null on the last one, and where none was asked for."""

    asks: list[AskListing]
    next: str | None = None


class Claimed(Shape):
    assignment: str
    lease_token: str
    lease_until: datetime


class LeaseBody(Shape):
    lease_token: Line
    reason: Annotated[str, Field(max_length=1000), BeforeValidator(clean_text)] | None = None


class AnswerBody(Shape):
    lease_token: Line
    text: Annotated[str, Field(max_length=20_000), BeforeValidator(clean_text)]
    tool_calls: Annotated[list[ToolCall], Field(max_length=20)] | None = None
    decision: Annotated[TypedDecision | Any, Field(union_mode="left_to_right")] = None
    """Of an approval, a choice or a form; the text is then a note beside it and can be empty."""
    asks_back: StrictBool = False
    """The text is a question, which the agent is to answer first."""
    anyway: StrictBool = False
    """Its author has read why a model returned it (`second_look_model`), and sends it nevertheless."""
    nonce: Line


class StandingAnswerBody(Shape):
    """Approves calls of a tool ahead. Arguments that are named must be equal; in the project, or in one run."""

    tool: Line
    arguments: Annotated[Object, Field(max_length=100)] = Field(default_factory=dict)
    run: Line | None = None
    until: ZonedMoment
    at_most: Annotated[StrictInt, Field(ge=1, le=100_000), WHOLE] = 20


class StandingAnswerView(Shape):
    """A standing answer. `used` counts calls that it approved, `answered` open asks that it closed immediately."""

    id: str
    tool: str
    arguments: Object
    run: str | None = None
    until: datetime
    at_most: int
    used: int
    author: str
    created_at: datetime
    ended_at: datetime | None = None
    answered: int | None = None


class StandingAnswers(Shape):
    items: list[StandingAnswerView]


class WheelLease(Shape):
    """The wheel of a live episode, held until the lease ends. Renew it before that."""

    lease_token: str
    lease_until: datetime


HOLD_MAX_S = 60
"""The longest time for which an order at the wheel waits, so that it can be undone."""


class WheelUndoBody(Shape):
    """The order to undo, by its nonce."""

    lease_token: Line
    nonce: Line


class WheelCallBody(Shape):
    """What to do at the wheel: a `call` of a tool, `words` to the agent, or `propose`: the agent chooses, and nothing
    of it is made. The same nonce again changes nothing. For `hold_s` seconds it is not sent to the loop, and can be
    undone."""

    lease_token: Line
    nonce: Line
    call: ToolCall | None = None
    words: Annotated[str | None, Field(min_length=1, max_length=20_000), BeforeValidator(clean_text)] = None
    propose: StrictBool = False
    hold_s: Annotated[StrictInt, Field(ge=0, le=HOLD_MAX_S), WHOLE] = 0

    @model_validator(mode="after")
    def _checked(self) -> WheelCallBody:
        if (self.call is not None) + (self.words is not None) + self.propose != 1:
            raise ValueError("give one of call, words and propose")
        return self


class WheelOrderView(Shape):
    """An order for the loop: later ones have a greater `number`, `acted_by` goes to the step."""

    number: int
    acted_by: str
    call: ToolCall | None = None
    words: str | None = None
    propose: bool = False


class WheelView(Shape):
    """What a loop is to do: while the wheel is `held` the agent does not choose, and `orders` are carried out one by
    one. `limits` replace those of the loop."""

    held: bool
    orders: list[WheelOrderView]
    limits: dict[str, int] = Field(default_factory=dict)


LIMITS = ("max_steps", "max_asks", "timeout_s")
"""Limits of a live episode that people can change."""


class LimitsBody(Shape):
    """New limits of a live episode, and why. What is left out stays."""

    max_steps: Annotated[StrictInt, Field(ge=1, le=1000), WHOLE] | None = None
    max_asks: Annotated[StrictInt, Field(ge=0, le=100), WHOLE] | None = None
    timeout_s: Annotated[StrictInt, Field(ge=1, le=2_592_000), WHOLE] | None = None
    reason: Annotated[str, Field(min_length=1, max_length=500), BeforeValidator(clean_text)]


class Done(Shape):
    """A plain yes."""

    ok: bool = True


class ErrorBody(Shape):
    code: str
    message: str


class ErrorEnvelope(Shape):
    error: ErrorBody


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
    def _nest(cls, said: Any) -> Any:
        if not isinstance(said, dict) or "episode" in said or "finish" in said:
            return said
        of_finish = {name: said[name] for name in Finish.model_fields if name in said}
        of_episode = {name: value for name, value in said.items() if name not in (*of_finish, "steps")}
        steps = {"steps": said["steps"]} if "steps" in said else {}
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


ASK_SPEC = ToolSpec(
    name=ASK_TOOL,
    description=(
        "Ask an expert one question. Try by yourself first; ask when a rule or a preference is not to be found with "
        "the other tools, or when an error comes back twice. The answer may take minutes; it may also be that nobody "
        "answers."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "question": {"type": "string", "description": "one clear question"},
            "context": {"type": "string", "description": "what was tried and what came back"},
        },
        "required": ["question"],
    },
)
"""The virtual tool: the rollout loop offers it, no environment lists it."""
