"""The loop: run a policy on one task, record every step at a dashboard, and report why it ended.

Owns the order of calls and the ports it uses (`Dashboard`, `EpisodePort`, `ToolEnvironment`, `ActionEnvironment`).
Leaves choosing to the policy, storing to the dashboard, judging to the environment. Called by our own worker, by the
benchmark and by other trainers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Unpack, cast

from awmclient.asking import gates
from awmclient.asking.rules import NOT_NOW, AskRule, is_decision
from awmclient.client.bodies import NO_QUESTIONS_LEFT, PlanFields, as_dict, context_text, question_problem
from awmclient.client.bodies import EpisodeFields as EpisodeFields
from awmclient.client.bodies import StepLike as StepLike
from awmclient.errors import (
    BoundaryFault,
    ClientError,
    DashboardFault,
    EnvironmentFault,
    EpisodeEnded,
    ExpertFault,
    Invalid,
    ModelFault,
    Parked,
    PolicyFault,
    Unreachable,
)
from awmclient.loop.ports import ActionEnvironment as ActionEnvironment
from awmclient.loop.ports import Dashboard as Dashboard
from awmclient.loop.ports import EpisodePort as EpisodePort
from awmclient.loop.ports import OnEnd as OnEnd
from awmclient.loop.ports import SpanMaker, SteeredEpisode, no_span
from awmclient.loop.ports import ToolEnvironment as ToolEnvironment
from awmclient.loop.ports import ToolResult as ToolResult
from awmclient.loop.restoring import restore as restore
from awmclient.nouns.kinds import is_approval
from awmclient.nouns.steps import Briefing
from awmclient.nouns.tools import ASK_SPEC, ToolSpec, tools_problem
from awmclient.nouns.values import ASK_TOOL, ExpertMode, Fault, StopReason
from awmclient.nouns.wheel import WheelOrderView, WheelView
from awmclient.policies import Policy, Turn, View
from awmclient.record import wheel
from awmclient.record.observations import as_object, as_spec, bounded, observed, plain, result_of, signals_of
from awmclient.record.standing import ENDS, LoopProgress, active_s
from awmclient.words.conversation import as_seen
from awmclient.words.encoding import encode
from awmclient.words.faults import fault_of
from awmclient.words.prompts import NUDGE, OFFERED, STALLED, system_prompt
from awmclient.words.toolcalls import Call, id_of, is_reserved, unknown_tool

log = logging.getLogger(__name__)
MALFORMED_IN_A_ROW = 3
LOOK_S = 1.0
"""How often a loop looks for a person at the wheel while the agent chooses."""
OF_LOOP = frozenset({"message", "briefing", "tool_call", "ask", "action", "nudge"})
"""Kinds of steps that a loop records; the dashboard writes the others."""
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


@dataclass(frozen=True)
class _Limits:
    max_steps: int
    max_asks: int
    ask_deadline_s: int
    timeout_s: float | None
    heartbeat_s: float
    nudge_after: int
    stall_after: int
    approve: tuple[str, ...] = ()
    ask: AskRule | None = None


class _End(Exception):
    """The reason why the loop ends, raised inside it."""

    def __init__(self, stop_reason: StopReason, final_answer: str | None = None) -> None:
        super().__init__(stop_reason)
        self.stop_reason, self.final_answer = stop_reason, final_answer


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
    limits = _Limits(max_steps, max_asks, ask_deadline_s, timeout_s, heartbeat_s, nudge_after, stall_after, gated, ask)
    loop = _Loop(policy, environment, task, expert != "off", limits, verify, briefing, span)
    about = {"environment": environment_name, "policy": policy_about, "expert": expert}
    return await loop.run(dash, {**episode, **about}, reset, system, on_end)


def _version_of(first: Any) -> str | None:
    """Return the version of the scenario that the environment server named at the reset."""
    said = getattr(first, "metadata", None)
    found = said.get("scenario_digest") if isinstance(said, Mapping) else None
    return found if isinstance(found, str) else None


@contextlib.contextmanager
def _boundary(fault: type[BoundaryFault]) -> Iterator[None]:
    """Attribute failures in the block to this boundary; an episode that was ended or parked has no fault."""
    try:
        yield
    except (EpisodeEnded, Parked, BoundaryFault, _End):
        raise
    except Exception as error:
        words = error.message if isinstance(error, ClientError) else f"{type(error).__name__}: {error}"
        raise fault(words) from error


@contextlib.contextmanager
def _at(place: str) -> Iterator[None]:
    """Say where an environment answered with something that cannot be recorded."""
    try:
        yield
    except Invalid as error:
        raise Invalid(f"{place}: {error.message}") from error


class _Loop:
    """One running rollout. Its state is `steps`, as recorded."""

    def __init__(
        self,
        policy: Policy,
        environment: ToolEnvironment | ActionEnvironment,
        task: str,
        has_expert: bool,
        limits: _Limits,
        verify: bool = False,
        briefing: Briefing | Mapping[str, Any] | None = None,
        span: SpanMaker = no_span,
    ) -> None:
        self.span = span
        self.policy, self.environment, self.task, self.briefing = policy, environment, task, briefing
        self.has_expert, self.limits, self.verify = has_expert, limits, verify
        self.has_tools = isinstance(environment, ToolEnvironment)
        self.tools: list[ToolSpec] = []
        self.steps: list[dict[str, Any]] = []
        self.episode: EpisodePort | None = None
        self.steered: SteeredEpisode | None = None
        self.standing = LoopProgress()
        self.clock = asyncio.get_running_loop().time
        self.started, self.waited = self.clock(), 0.0
        self.interrupted = False
        """Whether the last choice was ended for a person at the wheel."""
        self.restoring: asyncio.Task[int] | None = None
        """The recorded calls on their way into this world; nothing is recorded or called before they are compared."""

    async def run(
        self,
        dash: Dashboard,
        fields: Mapping[str, Any],
        reset: Mapping[str, Any] | None,
        system: str | None,
        on_end: OnEnd | None,
    ) -> RolloutResult:
        try:
            # The environment first: the start of the episode names its tools and the version of its scenario.
            first, broken = await self._open_environment(fields, reset)
            with _boundary(DashboardFault):
                fields = {"scenario_digest": _version_of(first), **fields}
                tools = {"tools": self.tools} if self.has_tools else {}
                fields = cast(EpisodeFields, {**tools, **{k: v for k, v in fields.items() if v is not None}})
                self.episode = await dash.start_episode(self.task, **fields)
                self.steered = self.episode if isinstance(self.episode, SteeredEpisode) else None
            # Raised only now, so that the failed start has an episode to be recorded in.
            if broken is not None:
                raise broken
            async with self._heartbeats(self.episode):
                await self._take_up(self.episode)
                # A resumed episode has its introduction in the record.
                if not any(step["kind"] == "message" for step in self.steps):
                    await self._introduce(system, first)
                end = await self._turns()
                await self._restored()
                outcome = await self._verified(end) if self.verify else None
            with _boundary(DashboardFault):
                await self.episode.finish(end.stop_reason, final_answer=end.final_answer, outcome=outcome)
            return await self._ended(end, on_end)
        except EpisodeEnded:
            return self._result(stopped=True)
        except Parked:
            return self._result(parked=True)
        except BoundaryFault as fault:
            return await self._failed(fault)
        except Exception as error:  # a fault of the loop itself: recorded, and not raised into other rollouts
            log.exception("a rollout failed")
            return await self._failed(BoundaryFault(f"{type(error).__name__}: {error}"))
        finally:
            await self._close_environment()

    async def _verified(self, end: _End) -> dict[str, Any] | None:
        """Return the verifier's outcome with the server's statement; None if there is no verifier to run."""
        ask = getattr(self.environment, "verify", None)
        if ask is None:
            return None
        try:
            found = await ask(final_answer=end.final_answer)
            # A task can have an SQL verifier only.
            if found.reward_type == NO_VERIFIER:
                found = await ask(final_answer=end.final_answer, mode="sql")
        except Exception as error:
            log.warning("the verifier of episode %s could not be asked: %s", self.episode and self.episode.id, error)
            return None
        if found.reward is None or not found.reward_type or found.reward_type == NO_VERIFIER:
            return None
        attestation = getattr(found, "metadata", {}).get("attestation")
        outcome = {"reward_type": found.reward_type, "reward": float(found.reward)}
        return {**outcome, **({"attestation": attestation} if isinstance(attestation, dict) else {})}

    async def _ended(self, end: _End, on_end: OnEnd | None) -> RolloutResult:
        """Call `on_end` after the finish; a failure there is logged and changes nothing."""
        how = {"stop_reason": end.stop_reason, "final_answer": end.final_answer}
        try:
            if on_end is not None:
                await on_end(self.environment, end.final_answer)
        except Exception as error:
            log.exception("on_end of episode %s failed", self.episode and self.episode.id)
            return self._result(**how, fault="worker", detail=f"on_end: {type(error).__name__}: {error}")
        return self._result(**how)

    def _result(self, **how: Any) -> RolloutResult:
        place = {"episode": self.episode.id, "url": self.episode.url} if self.episode else {"episode": None}
        counts = {"turns": self.standing.turn, "asks": self.standing.asks, "steps": self.steps}
        return RolloutResult(**{**place, **counts, **how})

    async def _failed(self, fault: BoundaryFault) -> RolloutResult:
        """Record the fault. If nothing can be recorded, the dashboard detects the silence itself."""
        # The retries have failed once, and would only fail again.
        if self.episode is not None and not isinstance(fault.__cause__, Unreachable):
            try:
                await self.episode.fail(fault.fault, fault.message)
            except EpisodeEnded:
                return self._result(stopped=True)
            except ClientError as error:
                log.warning("the fault %r of episode %s is not recorded: %s", fault.message, self.episode.id, error)
        return self._result(fault=fault.fault, detail=fault.message)

    async def _open_environment(
        self, fields: Mapping[str, Any], reset: Mapping[str, Any] | None
    ) -> tuple[Any, EnvironmentFault | None]:
        """Return the first observation, or the failure: an episode that cannot start is recorded all the same."""
        try:
            with _boundary(EnvironmentFault):
                first = await self.environment.reset(**(self._reset_arguments(fields) if reset is None else reset))
                if isinstance(self.environment, ToolEnvironment):
                    if getattr(first, "error", None):
                        raise EnvironmentFault(str(first.error))
                    listed = await self.environment.list_tools()
                    # A tool of the environment must not replace `ask_expert` or a control tool.
                    tools = [as_spec(tool) for tool in listed if not is_reserved(tool.name)]
                    if problem := tools_problem(tools):
                        raise EnvironmentFault(problem)
                    self.tools = tools
                return first, None
        except EnvironmentFault as fault:
            return None, fault

    def _reset_arguments(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        # The arguments below are those of scenarios; another environment gets none.
        if not self.has_tools or fields.get("scenario") is None:
            return {}
        known = {name: fields[name] for name in ("scenario", "task_idx", "seed") if fields.get(name) is not None}
        return {**known, "state_diff": True}

    async def _close_environment(self) -> None:
        if self.restoring is not None:
            # A loop that ended meanwhile has no use for the world.
            self.restoring.cancel()
            await asyncio.gather(self.restoring, return_exceptions=True)
        if not isinstance(self.environment, ToolEnvironment):
            return
        try:
            await self.environment.done()
        except Exception as error:  # the dashboard may be the failed boundary; the episode has ended either way
            log.info("the environment did not accept the end: %s", error)

    @contextlib.asynccontextmanager
    async def _heartbeats(self, episode: EpisodePort) -> AsyncIterator[None]:
        beating = asyncio.create_task(self._beat(episode))
        try:
            yield
        finally:
            beating.cancel()
            # Awaited, so that no heartbeat follows the finish.
            await asyncio.gather(beating, return_exceptions=True)

    async def _beat(self, episode: EpisodePort) -> None:
        while True:
            await asyncio.sleep(self.limits.heartbeat_s)
            try:
                await episode.heartbeat()
            # The next step notices an episode that has ended.
            except ClientError as error:
                log.info("a heartbeat was refused: %s", error)

    async def _restored(self) -> None:
        """Wait until the recorded calls are made again and compared. Raises EnvironmentFault if the world differs."""
        if (restoring := self.restoring) is not None:
            with _boundary(EnvironmentFault):
                await restoring
            self.restoring = None

    async def _record(self, *steps: dict[str, Any]) -> None:
        assert self.episode is not None
        await self._restored()
        fitting = [bounded(step) for step in steps]
        with _boundary(DashboardFault):
            await self.episode.append(fitting)
        self._add(*fitting)

    def _add(self, *steps: dict[str, Any]) -> None:
        for step in steps:
            self.steps.append(step)
            self.standing.add(step)

    async def _take_up(self, episode: EpisodePort) -> None:
        """Continue after the end of the record.

        1. Read it. 2. Wait for an open ask. 3. Make its calls again in this world. 4. Give the policy its past turns.
        The policy chooses from the record alone, so its next choice and the third take place at the same time.
        """
        if episode.last_seq == 0:
            return
        with _boundary(DashboardFault):
            recorded = await episode.steps()
        # After a crash during a wait the ask is the last step. Waiting for the same one, no expert is asked twice.
        if recorded and recorded[-1]["kind"] == "ask":
            with _boundary(ExpertFault):
                advice = await episode.wait_for_advice(recorded[-1]["ask"], self.limits.ask_deadline_s)
            recorded[-1] = {**recorded[-1], "advice": advice.observation()}
        self.restoring = asyncio.create_task(restore(self.environment, recorded))
        lived = (step for step in recorded if step["kind"] in OF_LOOP or wheel.is_note(step))
        self._add(*(_as_lived(step) for step in lived))
        # The time limit covers all attempts of the episode.
        self.started -= active_s(recorded)
        if (resume := getattr(self.policy, "resume", None)) is not None:
            with _boundary(PolicyFault):
                resume(self._past_views())

    def _past_views(self) -> list[View]:
        """Return the policy's view before each of its turns so far."""
        views, standing, turn = [], LoopProgress(), 0
        for place, step in enumerate(self.steps):
            if (step.get("turn") or 0) > turn:
                turn = step["turn"]
                # a turn of a person at the wheel is none of the policy
                if step.get("acted_by") is None:
                    views.append(self._view(self.steps[:place], turn, standing.spent))
            standing.add(step)
        return views

    async def _introduce(self, system: str | None, first: Any) -> None:
        task = self.task
        # Without tools the first observation is all that the agent can act on.
        seen = getattr(first, "first_seen", None) if self.has_tools else as_object(observed(first))
        if seen or not self.has_tools:
            task += f"\n\nWhat you see first:\n{encode(plain(seen)).decode()}"
        words = system_prompt(expert=self.has_expert, tools=self.has_tools) if system is None else system
        messages = [{"kind": "message", "role": "system", "content": words}] if words else []
        briefing = [as_dict(self.briefing) | {"kind": "briefing"}] if self.briefing is not None else []
        await self._record(*messages, {"kind": "message", "role": "user", "content": task}, *briefing)

    async def _turns(self) -> _End:
        try:
            while True:
                standing = self.standing
                if standing.end is None:
                    await self._obey(standing.pending, standing.turn if standing.pending else None)
                # A resumed turn first makes its remaining calls; the limits on turns are checked between turns.
                if not standing.pending:
                    await self._nudge()
                    if standing.end is not None:
                        raise _End(*standing.end)
                    if standing.malformed >= MALFORMED_IN_A_ROW:
                        raise _End("gave_up")
                    if standing.spent >= self.limits.max_steps:
                        raise _End("max_steps")
                    self._check_time()
                # A copy, because each call that is recorded leaves `pending`.
                decided = list(standing.pending)
                number = standing.turn if decided else standing.turn + 1
                with self.span("turn", turn=number):
                    await self._turn(decided, number)
        except _End as end:
            return end

    async def _turn(self, decided: Sequence[Call], number: int) -> None:
        calls = decided or await self._decide(number)
        for place, call in enumerate(calls):
            if await self._obey(calls[place:], number):
                break
            await self._call(call, number)
            if self.standing.end is not None:
                break

    def _check_time(self) -> None:
        if self._time_left() <= 0:
            raise _End("timeout")

    def _time_left(self) -> float:
        if self.limits.timeout_s is None:
            return math.inf
        return self.limits.timeout_s - (self.clock() - self.started - self.waited)

    async def _obey(
        self, dropped: Sequence[Call] = (), turn: int | None = None, usage: Mapping[str, Any] | None = None
    ) -> bool:
        """Do what a person at the wheel says until they hand it back. Return whether someone had it: then what the
        agent had decided (`dropped`, in this `turn`) is not to be made.
        """
        if self.steered is None or not (self.steered.steered or self.standing.driven):
            return False
        start, had, dropped = self.clock(), False, list(dropped)
        found = await self._wheel(self.steered)
        while self.standing.end is None and (found.held or found.orders):
            if not self.standing.driven:
                await self._record(wheel.taken(dropped, turn, usage))
            had = True
            for order in found.orders:
                if order.propose:
                    # The agent's own time counts.
                    self.waited += self.clock() - start
                    await self._suggest(order)
                    start = self.clock()
                else:
                    await self._carry_out(order)
                if self.standing.end is not None:
                    break
            found = await self._wheel(self.steered)
        if self.standing.driven:
            await self._record(wheel.handed_back())
        # `timeout_s` does not count the time of people.
        self.waited += self.clock() - start
        return had

    async def _suggest(self, order: WheelOrderView) -> None:
        """Let the agent choose for the person at the wheel, and note what it would do."""
        number = self.standing.turn + 1
        turn = await self._choose(number, watched=False)
        assert turn is not None
        await self._record(wheel.proposed(order, number, turn))

    async def _wheel(self, episode: SteeredEpisode) -> WheelView:
        with _boundary(DashboardFault):
            found = await episode.wheel(self.standing.acted)
        changed: dict[str, Any] = dict(found.limits)
        self.limits = replace(self.limits, **changed)
        return found

    async def _carry_out(self, order: WheelOrderView) -> None:
        """Make a call that a person ordered, or record their words to the agent."""
        came: dict[str, Any] = {}
        # Not sent: a person reaches no control tool either.
        if order.call is not None and is_reserved(order.call.name):
            came = {"error": unknown_tool(order.call.name), "reward_type": "tool_not_found"}
        elif order.call is not None:
            await self._restored()
            with _boundary(EnvironmentFault):
                found = await cast(ToolEnvironment, self.environment).call_tool(order.call.name, order.call.arguments)
                with _at(f"order {order.number}, {order.call.name}"):
                    came = result_of(found)
        await self._record(wheel.step_of(order, self.standing.turn + 1, came))

    async def _watch(self, timer: asyncio.Timeout) -> None:
        """End the agent's choice as soon as a person takes the wheel."""
        while self.steered is not None:
            await asyncio.sleep(LOOK_S)
            try:
                is_held = await self.steered.look()
            except ClientError as error:
                log.info("the wheel could not be read: %s", error)
                continue
            if is_held:
                self.interrupted = True
                timer.reschedule(self.clock())
                return

    async def _choose(self, number: int, *, watched: bool = True) -> Turn | None:
        """Return the policy's turn; None if it is `watched` and a person took the wheel before it was chosen."""
        left = self._time_left()
        timer = asyncio.timeout(None if math.isinf(left) else left)
        self.interrupted = False
        watching = asyncio.create_task(self._watch(timer)) if watched and self.steered is not None else None
        try:
            with _boundary(PolicyFault):
                async with timer:
                    with self.span("choose", turn=number):
                        return await self.policy.act(self._view(self.steps, number, self.standing.spent))
        except (PolicyFault, ModelFault) as failed:
            if timer.expired() and self.interrupted:
                return None
            # The policy was cancelled by the time limit: this is an end, not its fault.
            if timer.expired():
                raise _End("timeout") from None
            # The words decide, whichever class the policy raised.
            kind = PolicyFault if fault_of(failed.message, failed.fault) == "policy" else ModelFault
            if isinstance(failed, kind):
                raise
            raise kind(failed.message) from failed
        finally:
            if watching is not None:
                watching.cancel()

    def _view(self, steps: Sequence[Mapping[str, Any]], turn: int, spent: int) -> View:
        seen = [as_seen(step) for step in steps if not is_approval(step)]
        tools = [*self.tools, *([ASK_SPEC] if self.has_expert else [])]
        return View(self.task, seen, tools, self.has_expert, turn, self.limits.max_steps - spent, self.has_tools)

    async def _decide(self, number: int) -> Sequence[Call]:
        """Let the policy choose the next turn and record it; return its calls."""
        try:
            turn = await self._choose(number)
        except BoundaryFault:
            # A world that is not the recorded one is the reason to name.
            await self._restored()
            raise
        await self._restored()
        if turn is None or await self._obey(turn.calls, number, turn.usage):
            return ()
        if turn.malformed is not None:
            await self._scold(turn, turn.malformed, number)
        elif turn.answer is not None or turn.gave_up:
            how = "gave_up" if turn.gave_up else "done"
            ends = {ENDS: {"stop_reason": how, "final_answer": turn.answer}}
            await self._record(*self._said(turn, number, ends=ends))
        elif turn.action is not None:
            await self._record(*self._said(turn, number))
            await self._act(turn.action, number)
        elif not turn.calls:
            await self._scold(turn, "Nothing was done: call a tool, or say that the task is done.", number)
        elif said := self._said(turn, number):
            await self._record(*said)
        return turn.calls if turn.malformed is None else ()

    def _said(self, turn: Turn, number: int, ends: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        """Return this turn's message with the calls that it is about to make.

        It carries the turn's usage even without content.
        """
        content = "\n\n".join(part for part in (turn.content, turn.answer) if part)
        notes = {**(turn.meta or {}), **(ends or {})}
        extra: dict[str, Any] = {"reasoning": turn.reasoning, "usage": turn.usage, "meta": notes}
        if turn.malformed is None and turn.calls:
            extra["calls"] = [{"name": call.name, "arguments": call.arguments, **id_of(call)} for call in turn.calls]
        extra = {name: value for name, value in extra.items() if value}
        # The step of a single call says all that its message would. Of several calls the message is needed: after a
        # crash it names those that are still to be made. So is that of a call that waits for an approval.
        waits = any(gates.is_gated(call.name, self.limits.approve) for call in turn.calls)
        is_plain = not extra or (list(extra) == ["calls"] and len(turn.calls) == 1 and not waits)
        if not content and not ends and is_plain:
            return []
        return [{"kind": "message", "role": "assistant", "content": content, "turn": number, **extra}]

    async def _scold(self, turn: Turn, words: str, number: int) -> None:
        """Report an unreadable turn to the agent, which can try again a few times."""
        await self._record(*self._said(turn, number), {"kind": "nudge", "content": words, "turn": number})

    async def _nudge(self) -> None:
        """Remind an agent that repeats itself or makes errors that it can ask."""
        standing, limits = self.standing, self.limits
        if not self.has_expert or not is_decision(standing, limits.max_asks):
            return
        if (rule := limits.ask) is not None:
            if rule.reminds and rule.offers(self.steps, standing):
                await self._record({"kind": "nudge", "content": OFFERED, "turn": standing.turn})
            return
        failing = 0 < limits.nudge_after <= standing.errors
        if failing or 0 < limits.stall_after <= standing.stalled:
            await self._record({"kind": "nudge", "content": NUDGE if failing else STALLED, "turn": standing.turn})

    def _is_offered(self, number: int) -> bool:
        """Return what the rule decided before this turn, read from the record: the same after a crash."""
        if (rule := self.limits.ask) is None:
            return True
        before = [step for step in self.steps if (step.get("turn") or 0) < number]
        if before and before[-1]["kind"] == "nudge" and LoopProgress.after(before[:-1]).may_be_reminded:
            return True  # its reminder
        return rule.offers(before, LoopProgress.after(before))

    async def _call(self, call: Call, number: int) -> None:
        """Make one call of a turn and record its result."""
        await self._restored()
        place = {"turn": number, **id_of(call)}
        if call.name == ASK_TOOL and self.has_expert:
            await self._ask(call, place)
            return
        arguments = call.arguments
        step = {"kind": "tool_call", "name": call.name, "arguments": arguments, **place}
        # Never sent, so that no agent reaches a control tool; the error is that of an unknown one.
        if is_reserved(call.name):
            await self._record({**step, "error": unknown_tool(call.name), "reward_type": "tool_not_found"})
            return
        if gates.is_gated(call.name, self.limits.approve):
            mark = dict(await self._approval(call, number))
            arguments = mark.pop("arguments", arguments)
            step |= {"arguments": arguments, "approval": mark}
            if mark["verdict"] == "reject":
                await self._record({**step, "error": gates.refusal_of(mark)})
                return
        self._check_time()
        with _boundary(EnvironmentFault):
            assert isinstance(self.environment, ToolEnvironment)
            found = await self.environment.call_tool(call.name, arguments)
            with _at(f"turn {number}, {call.name}"):
                came = result_of(found)
        await self._record({**step, **came})

    async def _approval(self, call: Call, number: int) -> Mapping[str, Any]:
        """Return what was decided on a call; asks for all calls of its turn that wait, unless this was done before."""
        if problem := gates.unfit(call):
            return gates.refused(problem)
        place = gates.place_in_turn(self.steps, number)
        known = gates.verdicts(self.steps, number)
        if str(place) not in known:
            # of several calls the turn's message has named those to come
            upcoming = self.standing.pending or [call]
            why = next((step["content"] for step in reversed(self.steps) if step["kind"] == "message"), "")
            said = why if self.steps and self.steps[-1].get("turn") == number else ""
            await self._propose(gates.proposed(upcoming, place, self.limits.approve, said), number)
            known = gates.verdicts(self.steps, number)
        return known[str(place)]

    async def _propose(self, calls: list[dict[str, Any]], number: int) -> None:
        """Ask for an approval of calls. The environment's session stays open, and this rollout's clock is paused."""
        assert self.episode is not None
        names = ", ".join(dict.fromkeys(call["name"] for call in calls))[:500]
        question = f"May the agent make {'this call' if len(calls) == 1 else f'these {len(calls)} calls'}: {names}?"
        typed: dict[str, Any] = {"kind": "approval", "calls": calls, "on_timeout": "reject"}
        start, seen = self.clock(), {}
        try:
            with _boundary(ExpertFault):
                advice = await self.episode.ask(question, deadline_s=self.limits.ask_deadline_s, turn=number, **typed)
            seen = advice.observation()
        finally:
            self.waited += self.clock() - start
        self._add({"kind": "ask", "question": question, "typed": typed, "advice": seen, "turn": number})

    async def _act(self, action: dict[str, Any], number: int) -> None:
        self._check_time()
        with _boundary(EnvironmentFault):
            found = await cast(ActionEnvironment, self.environment).step(action)
            seen = as_object(observed(found))
            with _at(f"turn {number}"):
                signals = signals_of(found)
        await self._record({"kind": "action", "action": action, "observation": seen, "turn": number, **signals})

    async def _ask(self, call: Call, place: dict[str, Any]) -> None:
        """Ask the experts. The environment's session stays open, and this rollout's clock is paused."""
        assert self.episode is not None
        question, context = call.arguments.get("question"), call.arguments.get("context")
        refused = {"kind": "tool_call", "name": call.name, "arguments": call.arguments, **place}
        if problem := question_problem(question):
            await self._record({**refused, "error": problem})
            return
        if self.standing.asks >= self.limits.max_asks:
            await self._record({**refused, "result": NO_QUESTIONS_LEFT})
            return
        if not self._is_offered(place["turn"]):
            await self._record({**refused, "result": NOT_NOW})
            return
        question, words = str(question), context_text(context)
        start = self.clock()
        with _boundary(ExpertFault):
            advice = await self.episode.ask(question, context=words, deadline_s=self.limits.ask_deadline_s, **place)
        # `timeout_s` does not count waits for people.
        self.waited += self.clock() - start
        asked = {"question": question} | ({"context": words} if words is not None else {})
        # Not appended: the dashboard wrote this step when it opened the ask.
        self._add({"kind": "ask", **asked, "advice": advice.observation(), **place})


def _as_lived(step: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored step as the loop that recorded it had it: without the dashboard's additions."""
    lived = {name: value for name, value in step.items() if name not in ("seq", "at", "ask")}
    return lived | {"advice": as_seen(step)["advice"]} if step["kind"] == "ask" else lived
