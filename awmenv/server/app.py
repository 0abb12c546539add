"""The web application of the environment server: openenv's application with our channels, health, stats and gate.

Owns the wiring only. Metadata, schemas and the small responses of the Task API are openenv's. Everything that acts for
an episode or can be long is ours, so that one request never blocks the loop. `awmenv.server.app:app` is what a Hugging
Face Space or `uvicorn` serves; `__main__` builds its own from arguments. The import of gradio is blocked before
openenv's: it would cost a second and eighty megabytes, and none of its pages is used.
"""

import asyncio
import functools
import gc
import itertools
import logging
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson

sys.modules.setdefault("gradio", None)  # type: ignore[arg-type]

from fastapi import FastAPI, HTTPException, Request, Response, WebSocket  # noqa: E402
from fastapi.responses import JSONResponse, StreamingResponse  # noqa: E402
from openenv.core.env_server.http_server import create_app  # noqa: E402
from openenv.core.env_server.mcp_types import CallToolAction  # noqa: E402
from openenv.core.env_server.types import (  # noqa: E402
    ConcurrencyConfig,
    GetTaskRangeRequest,
    ListTasksRequest,
    SchemaResponse,
)

from awmenv.server import logs  # noqa: E402
from awmenv.server.channels import agent, control, pacing  # noqa: E402
from awmenv.server.channels.connections import Connections  # noqa: E402
from awmenv.server.channels.gate import Asgi, Gate  # noqa: E402
from awmenv.server.channels.start_tables import StartTables, Unanswered  # noqa: E402
from awmenv.server.session.environment import WorldEnvironment  # noqa: E402
from awmenv.server.session.library import SPLIT  # noqa: E402
from awmenv.server.session.shared import VERIFY_BOUNDS, World  # noqa: E402
from awmenv.server.session.wire import WorldObservation, WorldState  # noqa: E402
from awmenv.server.settings import Settings  # noqa: E402
from awmenv.version import version  # noqa: E402

NAME = "awmenv"
COLLECT_AFTER = 10_000  # more objects than the largest message holds
REASONS, MAX_PARTIAL = 5, 200
STATELESS = {"detail": "An episode needs a connection: use the WebSocket at /ws, or /mcp with openenv/session/create."}


def build(settings: Settings) -> tuple[Asgi, World]:
    """Return the application and its world, which the caller starts and stops with it."""
    # Before `create_app`, which reads it.
    os.environ["ENABLE_WEB_INTERFACE"] = "false"
    world = World(settings)
    connections = Connections(world, settings.max_sessions, settings.detached_s)
    api = create_app(
        functools.partial(WorldEnvironment, world),
        CallToolAction,
        WorldObservation,
        env_name=NAME,
        concurrency_config=ConcurrencyConfig(max_concurrent_envs=settings.max_sessions),
        state_cls=WorldState,
    )
    # openenv's routes of these names are replaced by those below.
    ours = {"/reset", "/step", "/health", "/stats", "/schema", "/ws", "/mcp"}
    ours |= {f"/{{env_name}}/{name}" for name in ("tasks", "task_range")}
    api.router.routes[:] = [route for route in api.router.routes if getattr(route, "path", None) not in ours]
    _add_channels(api, connections)
    _add_tasks(api, world)
    _add_start_tables(api, world)
    _add_standing(api, world)
    _live_with(api, world, connections)
    return Gate(api, settings), world


def _add_channels(api: FastAPI, connections: Connections) -> None:
    """Add the agent's and the control channel. Stateless reset and step cannot hold an episode, so they are refused."""

    @api.websocket("/ws")
    async def control_socket(socket: WebSocket) -> None:
        await control.serve(socket, connections)

    @api.websocket("/mcp")
    async def agent_socket(socket: WebSocket) -> None:
        await agent.serve(socket, connections)

    @api.post("/mcp", tags=["MCP"])
    async def agent_request(request: Request) -> Response:
        answer = await pacing.paced(agent.answered(await request.body(), connections))
        return Response(answer, media_type="application/json")

    @api.post("/reset", tags=["disabled"])
    @api.post("/step", tags=["disabled"])
    async def stateless() -> JSONResponse:
        return JSONResponse(STATELESS, status_code=400)


def _add_tasks(api: FastAPI, world: World) -> None:
    """Add the two lists of the Task API. They can have ten thousand tasks, so they are sent by scenario."""

    def listed(env_name: str, split: str, start: int | None, stop: int | None, end: bytes) -> StreamingResponse:
        if env_name.lower() != NAME:
            raise HTTPException(404, f"unknown environment {env_name[:100]!r}")

        async def parts() -> AsyncIterator[bytes]:
            yield b'{"tasks":['
            comma = b""
            if split == SPLIT:
                async for entry in world.library.entries(start, stop):
                    yield comma + orjson.dumps(entry)
                    comma = b","
            yield b"]" + end

        return StreamingResponse(parts(), media_type="application/json")

    @api.post("/{env_name}/tasks", tags=["Task API"])
    async def list_tasks(env_name: str, request: ListTasksRequest) -> StreamingResponse:
        return listed(env_name, request.split, None, None, b',"env_name":"%s"}' % NAME.encode())

    @api.post("/{env_name}/task_range", tags=["Task API"])
    async def get_task_range(env_name: str, request: GetTaskRangeRequest) -> StreamingResponse:
        return listed(env_name, request.split, request.start, request.stop, b"}")


def _add_start_tables(api: FastAPI, world: World) -> None:
    """Add the start tables, which require a dashboard's signature."""
    tables = StartTables(world)

    @api.post("/start_tables", tags=["Dashboard"])
    async def start_tables(request: Request) -> JSONResponse:
        try:
            return JSONResponse(await tables.answer(await request.body()))
        except Unanswered as unanswered:
            return JSONResponse({"detail": unanswered.reason}, status_code=unanswered.status)


def _add_standing(api: FastAPI, world: World) -> None:
    """Add health, stats and schemas for operators; the schemas are made once."""
    schemas = {
        "action": CallToolAction.model_json_schema(),
        "observation": WorldObservation.model_json_schema(),
        "reset_observation": WorldObservation.model_json_schema(),
        "state": WorldState.model_json_schema(),
    }

    @api.get("/schema", tags=["Schema"], response_model=SchemaResponse)
    async def schema() -> JSONResponse:
        return JSONResponse(schemas)

    @api.api_route("/health", methods=["GET", "HEAD"])  # load balancers send HEAD
    async def health() -> dict[str, Any]:
        return {
            "status": "healthy",
            "tier": world.tier,
            "version": version(),
            "scenarios": len(world.library.listed),
        }

    @api.get("/stats")
    async def stats() -> dict[str, Any]:
        return await asyncio.to_thread(_stats, world)


def _live_with(api: FastAPI, world: World, connections: Connections) -> None:
    """Start and stop the world with the application, under any server."""
    watching: list[asyncio.Task[None]] = []

    async def begin() -> None:
        world.start()
        _spare_collector()
        watching.extend(asyncio.create_task(task) for task in (world.watch(), connections.watch()))

    async def end() -> None:
        for task in watching:
            task.cancel()
        world.stop()

    api.router.on_startup.append(begin)
    api.router.on_shutdown.append(end)


def _spare_collector() -> None:
    """Exclude what was loaded for good from garbage collection, and collect seldom.

    A collection over all modules blocks everything for tens of milliseconds, and a client with many small values
    triggers it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, 10, 10)


def __getattr__(name: str) -> Asgi:
    """Return `app`, built from the environment's settings, for `uvicorn awmenv.server.app:app` or a Space."""
    if name != "app":
        raise AttributeError(name)
    logs.install(logging.INFO)
    return build(Settings.from_environment())[0]


def _stats(world: World) -> dict[str, Any]:
    counts = world.counts
    return {
        "sessions": len(world.sessions),
        "max_sessions": world.settings.max_sessions,
        "resets": counts.resets,
        "calls": counts.calls,
        "verifications": counts.verifications,
        "verify_seconds": {"bounds": VERIFY_BOUNDS, "counts": counts.verify_counts, "sum": counts.verify_s},
        "faults": counts.faults,
        "tier": world.tier,
        "min_tier": world.settings.min_tier,
        "probes": world.verifiers.zygote.probes,
        "warm_scenarios": len(world.scenarios.templates),
        "partial": {
            name: {"statements": built.statements, "failures": built.failures, "reasons": built.failed[:REASONS]}
            for name, built in itertools.islice(world.partial().items(), MAX_PARTIAL)
        },
        "memory_kb": {
            name: _pss(pid)
            for name, pid in {
                "server": os.getpid(),
                "scenario_zygote": world.scenarios.zygote.pid,
                "verifier_zygote": world.verifiers.zygote.pid,
            }.items()
        },
    }


def _pss(pid: int | None) -> int | None:
    """Return the proportional memory of one process, if the kernel reports it."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")), None)
