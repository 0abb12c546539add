"""The web application of the environment server: openenv's protocol over our environment, with health, stats and the
gate in front.

Owns the wiring only. `awmenv.server.app:app` is what a Hugging Face Space or `uvicorn` serves; `__main__` builds its
own from arguments. gradio's import is blocked before openenv's: it would cost a second and eighty megabytes, and no
page of it is shown.
"""

import asyncio
import functools
import itertools
import os
import sys
from pathlib import Path
from typing import Any

sys.modules.setdefault("gradio", None)  # type: ignore[arg-type]

from fastapi import FastAPI  # noqa: E402
from fastapi.responses import JSONResponse  # noqa: E402
from openenv.core.env_server.http_server import create_app  # noqa: E402
from openenv.core.env_server.mcp_types import CallToolAction  # noqa: E402
from openenv.core.env_server.types import ConcurrencyConfig  # noqa: E402

from awmenv import __version__  # noqa: E402
from awmenv.server.environment import WorldEnvironment  # noqa: E402
from awmenv.server.frames import Asgi, FrameGate  # noqa: E402
from awmenv.server.sessions import World  # noqa: E402
from awmenv.server.settings import Settings  # noqa: E402
from awmenv.server.wire import WorldObservation, WorldState  # noqa: E402

REASONS, MAX_PARTIAL = 5, 200
STATELESS = {"detail": "An episode needs a connection: use the WebSocket at /ws, or /mcp with openenv/session/create."}


def build(settings: Settings) -> tuple[Asgi, World]:
    """The application, and the world behind it, which the caller starts and stops with it."""
    os.environ["ENABLE_WEB_INTERFACE"] = "false"
    world = World(settings)
    api = create_app(
        functools.partial(WorldEnvironment, world),
        CallToolAction,
        WorldObservation,
        env_name="awmenv",
        concurrency_config=ConcurrencyConfig(
            max_concurrent_envs=settings.max_sessions, session_timeout=settings.detached_s
        ),
        state_cls=WorldState,
    )
    _replace_routes(api, world)
    _live_with(api, world)
    return FrameGate(api), world


def _replace_routes(api: FastAPI, world: World) -> None:
    """Stateless reset and step cannot hold an episode; health and stats tell what an operator must know."""
    ours = {"/reset", "/step", "/health", "/stats"}
    api.router.routes[:] = [route for route in api.router.routes if getattr(route, "path", None) not in ours]

    @api.post("/reset", tags=["disabled"])
    @api.post("/step", tags=["disabled"])
    async def stateless() -> JSONResponse:
        return JSONResponse(STATELESS, status_code=400)

    @api.get("/health")
    async def health() -> dict[str, Any]:
        return {
            "status": "healthy",
            "tier": world.tier,
            "version": __version__,
            "scenarios": len(world.library.listed()),
        }

    @api.get("/stats")
    async def stats() -> dict[str, Any]:
        return await asyncio.to_thread(_stats, world)


def _live_with(api: FastAPI, world: World) -> None:
    """The world starts and ends with the application, whoever serves it."""
    watching: list[asyncio.Task[None]] = []

    async def begin() -> None:
        world.start()
        watching.append(asyncio.create_task(world.watch()))

    async def end() -> None:
        for task in watching:
            task.cancel()
        world.stop()

    api.router.on_startup.append(begin)
    api.router.on_shutdown.append(end)


def __getattr__(name: str) -> Asgi:
    """`uvicorn awmenv.server.app:app` and Spaces ask for `app`: made from the environment's settings when asked for."""
    if name != "app":
        raise AttributeError(name)
    return build(Settings.from_environment())[0]


def _stats(world: World) -> dict[str, Any]:
    counts = world.counts
    return {
        "sessions": len(world.sessions),
        "max_sessions": world.settings.max_sessions,
        "resets": counts.resets,
        "calls": counts.calls,
        "verifications": counts.verifications,
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
    """Proportional memory of one process, where the kernel tells it."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")), None)
