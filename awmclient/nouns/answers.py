"""What experts send: claims, leases, answers and standing answers; and the form of a refusal."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StrictBool, StrictInt

from awmclient.nouns.fields import WHOLE, Line, Object, Shape, ZonedMoment, clean_text
from awmclient.nouns.tools import ToolCall
from awmclient.nouns.typed import TypedDecision


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
    hold_s: Annotated[StrictInt, Field(ge=0, le=10), WHOLE] = 0
    """How long it can be undone before its agent gets it; at most a tenth of what is left to the deadline."""
    nonce: Line


class StandingAnswerBody(Shape):
    """Approves calls of a tool ahead. Arguments that are named must be equal; in the project, or in one run."""

    tool: Line
    arguments: Annotated[Object, Field(max_length=100)] = Field(default_factory=dict)
    any_value: Annotated[list[str], Field(max_length=100)] | None = None
    """The other arguments that a call can have, with any value; without it, it can have any others."""
    run: Line | None = None
    until: ZonedMoment
    at_most: Annotated[StrictInt, Field(ge=1, le=100_000), WHOLE] = 20


class StandingAnswerView(Shape):
    """A standing answer. `used` counts calls that it approved, `answered` open asks that it closed immediately."""

    id: str
    tool: str
    arguments: Object
    any_value: list[str] | None = None
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


class Done(Shape):
    """A plain yes."""

    ok: bool = True


class ErrorBody(Shape):
    code: str
    message: str


class ErrorEnvelope(Shape):
    error: ErrorBody
