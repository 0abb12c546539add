"""Runs one queued built-in episode in the rollouts worker, with the loop of `awmclient`.

Owns the policy of a stored plan, when an episode can start, and running the verifier when the agent has finished.
Leaves the loop to `awmclient.rollout`, storing to `local.py`. Called by `tasks.py`; a task that runs twice runs the
episode once.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import logging
import zlib
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from django.conf import settings
from django.db import transaction

from awmclient.asking.rules import AskGate, AskRule
from awmclient.choosing.chat import ChatPolicy
from awmclient.choosing.scripted import ScriptedPolicy
from awmclient.client.pictures import with_uploads
from awmclient.errors import BoundaryFault, Unreachable
from awmclient.loop.restoring import restore
from awmclient.loop.rollout import rollout
from awmclient.policies import Policy
from awmclient.schema import Fault, OfferedTools, Outcome
from awmenv import spans
from awmenv.client import EnvironmentClient
from awmenv.errors import AwmenvError, CapacityReached, ServerTimeout, ServerUnreachable, SessionLost
from awmenv.health import Health
from awmenv.models import BuildReport, Observation
from awmenv.offers import OF_ENVIRONMENT
from awmenv.sent import socket_url
from episodes.models import Episode
from episodes.record import ending, noting, recording
from episodes.stored import repairs, settled
from episodes.stored.packs import scenario_digest
from people.access import Actor, system
from people.errors import AWAY, AppError
from runs.errors import NoEndpoint, UnknownEnvironment, UnknownPolicy
from runs.launch import briefings, feeding, launching, outages, relay
from runs.launch.cells import rules_of
from runs.models import Arm
from runs.plan import choosing, limits, servers, teachers
from runs.plan.plans import OF_LOOP, PERSON
from runs.play import database, distilling, forking, parking, reverifying
from runs.play.database import in_database
from runs.play.local import LocalDashboard, LocalEpisode, patiently
from runs.play.person import PersonPolicy
from runs.play.plain_world import PlainWorld, plain_world

log = logging.getLogger(__name__)
AGAIN_S = 1.0
RESET_PATIENCE_S = 60.0
VERDICT_PAUSES_S = (1.0, 5.0, 20.0)
NO_VERIFIER = "no_verifier"
Said = TypeVar("Said")
SERVER = "server"
"""Where a stored world names its server, if there are several: an attempt that continues finds its snapshots there."""
UPSTREAM = ("scenario", "task_idx", "seed")
"""The arguments of a reset that a server without awmweb's extensions supports."""


def play(episode_id: str, worker: str = "") -> None:
    """Run a queued episode to its end, and the next ones in this thread. It stays queued while no environment server
    responds; an error is stored as a fault."""
    with parking.threads.occupy(), database.one_connection():
        relay.thread.play(episode_id, lambda next_id: _traced(next_id, next_id == episode_id, worker))


def _traced(episode_id: str, is_called: bool, worker: str) -> None:
    """Run an episode in a span; one that another episode of this thread took along has a trace of its own."""
    after = "" if is_called else spans.carried()
    with spans.span("episode", after=after, episode=episode_id):
        database.run(_play(episode_id, worker))


def _span(name: str, *, turn: int) -> AbstractContextManager[object]:
    # a turn that ends its episode, or waits for an answer, leaves the block by an exception
    return spans.span(name, marks=name != "turn", turn=turn)


async def _play(episode_id: str, worker: str) -> None:
    planned = await in_database(_planned)(episode_id)
    if planned is None:
        return
    episode, policy = planned
    actor = system(episode.project)
    # begun first, like any other: a call that runs twice fails the episode once
    if isinstance(policy, AppError):
        begun = await in_database(_begin)(episode, worker)
        if begun is not None:
            await _fail(actor, episode, "model" if isinstance(policy, NoEndpoint) else "worker", policy.message)
        return
    briefing = await distilling.briefing_for(episode) if briefings.is_briefed(episode) else None
    if briefing == distilling.LATER:
        await in_database(launching.wake_worker)(episode_id, distilling.AGAIN_S)
        return
    if not isinstance(policy, PersonPolicy) and await in_database(outages.put_back)(episode):
        return
    try:
        # the server first: while none responds the episode stays queued and no attempt is spent
        async with await _world(actor, episode) as environment:
            begun = await in_database(_begin)(episode, worker)
            if begun is not None:
                spans.note(run=begun.run_id, project=begun.project.slug)
                environment.episode = begun
                if isinstance(policy, PersonPolicy):
                    policy.episode = begun
                await _through(actor, begun, policy, environment, briefing)
    except (ServerUnreachable, CapacityReached) as away:
        log.warning("episode %s stays queued: %s", episode.pk, away)
        await in_database(noting.note_no_server)(episode.pk, str(away))
        await in_database(launching.wake_again)(episode)
    except AwmenvError as gone:
        await in_database(feeding.begun)(episode)  # it ends before it began: its call is taken all the same
        await _fail(actor, episode, "environment", str(gone))


def _planned(episode_id: str) -> tuple[Episode, Policy | AppError] | None:
    """Return a queued episode that may begin, with its policy or why it has none; None if it may not."""
    episode = feeding.queued(episode_id)
    if episode is None or feeding.is_held(episode):
        return None
    if episode.fork_id is not None and forking.is_spent(episode.fork_id):
        ending.cancel(system(episode.project), episode.pk, "the token budget of its fork is used up")
        return None
    try:
        return episode, policy_of(episode)
    except AppError as refused:
        return episode, refused


@transaction.atomic
def _begin(queued: Episode, worker: str) -> Episode | None:
    """Return the episode after its start, with the known project; None if it is no longer queued."""
    begun = recording.begin(queued.pk, worker)
    if begun is not None:
        begun.project = queued.project
        feeding.begun(begun)
    return begun


def judge(episode_id: str) -> None:
    """Fetch an outcome that was lost with its worker: 1. restore the environment from the record, 2. run its
    verifier."""
    with database.one_connection():
        database.run(_judge(episode_id))


async def _judge(episode_id: str) -> None:
    episode = await in_database(settled.unverified().select_related("project").filter(pk=episode_id).first)()
    if episode is None:
        return
    actor = system(episode.project)
    try:
        async with await _world(actor, episode) as environment:
            await environment.reset(scenario=episode.scenario, task_idx=episode.task_idx, state_diff=True)
            recorded = LocalEpisode(actor, episode)
            await restore(environment, await recorded.steps(), functools.partial(with_uploads, recorded.part_of))
            await _verify(actor, episode, environment, episode.final_answer)
    except (ServerUnreachable, CapacityReached) as away:
        log.warning("episode %s waits for its verdict: %s", episode.pk, away)
        await in_database(launching.judge_later)(episode.pk, launching.AGAIN_S)
    except BoundaryFault as lost:
        reason = f"The world was lost before its verdict. {lost.message}"
        await patiently(noting.note_unverified, actor, episode.pk, reason)
    except AwmenvError as gone:
        await patiently(noting.note_unverified, actor, episode.pk, f"The world was lost before its verdict: {gone}")


async def _world(actor: Actor, episode: Episode) -> _World | PlainWorld:
    """Return the environment of an episode on the server of its plan, after asking for the server's abilities. Raises
    `ServerUnreachable`, or an EnvironmentFault if no server has the name any more."""
    try:
        before = await in_database(_server_before)(episode) if len(choosing.urls()) > 1 else ""
        # in a thread: servers are asked for their room
        at = await asyncio.to_thread(servers.profile, episode.environment, before)
    except UnknownEnvironment as missing:
        raise AwmenvError(missing.message) from missing
    if at.name == servers.BUILTIN:
        return _World(actor, episode, at, extended=True)
    # in a thread: the client blocks, and other coroutines of this loop must go on
    report, schema = await asyncio.to_thread(servers.asked, at)
    if report.problem:
        raise ServerUnreachable(f"Cannot reach the environment server {at.name} at {report.address}: {report.problem}")
    if report.plain:
        return await in_database(plain_world)(episode, at, report, schema)
    return _World(actor, episode, at, report.extended)


def _server_before(episode: Episode) -> str:
    """Return the server of an episode's last attempt; "" if it had none."""
    stored: dict[str, Any] = Episode.every.values_list("world", flat=True).get(pk=episode.pk)
    return str(stored.get(SERVER, ""))


class _World(EnvironmentClient):
    """The environment of one episode, restored from its calls if it is lost. Its first reset waits while the server is
    full or unavailable, and restores the recorded environment if there is a record. It stores the reset's data on a
    partial scenario with the episode. Of several servers it stays with one, and takes another if that one is lost."""

    def __init__(self, actor: Actor, episode: Episode, at: servers.ServerProfile, extended: bool) -> None:
        super().__init__(at.url, **at.options(), restore=extended)
        self._actor, self.episode = actor, episode
        self._server = at.url
        self._has_others = at.name == servers.BUILTIN and len(choosing.urls()) > 1
        self._is_at_record, self._extended = False, extended

    async def reset(self, **arguments: Any) -> Observation:
        if not self._extended:
            return await self._reset({name: arguments[name] for name in UPSTREAM if name in arguments})
        # without a step there is nothing to repeat: any fresh world will do
        self._is_at_record = bool(self.episode.world) and self.episode.last_seq > 0
        observation = await self._reset(arguments | ({"world": self.episode.world} if self._is_at_record else {}))
        partial = BuildReport.from_wire(observation.metadata.get("partial"))
        if partial is not None:
            await patiently(noting.note_partial, self._actor, self.episode.pk, partial)
        return observation

    def _other_version(self, observation: Observation) -> str:
        """Return what differs if the server runs another version of the scenario than the episode was planned with.

        It loads a replacement within seconds. Raises an EnvironmentFault if the episode's version is the replaced one.
        """
        if problem := launching.other_version(self.episode, scenario_digest(self.episode.scenario)):
            raise AwmenvError(problem)
        return launching.other_version(self.episode, str(observation.metadata.get("scenario_digest") or ""))

    def fresh(self) -> dict[str, Any]:
        """Return the initial state of the environment, for an attempt without a record, or on another server; else
        {}."""
        is_fresh = self.world is not None and self.episode.last_seq == 0
        world = dict(self.world or {}) if is_fresh else dict(self.episode.world)
        if self._has_others and world:
            is_fresh = is_fresh or world.get(SERVER) != self._server
            world[SERVER] = self._server
        return {"world": world} if is_fresh else {}

    async def _move(self) -> None:
        if self._has_others:
            self._server = await asyncio.to_thread(choosing.with_room, lost=self._server)
            self.url = socket_url(self._server)

    async def begin_again(self) -> bool:
        """Start the recorded environment again, and return whether there is one. An episode from before environments
        were recorded starts anywhere, and is compared by the results of its calls."""
        if not self.episode.world or not self._extended:
            return False
        if not self._is_at_record:
            await self.begin_as(self.episode.world)
        self._is_at_record = False
        return True

    async def settle(self) -> None:
        await super().settle()
        restored = self.restored
        if self.episode.is_branch:
            await patiently(noting.note_grade, self.episode.pk, restored.grade)
        if restored.grade != "exact":
            await patiently(noting.note_restored, self.episode.pk, restored.grade, restored.difference)

    async def _reset(self, arguments: dict[str, Any]) -> Observation:
        if self._extended and self.episode.project.real_clocks:
            arguments = {**arguments, "clocks": "real"}
        loop = asyncio.get_running_loop()
        give_up = loop.time() + RESET_PATIENCE_S
        while True:
            try:
                # the session is lost: a reset needs another one
                if self._lost is not None:
                    self._lost = None
                    await self.open()
                observation = await super().reset(**arguments)
                # in a thread, because it reads the files of packs
                problem = await asyncio.to_thread(self._other_version, observation)
                if not problem:
                    return observation
                if loop.time() > give_up:
                    raise AwmenvError(problem)
                log.warning("episode %s: the server has not loaded the new version yet", self.episode.pk)
            # a lost session as well, but a reset that exceeded its limit is not tried again
            except ServerTimeout:
                raise
            except (SessionLost, ServerUnreachable, CapacityReached) as away:
                if loop.time() > give_up:
                    raise
                log.warning("episode %s starts over: %s", self.episode.pk, away)
                self._lost = str(away)
                await self._move()
            await asyncio.sleep(AGAIN_S)


async def _through(
    actor: Actor,
    episode: Episode,
    policy: Policy,
    environment: _World | PlainWorld,
    briefing: dict[str, Any] | None = None,
) -> None:
    async def verify(world: Any, final_answer: str | None) -> None:
        try:
            await _verify(actor, episode, world, final_answer)
            await in_database(feeding.verified)(episode)
        except (*AWAY, Unreachable):
            # the loop has ended, and repeats nothing: without this call the outcome waits for a restart of the worker
            launching.judge_later(episode.pk, launching.AGAIN_S)
            raise

    ask = await in_database(rule_of)(episode)
    limits: dict[str, Any] = {name: int(episode.policy[name]) for name in OF_LOOP if name in episode.policy}
    # a person's, of an earlier attempt
    limits |= {name: value for name, value in episode.limits.items() if name != "max_steps"}
    await rollout(
        policy,
        environment,
        LocalDashboard(actor, queued=episode, found=environment.fresh),
        task=episode.task,
        scenario=episode.scenario,
        task_idx=episode.task_idx,
        expert=episode.expert,
        max_steps=episode.max_steps or launching.MAX_STEPS,
        briefing=briefing,
        on_end=verify,
        approve=episode.policy.get("approve") or (),
        ask=ask,
        tools=OfferedTools.of(episode.policy.get("tools")),
        span=_span,
        **limits,
    )


def rule_of(episode: Episode) -> AskRule | None:
    """Return the rule of when to ask of an episode; None if its arm has none, or had it withdrawn before the episode
    first began. The digest of a gate is checked as it is read."""
    asking = episode.policy.get("ask")
    if not asking:
        return None
    planned = episode.root  # a branch is in no arm: it asks as its root did
    arm = Arm.objects.select_related("plan").get(plan=planned.run_id, name=planned.arm)
    if arm.withdrawn_at is not None and planned.started_at is not None and arm.withdrawn_at <= planned.started_at:
        return None
    rule = rules_of(arm.plan)[arm.name]
    return AskRule(rule if isinstance(rule, str) else AskGate(**rule), str(asking["key"]), bool(asking["seen"]))


def policy_of(episode: Episode) -> Policy:
    """Return the policy of the stored plan. Raises `UnknownPolicy` or `NoEndpoint`."""
    kind = episode.policy.get(launching.OURS)
    if kind == "model":
        name = limits.endpoint_in(episode.policy)
        endpoint = settings.AGENT_ENDPOINTS.get(name)
        if endpoint is None:
            raise NoEndpoint
        # as the plan recorded it, so that a resumed episode sends what it has sent
        sent: dict[str, Any] = {"reasoning": episode.policy.get("reasoning", "none")}
        sent["options"] = episode.policy.get("options", {})
        sent["reasoning_field"] = episode.policy.get("reasoning_field", "")
        return ChatPolicy(dataclasses.replace(endpoint, **sent), on_away=telling(name))
    if kind == PERSON:
        return PersonPolicy(episode)
    if kind == teachers.PYTHON:
        return teachers.function_of(episode.policy)
    if kind == teachers.FILE:
        return ScriptedPolicy(teachers.turns_for(episode.policy, episode.scenario, episode.task_idx or 0))
    if kind == "script":
        name = str(episode.policy.get("script", ""))
        scripts = launching.pack_with(episode.scenario).scripts(episode.scenario, episode.task_idx or 0)
        if name not in scripts:
            raise UnknownPolicy(f"{episode.scenario}/{episode.task_idx} has no script {name!r}.")
        # from the ID, so that another attempt of the episode makes the same choices
        pace_s, seed = float(episode.policy.get("pace_s", 0)), zlib.crc32(episode.pk.encode())
        return ScriptedPolicy(scripts[name], pace_s=pace_s, seed=seed)
    raise UnknownPolicy


def telling(name: str) -> Callable[[str], Awaitable[None]]:
    """Return what notes the outages of a model that its episode meets."""
    outage = outages.Noting(name)

    async def tell(reason: str) -> None:
        try:
            await in_database(outage.refused)(reason)
        # the next refusal is noted, and no turn ends by a note
        except Exception as error:
            log.warning("an outage of model %s is not noted: %s", name, error)

    return tell


async def _verify(actor: Actor, episode: Episode, world: Any, final_answer: str | None) -> None:
    """Run the verifier in the mode of the task, and store its outcome. A lost environment, or a task without a
    verifier, leaves the episode unverified, which is never a failed task."""
    try:
        mode, verdict = await _retried(lambda: _verdict(world, final_answer))
        version = await patiently(repairs.in_force, episode.project, episode.scenario, episode.task_idx)
        repaired = None
        if version is not None:
            repaired = await _retried(functools.partial(reverifying.said_by, world, version, final_answer))
    except SessionLost as gone:
        await patiently(
            noting.note_unverified, actor, episode.pk, f"The environment was lost before the verifier ran: {gone}"
        )
        return
    except AwmenvError as refused:
        await patiently(noting.note_unverified, actor, episode.pk, str(refused))
        return
    if verdict.reward_type == NO_VERIFIER:
        await patiently(noting.note_unverified, actor, episode.pk, verdict.error or "The task has no verifier.")
        return
    mode = str(verdict.metadata.get("mode", mode))
    final = str((verdict.metadata.get("world") or {}).get("final") or "") if mode == "code" else ""
    # the check is one of the pack's verifier
    health = Health.from_wire(verdict.metadata.get("health")) if repaired is None else None
    tier, partial = str(verdict.metadata.get("tier", "")), BuildReport.from_wire(verdict.metadata.get("partial"))
    outcome = _outcome(verdict, mode)
    if repaired is not None:
        # what changed is the same; what it means, the repaired verifier alone says
        outcome = _outcome(repaired, "code").model_copy(update={"state_diff": outcome.state_diff})
    about = outcome, tier, health, partial
    await patiently(ending.record_outcome, actor, episode.pk, *about, final=final, version=version)


async def _verdict(world: Any, final_answer: str | None) -> tuple[str, Any]:
    """Return the verifier's mode and result."""
    # a task can have a verifier of either form
    for mode in ("code", "sql"):
        verdict = await world.verify(final_answer=final_answer, mode=mode)
        if verdict.reward_type != NO_VERIFIER:
            break
    return mode, verdict


async def _retried(judge: Callable[[], Awaitable[Said]]) -> Said:
    """Return what `judge` returns. Retries while the session exists: its world no longer changes, so that a verifier
    says the same again. Raises an EnvironmentFault."""
    # None: the last try, whose error is raised
    for pause in (*VERDICT_PAUSES_S, None):
        try:
            return await judge()
        except SessionLost:
            raise
        except AwmenvError as refused:
            if pause is None:
                raise
            log.warning("no outcome yet: %s", refused)
            # the pause holds this thread: another one takes the episode that waits for it
            await in_database(relay.thread.pass_on)()
            await asyncio.sleep(pause)
    raise AssertionError("the last try returns or raises")


def _outcome(verdict: Any, mode: str) -> Outcome:
    details = {"verify_result": verdict.verify_result, "error": verdict.error, "mode": mode}
    details |= {name: verdict.metadata[name] for name in ("duration_ms", "tier") if name in verdict.metadata}
    return Outcome(
        # an environment without a verifier says it of itself
        source="reported" if mode == OF_ENVIRONMENT else "verifier",
        reward_type=verdict.reward_type or "verifier_error",
        reward=verdict.reward,
        details={name: value for name, value in details.items() if value is not None},
        state_diff=verdict.state_diff or {},
    )


async def _fail(actor: Actor, episode: Episode, fault: Fault, detail: str) -> None:
    await patiently(ending.fail, actor, episode.pk, fault, detail)
