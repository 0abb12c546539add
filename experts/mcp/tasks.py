"""Tasks of MCP 2025-11-25: a call that its client does not wait for, but polls.

Owns the state of a task, and how the client's answer to an expert's question continues it. Nothing is stored for it: a
task's ID is that of the ask that its call opened, so any process knows it, and after a question of the expert the ask
that follows has a key that names the one before. Leaves asks to `sessions`, `queue` and `closing`, and the protocol to
`server`, its only caller.

A state that has ended is final, so reading it confirms the answer.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, NamedTuple

from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from mcp import types
from pydantic import ValidationError

from awmclient.schema import ASKS_BACK, QUESTION_MAX, AskOpen, AskView
from episodes.models import Episode
from episodes.record import recording
from experts.errors import StillOpen, TaskEnded
from experts.find.reading import ask_view
from experts.mcp import sessions
from experts.models import Ask, AskEvent, AskStatus
from experts.record import closing, opening
from people.access import Actor, visible_or_404
from people.errors import Invalid, NotFound
from people.http import misshapen

VERSION = "2025-11-25"
"""The version of MCP that has tasks in this form; those before and after have none."""
FOLLOWS = "mcp-answer:"
"""Prefix of the key of an ask with which the client's answer continues another."""
INPUT = "awmweb-input:"
"""Prefix of the ID of a request for the client's answer; the rest is the ask whose answer asks back."""
GIVEN_UP = "not_continued"
"""Log entry of an ask whose task was cancelled while an expert's question waited for the client."""
POLL_MS = 2000
KEPT_MS = 365 * 86_400_000
"""Said of a task, which is kept as long as its ask. The SDK leaves out null, which would say so."""
PAGE = 50
SHOWN = 500
ENDED = ("completed", "cancelled")
Status = Literal["working", "input_required", "completed", "cancelled"]


class TaskState(NamedTuple):
    """A task as its client sees it: the ask that opened it, the last one of its thread, and that one's end."""

    first: Ask
    last: Ask
    status: Status
    view: AskView | None = None

    @property
    def deadline_at(self) -> datetime:
        return self.last.deadline_at

    def task(self) -> types.Task:
        words = {
            "working": "Waiting for an expert",
            "input_required": self.last.accepted.text[:SHOWN] if self.last.accepted else "",
            "cancelled": f"Cancelled: {self.last.reason or 'by its client'}",
        }
        return types.Task(
            taskId=self.first.pk,
            status=self.status,
            statusMessage=words.get(self.status),
            createdAt=self.first.created_at,
            lastUpdatedAt=self.last.closed_at or self.last.created_at,
            ttl=KEPT_MS,
            pollInterval=POLL_MS,
        )

    def asking(self) -> types.JSONRPCRequest:
        """Return the elicitation of what the expert asks. The same question again is the same request."""
        text = self.last.accepted.text if self.last.accepted else ""
        schema = {"type": "object", "properties": {"answer": {"type": "string", "title": "Answer"}}}
        params = {"mode": "form", "message": text, "requestedSchema": {**schema, "required": ["answer"]}}
        with_meta = {**params, "_meta": related(self.first.pk)}
        return types.JSONRPCRequest(
            jsonrpc="2.0", id=f"{INPUT}{self.last.pk}", method="elicitation/create", params=with_meta
        )


def related(task: str) -> dict[str, Any]:
    return {"io.modelcontextprotocol/related-task": {"taskId": task}}


@transaction.atomic
def begin(actor: Actor, session: str, key: str, arguments: dict[str, Any], tool: str) -> TaskState:
    """Open a task, or return that of the same call. Its episode is parked: no process of the client has to wait."""
    ask = sessions.open_ask(actor, session, f"{sessions.TASK}{key.removeprefix(sessions.OURS)}", arguments, tool)
    if ask.is_open:
        recording.park(ask.episode_id)
    return look(actor, ask.pk)


def look(actor: Actor, task: str) -> TaskState:
    """Return the state of a token's own task. An answer is confirmed with it."""
    first = visible_or_404(_mine(actor), actor, task)
    return _state(actor, first)


def _mine(actor: Actor) -> Any:
    """Return the tasks of this token; another one's are not found."""
    tasks = Ask.objects.select_related("episode").filter(key__startswith=sessions.TASK)
    return tasks.filter(**sessions.of_token(actor))


def _state(actor: Actor, first: Ask) -> TaskState:
    last, thread = first, Ask.objects.filter(episode=first.episode_id)
    while (following := thread.filter(key=f"{FOLLOWS}{last.pk}").first()) is not None:
        last = following
    last = closing.look(actor, last.pk)
    recording.hear(actor, last.episode_id)
    if last.is_open:
        return TaskState(first, last, "working")
    if _asks_back(first, last):
        return TaskState(first, last, "input_required")
    if last.accepted is not None:
        try:
            last = closing.consume(actor, last.pk)
        except StillOpen:  # withdrawn in between
            return TaskState(first, closing.look(actor, last.pk), "working")
    given_up = AskEvent.objects.filter(ask=last, verb=GIVEN_UP).exists()
    status: Status = "cancelled" if given_up or last.status == AskStatus.CANCELLED else "completed"
    return TaskState(first, last, status, ask_view(last))


def _asks_back(first: Ask, last: Ask) -> bool:
    """Return whether an expert's question waits for the client. After the deadline it is the advice."""
    asked = last.accepted is not None and last.accepted.reason == ASKS_BACK and last.consumed_at is None
    can_ask = bool((first.episode.policy or {}).get(sessions.ELICITS))
    return asked and can_ask and last.deadline_at > timezone.now() and first.episode.is_live


def listed(actor: Actor, cursor: str | None) -> tuple[list[TaskState], str | None]:
    """Return a page of the token's tasks, newest first, and the cursor of the next one."""
    tasks = _mine(actor).filter(project=actor.project).order_by("-created_at", "-pk")
    if cursor is not None:
        after = tasks.filter(pk=cursor).first() if cursor.isalnum() else None
        if after is None:
            raise Invalid("cursor: unknown.")
        tasks = tasks.filter(Q(created_at__lt=after.created_at) | Q(created_at=after.created_at, pk__lt=after.pk))
    rows = list(tasks[: PAGE + 1])
    return [_state(actor, one) for one in rows[:PAGE]], rows[PAGE - 1].pk if len(rows) > PAGE else None


@transaction.atomic
def cancel(actor: Actor, task: str) -> TaskState:
    """Cancel a task that has not ended. Raises `TaskEnded` for one that has."""
    state = look(actor, task)
    if state.status == "input_required":
        last = closing.locked(state.last.pk)
        if last.consumed_at is None:
            closing.log(closing.consume(actor, last.pk), GIVEN_UP, actor)
    elif state.status == "working":
        closing.cancel(actor, state.last.pk)
    after = look(actor, task)
    if after.status != "cancelled" or state.status in ENDED:
        raise TaskEnded(f"This task has ended: {after.status}.")
    return after


def read_result(actor: Actor, task: str, can_ask: bool) -> TaskState:
    """Return the state for a caller that waits for the result. If it cannot be asked, a question is the result."""
    state = look(actor, task)
    if state.status == "input_required" and not can_ask:
        closing.consume(actor, state.last.pk)
        return look(actor, task)
    return state


@transaction.atomic
def reply(actor: Actor, message: dict[str, Any]) -> None:
    """Continue a task with its client's answer to an expert's question: a new ask of the thread.

    An answer that comes twice, or late, changes nothing. Without one, the question itself is the advice.
    """
    asked = str(message.get("id")).removeprefix(INPUT)
    before = visible_or_404(Ask.objects.filter(**sessions.of_token(actor)), actor, asked)
    episode = Episode.objects.select_for_update().get(pk=before.episode_id)
    before = Ask.objects.select_related("accepted", "episode").get(pk=before.pk)
    if not before.key.startswith((sessions.TASK, FOLLOWS)):
        raise NotFound
    if not _asks_back(before, before):
        return
    closing.consume(actor, before.pk)
    result = sessions.as_object(message.get("result"))
    answer = sessions.as_object(result.get("content")).get("answer")
    if result.get("action") != "accept" or not isinstance(answer, str) or not answer.strip():
        return
    wait = {"deadline_s": max(1, round((before.deadline_at - before.created_at).total_seconds()))}
    about = {"key": f"{FOLLOWS}{before.pk}", "episode": episode.pk, "seq": episode.last_seq + 1, "thread": before.pk}
    try:
        new_ask = AskOpen(**about, question=answer[:QUESTION_MAX], **wait)
    except ValidationError as error:
        raise misshapen(error.errors()) from error
    if opening.open_ask(actor, new_ask)[0].is_open:
        recording.park(episode.pk)
