"""The start of a rollout and what goes on beside it: the environment, the record so far, heartbeats."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from awmclient.client.bodies import as_dict
from awmclient.errors import ClientError, DashboardFault, EnvironmentFault, ExpertFault, PolicyFault
from awmclient.loop.live import LiveRollout, boundary
from awmclient.loop.ports import EpisodePort, ToolEnvironment
from awmclient.loop.restoring import restore
from awmclient.nouns.kinds import is_ask
from awmclient.nouns.tools import ToolSpec, tools_problem
from awmclient.policies import View
from awmclient.record import wheel
from awmclient.record.observations import as_object, as_spec, observed, plain
from awmclient.record.progress import LoopProgress, active_s
from awmclient.words.conversation import as_seen, as_text
from awmclient.words.prompts import system_prompt
from awmclient.words.toolcalls import is_reserved

log = logging.getLogger(__name__)
OF_LOOP = frozenset({"message", "briefing", "tool_call", "ask", "action", "nudge"})
"""Kinds of steps that a loop records; the dashboard writes the others."""


def version_of(first: Any) -> str | None:
    """Return the version of the scenario that the environment server named at the reset."""
    metadata = getattr(first, "metadata", None)
    version = metadata.get("scenario_digest") if isinstance(metadata, Mapping) else None
    return version if isinstance(version, str) else None


def _as_lived(step: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored step as the loop that recorded it had it: without the dashboard's additions."""
    lived = {name: value for name, value in step.items() if name not in ("seq", "at", "ask")}
    return lived | {"advice": as_seen(step)["advice"]} if is_ask(step) else lived


async def open_environment(
    loop: LiveRollout, fields: Mapping[str, Any], reset: Mapping[str, Any] | None
) -> tuple[Any, EnvironmentFault | None]:
    """Return the first observation, or the failure: an episode that cannot start is recorded all the same."""
    try:
        with boundary(EnvironmentFault):
            first = await loop.environment.reset(**(_reset_arguments(loop, fields) if reset is None else reset))
            if isinstance(loop.environment, ToolEnvironment):
                if getattr(first, "error", None):
                    raise EnvironmentFault(str(first.error))
                listed = await loop.environment.list_tools()
                # A tool of the environment must not replace `ask_expert` or a control tool.
                tools = [as_spec(tool) for tool in listed if not is_reserved(tool.name)]
                if problem := tools_problem(tools):
                    raise EnvironmentFault(problem)
                _offer(loop, tools)
            return first, None
    except EnvironmentFault as fault:
        return None, fault


def _offer(loop: LiveRollout, listed: Sequence[ToolSpec]) -> None:
    names = [tool.name for tool in listed]
    offered = set(names if loop.limits.tools is None else loop.limits.tools.names(names))
    loop.tools = [tool for tool in listed if tool.name in offered]
    loop.withheld = frozenset(names) - offered


def _reset_arguments(loop: LiveRollout, fields: Mapping[str, Any]) -> dict[str, Any]:
    # The arguments below are those of scenarios; another environment gets none.
    if not loop.has_tools or fields.get("scenario") is None:
        return {}
    arguments = {name: fields[name] for name in ("scenario", "task_idx", "seed") if fields.get(name) is not None}
    return {**arguments, "state_diff": True}


async def close_environment(loop: LiveRollout) -> None:
    if loop.restoring is not None:
        # A loop that ended meanwhile has no use for the world.
        loop.restoring.cancel()
        await asyncio.gather(loop.restoring, return_exceptions=True)
    if not isinstance(loop.environment, ToolEnvironment):
        return
    try:
        await loop.environment.done()
    except Exception as error:  # the dashboard may be the failed boundary; the episode has ended either way
        log.info("the environment did not accept the end: %s", error)


@contextlib.asynccontextmanager
async def heartbeats(loop: LiveRollout, episode: EpisodePort) -> AsyncIterator[None]:
    beating = asyncio.create_task(_beat(loop, episode))
    try:
        yield
    finally:
        beating.cancel()
        # Awaited, so that no heartbeat follows the finish.
        await asyncio.gather(beating, return_exceptions=True)


async def _beat(loop: LiveRollout, episode: EpisodePort) -> None:
    while True:
        await asyncio.sleep(loop.limits.heartbeat_s)
        try:
            await episode.heartbeat()
        # The next step notices an episode that has ended.
        except ClientError as error:
            log.info("a heartbeat was refused: %s", error)


async def take_up(loop: LiveRollout, episode: EpisodePort) -> None:
    """Continue after the end of the record.

    1. Read it. 2. Wait for an open ask. 3. Make its calls again in this world. 4. Give the policy its past turns.
    The policy chooses from the record alone, so its next choice and the third take place at the same time.
    """
    if episode.last_seq == 0:
        return
    with boundary(DashboardFault):
        recorded = await episode.steps()
    # After a crash during a wait the ask is the last step. Waiting for the same one, no expert is asked twice.
    if recorded and is_ask(recorded[-1]):
        with boundary(ExpertFault):
            advice = await episode.wait_for_advice(recorded[-1]["ask"], loop.limits.ask_deadline_s)
        recorded[-1] = {**recorded[-1], "advice": advice.observation()}
    loop.restoring = asyncio.create_task(restore(loop.environment, recorded, loop.compared))
    lived = (step for step in recorded if step["kind"] in OF_LOOP or wheel.is_of_wheel(step))
    loop.add(*(_as_lived(step) for step in lived))
    # The time limit covers all attempts of the episode.
    loop.started -= active_s(recorded)
    if (resume := getattr(loop.policy, "resume", None)) is not None:
        with boundary(PolicyFault):
            resume(_past_views(loop))


def _past_views(loop: LiveRollout) -> list[View]:
    """Return the policy's view before each of its turns so far."""
    views, progress, turn = [], LoopProgress(), 0
    for place, step in enumerate(loop.steps):
        if (step.get("turn") or 0) > turn:
            turn = step["turn"]
            # a turn of a person at the wheel is none of the policy
            if step.get("acted_by") is None:
                views.append(loop.view(loop.steps[:place], turn, progress.spent))
        progress.add(step)
    return views


async def introduce(loop: LiveRollout, system: str | None, first: Any) -> None:
    task = loop.task
    # Without tools the first observation is all that the agent can act on.
    seen = getattr(first, "first_seen", None) if loop.has_tools else as_object(observed(first))
    if seen or not loop.has_tools:
        task += f"\n\nWhat you see first:\n{as_text(plain(seen))}"
    words = system_prompt(expert=loop.has_expert, tools=loop.has_tools) if system is None else system
    messages = [{"kind": "message", "role": "system", "content": words}] if words else []
    briefing = [as_dict(loop.briefing) | {"kind": "briefing"}] if loop.briefing is not None else []
    await loop.record(*messages, {"kind": "message", "role": "user", "content": task}, *briefing)
