"""The ports of a rollout: what the loop needs of a dashboard and of an environment.

Only protocols. `rollout.py` calls through them; adapters match them without importing them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, Unpack, runtime_checkable

from awmclient.bodies import EpisodeFields, StepLike
from awmclient.schema import Advice, Fault, ReportedOutcome, StopReason


class EpisodePort(Protocol):
    """One episode at a dashboard. Calls may raise `EpisodeEnded` (stop, quietly), `Unreachable`, `Refused`; nothing
    else, but that `ask` and `wait_for_advice` may raise `Parked`: leave, another attempt goes on when there is advice.
    """

    @property
    def id(self) -> str: ...

    @property
    def url(self) -> str: ...

    @property
    def last_seq(self) -> int:
        """The last step number given out; the next step gets the one after it."""

    async def append(self, steps: StepLike | Sequence[StepLike]) -> int:
        """Record steps; returns the last number that is durable. Steps without `seq` are numbered here."""

    async def ask(
        self,
        question: str,
        *,
        context: str | None = None,
        deadline_s: int = 300,
        human_deadline_s: int | None = None,
        priority: int = 0,
        skills: Sequence[str] | None = None,
        group_key: str | None = None,
        key: str | None = None,
        turn: int | None = None,
        call_id: str | None = None,
    ) -> Advice:
        """Ask and wait: an `Advice` at the latest 2 s after the deadline, a fallback if there is none. Takes one
        step number.
        """

    async def steps(self, since: int = 0) -> list[dict[str, Any]]:
        """Return the recorded steps with a number above `since`, as they were stored. Called where `last_seq` is not 0
        at the start: the episode goes on after a crash.
        """

    async def wait_for_advice(self, ask: str, deadline_s: int) -> Advice:
        """Wait for an ask that was opened before, by its id; at most about `deadline_s`. As `ask` otherwise."""

    async def heartbeat(self) -> None: ...

    async def finish(
        self,
        stop_reason: StopReason,
        *,
        final_answer: str | None = None,
        outcome: ReportedOutcome | Mapping[str, Any] | None = None,
    ) -> None: ...

    async def fail(self, fault: Fault, detail: str) -> None:
        """End the episode because a boundary broke. Over HTTP: a note that says so, then finish with `error` and, where
        a loop can say it of itself, the fault."""


class Dashboard(Protocol):
    """Where episodes are recorded. Adapters: `HttpDashboard`, `testing.MemoryDashboard`, and the product's
    in-process one.
    """

    async def start_episode(self, task: str, **fields: Unpack[EpisodeFields]) -> EpisodePort:
        """Open an episode; a missing `key` is made up. The same key and body again give the same episode."""


class ToolResult(Protocol):
    """What a tool call brought. `reward`, `reward_type` and `state_diff` are recorded and never shown to the policy."""

    @property
    def tool_result(self) -> Any: ...
    @property
    def error(self) -> str | None: ...
    @property
    def reward(self) -> float | None: ...
    @property
    def reward_type(self) -> str | None: ...
    @property
    def done(self) -> bool: ...
    @property
    def state_diff(self) -> dict[str, Any] | None: ...


@runtime_checkable
class ToolEnvironment(Protocol):
    """An environment with named tools. `reset` returns an observation with `error` and, if it knows one, `task`;
    `list_tools` a sequence of things with `name`, `description`, `input_schema`; `done` ends the session's work
    after the verifier has spoken.
    """

    async def reset(self, *args: Any, **kwargs: Any) -> Any: ...
    async def list_tools(self) -> Sequence[Any]: ...
    async def call_tool(self, name: str, arguments: dict[str, Any]) -> ToolResult: ...
    async def done(self) -> Any: ...


@runtime_checkable
class ActionEnvironment(Protocol):
    """An OpenEnv environment without tools: `step` takes a dict and returns `observation`, `reward`, `done`
    (openenv's StepResult).
    """

    async def reset(self, *args: Any, **kwargs: Any) -> Any: ...
    async def step(self, action: dict[str, Any]) -> Any: ...


@runtime_checkable
class RecordedEnvironment(Protocol):
    """An environment that marks each call in its metadata, and makes a marked call again under the same conditions."""

    async def begin_again(self) -> bool:
        """Reset to the world with which the record began; false if nothing is known of it. Raises if it differs."""

    async def call_again(self, name: str, arguments: dict[str, Any], mark: Mapping[str, Any] | None) -> ToolResult:
        """Make a recorded call again. Raises if it leaves another world than its mark says."""

    async def settle(self) -> None:
        """Say that all recorded calls are made. Raises if they left another world than recorded."""


OnEnd = Callable[[Any, str | None], Awaitable[None]]
"""Called once after the finish is recorded, with the environment and the final answer, before the environment's
`done`.
"""
