"""Pauses of other agents in AG-UI's words: a run's interrupts, and the entries with which its next run resumes.

Owns the shapes of `POST /runs/{id}/interrupts`. Field names are AG-UI's; what a newer AG-UI adds is ignored.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StrictInt
from pydantic.alias_generators import to_camel

from awmclient.nouns.asks import Advice
from awmclient.nouns.fields import WHOLE, Line, Object, Shape, Text
from awmclient.nouns.values import MAX_DEADLINE_S, AskStatus

PAUSE_S = 86_400
"""How long a pause waits, if it does not say: a day."""
INTERRUPTS_MAX = 20


class AgUi(Shape):
    """A shape in AG-UI's spelling. It is another protocol, so unknown fields are no error."""

    model_config = ConfigDict(extra="ignore", protected_namespaces=(), alias_generator=to_camel, populate_by_name=True)


class Interrupt(AgUi):
    """What a run waits for. `metadata.awmweb` can hold a typed ask (`kind` and its fields) of our own protocol."""

    id: Line
    reason: Line
    message: Text | None = None
    tool_call_id: Line | None = None
    response_schema: Object | None = None
    expires_at: Text | None = None
    metadata: Object | None = None


class InterruptOutcome(AgUi):
    type: Literal["interrupt"]
    interrupts: Annotated[list[Interrupt], Field(min_length=1, max_length=INTERRUPTS_MAX)]


class OtherOutcome(AgUi):
    """A run that ended: every decision that its thread has read is taken. *cancelled* withdraws its open asks, too."""

    type: Literal["success", "cancelled"]


class ResumeEntry(AgUi):
    """The answer to one interrupt. `metadata.awmweb` says who decided and, without a decision, why there is none."""

    interrupt_id: Line
    status: Literal["resolved", "cancelled"]
    payload: Any = None
    metadata: Object | None = None


class RunInterrupts(AgUi):
    """AG-UI's `RUN_FINISHED` event. `messages` and `tools`, as AG-UI has them, show the calls that are to be approved.
    `resume` names the answers that the run has taken, which are final from then on. `client` is the framework that
    paused, as the queue shows it."""

    thread_id: Line
    run_id: Line
    outcome: Annotated[InterruptOutcome | OtherOutcome, Field(discriminator="type")] | None = None
    resume: Annotated[list[ResumeEntry], Field(max_length=INTERRUPTS_MAX)] | None = None
    messages: list[Object] | None = None
    tools: list[Object] | None = None
    task: Line | None = None
    client: Line | None = None
    deadline_s: Annotated[StrictInt, Field(ge=1, le=MAX_DEADLINE_S), WHOLE] = PAUSE_S


class InterruptView(AgUi):
    """One interrupt and its ask. `resume` is there once the ask is closed, and stays.

    One that cannot be asked is *refused*: it has no ask, and its `resume` says why.
    """

    interrupt_id: str
    ask: str | None = None
    status: AskStatus | Literal["refused"]
    deadline_at: datetime | None = None
    consumed_at: datetime | None = None
    advice: Advice | None = None
    resume: ResumeEntry | None = None


class InterruptsView(AgUi):
    """The interrupts of a run of an agent. `resume` is there once each is decided: the next run has to answer all."""

    thread_id: str
    run_id: str
    episode: str | None = None
    interrupts: list[InterruptView]
    resume: list[ResumeEntry] | None = None
