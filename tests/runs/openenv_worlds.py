"""Environments made of openenv's own base classes and served by its own `create_app`: one of tools, one of actions, one
with a Task API, and servers that break their word."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from typing import Any, Literal

import uvicorn

sys.modules.setdefault("gradio", None)  # type: ignore[arg-type]

from fastmcp import FastMCP  # noqa: E402
from openenv.core.env_server.http_server import create_app  # noqa: E402
from openenv.core.env_server.interfaces import Environment  # noqa: E402
from openenv.core.env_server.mcp_environment import MCPEnvironment  # noqa: E402
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation  # noqa: E402
from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State  # noqa: E402
from pydantic import Field  # noqa: E402

from tests.running import until  # noqa: E402


class Drawers(MCPEnvironment):
    """Two tools: look into a drawer, and take what is in one, which ends the episode."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    version = "1.2.0"
    reward: Any = 1.0
    resets: list[dict[str, Any]] = []

    def __init__(self) -> None:
        server: FastMCP = FastMCP("drawers")

        @server.tool
        def look(drawer: int) -> dict[str, Any]:
            """Look into a drawer."""
            return {"drawer": drawer, "holds": "key" if drawer == self.right else "nothing"}

        @server.tool
        def take(drawer: int) -> str:
            """Take what is in a drawer. You can do this once."""
            return "a key" if drawer == self.right else "nothing"

        super().__init__(server)
        self.right, self._state, self._server = 1, State(), server

    def get_metadata(self) -> EnvironmentMetadata:
        about = "Find the key: look into the drawers 0 to 2, and take it."
        return EnvironmentMetadata(name="drawers", description=about, version=self.version)

    @property
    def state(self) -> State:
        return self._state

    def reset(self, seed: int | None = None, episode_id: str | None = None, **given: Any) -> Observation:
        type(self).resets.append({"seed": seed, **given})
        self.right = (seed if seed is not None else 1) % 3
        return Observation(done=False, reward=0.0)

    async def step_async(self, action: Action, timeout_s: float | None = None, **more: Any) -> Observation:
        found = await super().step_async(action, timeout_s=timeout_s, **more)
        if isinstance(action, CallToolAction) and action.tool_name == "take" and found.error is None:
            found.done, right = True, action.arguments.get("drawer") == self.right
            found.reward = self.reward if right else 0.0
        return found

    def _step_impl(self, action: Action, timeout_s: float | None = None, **_more: Any) -> Observation:
        raise ValueError("only tools")


class GuessAction(Action):
    """Guess the number."""

    number: int = Field(ge=0, le=20, description="Your guess")
    mood: Literal["calm", "wild"] = "calm"


class GuessObservation(Observation):
    hint: str
    score: float = 0.0


class Guess(Environment):
    """A number to guess; one session at a time, as openenv has it by default."""

    _specs = {"train": 3, "test": 2}
    resets: list[dict[str, Any]] = []

    def __init__(self) -> None:
        super().__init__()
        self._number, self._state = 0, State()

    @property
    def state(self) -> State:
        return self._state

    def reset(self, seed: int | None = None, episode_id: str | None = None, **given: Any) -> GuessObservation:
        type(self).resets.append({"seed": seed, **given})
        self._number = (given.get("index") or seed or 0) % 21
        return GuessObservation(hint="A number from 0 to 20.", done=False)

    def step(self, action: GuessAction, timeout_s: float | None = None, **_more: Any) -> GuessObservation:
        if action.mood == "wild":
            raise RuntimeError("Be calm.")
        if action.number == self._number:
            return GuessObservation(hint="right", done=True, reward=1.0, score=1.0)
        return GuessObservation(hint="higher" if action.number < self._number else "lower", reward=-0.1, score=0.5)


class Tasked(Guess):
    """The same with a Task API."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def list_splits(self) -> list[str]:
        return list(self._specs)

    def num_tasks(self, split: str) -> int:
        return self._specs[split]

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        return [self.get_task(split, index) for index in range(self._specs[split])]

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        if index >= self._specs[split]:
            raise IndexError(index)
        return {"id": f"{split}-{index}", "question": f"Guess number {index} of {split}.", "answer": "secret"}

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[dict[str, Any]]:
        return self.list_tasks(split)[start:stop]


class Served:
    """An application in a thread of its own. `spoil` can replace the text of a frame on its way out."""

    def __init__(self, app: Any) -> None:
        self.app, self.spoil = app, lambda text: text
        config = uvicorn.Config(
            self._asgi, host="127.0.0.1", port=0, interface="asgi3", log_level="error", lifespan="off"
        )
        self._server = uvicorn.Server(config)
        socket = config.bind_socket()
        self.url = f"http://127.0.0.1:{socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [socket]})
        self._thread.start()
        until(lambda: self._server.started, 10, every=0.01)

    async def _asgi(self, scope: Any, receive: Any, send: Any) -> None:
        async def spoiled(message: Any) -> None:
            if message["type"] == "websocket.send" and isinstance(message.get("text"), str):
                message = {**message, "text": self.spoil(message["text"])}
            await send(message)

        await self.app(scope, receive, spoiled)

    def stop(self) -> None:
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join(10)


def drawers(slots: int = 4) -> Any:
    return create_app(Drawers, CallToolAction, CallToolObservation, "drawers", max_concurrent_envs=slots)


def guess() -> Any:
    return create_app(Guess, GuessAction, GuessObservation, "guess")


def tasked(slots: int = 4) -> Any:
    return create_app(Tasked, GuessAction, GuessObservation, "tasked", max_concurrent_envs=slots)


def tasked_once() -> Any:
    return tasked(1)


@contextlib.contextmanager
def served(app: Any):
    server = Served(app)
    for kind in (Drawers, Guess, Tasked):
        kind.resets = []
    try:
        yield server
    finally:
        server.stop()


def lying(app: Any, **bodies: str) -> Any:
    """Return the application with other answers over HTTP: a body by its path, `_` for `/`."""

    async def asgi(scope: Any, receive: Any, send: Any) -> None:
        body = bodies.get(scope.get("path", "").strip("/").replace("/", "_")) if scope["type"] == "http" else None
        if body is None:
            await app(scope, receive, send)
            return
        head = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": body.encode()})

    return asgi


def spoiled_step(**said: Any):
    """Return a `spoil` that puts these values into every answer of a step, as JSON that Python alone would write."""

    def spoil(text: str) -> str:
        frame = json.loads(text)
        if frame["type"] == "observation" and "reward" in frame["data"]:
            frame["data"] |= said
        return json.dumps(frame)

    return spoil


def spoiled_tools(name: str, at_once: bool = False):
    """Return a `spoil` that lists one tool more, from the first answer of a step on."""
    began = [at_once]

    def spoil(text: str) -> str:
        frame = json.loads(text)
        if frame["type"] == "mcp" and began[0]:
            frame["data"]["result"]["tools"].append({"name": name, "description": "", "inputSchema": {}})
        began[0] = began[0] or "tool_name" in (frame["data"].get("observation") or {})
        return json.dumps(frame)

    return spoil
