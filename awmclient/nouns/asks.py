"""A question to the experts, on the side of who asks: what opens it, its state, and the advice that came back."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, PlainSerializer, PrivateAttr, StrictBool, StrictInt, WithJsonSchema, model_validator

from awmclient.nouns.ask_kinds import ASK_KINDS
from awmclient.nouns.fields import MAX_INT, WHOLE, Count, Line, Object, Shape, Text, bounded
from awmclient.nouns.pictures import Pictures, in_parts, without_parts
from awmclient.nouns.sources import SOURCES
from awmclient.nouns.tools import ToolCall
from awmclient.nouns.typed import (
    TYPED_FIELDS,
    AskKind,
    CallDecision,
    DecidedBy,
    OnTimeout,
    Option,
    ProposedCall,
    Quorum,
    TypedAsk,
    TypedDecision,
    Verdict,
)
from awmclient.nouns.values import MAX_DEADLINE_S, AdviceSource, AskStatus, Privilege, Tier


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


class PersonDecision(Shape):
    """What one of several people decided on an approval that needs them. `calls` are those of an edit."""

    by: str
    verdict: Verdict
    at: Annotated[
        datetime, PlainSerializer(datetime.isoformat), WithJsonSchema({"type": "string", "format": "date-time"})
    ]
    calls: list[CallDecision] | None = None


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
    decided: list[PersonDecision] | None = None
    """In a record, of an approval that needs several people: what each of them decided."""
    model: str | None = None
    """Of an expert model: its name at its endpoint. No agent sees it or the options."""
    options: Object | None = None
    """With which it was asked, such as its `temperature`, as its settings have them."""
    local: bool = False

    @property
    def is_fallback(self) -> bool:
        return not SOURCES[self.source].is_answer

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


QUESTION_MAX = 20_000
CONTEXT_MAX = 100_000
Question = Annotated[
    Any,
    bounded(QUESTION_MAX, least=1),
    in_parts(
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
    pictures: Pictures | None = None
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
    response_schema: Annotated[Object, Field(description="of a form: JSON Schema 2020-12")] | None = None
    on_timeout: OnTimeout | None = None
    quorum: Annotated[Quorum, Field(description="of an approval: how many people it needs")] | None = None
    thread: Line | None = None
    _typed: TypedAsk = PrivateAttr()

    @model_validator(mode="before")
    @classmethod
    def _in_one_form(cls, fields: Any) -> Any:
        return without_parts(fields, "question")

    @model_validator(mode="after")
    def _checks_its_kind(self) -> AskOpen:
        self._typed = TypedAsk(kind=self.kind, **{name: getattr(self, name) for name in TYPED_FIELDS})
        self.response_schema = self._typed.response_schema
        return self

    def typed(self) -> dict[str, Any]:
        """Return its typed part as `typed_of` does, without checking it again."""
        return self._typed.model_dump(by_alias=True, exclude_none=True) if not ASK_KINDS[self.kind].is_question else {}


class AskView(Shape):
    """An ask as its asker sees it. `advice` is always there once answered or fell back."""

    id: str
    status: AskStatus
    deadline_at: datetime
    expected_wait_s: float | None = None
    missing_skills: list[str] | None = None
    """Of a new ask: required skills that no one has who could answer. It waits for its deadline."""
    reason: str | None = None
    advice: Advice | None = None
    quorum: Quorum | None = None
    """How many people the approval needs; a rule of the project can raise what was asked for."""
    decided: list[PersonDecision] | None = None
    """Of an approval that needs several people: the decisions that count, oldest first."""
    delivered_at: datetime | None = None
    consumed_at: datetime | None = None


class AskListing(Shape):
    """An ask as an expert sees it on the queue."""

    id: str
    episode: str
    seq: int
    status: AskStatus
    question: Text
    pictures: Pictures | None = None
    """Of the question: `GET /blobs/{blob}` returns each."""
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
