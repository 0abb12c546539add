"""The JSON API of briefings: those of a task, and one that a person writes."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest
from ninja import P, QueryEx, Router, Schema, Status
from pydantic import Field

from awmclient.nouns.fields import MAX_INT, Count, Line, Shape
from people.http import REFUSALS, actor_of, answer_of
from runs.launch import briefings

router = Router(tags=["runs"])


class BriefingBody(Shape):
    """A person's briefing of a task. `saw_outcomes`: its author knew outcomes of earlier episodes, or the verifier."""

    scenario: Line
    task_idx: Count
    text: str
    sources: list[Line] = Field(default_factory=list)
    saw_outcomes: bool = False


class BriefingView(Schema):
    """A briefing. One with a `run` was distilled for its `arm`. An empty text has a `reason`, or is `withheld` from a
    reviewer who judges an episode of the task blind."""

    id: str
    scenario: str
    task_idx: int
    text: str
    withheld: bool
    reason: str
    source: str
    author: str
    privilege: str
    sources: list[str]
    run: str | None
    arm: str
    at: datetime


@router.get("/briefings", response={200: list[BriefingView], **REFUSALS})
def list_briefings(
    request: HttpRequest, scenario: str, task_idx: QueryEx[int, P(ge=0, le=MAX_INT)]
) -> list[BriefingView]:
    """List the briefings of a task, the newest first. Not for agent tokens."""
    return [_seen(one) for one in briefings.of_task(actor_of(request), scenario, task_idx)]


@router.post("/briefings", response={201: BriefingView, **REFUSALS})
def write_briefing(request: HttpRequest, payload: BriefingBody) -> Status[BriefingView]:
    """Write the briefing of a task for runs that start from now on. It counts as informed if its author says so, or if
    its author sees the outcome of one of its sources."""
    fields = payload.model_dump()
    return Status(201, _seen(briefings.ReadableBriefing(briefings.write(actor_of(request), **fields), withheld=False)))


def _seen(readable: briefings.ReadableBriefing) -> BriefingView:
    row = readable.briefing
    text = "" if readable.withheld else row.text
    return answer_of(BriefingView, row, text=text, withheld=readable.withheld, run=row.run_id)
