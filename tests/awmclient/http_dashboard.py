"""A dashboard over real HTTP for tests of the client: the contract's agent calls on a `MemoryStore`, with faults on
demand.

`Served` runs any ASGI app on a loopback port inside the test's own loop; its `kill` drops it like a killed process,
connections included.
"""

import asyncio
import contextlib
import json
import socket
from collections import deque
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from awmclient.errors import BadToken, Refused
from awmclient.memory_store import MemoryStore
from awmclient.schema import Advice

TOKEN = "agent-token-for-tests"


class Served:
    """An ASGI app on a port of its own. The port stays the same when it is started again."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.port = 0
        self._server: Any = None
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        # asyncio sends small answers at once only on sockets that say they are TCP
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", self.port))
        self.port = sock.getsockname()[1]
        self._server = uvicorn.Server(uvicorn.Config(self.app, log_level="error", lifespan="off"))
        self._server.capture_signals = contextlib.nullcontext
        self._task = asyncio.create_task(self._server.serve(sockets=[sock]))
        while not self._server.started:
            await asyncio.sleep(0.01)

    async def kill(self) -> None:
        if self._task is None:
            return
        for server in self._server.servers:
            server.close()
        for connection in list(self._server.server_state.connections):
            connection.transport.abort()
        for task in list(self._server.server_state.tasks):
            task.cancel()
        self._server.should_exit = self._server.force_exit = True
        await self._task
        self._task = None


class FakeHttpDashboard(Served):
    """The agent's part of the HTTP API. `faults` holds responses to give instead of the next answers, `requests` what
    came."""

    def __init__(self) -> None:
        self.book = MemoryStore()
        self.runs: dict[str, str] = {}
        self.faults: deque[Response] = deque()
        self.lose_answers = 0
        self.requests: list[tuple[str, str]] = []
        self.batches: list[int] = []
        episode, ask = "/api/v1/episodes/{id}", "/api/v1/asks/{id}"
        routes = [
            Route("/api/v1/runs", self._door(self._run), methods=["POST"]),
            Route("/api/v1/episodes", self._door(self._start), methods=["POST"]),
            Route("/api/v1/episodes/whole", self._door(self._whole), methods=["POST"]),
            Route(episode, self._door(self._view), methods=["GET"]),
            Route(f"{episode}/steps", self._door(self._steps), methods=["GET"]),
            Route(f"{episode}/steps", self._door(self._append), methods=["POST"]),
            Route(f"{episode}/heartbeat", self._door(self._heartbeat), methods=["POST"]),
            Route(f"{episode}/finish", self._door(self._finish), methods=["POST"]),
            Route("/api/v1/asks", self._door(self._ask), methods=["POST"]),
            Route(ask, self._door(self._poll), methods=["GET"]),
            Route(f"{ask}/consumed", self._door(self._consumed), methods=["POST"]),
            Route(f"{ask}/cancel", self._door(self._cancel), methods=["POST"]),
        ]
        super().__init__(Starlette(routes=routes))

    def _door(self, answer: Any) -> Any:
        async def endpoint(request: Request) -> Response:
            self.requests.append((request.method, request.url.path.removeprefix("/api/v1")))
            if self.faults:
                return self.faults.popleft()
            try:
                if request.headers.get("Authorization") != f"Bearer {TOKEN}":
                    raise BadToken
                raw = await request.body()
                found = await answer(request, json.loads(raw) if raw else {})
            except Refused as error:
                envelope = {"error": {"code": error.code, "message": error.message}}
                return JSONResponse(envelope, status_code=error.status)
            if self.lose_answers:  # the work is done and the answer gets lost on the way
                self.lose_answers -= 1
                for connection in list(self._server.server_state.connections):
                    connection.transport.abort()
            status, body = found if isinstance(found, tuple) else (200, found)
            return Response(json.dumps(body), status_code=status, media_type="application/json")

        return endpoint

    async def _run(self, request: Request, body: dict[str, Any]) -> Any:
        known = body["key"] in self.runs
        self.runs.setdefault(body["key"], f"run-{len(self.runs) + 1}")
        return 200 if known else 201, {"id": self.runs[body["key"]], "name": body["name"]}

    async def _start(self, request: Request, body: dict[str, Any]) -> Any:
        entry, created = self.book.start(body)
        return 201 if created else 200, {"id": entry.id, "url": f"{self.url}/episodes/{entry.id}"}

    async def _whole(self, request: Request, body: dict[str, Any]) -> Any:
        self.batches.append(len(body["episodes"]))
        return {"results": [self._record(one) for one in body["episodes"]]}

    def _record(self, one: dict[str, Any]) -> dict[str, Any]:
        try:
            entry, created = self.book.start(one["episode"])
            if one["steps"]:
                self.book.append(entry.id, one["steps"])
            self.book.finish(entry.id, one["finish"])
        except Refused as error:
            return {"error": {"code": error.code, "message": error.message}}
        return {"id": entry.id, "url": f"{self.url}/episodes/{entry.id}", "known": not created}

    async def _view(self, request: Request, body: dict[str, Any]) -> Any:
        entry = self.book.entry(request.path_params["id"])
        place = {"id": entry.id, "url": "", "state": entry.state, "task": entry.plan.task}
        return {**place, "last_seq": len(entry.steps), "stop_reason": entry.stop_reason}

    async def _steps(self, request: Request, body: dict[str, Any]) -> Any:
        """Pages of two, so that readers page."""
        rest = self.book.entry(request.path_params["id"]).steps[int(request.query_params["since"]) :]
        return {"steps": rest[:2], "more": len(rest) > 2}

    async def _append(self, request: Request, body: dict[str, Any]) -> Any:
        return {"acknowledged": self.book.append(request.path_params["id"], body["steps"])}

    async def _heartbeat(self, request: Request, body: dict[str, Any]) -> Any:
        self.book.heartbeat(request.path_params["id"])
        return {"ok": True}

    async def _finish(self, request: Request, body: dict[str, Any]) -> Any:
        self.book.finish(request.path_params["id"], body)
        return {"ok": True}

    async def _ask(self, request: Request, body: dict[str, Any]) -> Any:
        ask, created = self.book.open_ask(body)
        return 201 if created else 200, {**ask.view(), "expected_wait_s": 1.0}

    async def _poll(self, request: Request, body: dict[str, Any]) -> Any:
        ask = self.book.ask(request.path_params["id"])
        left = ask.plan.deadline_s if ask.status == "open" else 0
        wait = min(float(request.query_params.get("wait", 0)), left)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ask.closed.wait(), wait)
        return self.book.ask(ask.id).view()

    async def _consumed(self, request: Request, body: dict[str, Any]) -> Any:
        self.book.ask(request.path_params["id"]).consumed = True
        return {"ok": True}

    async def _cancel(self, request: Request, body: dict[str, Any]) -> Any:
        heard = request.query_params.get("heard")
        advice = Advice(text="", source="fallback", reason=heard) if heard else None
        self.book.close(self.book.ask(request.path_params["id"]), "cancelled", advice, reason="asker")
        return {"ok": True}
