"""One running rollout: what it holds, how it records a step, and which boundary a failure belongs to."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from awmclient.asking.rules import AskRule
from awmclient.client.pictures import with_uploads
from awmclient.errors import (
    BoundaryFault,
    ClientError,
    DashboardFault,
    EnvironmentFault,
    EpisodeEnded,
    Invalid,
    Parked,
    Unreachable,
)
from awmclient.loop.ports import (
    ActionEnvironment,
    EpisodePort,
    PicturedEpisode,
    SpanMaker,
    SteeredEpisode,
    ToolEnvironment,
    no_span,
)
from awmclient.nouns.kinds import is_approval
from awmclient.nouns.steps import Briefing
from awmclient.nouns.tools import ASK_SPEC, OfferedTools, ToolSpec
from awmclient.nouns.values import StopReason
from awmclient.policies import Policy, View
from awmclient.record.observations import bounded
from awmclient.record.progress import LoopProgress
from awmclient.words.conversation import as_seen


@dataclass(frozen=True)
class LoopLimits:
    max_steps: int
    max_asks: int
    ask_deadline_s: int
    timeout_s: float | None
    heartbeat_s: float
    nudge_after: int
    stall_after: int
    approve: tuple[str, ...] = ()
    ask: AskRule | None = None
    tools: OfferedTools | None = None


class LoopEnd(Exception):
    """The reason why the loop ends, raised inside it."""

    def __init__(self, stop_reason: StopReason, final_answer: str | None = None) -> None:
        super().__init__(stop_reason)
        self.stop_reason, self.final_answer = stop_reason, final_answer


@contextlib.contextmanager
def boundary(fault: type[BoundaryFault]) -> Iterator[None]:
    """Attribute failures in the block to this boundary; an episode that was ended or parked has no fault."""
    try:
        yield
    except (EpisodeEnded, Parked, BoundaryFault, LoopEnd):
        raise
    except Exception as error:
        words = error.message if isinstance(error, ClientError) else f"{type(error).__name__}: {error}"
        raise fault(words) from error


@contextlib.contextmanager
def naming(place: str) -> Iterator[None]:
    """Say where an environment answered with something that cannot be recorded."""
    try:
        yield
    except Invalid as error:
        raise Invalid(f"{place}: {error.message}") from error


class LiveRollout:
    """One running rollout. Its state is `steps`, as recorded."""

    def __init__(
        self,
        policy: Policy,
        environment: ToolEnvironment | ActionEnvironment,
        task: str,
        has_expert: bool,
        limits: LoopLimits,
        verify: bool = False,
        briefing: Briefing | Mapping[str, Any] | None = None,
        span: SpanMaker = no_span,
    ) -> None:
        self.span = span
        self.policy, self.environment, self.task, self.briefing = policy, environment, task, briefing
        self.has_expert, self.limits, self.verify = has_expert, limits, verify
        self.has_tools = isinstance(environment, ToolEnvironment)
        self.tools: list[ToolSpec] = []
        self.withheld: frozenset[str] = frozenset()
        """Names of the environment's tools that this episode does not offer."""
        self.steps: list[dict[str, Any]] = []
        self.episode: EpisodePort | None = None
        self.steered: SteeredEpisode | None = None
        self.progress = LoopProgress()
        self.clock = asyncio.get_running_loop().time
        self.started, self.waited = self.clock(), 0.0
        self.interrupted = False
        """Whether the last choice was ended for a person at the wheel."""
        self.restoring: asyncio.Task[int] | None = None
        """The recorded calls on their way into this world; nothing is recorded or called before they are compared."""

    async def restored(self) -> None:
        """Wait until the recorded calls are made again and compared. Raises EnvironmentFault if the world differs."""
        if (restoring := self.restoring) is not None:
            with boundary(EnvironmentFault):
                await restoring
            self.restoring = None

    async def record(self, *steps: dict[str, Any]) -> None:
        assert self.episode is not None
        await self.restored()
        fitting = [bounded(await self.shown(step)) for step in steps]
        with boundary(DashboardFault):
            await self.episode.append(fitting)
        self.add(*fitting)

    async def shown(self, step: dict[str, Any]) -> dict[str, Any]:
        """Return a step with a part in the place of each picture. The agent continues with what is recorded, as it
        would after a restart."""
        if not isinstance(self.episode, PicturedEpisode):
            return step
        try:
            return await with_uploads(self.episode.upload, step)
        except Unreachable:
            return step  # recording it waits until the dashboard can be reached, and uploads then

    async def compared(self, step: dict[str, Any]) -> dict[str, Any]:
        """Return what came again in the form of the record. A dashboard that cannot read its pictures is no other
        world. Raises `DashboardFault`."""
        if not isinstance(self.episode, PicturedEpisode):
            return step
        with boundary(DashboardFault):
            return await with_uploads(self.episode.upload, step)

    def add(self, *steps: dict[str, Any]) -> None:
        for step in steps:
            self.steps.append(step)
            self.progress.add(step)

    def check_time(self) -> None:
        if self.time_left() <= 0:
            raise LoopEnd("timeout")

    def time_left(self) -> float:
        if self.limits.timeout_s is None:
            return math.inf
        return self.limits.timeout_s - (self.clock() - self.started - self.waited)

    def view(self, steps: Sequence[Mapping[str, Any]], turn: int, spent: int) -> View:
        seen = [as_seen(step) for step in steps if not is_approval(step)]
        tools = [*self.tools, *([ASK_SPEC] if self.has_expert else [])]
        return View(self.task, seen, tools, self.has_expert, turn, self.limits.max_steps - spent, self.has_tools)
