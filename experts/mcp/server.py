"""The desk's MCP server at `/mcp`: streamable HTTP, one session is one episode, with three tools: `ask_expert`,
`request_approval` and `answer_elicitation`, the first two also as tasks.

Owns the protocol's edge: which session a request belongs to, and what the caller of an ask sees. Leaves the session and
its asks to `sessions`, tasks to `tasks`, the wait to `consumers.until_news`, and JSON-RPC to the official SDK.

No session lives in a process: its ID is the episode's ID, an ask is identified by the call that opened it, and a broken
stream continues after its last event ID, in any web process. Called by `awmweb/asgi.py`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any

from django.conf import settings
from django.utils import timezone
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import EventMessage, EventStore, StreamableHTTPServerTransport
from mcp.shared.exceptions import McpError
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp.shared.version import SUPPORTED_PROTOCOL_VERSIONS

from awmclient.nouns.ask_kinds import ASK_KINDS
from awmclient.schema import (
    ASK_TOOL,
    Advice,
    AskView,
    Finish,
)
from episodes.live.consumers import in_database
from episodes.record import ending
from experts.consumers import until_closed, until_news
from experts.errors import NoSession, NoSuchMethod
from experts.mcp import sessions, tasks
from experts.mcp.callers import asker, refuse
from experts.mcp.messages import MOST_BYTES, call_after, message_of
from experts.mcp.offers import APPROVAL, CAN_BE_TASKS, ELICITATION, TASK_TOOLS, TOOL
from experts.models import Ask
from people.access import Actor, may_record
from people.errors import AWAY, AppError, NotFound
from people.http import as_refusal, envelope, respond
from people.models import shown
from people.requests.aside import read_aside
from people.requests.bodies import Body, HungUp, Receive, Send, header

log = logging.getLogger(__name__)
PROGRESS_S = 10.0
"""Clients time out after 60 seconds or less without progress."""
LISTEN_S = 10.0
RETRY_MS = 5000
"""When a client reconnects after a lost connection. The official ones try twice, and a restart takes a moment."""
PATIENCE_S = 2.0
EXCHANGE = "awmweb.exchange"
# no-transform: a proxy that compresses a stream holds its events back
HEADERS = [(b"cache-control", b"no-store, no-transform"), (b"x-content-type-options", b"nosniff")]
Scope = dict[str, Any]
Message = MutableMapping[str, Any]
Tell = Callable[[types.ProgressNotificationParams], Awaitable[None]]
PutQuestion = Callable[[types.JSONRPCRequest], Awaitable[None]]

SERVER: Server[Any, Any] = Server(
    "awmweb", version=settings.VERSION, instructions="People and models who help when you are stuck."
)


async def serve(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve one request.

    1. Refuse pages of other origins. 2. Authenticate. 3. Check the right to ask. 4. Dispatch by method.
    """
    try:
        actor = await asker(scope)
        may_record(actor)
        await METHODS.get(scope["method"], _refuse_method)(actor, scope, receive, send)
    except HungUp:
        return
    except Exception as error:
        await refuse(send, as_refusal(error))


async def _refuse_method(actor: Actor, scope: Scope, receive: Receive, send: Send) -> None:
    raise NoSuchMethod


async def _post(actor: Actor, scope: Scope, receive: Receive, send: Send) -> None:
    with Body(scope, receive, MOST_BYTES, actor.key) as body:
        read = await read_aside(await body.read(), message_of, actor.key)
    message, params = read.fields, read.params
    if message.get("method") == "initialize":
        session = await in_database(sessions.begin, actor, params, scope["query_string"].decode("latin-1"))
        # the ID of an earlier session is not that of the new transport, which would refuse it
        scope = {**scope, "headers": [one for one in scope["headers"] if one[0] != b"mcp-session-id"]}
    else:
        session = await in_database(sessions.enter, actor, _session(scope))
    if message.get("method") == "notifications/cancelled":
        await in_database(sessions.withdraw, actor, session, params)
    if "method" not in message and str(message.get("id")).startswith(tasks.INPUT):
        # not for the SDK: the process that asked may be another one
        await in_database(tasks.reply, actor, message)
        return await respond(send, 202, {})
    exchange = Exchange(actor, session, scope, receive, send, _has_tasks(scope, message, params))
    if message.get("method") == "tools/call" or (exchange.has_tasks and message.get("method") == "tasks/result"):
        exchange.call, exchange.arguments = read.call, read.arguments
        exchange.is_task = exchange.has_tasks and message["method"] == "tools/call" and "task" in params
    await exchange.run(read.for_sdk)


def _has_tasks(scope: Scope, message: Message, params: dict[str, Any]) -> bool:
    """Return whether this client uses the version that has tasks. To others nothing says that there are any."""
    if message.get("method") != "initialize":
        return header(scope, b"mcp-protocol-version") == tasks.VERSION
    version = params.get("protocolVersion")
    # an unknown version is answered with the newest
    return version == tasks.VERSION or version not in SUPPORTED_PROTOCOL_VERSIONS


async def _get(actor: Actor, scope: Scope, receive: Receive, send: Send) -> None:
    """Serve the stream of a session. With a last event ID, serve the rest of a call after a lost connection."""
    session = await in_database(sessions.enter, actor, _session(scope))
    exchange = Exchange(actor, session, scope, receive, send, _has_tasks(scope, {}, {}))
    if last := header(scope, b"last-event-id"):
        exchange.call = await read_aside(last.encode(), call_after, actor.key)
    await exchange.run(b"")


async def _delete(actor: Actor, scope: Scope, receive: Receive, send: Send) -> None:
    session = await in_database(sessions.enter, actor, _session(scope))
    if not actor.episode:  # that of a token for one episode ends with its own loop
        await in_database(ending.finish, actor, session, Finish(stop_reason="done"))
    await respond(send, 200, {})


METHODS = {"POST": _post, "GET": _get, "DELETE": _delete}


def _session(scope: Scope) -> str:
    session = header(scope, b"mcp-session-id")
    if not session:
        raise NoSession
    return session


async def _tools(request: types.ListToolsRequest) -> types.ServerResult:
    offered = [TOOL, APPROVAL, ELICITATION]
    return types.ServerResult(types.ListToolsResult(tools=TASK_TOOLS if _exchange().has_tasks else offered))


async def _answer(request: types.CallToolRequest) -> types.ServerResult:
    context, exchange = SERVER.request_context, _exchange()
    if exchange.is_task:
        return types.ServerResult(await exchange.begin(request.params.name))
    return types.ServerResult(await exchange.answer(request.params.name, _teller(context)))


def _exchange() -> Exchange:
    exchange: Exchange = SERVER.request_context.request.scope[EXCHANGE]  # type: ignore[union-attr]
    return exchange


def _teller(context: Any) -> Tell:
    async def tell(params: types.ProgressNotificationParams) -> None:
        notice = types.ServerNotification(types.ProgressNotification(params=params))
        # on the stream of the call itself: a session can have several open
        await context.session.send_notification(notice, related_request_id=str(context.request_id))

    return tell


async def _task(request: types.GetTaskRequest) -> types.ServerResult:
    state = await _exchange().of_task(tasks.look, request.params.taskId)
    return types.ServerResult(types.GetTaskResult(**state.task().model_dump()))


async def _task_result(request: types.GetTaskPayloadRequest) -> types.ServerResult:
    context, exchange = SERVER.request_context, _exchange()

    async def ask(question: types.JSONRPCRequest) -> None:
        beside = ServerMessageMetadata(related_request_id=context.request_id)
        await context.session.send_message(SessionMessage(types.JSONRPCMessage(question), metadata=beside))

    call = exchange.of_task(exchange.result, request.params.taskId, _teller(context), ask if exchange.streams else None)
    return types.ServerResult(types.GetTaskPayloadResult.model_validate(await call))


async def _tasks(request: types.ListTasksRequest) -> types.ServerResult:
    states, cursor = await _exchange().of_task(tasks.listed, request.params.cursor if request.params else None)
    return types.ServerResult(types.ListTasksResult(tasks=[one.task() for one in states], nextCursor=cursor))


async def _cancel_task(request: types.CancelTaskRequest) -> types.ServerResult:
    state = await _exchange().of_task(tasks.cancel, request.params.taskId)
    return types.ServerResult(types.CancelTaskResult(**state.task().model_dump()))


SERVER.request_handlers |= {types.ListToolsRequest: _tools, types.CallToolRequest: _answer}
OPTIONS = SERVER.create_initialization_options()
SERVER.request_handlers |= {
    types.GetTaskRequest: _task,
    types.GetTaskPayloadRequest: _task_result,
    types.ListTasksRequest: _tasks,
    types.CancelTaskRequest: _cancel_task,
}
TASK_OPTIONS = OPTIONS.model_copy(
    update={"capabilities": OPTIONS.capabilities.model_copy(update={"tasks": CAN_BE_TASKS})}
)


class Exchange(EventStore):
    """One HTTP request of a session, with an SDK server that lives as long as the request.

    As the transport's event store it keeps nothing: each event ID names the call, and a replay waits for that call's
    ask again.
    """

    def __init__(self, actor: Actor, session: str, scope: Scope, receive: Receive, send: Send, has_tasks: bool) -> None:
        self.call: sessions.PendingCall | None = None
        self.arguments: dict[str, Any] = {}
        self.has_tasks, self.is_task, self.streams = has_tasks, False, False
        self._actor, self._session = actor, session
        self._scope = {**scope, EXCHANGE: self}
        self._receive, self._send = receive, send
        self._body: list[bytes] = []
        self._closed = asyncio.Event()

    async def run(self, body: bytes) -> None:
        """Run a server and a transport for this request, until its response, a hang-up or the end of the session."""
        self._body = [body]
        streams = not self.is_task and self.call is not None and "text/event-stream" in header(self._scope, b"accept")
        self.streams = streams
        transport = StreamableHTTPServerTransport(
            self._session,
            is_json_response_enabled=not streams,
            event_store=self if streams else None,
            retry_interval=RETRY_MS,
        )
        async with transport.connect() as (reading, writing):
            answering = asyncio.create_task(transport.handle_request(self._scope, self._take, self._pass))
            # stateless: this server lives as long as one request, and has seen no initialize
            serving = asyncio.create_task(
                SERVER.run(reading, writing, TASK_OPTIONS if self.has_tasks else OPTIONS, stateless=True)
            )
            attending = asyncio.create_task(self._attend())
            try:
                await asyncio.wait([answering, attending], return_when=asyncio.FIRST_COMPLETED)
                if not answering.done() and not self._closed.is_set():
                    await _end(answering)
                    await self._send({"type": "http.response.body", "body": b""})
            finally:
                await _end(answering)
                await transport.terminate()
                await _end(serving, attending)

    async def _attend(self) -> None:
        """Wait until the caller hangs up or loses access. An open stream counts as a heartbeat."""
        hearing = asyncio.create_task(self._hear())
        # a waiting call reads its ask, which is a sign of life; a listening stream reads nothing
        beat = min(LISTEN_S, settings.AWMWEB_HEARTBEAT_S / 3) if self._scope["method"] == "GET" else None
        try:
            while not (await asyncio.wait([hearing], timeout=beat))[0]:
                await self._stay()
        # the token was revoked or the session has ended
        except AppError:
            return
        finally:
            await _end(hearing)

    async def _hear(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            continue
        self._closed.set()

    async def _stay(self) -> None:
        try:
            self._actor = await asker(self._scope)
            await in_database(sessions.enter, self._actor, self._session)
        except AWAY as error:
            log.warning("database away while a session listens: %s", error)

    async def _take(self) -> Message:
        if self._body:
            # the body once, then nothing until the caller hangs up
            return {"type": "http.request", "body": self._body.pop(), "more_body": False}
        await self._closed.wait()
        return {"type": "http.disconnect"}

    async def _pass(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [one for one in message["headers"] if one[0] != b"cache-control"]
            message = {**message, "headers": [*kept, *HEADERS]}
        await self._send(dict(message))

    async def answer(self, tool: str, tell: Tell) -> types.CallToolResult:
        """Return what the agent sees of a call."""
        try:
            if tool not in sessions.ASKED or self.call is None:
                raise NotFound(f"There is no tool of this name; there are {', '.join(sessions.ASKED)}.")
            ask = await in_database(sessions.open_ask, self._actor, self._session, self.call.key, self.arguments, tool)
            return result_of(await self._end_of(ask, tell), ask.kind)
        except Exception as error:
            return refused(as_refusal(error))

    async def begin(self, tool: str) -> types.CreateTaskResult:
        """Open a task for a call. What the desk refuses is an error of the request: there is no task then."""
        if tool not in (ASK_TOOL, sessions.APPROVAL_TOOL):
            raise McpError(types.ErrorData(code=types.METHOD_NOT_FOUND, message=f"{tool} is no tool with tasks."))
        key = self.call.key if self.call else ""
        state = await self.of_task(tasks.begin, self._session, key, self.arguments, tool)
        return types.CreateTaskResult(task=state.task())

    async def of_task(self, do: Callable[..., Any], *arguments: Any) -> Any:
        """Do something with tasks of this token. Refusals are errors in the words of JSON-RPC."""
        try:
            if not self.has_tasks:
                raise McpError(types.ErrorData(code=types.METHOD_NOT_FOUND, message="Method not found"))
            if asyncio.iscoroutinefunction(do):
                return await do(*arguments)
            return await in_database(do, self._actor, *arguments)
        except McpError:
            raise
        except Exception as error:
            refusal = as_refusal(error)
            data = {"code": refusal.code}
            raise McpError(types.ErrorData(code=types.INVALID_PARAMS, message=refusal.message, data=data)) from error

    async def result(self, task: str, tell: Tell, ask: PutQuestion | None) -> dict[str, Any]:
        """Wait for the end of a task; returns what its call would have returned. `ask` puts an expert's question."""
        state, asked = await self._read_task(task, ask is not None), set[str]()
        telling = asyncio.create_task(self._progress(state.first, tell))
        try:
            while state.view is None:
                if state.status == "input_required" and ask is not None and state.last.pk not in asked:
                    asked.add(state.last.pk)
                    await ask(state.asking())
                state = await self._next_of(state, task, ask is not None)
        finally:
            await _end(telling)
        reply = result_of(state.view, state.last.kind).model_dump(by_alias=True, mode="json", exclude_none=True)
        return {**reply, "_meta": tasks.related(task)}

    async def _next_of(self, seen: tasks.TaskState, task: str, can_ask: bool) -> tasks.TaskState:
        def same(state: tasks.TaskState) -> bool:
            return (state.status, state.last.pk) == (seen.status, seen.last.pk)

        return await until_news(seen.last.pk, partial(self._read_task, task, can_ask), same, math.inf)

    async def _read_task(self, task: str, can_ask: bool) -> tasks.TaskState:
        while True:
            try:
                self._actor = await asker(self._scope)
                return await in_database(tasks.read_result, self._actor, task, can_ask)
            except AWAY:
                await asyncio.sleep(1)

    async def _end_of(self, ask: Ask, tell: Tell) -> AskView:
        telling = asyncio.create_task(self._progress(ask, tell))
        try:
            # without a time of its own: the deadline of the ask ends it
            return await until_closed(ask.pk, partial(self._read, ask), math.inf)
        finally:
            await _end(telling)

    async def _progress(self, ask: Ask, tell: Tell) -> None:
        """Report that the call is alive, immediately and then regularly, to a caller that asked for progress."""
        token = self.call.progress if self.call else None
        total = (ask.deadline_at - ask.created_at).total_seconds()
        while token is not None:
            waited = (timezone.now() - ask.created_at).total_seconds()
            words = "Waiting for an expert"
            await tell(
                types.ProgressNotificationParams(progressToken=token, progress=waited, total=total, message=words)
            )
            await asyncio.sleep(PROGRESS_S)

    async def _read(self, ask: Ask) -> AskView:
        """Return the current state of the ask.

        Waits for an unavailable database until the answer would be too late.
        """
        while True:
            try:
                self._actor = await asker(self._scope)
                return await in_database(sessions.look, self._actor, ask.pk)
            except AWAY:
                # the deadline has passed, so waiting on helps no one
                if (timezone.now() - ask.deadline_at).total_seconds() > PATIENCE_S:
                    raise
                await asyncio.sleep(1)

    async def store_event(self, stream_id: str, message: types.JSONRPCMessage | None) -> str:
        return self.call.event_id if self.call else ""

    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> str | None:
        """Return the rest of a call after a lost connection, by waiting for it again."""
        call = await read_aside(last_event_id.encode(), call_after, self._actor.key)

        async def tell(params: types.ProgressNotificationParams) -> None:
            fields = params.model_dump(by_alias=True, mode="json", exclude_none=True)
            await say(types.JSONRPCNotification(jsonrpc="2.0", method="notifications/progress", params=fields))

        async def say(message: types.JSONRPCNotification | types.JSONRPCResponse | types.JSONRPCRequest) -> None:
            await send_callback(EventMessage(types.JSONRPCMessage(message), last_event_id))

        if call.key.startswith(sessions.OF_TASK):
            try:
                waiting = self.of_task(self.result, call.key.removeprefix(sessions.OF_TASK), tell, say)
                await say(types.JSONRPCResponse(jsonrpc="2.0", id=call.number, result=await waiting))
            except McpError as error:
                refusal = types.JSONRPCError(jsonrpc="2.0", id=call.number, error=error.error)
                await send_callback(EventMessage(types.JSONRPCMessage(refusal), last_event_id))
            return None
        try:
            ask = await in_database(sessions.find, self._session, call.key)
            result = result_of(await self._end_of(ask, tell), ask.kind)
        except Exception as error:
            result = refused(as_refusal(error))
        reply = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        await say(types.JSONRPCResponse(jsonrpc="2.0", id=call.number, result=reply))
        return None


def result_of(view: AskView, kind: str = "question") -> types.CallToolResult:
    """Return the advice as text and as a value. Without advice, and of a decision, the text is the value as JSON."""
    advice = view.advice or Advice(text="", source="fallback", reason=view.reason or view.status)
    is_form = ASK_KINDS[kind].is_form
    seen = shown(_elicited(advice) if is_form else advice.observation())
    is_value = is_form or advice.is_fallback or advice.decision is not None
    texts = [json.dumps(seen)] if is_value else [seen["advice"], *map(json.dumps, seen.get("tool_calls", []))]
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=text) for text in texts if text]
    return types.CallToolResult(content=content, structuredContent=seen)


def _elicited(advice: Advice) -> dict[str, Any]:
    """Return the result of an elicitation; without an answer it is cancelled, which is no refusal by a person."""
    value = advice.decision.value if advice.decision is not None else None
    return {"action": "accept", "content": value} if value is not None else {"action": "cancel"}


def refused(error: AppError) -> types.CallToolResult:
    content = types.TextContent(type="text", text=json.dumps(envelope(error)))
    return types.CallToolResult(content=[content], isError=True)


async def _end(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, Exception):
            log.warning("a request ended with an error", exc_info=outcome)
