"""Plays one queued episode of ours in the rollouts worker: the loop of `awmclient`, plugged into our ports.

Owns which policy a stored plan means, and that the verifier is asked once, when the agent is through. Leaves the loop
to `awmclient.rollout`, storing to `local.py`. Called by `tasks.py`; a task that runs twice plays once.
"""

from __future__ import annotations

import logging
import zlib
from typing import Any

from asgiref.sync import async_to_sync
from channels.db import database_sync_to_async
from django.conf import settings
from django.db import close_old_connections

from awmclient.chat import ChatPolicy
from awmclient.policies import Policy
from awmclient.rollout import rollout
from awmclient.schema import Fault, Outcome
from awmclient.scripted import ScriptedPolicy
from awmenv.client import EnvironmentClient
from awmenv.errors import EnvironmentFault
from awmenv.health import Health
from awmenv.models import BuildReport, Observation
from curriculum import launching
from curriculum.errors import NoEndpoint, UnknownPolicy
from curriculum.local import LocalDashboard, patiently
from episodes import recording
from episodes.models import Episode
from people.access import Actor, system
from people.errors import AppError

log = logging.getLogger(__name__)
ASK_DEADLINE_S = 300
NO_VERIFIER = "no_verifier"


def play(episode_id: str, worker: str = "") -> None:
    """1. take the episode out of the queue, 2. play it to its end; what breaks is stored with the boundary it broke."""
    close_old_connections()
    if recording.begin(episode_id, worker):
        async_to_sync(_play)(episode_id)


async def _play(episode_id: str) -> None:
    episode = await database_sync_to_async(_load)(episode_id)
    actor = system(episode.project)
    try:
        policy = await database_sync_to_async(policy_of)(episode)
    except AppError as refused:
        await _fail(actor, episode, "policy", refused.message)
        return
    try:
        async with _World(actor, episode) as environment:
            await _through(actor, episode, policy, environment)
    except EnvironmentFault as gone:
        await _fail(actor, episode, "environment", str(gone))


class _World(EnvironmentClient):
    """The environment of one episode; what its reset says of a partial scenario is stored with the episode."""

    def __init__(self, actor: Actor, episode: Episode) -> None:
        super().__init__(settings.AWMENV_URL)
        self._actor, self._episode = actor, episode

    async def reset(self, **arguments: Any) -> Observation:
        observation = await super().reset(**arguments)
        partial = BuildReport.from_wire(observation.metadata.get("partial"))
        if partial is not None:
            await patiently(recording.note_partial, self._actor, self._episode.pk, partial)
        return observation


async def _through(actor: Actor, episode: Episode, policy: Policy, environment: EnvironmentClient) -> None:
    async def verify(world: Any, final_answer: str | None) -> None:
        await _verify(actor, episode, world, final_answer)

    await rollout(
        policy,
        environment,
        LocalDashboard(actor, queued=episode),
        task=episode.task,
        scenario=episode.scenario,
        task_idx=episode.task_idx,
        expert=episode.expert,
        max_steps=episode.max_steps or launching.MAX_STEPS,
        ask_deadline_s=int(episode.policy.get("ask_deadline_s", ASK_DEADLINE_S)),
        on_end=verify,
    )


def _load(episode_id: str) -> Episode:
    return Episode.objects.select_related("project").get(pk=episode_id)


def policy_of(episode: Episode) -> Policy:
    """The policy that the stored plan names. Raises `UnknownPolicy` or `NoEndpoint`."""
    kind = episode.policy.get(launching.OURS)
    if kind == "model":
        if settings.AGENT_ENDPOINT is None:
            raise NoEndpoint
        return ChatPolicy(settings.AGENT_ENDPOINT)
    if kind == "script":
        name = str(episode.policy.get("script", ""))
        scripts = launching.pack_with(episode.scenario).scripts(episode.scenario, episode.task_idx or 0)
        if name not in scripts:
            raise UnknownPolicy(f"{episode.scenario}/{episode.task_idx} has no script {name!r}.")
        pace_s, seed = float(episode.policy.get("pace_s", 0)), zlib.crc32(episode.pk.encode())
        return ScriptedPolicy(scripts[name], pace_s=pace_s, seed=seed)
    raise UnknownPolicy


async def _verify(actor: Actor, episode: Episode, world: Any, final_answer: str | None) -> None:
    """Ask the verifier once, in the form that the task has, and keep what it says. An environment that is gone, or a
    task without a verifier, leaves the episode unverified, which is never a failed task."""
    try:
        for mode in ("code", "sql"):
            said = await world.verify(final_answer=final_answer, mode=mode)
            if said.reward_type != NO_VERIFIER:
                break
    except EnvironmentFault as gone:
        await patiently(recording.note_unverified, actor, episode.pk, str(gone))
        return
    if said.reward_type == NO_VERIFIER:
        await patiently(recording.note_unverified, actor, episode.pk, said.error or "The task has no verifier.")
        return
    about = str(said.metadata.get("tier", "")), Health.from_wire(said.metadata.get("health"))
    partial = BuildReport.from_wire(said.metadata.get("partial"))
    await patiently(recording.record_outcome, actor, episode.pk, _outcome(said, mode), *about, partial)


def _outcome(said: Any, mode: str) -> Outcome:
    details = {"verify_result": said.verify_result, "error": said.error, "mode": mode}
    details |= {name: said.metadata[name] for name in ("duration_ms", "tier") if name in said.metadata}
    return Outcome(
        reward_type=said.reward_type or "verifier_error",
        reward=said.reward,
        details={name: value for name, value in details.items() if value is not None},
        state_diff=said.state_diff or {},
    )


async def _fail(actor: Actor, episode: Episode, fault: Fault, detail: str) -> None:
    await patiently(recording.fail, actor, episode.pk, fault, detail)
