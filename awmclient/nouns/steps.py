"""Steps of an episode, one class per kind. A loop appends some; the server writes asks and verifications."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, StrictBool, StrictInt, Tag, TypeAdapter, WithJsonSchema, model_validator

from awmclient.nouns.asks import Advice, FileRef
from awmclient.nouns.fields import MAX_INT, WHOLE, Count, Line, Moment, Number, Object, Shape, StateDiff, Text, bounded
from awmclient.nouns.pictures import ImagePart, Pictures, in_parts, without_parts
from awmclient.nouns.typed import DecidedBy, TypedAsk, Verdict
from awmclient.nouns.values import Privilege, ToolProtocol


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

    `reasoning` is what an assistant thought before it, and `finish_reason` its server's word for why it stopped, such
    as `stop`, `length`, `tool_calls` or `content_filter`.

    `tool_protocol` says how its calls came. Those of *text* stand in the content, too, as the model wrote them.

    `calls` of an assistant's message are the calls that its turn is about to make: a loop that goes on after a crash
    makes those that no step records yet, and does not ask the agent again.

    `content` is also taken as a list of parts, texts and uploaded `pictures`. What is stored has these two apart.
    """

    kind: Literal["message"] = "message"
    role: Literal["system", "user", "assistant", "tool"]
    content: Annotated[Text, in_parts({"type": "string"})]
    pictures: Pictures | None = None
    reasoning: Reasoning | None = None
    finish_reason: Line | None = None
    tool_protocol: ToolProtocol | None = None
    calls: list[PlannedCall] | None = None

    @model_validator(mode="before")
    @classmethod
    def _in_one_form(cls, fields: Any) -> Any:
        return without_parts(fields, "content")


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
    pictures: list[ImagePart] | None = None
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

    `counts` has the entries of a shortened `result` or `observation`, and of lists in it (`result.orders`). `pictures`
    are those of the whole step, if any of them is in what is left out.
    """

    size: int
    fields: list[str]
    counts: dict[str, int] = {}
    pictures: list[ImagePart] = []


class StepBatch(Shape):
    """Body of an append: steps with ascending `seq`, no gap between them."""

    steps: Annotated[list[AgentStep], Field(min_length=1, max_length=2000)]


class Acknowledged(Shape):
    """The last `seq` that is durable."""

    acknowledged: int


class StepPage(Shape):
    """Steps with `seq` above the asked one, in order. A page ends early at 4 MB: while there are `more`, ask again with
    `since` set to the `seq` of the last step."""

    steps: list[Object]
    more: bool = False
