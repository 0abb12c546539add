"""The ports of a rollout: what the loop requires of a dashboard and of an environment.

Only protocols. The loop calls through them; adapters match them without importing them.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, Unpack, runtime_checkable

from awmclient.client.bodies import EpisodeFields, StepLike
from awmclient.nouns.asks import Advice
from awmclient.nouns.episodes import ReportedOutcome
from awmclient.nouns.pictures import ImagePart
from awmclient.nouns.typed import AskKind
from awmclient.nouns.values import Fault, StopReason
from awmclient.nouns.wheel import WheelView


class SpanMaker(Protocol):
    """Returns what surrounds a part of the loop, such as a span of a tracer: `turn` or `choose`, with its number."""

    def __call__(self, name: str, *, turn: int) -> contextlib.AbstractContextManager[object]: ...


def no_span(name: str, *, turn: int) -> contextlib.AbstractContextManager[object]:
    """Surround a part of the loop with nothing."""
    return _NOTHING


_NOTHING = contextlib.nullcontext()


class EpisodePort(Protocol):
    """One episode at a dashboard.

    Calls raise only `EpisodeEnded` (stop quietly), `Unreachable` and `Refused`. `ask` and `wait_for_advice` can also
    raise `Parked`: exit, another attempt continues when there is advice.
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
        kind: AskKind = "question",
        calls: Sequence[Mapping[str, Any]] | None = None,
        on_timeout: str | Mapping[str, Any] | None = None,
        thread: str | None = None,
    ) -> Advice:
        """Ask and wait. Takes one step number.

        Returns an `Advice` at the latest 2 s after the deadline, a fallback if there is none.
        """

    async def steps(self, since: int = 0) -> list[dict[str, Any]]:
        """Return the recorded steps above `since`, as stored.

        Called if `last_seq` is not 0 at the start: the episode continues after a crash.
        """

    async def wait_for_advice(self, ask: str, deadline_s: int, typed: Mapping[str, Any] | None = None) -> Advice:
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
        """End the episode because a boundary failed.

        Over HTTP: a note, then a finish with `error` and, if the loop can report it, the fault.
        """


@runtime_checkable
class SteeredEpisode(Protocol):
    """An episode whose dashboard lets people steer it. A loop looks before each turn and each call."""

    @property
    def steered(self) -> bool:
        """Whether there is something to read, as far as the last response said."""

    async def look(self) -> bool:
        """Return whether someone has the wheel now; then `steered` is true. Called every second while the agent
        chooses."""

    async def wheel(self, acted: int) -> WheelView:
        """Return what to do after order number `acted`. While someone holds the wheel and orders nothing, it waits some
        seconds for the next order."""


@runtime_checkable
class PicturedEpisode(Protocol):
    """An episode whose dashboard stores pictures."""

    async def upload(self, picture: bytes) -> ImagePart:
        """Store a picture and return its part; the same picture has the same part. Raises `Refused` for what is none,
        and `Unreachable`."""


class Dashboard(Protocol):
    """Where episodes are recorded. Adapters: `HttpDashboard`, `testing.MemoryDashboard`, and the product's
    in-process one.
    """

    async def start_episode(self, task: str, **fields: Unpack[EpisodeFields]) -> EpisodePort:
        """Open an episode; a missing `key` is generated. The same key and body return the same episode."""


class ToolResult(Protocol):
    """The result of a tool call. `reward`, `reward_type` and `state_diff` are recorded, never shown to the policy."""

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
    """An environment with named tools.

    `reset` returns an observation with `error` and, if known, `task`; `first_seen` is what the agent reads below its
    task, for environments whose first observation says more. `list_tools` returns items with `name`,
    `description`, `input_schema`. `done` ends the session after the verifier has run.
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
    """An environment that marks each call in its metadata, and repeats a marked call under the same conditions."""

    async def begin_again(self) -> bool:
        """Reset to the recorded world; false if it is unknown. Raises if it differs."""

    async def call_again(self, name: str, arguments: dict[str, Any], mark: Mapping[str, Any] | None) -> ToolResult:
        """Make a recorded call again. Raises if its world differs from the recorded mark."""

    async def settle(self) -> None:
        """Declare that all recorded calls are made. Raises if the world differs from the recorded one."""


@runtime_checkable
class BatchedEnvironment(RecordedEnvironment, Protocol):
    """A recorded environment that repeats many calls with one message."""

    def calls_again(
        self, calls: Iterable[tuple[str, Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> AsyncIterator[ToolResult]:
        """Make recorded calls again, in order: name, arguments and mark of each. Yields each result once it is
        compared, and raises at the first that differs."""


OnEnd = Callable[[Any, str | None], Awaitable[None]]
"""Called once after the finish is recorded, with the environment and the final answer, before the environment's
`done`.
"""
