"""The loop: run a policy on one task, record every step at a dashboard, and report why it ended.

Owns the order from start to end; the modules beside it have the parts. Leaves choosing to the policy, storing to the
dashboard, judging to the environment. Called by our own worker, by the benchmark and by other trainers.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Unpack, cast

from awmclient.asking.rules import AskRule
from awmclient.client.bodies import EpisodeFields, PlanFields
from awmclient.errors import BoundaryFault, ClientError, DashboardFault, EpisodeEnded, Parked, Unreachable
from awmclient.loop.live import LiveRollout, LoopEnd, LoopLimits, boundary
from awmclient.loop.ports import (
    ActionEnvironment,
    Dashboard,
    OnEnd,
    SpanMaker,
    SteeredEpisode,
    ToolEnvironment,
    no_span,
)
from awmclient.loop.starting import close_environment, heartbeats, introduce, open_environment, take_up, version_of
from awmclient.loop.turns import play_turns
from awmclient.nouns.kinds import is_message
from awmclient.nouns.steps import Briefing
from awmclient.nouns.tools import OfferedTools
from awmclient.nouns.values import ExpertMode, Fault, StopReason
from awmclient.policies import Policy

log = logging.getLogger(__name__)
NO_VERIFIER = "no_verifier"


@dataclass(frozen=True)
class RolloutResult:
    """The end of a rollout.

    Either a `stop_reason`, or a `fault` with its detail, or `stopped` because a person ended the episode, or `parked`
    because it waits for advice and continues elsewhere; both of the first two if only `on_end` failed.
    """

    episode: str | None
    url: str | None = None
    stop_reason: StopReason | None = None
    final_answer: str | None = None
    fault: Fault | None = None
    detail: str = ""
    stopped: bool = False
    parked: bool = False
    turns: int = 0
    asks: int = 0
    steps: list[dict[str, Any]] = field(default_factory=list, repr=False)


async def rollout(
    policy: Policy,
    environment: ToolEnvironment | ActionEnvironment,
    dash: Dashboard,
    *,
    task: str,
    expert: ExpertMode | str = "off",
    max_steps: int = 30,
    max_asks: int = 5,
    ask_deadline_s: int = 300,
    approve: Sequence[str] = (),
    ask: AskRule | None = None,
    tools: OfferedTools | None = None,
    timeout_s: float | None = None,
    heartbeat_s: float = 20.0,
    nudge_after: int = 2,
    stall_after: int = 5,
    reset: Mapping[str, Any] | None = None,
    system: str | None = None,
    briefing: Briefing | Mapping[str, Any] | None = None,
    on_end: OnEnd | None = None,
    verify: bool = False,
    span: SpanMaker = no_span,
    environment_name: str | None = None,
    policy_about: dict[str, Any] | None = None,
    **episode: Unpack[PlanFields],
) -> RolloutResult:
    """Carry `policy` through one task; returns how it ended and raises only if it is cancelled.

    1. reset the environment and list its tools, 2. start the episode, 3. turn by turn: the policy chooses, the
    environment answers, each step is recorded as it happens, 4. record the finish, 5. call `on_end`, 6. tell the
    environment that all is done.

    An episode that has steps already (the same key, after a crash) goes on where its record ends: the calls that it
    recorded are made again in the fresh environment and must bring the same, else it ends with a fault of the
    environment. A policy that keeps something of its own between turns has a method `resume(views)`, which is given the
    view of each turn that it has had; any other must choose from the view alone.

    Where an expert can be asked, the agent is reminded of it (a step of kind *nudge*) after `nudge_after` errors in a
    row, and after `stall_after` turns of calls that brought nothing new: no row changed, and no result that this call
    had not brought before. 0 switches either off.

    `approve` names tools whose calls wait for an approval: patterns such as `create_*`, or `writes` for every tool that
    is not known to read. The calls of a turn that wait are one ask; each runs as it was approved or edited, and the
    agent reads why a rejected one did not. No answer is a rejection.

    `ask` decides after each turn of calls whether help is offered, in place of `nudge_after` and `stall_after`.
    Offered, the agent is reminded; declined, an ask of its next turn reaches no expert.

    `tools` offers fewer tools than the environment lists, such as those of a task of the curriculum.

    `max_steps` counts turns; a turn that only asks is free, `max_asks` bounds those. `timeout_s` does not count the
    time spent waiting for advice. `verify` asks the environment's verifier once the agent is through, and finishes
    the episode with its outcome and the environment server's signed statement; it never enters a step.
    `briefing` is advice from before the start, as the fields of `schema.Briefing`: it is recorded after the task, and
    the agent reads its text there.

    `span` is called with a name and numbers, and returns a context manager around each turn and each choice, for a
    tracer of the caller's.

    `environment_name` and `policy_about` are recorded with the episode. `reset` holds the arguments of the
    environment's reset, by default scenario, task_idx and seed of the episode with `state_diff`.

        result = await rollout(policy, environment, dash, task="Cancel order 7", scenario="shop", task_idx=3,
        expert="plain")
    """
    gated = tuple(approve)
    limits = LoopLimits(
        max_steps, max_asks, ask_deadline_s, timeout_s, heartbeat_s, nudge_after, stall_after, gated, ask, tools
    )
    loop = LiveRollout(policy, environment, task, expert != "off", limits, verify, briefing, span)
    about = {"environment": environment_name, "policy": policy_about, "expert": expert}
    return await _run(loop, dash, {**episode, **about}, reset, system, on_end)


async def _run(
    loop: LiveRollout,
    dash: Dashboard,
    fields: Mapping[str, Any],
    reset: Mapping[str, Any] | None,
    system: str | None,
    on_end: OnEnd | None,
) -> RolloutResult:
    try:
        # The environment first: the start of the episode names its tools and the version of its scenario.
        first, broken = await open_environment(loop, fields, reset)
        with boundary(DashboardFault):
            fields = {"scenario_digest": version_of(first), **fields}
            tools = {"tools": loop.tools} if loop.has_tools else {}
            fields = cast(EpisodeFields, {**tools, **{k: v for k, v in fields.items() if v is not None}})
            loop.episode = await dash.start_episode(loop.task, **fields)
            loop.steered = loop.episode if isinstance(loop.episode, SteeredEpisode) else None
        # Raised only now, so that the failed start has an episode to be recorded in.
        if broken is not None:
            raise broken
        async with heartbeats(loop, loop.episode):
            await take_up(loop, loop.episode)
            # A resumed episode has its introduction in the record.
            if not any(is_message(step) for step in loop.steps):
                await introduce(loop, system, first)
            end = await play_turns(loop)
            await loop.restored()
            outcome = await _verified(loop, end) if loop.verify else None
        with boundary(DashboardFault):
            await loop.episode.finish(end.stop_reason, final_answer=end.final_answer, outcome=outcome)
        return await _ended(loop, end, on_end)
    except EpisodeEnded:
        return _result(loop, stopped=True)
    except Parked:
        return _result(loop, parked=True)
    except BoundaryFault as fault:
        return await _failed(loop, fault)
    except Exception as error:  # a fault of the loop itself: recorded, and not raised into other rollouts
        log.exception("a rollout failed")
        return await _failed(loop, BoundaryFault(f"{type(error).__name__}: {error}"))
    finally:
        await close_environment(loop)


async def _verified(loop: LiveRollout, end: LoopEnd) -> dict[str, Any] | None:
    """Return the verifier's outcome with the server's statement; None if there is no verifier to run."""
    ask = getattr(loop.environment, "verify", None)
    if ask is None:
        return None
    try:
        verdict = await ask(final_answer=end.final_answer)
        # A task can have an SQL verifier only.
        if verdict.reward_type == NO_VERIFIER:
            verdict = await ask(final_answer=end.final_answer, mode="sql")
    except Exception as error:
        log.warning("the verifier of episode %s could not be asked: %s", loop.episode and loop.episode.id, error)
        return None
    if verdict.reward is None or not verdict.reward_type or verdict.reward_type == NO_VERIFIER:
        return None
    attestation = getattr(verdict, "metadata", {}).get("attestation")
    outcome = {"reward_type": verdict.reward_type, "reward": float(verdict.reward)}
    return {**outcome, **({"attestation": attestation} if isinstance(attestation, dict) else {})}


async def _ended(loop: LiveRollout, end: LoopEnd, on_end: OnEnd | None) -> RolloutResult:
    """Call `on_end` after the finish; a failure there is logged and changes nothing."""
    how = {"stop_reason": end.stop_reason, "final_answer": end.final_answer}
    try:
        if on_end is not None:
            await on_end(loop.environment, end.final_answer)
    except Exception as error:
        log.exception("on_end of episode %s failed", loop.episode and loop.episode.id)
        return _result(loop, **how, fault="worker", detail=f"on_end: {type(error).__name__}: {error}")
    return _result(loop, **how)


def _result(loop: LiveRollout, **how: Any) -> RolloutResult:
    place = {"episode": loop.episode.id, "url": loop.episode.url} if loop.episode else {"episode": None}
    counts = {"turns": loop.progress.turn, "asks": loop.progress.asks, "steps": loop.steps}
    return RolloutResult(**{**place, **counts, **how})


async def _failed(loop: LiveRollout, fault: BoundaryFault) -> RolloutResult:
    """Record the fault. If nothing can be recorded, the dashboard detects the silence itself."""
    # The retries have failed once, and would only fail again.
    if loop.episode is not None and not isinstance(fault.__cause__, Unreachable):
        try:
            await loop.episode.fail(fault.fault, fault.message)
        except EpisodeEnded:
            return _result(loop, stopped=True)
        except ClientError as error:
            log.warning("the fault %r of episode %s is not recorded: %s", fault.message, loop.episode.id, error)
    return _result(loop, fault=fault.fault, detail=fault.message)
