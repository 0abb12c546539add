"""An upstream AWM server: OpenEnv's own application around an environment that speaks as its AWM does, without awmweb's
extensions.

The environment notes what its reset does not know, and actions with fields of awmweb's are refused by OpenEnv, so that
a test sees what is sent. Its one scenario has two tools; a connection can end after a number of calls, as with a server
that is stopped.
"""

from __future__ import annotations

import sys
import threading
from typing import Annotated, Any

import uvicorn

sys.modules.setdefault("gradio", None)  # type: ignore[arg-type]

from openenv.core.env_server.http_server import create_app  # noqa: E402
from openenv.core.env_server.interfaces import Environment  # noqa: E402
from openenv.core.env_server.mcp_types import (  # noqa: E402
    CallToolAction,
    ListToolsAction,
    ListToolsObservation,
    Tool,
)
from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State  # noqa: E402
from pydantic import Field, TypeAdapter  # noqa: E402

from tests.running import until  # noqa: E402

NAME, VERSION = "agent_world_model_env", "0.1.0"
RESET = {"scenario", "task_idx", "task", "reward_config", "llm_base_url", "llm_api_key", "llm_model"}
"""What upstream's reset knows beside OpenEnv's own `seed` and `episode_id`."""
TOOLS = [
    Tool(name=name, description=name, input_schema={"type": "object", "properties": {"word": {"type": "string"}}})
    for name in ("add_row", "count_rows")
]
ACTIONS: TypeAdapter[Action] = TypeAdapter(Annotated[ListToolsAction | CallToolAction, Field(discriminator="type")])


class ToolAction(Action):
    """Either of the two actions of an environment of tools."""

    @classmethod
    def model_validate(cls, obj: Any, **_options: Any) -> Action:
        return ACTIONS.validate_python(obj)


class ToolObservation(Observation):
    """What tools, verifier and reset answer; fields without a value are left out."""

    reward_type: str | None = None
    scenario: str | None = None
    task: str | None = None
    task_idx: int | None = None
    num_tools: int | None = None
    tool_name: str | None = None
    tool_result: Any = None
    error: str | None = None
    verify_result: dict[str, Any] | None = None

    def model_dump(self, **options: Any) -> dict[str, Any]:
        return super().model_dump(**{"exclude_none": True, **options})


class Words(Environment):
    """A list of words that tools add to; the right final answer is all of them."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, server: Upstream) -> None:
        super().__init__()
        self._server, self._rows, self._state = server, [], State(episode_id=None, step_count=0)

    def get_metadata(self) -> EnvironmentMetadata:
        return EnvironmentMetadata(name=NAME, description="Words", version=VERSION)

    @property
    def state(self) -> State:
        return self._state

    def reset(self, seed=None, episode_id=None, scenario=None, task_idx=None, **others) -> ToolObservation:
        self._server.resets += 1
        self._server.strange += sorted(set(others) - RESET)
        self._rows = []
        told = {"scenario": scenario, "task": "Write words.", "task_idx": task_idx, "num_tools": len(TOOLS)}
        return ToolObservation(reward_type="reset_ok", **told)

    def step(self, action: Action, timeout_s=None, **_others) -> Observation:
        self._state.step_count += 1
        self._server.strange += sorted(action.metadata)
        if isinstance(action, ListToolsAction):
            return ListToolsObservation(tools=TOOLS)
        return getattr(self, f"_{action.tool_name}", self._unknown)(action)

    def _verify(self, action: CallToolAction) -> ToolObservation:
        self._server.verified.append(action.arguments)
        is_right = action.arguments.get("final_answer") == " ".join(self._rows)
        kind = "complete" if is_right else "others"
        return ToolObservation(reward_type=kind, reward=float(is_right), verify_result={"result": kind})

    def _done(self, _action: CallToolAction) -> ToolObservation:
        return ToolObservation(reward_type="episode_done", reward=0.0, done=True)

    def _add_row(self, action: CallToolAction) -> ToolObservation:
        if self._server.ends_after == len(self._rows):
            self._server.ends_after, self._server.drops = None, True
        self._rows.append(action.arguments["word"])
        return self._count_rows(action)

    def _count_rows(self, action: CallToolAction) -> ToolObservation:
        found = str(len(self._rows) + self._server.drift)
        return ToolObservation(reward_type="tool_call_ok", reward=0.0, tool_name=action.tool_name, tool_result=found)

    def _unknown(self, action: CallToolAction) -> ToolObservation:
        said = f"Unknown tool: {action.tool_name}"
        return ToolObservation(reward_type="tool_not_found", reward=-1.0, tool_name=action.tool_name, error=said)


class Upstream:
    """The server, in a thread of its own. `ends_after` drops a connection after this many rows, once; with a `key` it
    answers those only who send it, as behind a proxy; `slots` sessions are all that it takes."""

    def __init__(self, key: str = "", slots: int = 8) -> None:
        self.key, self.strange, self.resets, self.ends_after, self.verified = key, [], 0, None, []
        self.drift, self.drops = 0, False
        self._app = create_app(lambda: Words(self), ToolAction, ToolObservation, NAME, max_concurrent_envs=slots)
        config = uvicorn.Config(
            self._guarded, host="127.0.0.1", port=0, interface="asgi3", log_level="warning", lifespan="off"
        )
        self._server = uvicorn.Server(config)
        socket = config.bind_socket()
        self.url = f"http://127.0.0.1:{socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [socket]})
        self._thread.start()
        until(lambda: self._server.started, 10, every=0.01)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(10)

    async def _guarded(self, scope, receive, send) -> None:
        if self.key and dict(scope["headers"]).get(b"x-key") != self.key.encode():
            kind = "websocket.close" if scope["type"] == "websocket" else "http.response.start"
            await send({"type": kind, **({} if kind == "websocket.close" else {"status": 403, "headers": []})})
            if scope["type"] == "http":
                await send({"type": "http.response.body", "body": b"{}"})
            return

        async def send_or_drop(message) -> None:
            if self.drops and message["type"] == "websocket.send":
                self.drops, message = False, {"type": "websocket.close", "code": 1011}
            await send(message)

        await self._app(scope, receive, send_or_drop)
