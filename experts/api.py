"""The JSON edge of asks: the asker's side and the expert's side."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date
from typing import Literal

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.http import content_disposition_header
from ninja import P, QueryEx, Router, Status

from awmclient import schema
from awmclient.nouns.interrupts import InterruptsView, RunInterrupts
from awmclient.nouns.metrics import DeskNumbers
from episodes.find.selection import run_named
from episodes.record import recording
from experts.find import episode_tokens
from experts.find.attached import files_of, visible_files
from experts.find.reading import active_standing, ask_view, open_asks, page_of_asks
from experts.metrics import records
from experts.models import Assignment, Attachment, StandingAnswer
from experts.record import advising, attaching, closing, desk, opening, pausing, queue, standing_answers
from experts.rules.decisions import Misfit
from experts.rules.file_types import TEXT
from experts.rules.second_look import Returned
from experts.who.advisers import reach_of
from people.access import Actor, visible_or_404
from people.http import REFUSALS, actor_of, answer_of, refuse_unknown
from people.served import served

router = Router(tags=["asks"])
CURSOR = P(max_length=200, description="The value of `next` of the page before.")
WAIT_MAX_S = 25
BYTES = {"schema": {"type": "string", "format": "binary"}}


@router.post("/asks", response={200: schema.AskView, 201: schema.AskView, **REFUSALS})
def open_ask(request: HttpRequest, payload: schema.AskOpen) -> Status[schema.AskView]:
    actor = actor_of(request)
    ask, made = opening.open_ask(actor, payload)
    missing = reach_of(actor.project, timezone.now()).missing(ask.skills) if ask.is_open and ask.skills else []
    return Status(201 if made else 200, ask_view(ask, ask.expected_wait_s, missing))


@router.get("/episodes/{episode_id}/token", response={200: schema.EpisodeToken, **REFUSALS})
def episode_token(request: HttpRequest, episode_id: str) -> schema.EpisodeToken:
    """Return a token for a live episode alone, for the token that started it.

    It asks at `/mcp`, where each session is this episode, and nowhere else. It ends with the episode.
    """
    return schema.EpisodeToken(token=episode_tokens.issue(actor_of(request), episode_id))


@router.post(
    "/runs/{run_id}/interrupts",
    response={200: InterruptsView, 201: InterruptsView, **REFUSALS},
    by_alias=True,
    exclude_none=True,
)
def interrupts(request: HttpRequest, run_id: str, payload: RunInterrupts) -> Status[InterruptsView]:
    """Ask what another agent's run waits for, and read what was decided. The body is AG-UI's `RUN_FINISHED` event.

    Idempotent by thread, run and interrupt. To wait, poll the asks. A decision is final once it was read, and stays
    readable.
    """
    view, made = pausing.pause(actor_of(request), run_id, payload)
    return Status(201 if made else 200, view)


@router.get("/asks", response={200: schema.AskList, **REFUSALS}, by_alias=True)
def list_asks(
    request: HttpRequest,
    status: schema.AskStatus = "open",
    run: str = "",
    episode: str = "",
    tier: schema.Tier | None = None,
    cursor: QueryEx[str, CURSOR] = "",
    limit: QueryEx[int, P(ge=0, le=200)] = 0,
) -> schema.AskList:
    """List the queue in order. With `limit` or `cursor`, list the asks of one status by page, newest first."""
    actor, filters = actor_of(request), {"run": run, "episode": episode, "tier": tier or ""}
    refuse_unknown(request, "status", *filters, "cursor", "limit")
    if not limit and not cursor:
        return schema.AskList(asks=open_asks(actor, status, **filters))
    asks, cursor_next = page_of_asks(actor, status, cursor, limit or 50, **filters)
    return schema.AskList(asks=asks, next=cursor_next)


def looked_at(actor: Actor, ask_id: str) -> schema.AskView:
    """Return an ask as its asker or a reader sees it; a loop that waits for it is alive."""
    ask = closing.look(actor, ask_id)
    recording.hear(actor, ask.episode_id)
    return ask_view(ask)


@served(router, "GET", "/asks/{ask_id}")
def get_ask(request: HttpRequest, ask_id: str, wait: QueryEx[int, P(ge=0, le=WAIT_MAX_S)] = 0) -> schema.AskView:
    """Return the state of an ask: after `wait` seconds, or as soon as it is closed."""
    # `consumers.AskWait` serves this call, and waits without a thread
    return looked_at(actor_of(request), ask_id)


@router.post("/asks/{ask_id}/consumed", response={200: schema.AskView, **REFUSALS})
def consumed(request: HttpRequest, ask_id: str) -> schema.AskView:
    return ask_view(closing.consume(actor_of(request), ask_id))


@router.post("/asks/{ask_id}/cancel", response={200: schema.AskView, **REFUSALS})
def cancel(request: HttpRequest, ask_id: str, heard: schema.Heard | None = None) -> schema.AskView:
    """Withdraw an open ask. With `heard`, its step records that the agent got no advice for this reason."""
    return ask_view(closing.cancel(actor_of(request), ask_id, heard=heard))


@router.post("/asks/{ask_id}/claim", response={200: schema.Claimed, **REFUSALS})
def claim(request: HttpRequest, ask_id: str) -> schema.Claimed:
    lease = queue.claim(actor_of(request), ask_id)
    return answer_of(schema.Claimed, lease, assignment=lease.assignment_id)


@router.post("/assignments/{assignment_id}/renew", response={200: schema.Claimed, **REFUSALS})
def renew(request: HttpRequest, assignment_id: str, payload: schema.LeaseBody) -> schema.Claimed:
    until = queue.renew(actor_of(request), assignment_id, payload.lease_token)
    return schema.Claimed(assignment=assignment_id, lease_token=payload.lease_token, lease_until=until)


@router.post("/assignments/{assignment_id}/release", response={200: schema.Done, **REFUSALS})
def release(request: HttpRequest, assignment_id: str, payload: schema.LeaseBody) -> schema.Done:
    queue.release(actor_of(request), assignment_id, payload.lease_token)
    return schema.Done()


@router.post("/assignments/{assignment_id}/decline", response={200: schema.Done, **REFUSALS})
def decline(request: HttpRequest, assignment_id: str, payload: schema.LeaseBody) -> schema.Done:
    queue.decline(actor_of(request), assignment_id, payload.lease_token, payload.reason or "")
    return schema.Done()


@router.post("/assignments/{assignment_id}/answer", response={200: schema.Advice, **REFUSALS})
def answer(request: HttpRequest, assignment_id: str, payload: schema.AnswerBody) -> schema.Advice:
    """Answer a claimed ask. What does not fit is refused with its path, and the text is kept as a draft."""
    names = {"text", "nonce", "decision", "asks_back", "anyway", "hold_s"}
    actor, fields = actor_of(request), payload.model_dump(include=names)
    try:
        advice = advising.answer(actor, assignment_id, payload.lease_token, tool_calls=payload.tool_calls, **fields)
    except (Misfit, Returned):
        desk.keep_refused(actor, assignment_id, fields["text"], fields["decision"])
        raise
    return advice.value()


@router.post("/assignments/{assignment_id}/undo", response={200: schema.Claimed, **REFUSALS})
def undo(request: HttpRequest, assignment_id: str) -> schema.Claimed:
    """Undo the caller's answer and claim its ask again, while it is held and then until its agent has read it."""
    actor = actor_of(request)
    slot = visible_or_404(Assignment.objects.all(), actor, assignment_id, "ask__project")
    lease = advising.withdraw(actor, slot.ask_id)
    return answer_of(schema.Claimed, lease, assignment=lease.assignment_id)


def standing_view(row: StandingAnswer, answered: int | None = None) -> schema.StandingAnswerView:
    return answer_of(schema.StandingAnswerView, row, run=row.run_id, answered=answered)


@router.post("/standing-answers", response={201: schema.StandingAnswerView, **REFUSALS})
def give_standing_answer(request: HttpRequest, payload: schema.StandingAnswerBody) -> Status[schema.StandingAnswerView]:
    """Approve calls of a tool ahead. Open approvals that it covers are answered immediately."""
    row, answered = standing_answers.give(actor_of(request), payload)
    row.refresh_from_db()
    return Status(201, standing_view(row, answered))


@router.get("/standing-answers", response={200: schema.StandingAnswers, **REFUSALS})
def list_standing_answers(request: HttpRequest) -> schema.StandingAnswers:
    """List the project's standing answers that can still decide, newest first."""
    return schema.StandingAnswers(items=[standing_view(row) for row in active_standing(actor_of(request))])


@router.delete("/standing-answers/{standing_id}", response={200: schema.StandingAnswerView, **REFUSALS})
def end_standing_answer(request: HttpRequest, standing_id: str) -> schema.StandingAnswerView:
    """End a standing answer. What it has decided stays."""
    return standing_view(standing_answers.end(actor_of(request), standing_id))


def attached(row: Attachment) -> schema.AttachedFile:
    return schema.AttachedFile(**row.ref().model_dump(), side=row.side)


@router.post(
    "/asks/{ask_id}/attachments",
    response={200: schema.AttachedFile, 201: schema.AttachedFile, **REFUSALS},
    openapi_extra={"requestBody": {"required": True, "content": {"application/octet-stream": BYTES}}},
)
def attach(
    request: HttpRequest, ask_id: str, name: QueryEx[str, P(max_length=1000)] = "file"
) -> Status[schema.AttachedFile]:
    """Attach a file, whose bytes are the body: an agent to its open ask, an expert to the answer of a claimed one."""
    row, made = attaching.attach(actor_of(request), ask_id, name, request.body)
    return Status(201 if made else 200, attached(row))


@router.get("/asks/{ask_id}/attachments", response={200: schema.AttachedFiles, **REFUSALS})
def list_attachments(request: HttpRequest, ask_id: str) -> schema.AttachedFiles:
    """List the files of an ask. An agent sees those of an answer once it is answered."""
    return schema.AttachedFiles(files=[attached(one) for one in files_of(actor_of(request), ask_id)])


@router.get(
    "/attachments/{attachment_id}",
    response={**REFUSALS},
    openapi_extra={"responses": {200: {"description": "OK", "content": {"application/octet-stream": BYTES}}}},
)
def get_attachment(request: HttpRequest, attachment_id: str) -> HttpResponse:
    """Return the bytes of a file. A browser stores all but pictures and opens none as a page."""
    actor = actor_of(request)
    row = visible_or_404(visible_files(actor), actor, attachment_id, "ask__project")
    reply = HttpResponse(bytes(row.data), content_type=row.media_type + ("; charset=utf-8" * (row.media_type == TEXT)))
    reply["Content-Disposition"] = content_disposition_header(not row.is_picture, row.name) or "attachment"
    reply["X-Content-Type-Options"] = "nosniff"
    # even if a browser took it for a page, that page could load, run and reach nothing
    reply["Content-Security-Policy"] = "default-src 'none'; sandbox"
    return reply


@router.delete("/attachments/{attachment_id}", response={200: schema.Done, **REFUSALS})
def remove_attachment(request: HttpRequest, attachment_id: str) -> schema.Done:
    """Remove a file from an answer that is not sent."""
    attaching.remove(actor_of(request), attachment_id)
    return schema.Done()


@router.get("/desk/numbers", response={200: DeskNumbers, **REFUSALS})
def desk_numbers(
    request: HttpRequest,
    time: Literal["day", "week", "month", "all"] = "week",
    since: date | None = None,
    until: date | None = None,
    run: str = "",
    arm: str = "",
    drawn: bool = False,
) -> DeskNumbers:
    """Return the desk's metrics by person, model, run and arm. Refused for agents. `since` and `until` are days."""
    actor = actor_of(request)
    refuse_unknown(request, "time", "since", "until", "run", "arm", "drawn")
    if run:
        run = run_named(actor.project, run).pk
    days = {name: day.isoformat() for name, day in (("since", since), ("until", until)) if day}
    look = records.Look.read({"time": time, **days, "run": run, "arm": arm, "drawn": str(int(drawn))})
    numbers = records.metrics_of(actor, look, timezone.now())
    return DeskNumbers.model_validate({"note": records.NOTE, **asdict(numbers)})
