"""MCP sessions in the database: a session is an episode of its token, and a call of the tool is an ask of it.

Owns how a session starts, is found again and waits for its ask, and the key that identifies a call's ask in any
process. Leaves the ask to `queue` and `closing`, the episode to `recording` and `ending`, and the protocol to `server`,
its only caller.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from mcp import types
from pydantic import ValidationError

from awmclient.schema import ASK_TOOL, AskOpen, AskView, EpisodeStart, RunStart
from episodes.models import Episode, Run
from episodes.record import recording
from experts.errors import StillOpen
from experts.find.reading import ask_view
from experts.mcp.callers import IN_ADDRESS
from experts.models import Ask, AskStatus
from experts.record import closing, opening
from experts.rules.sources import MCP
from people.access import Actor, scoped, visible_or_404
from people.errors import Invalid, NotFound
from people.http import misshapen
from people.models import new_id

OURS = "mcp:"
"""Prefix of the keys of MCP episodes and asks; no other episode is a session."""
KEY = re.compile(rf"{OURS}[0-9a-f]+:[0-9a-f]+|task:[0-9a-z]+")
TASK = "mcp-task:"
"""Prefix of the key of an ask that a call with a task opened. Calls without one neither join nor cancel it."""
OF_TASK = "task:"
"""Prefix of the key of a call that waits for a task."""
ADDRESS = {"task", "scenario", "task_idx", "run"}
ELICITS = "elicitation"
"""Says in the policy of a session's episode that its client can ask its user."""
APPROVAL_TOOL = "request_approval"
ELICITATION_TOOL = "answer_elicitation"
ASKED = {
    ASK_TOOL: {"question", "context", "deadline_s"},
    APPROVAL_TOOL: {"calls", "question", "context", "deadline_s", "on_timeout"},
    ELICITATION_TOOL: {"message", "requested_schema", "context", "deadline_s"},
}
"""The arguments of each tool."""
TIMED_OUT = re.compile(r"-32001|\btime[ds]?[ _-]?out|deadline|time limit|too long|took longer|expired|exceeded", re.I)
"""A reason in a client's cancellation that means its own time limit; each client has its own words for it."""
JOINED_FOR = timedelta(minutes=10)
"""How long after its cancellation an ask is opened again by a call with the same text."""


class PendingCall(NamedTuple):
    """A call that waits: its number in the session, the key of its ask or task, and the token for progress messages."""

    number: Any
    key: str
    progress: str | int | None = None

    @classmethod
    def of(cls, message: dict[str, Any]) -> PendingCall:
        """Return the call of a message. Its ask is named after its number and its text."""
        token = as_object(as_object(message.get("params")).get("_meta")).get("progressToken")
        token = token if isinstance(token, str | int) else None
        if message.get("method") == "tasks/result":
            return cls(message.get("id"), f"{OF_TASK}{as_object(message.get('params')).get('taskId')}", token)
        arguments = as_object(as_object(message.get("params")).get("arguments"))
        words = [arguments.get("question"), arguments.get("context")]
        match as_object(message.get("params")).get("name"):
            case "request_approval":
                words += [APPROVAL_TOOL, arguments.get("calls"), arguments.get("on_timeout")]
            case "answer_elicitation":
                words += [ELICITATION_TOOL, arguments.get("message"), arguments.get("requested_schema")]
        return cls(message.get("id"), f"{asks_of_call(message.get('id'))}{_short(words)}", token)

    @classmethod
    def after(cls, event_id: str) -> PendingCall:
        """Return the call of the event that the caller received last."""
        try:
            call = cls(*json.loads(base64.urlsafe_b64decode(event_id)))
        # an ID is a client's text
        except (ValueError, TypeError, RecursionError):
            call = cls(None, "")
        if not isinstance(call.number, str | int) or not KEY.fullmatch(str(call.key)):
            raise Invalid("Unknown Last-Event-ID.")
        return call

    @property
    def event_id(self) -> str:
        return base64.urlsafe_b64encode(json.dumps(self).encode()).decode()


def asks_of_call(number: Any) -> str:
    """Return the prefix of the keys of a call's asks."""
    return f"{OURS}{_short(number)}:"


# 96 bits: enough to tell the calls of a session apart
def _short(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:24]


@transaction.atomic
def begin(actor: Actor, params: dict[str, Any], query: str) -> str:
    """Return the episode of a new session. The client gives its name, the address its task and run.

    A token of an episode starts none: each of its sessions is that episode.
    """
    fields: dict[str, Any] = dict(parse_qsl(query, keep_blank_values=True))
    if actor.episode:
        if strange := set(fields) - {IN_ADDRESS}:
            raise Invalid(f"With the token of an episode the address may say {IN_ADDRESS}, and says {min(strange)}.")
        return enter(actor, actor.episode)
    if strange := set(fields) - ADDRESS:
        raise Invalid(f"The address may say {', '.join(sorted(ADDRESS))}, and says {min(strange)}.")
    if fields.get("task_idx", "").isdecimal():
        # cut, because int() refuses thousands of digits with an error of its own
        fields["task_idx"] = int(fields["task_idx"][:12])
    try:
        hello = types.InitializeRequestParams.model_validate(params)
        client = _name(hello.clientInfo)
        # a task in the address replaces the default
        fields = {"task": f"A session of {client}", **fields}
        fields["run"] = fields.get("run") or _run_of(actor, client)
        policy: dict[str, Any] = {"client": client, "version": hello.clientInfo.version}
        if hello.capabilities.elicitation is not None:
            policy[ELICITS] = True
        plan = EpisodeStart(key=OURS + new_id(), environment=MCP, expert="plain", policy=policy, **fields)
    except ValidationError as error:
        raise misshapen(error.errors()) from error
    return recording.start_episode(actor, plan)[0].pk


def _name(client: types.Implementation) -> str:
    title = " ".join((client.title or client.name).split())
    return "".join(char for char in title if char.isprintable())[:120] or "MCP client"


def _run_of(actor: Actor, client: str) -> str:
    """Return the run that collects the episodes of this client of this token."""
    mine = {"mcp": token_id(actor)}
    run = scoped(Run.objects.filter(name=client, metadata=mine), actor.project).order_by("-created_at").first()
    return (run or recording.start_run(actor, RunStart(name=client, metadata=mine))[0]).pk


def token_id(actor: Actor) -> str:
    return actor.token.pk if actor.token else ""


def of_token(actor: Actor) -> dict[str, str]:
    """Return the filter of the asks of a token: those of its episodes, or of the one that it is for."""
    own = {"episode": actor.episode} if actor.episode else {}
    return {"episode__token": token_id(actor), **own}


def enter(actor: Actor, session: str) -> str:
    """Return the token's own session.

    Every request is a heartbeat, which reopens an episode that was given up as lost. An ended episode counts as not
    found.
    """
    own = {"pk": actor.episode} if actor.episode else {"key__startswith": OURS}
    mine = Episode.objects.filter(token=token_id(actor), **own)
    episode = recording.heartbeat(actor, visible_or_404(mine, actor, session).pk)
    if not episode.is_live:
        raise NotFound("This session has ended; initialize a new one.")
    return episode.pk


@transaction.atomic
def open_ask(actor: Actor, session: str, key: str, arguments: dict[str, Any], tool: str = ASK_TOOL) -> Ask:
    """Return the ask of a call, at the next step number. The episode's lock serializes concurrent calls.

    1. Return the call's own ask. 2. Join one with the same text; a cancelled one is opened again. 3. Open one.
    """
    episode = visible_or_404(Episode.objects.select_for_update(), actor, session)
    earlier = _known(session, key)
    if earlier is not None and earlier.key != key:
        Ask.objects.filter(pk=earlier.pk).update(key=key)  # from now on a cancellation of this call cancels it
        return opening.reopen(actor, earlier.pk)
    if earlier is not None:
        return earlier
    fields = {name: value for name, value in arguments.items() if value is not None}
    if strange := set(fields) - ASKED[tool]:
        raise Invalid(f"{min(strange)}: {tool} takes {', '.join(sorted(ASKED[tool]))}.")
    fields = AS_ASK.get(tool, dict)(fields)
    try:
        # the lock of the episode keeps this number free
        new_ask = AskOpen(key=key, episode=session, seq=episode.last_seq + 1, **fields)
    except ValidationError as error:
        raise misshapen(error.errors()) from error
    return opening.open_ask(actor, new_ask)[0]


def _as_approval(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an approval. Calls without an ID are counted; silence rejects, if nothing else is said."""
    calls = fields.get("calls")
    if isinstance(calls, list):
        fields = {**fields, "calls": [{"id": str(at), **as_object(one)} for at, one in enumerate(calls, 1)]}
    return {"question": "May the agent make these calls?", "on_timeout": "reject", **fields, "kind": "approval"}


def _as_form(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a form that another server's elicitation asks for."""
    names = {"message": "question", "requested_schema": "response_schema"}
    return {"question": "", "kind": "form"} | {names.get(name, name): value for name, value in fields.items()}


AS_ASK = {APPROVAL_TOOL: _as_approval, ELICITATION_TOOL: _as_form}


def _known(session: str, key: str) -> Ask | None:
    """Return the ask of this call, or one with the same text whose end the agent has not received.

    A client that lost the connection, timed out or cancelled a moment ago asks again and gets the same ask. A task
    that was cancelled stays so.
    """
    is_task, now = key.startswith(TASK), timezone.now()
    asks = Ask.objects.filter(episode=session, key__startswith=TASK if is_task else OURS)
    joinable = Q(status__in=[AskStatus.OPEN, AskStatus.ANSWERED])
    if not is_task:
        joinable |= Q(status=AskStatus.CANCELLED, reason="asker", closed_at__gt=now - JOINED_FOR, deadline_at__gt=now)
    unheard = asks.filter(joinable, consumed_at__isnull=True)
    same_words = unheard.filter(key__endswith=key.rpartition(":")[2])
    # its own ask first: two calls with the same words are two asks
    return asks.filter(key=key).first() or same_words.order_by("-created_at").first()


def find(session: str, key: str) -> Ask:
    ask = _known(session, key)
    if ask is None:
        raise NotFound("The call did not arrive; call again.")
    return ask


def look(actor: Actor, pk: str) -> AskView:
    """Return the current state of an ask for a connected caller.

    A closed ask is consumed in the same transaction, so the answer is final. One that was withdrawn in between is open
    again.
    """
    ask = closing.look(actor, pk)
    recording.hear(actor, ask.episode_id)
    try:
        return ask_view(closing.consume(actor, pk) if ask.accepted else ask)
    except StillOpen:
        return ask_view(closing.look(actor, pk))


def withdraw(actor: Actor, session: str, params: dict[str, Any]) -> None:
    """Cancel an ask that the agent no longer needs. A client that only timed out asks again and joins the same ask."""
    if TIMED_OUT.search(str(params.get("reason"))):
        return
    for ask in Ask.objects.open().filter(episode=session, key__startswith=asks_of_call(params.get("requestId"))):
        closing.cancel(actor, ask.pk)


def as_object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
