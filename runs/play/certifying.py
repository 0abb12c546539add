"""Certificates: recorded calls are made again in a fresh environment, and every result and the database are compared.

Owns what is replayed, an episode or the oracle script of a task, and what is stored about it. Leaves the replay itself
to `EnvironmentClient`. Called by the command `certify`, the API and the worker's task.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from channels.db import database_sync_to_async

from awmclient.asking.gates import reached_world
from awmclient.record.observations import WORLD
from awmenv.client import EnvironmentClient
from awmenv.errors import AwmenvError, Diverged, ServerUnreachable
from awmenv.packs import Pack
from awmenv.repeated import Made
from episodes.models import Certificate, Episode
from episodes.stored.packs import packs
from episodes.visible.trajectory import steps_of
from people.access import Actor, may_launch, visible_or_404
from people.record.audit import record
from people.text.plain_text import storable
from runs.errors import NoServer, StillLive
from runs.launch import launching
from runs.plan import servers

ORACLE = "oracle"


@dataclass(frozen=True)
class Certified:
    """The result of one replay: the number of recorded `calls`, how many had the same result, and the clocks."""

    grade: str
    calls: int
    checked: int
    difference: str = ""
    clocks: str = "recorded"


@dataclass(frozen=True)
class OracleTask:
    """A task of a pack with the calls of its oracle."""

    scenario: str
    task_idx: int
    calls: list[tuple[str, dict[str, Any]]]
    version: str


def request(actor: Actor, episode_id: str) -> Certificate | None:
    """Ask a rollouts worker to replay an ended episode; return its newest certificate so far.

    Raises `StillLive`. Can be repeated: each replay adds a certificate.

    """
    may_launch(actor)
    episode = visible_or_404(Episode.every.all(), actor, episode_id)
    if episode.is_live:
        raise StillLive
    record(actor, "certificate.requested", episode.pk)
    launching.certify_later(episode.pk)
    return episode.certificates.order_by("-pk").first()


def tasks(scenario: str = "") -> list[OracleTask]:
    """Return the tasks of loaded packs that have an oracle script, or those of one scenario."""
    chosen = [launching.pack_with(scenario)] if scenario else packs()
    return [task for pack in chosen for task in _of_pack(pack, [scenario] if scenario else sorted(pack.scenarios))]


def _of_pack(pack: Pack, scenarios: Sequence[str]) -> list[OracleTask]:
    oracle_tasks = []
    for scenario in scenarios:
        for task_idx in range(pack.scenario(scenario).task_count):
            script = pack.scripts(scenario, task_idx).get(ORACLE, [])
            # asks and words of a script change nothing in the world
            calls = [turn["call"] for turn in script if "call" in turn]
            if calls:
                made = [(one["name"], one.get("arguments") or {}) for one in calls]
                oracle_tasks.append(OracleTask(scenario, task_idx, made, pack.digests[scenario]))
    return oracle_tasks


async def certified(chosen: Sequence[OracleTask]) -> AsyncIterator[tuple[OracleTask, Certified]]:
    """Run each task's oracle, then replay it in another environment; store and yield the certificates."""
    for task in chosen:
        certificate = await _certify_task(task)
        place = {"scenario": task.scenario, "task_idx": task.task_idx, "scenario_digest": task.version}
        # of an oracle the place is the number of the call, from 1
        await database_sync_to_async(_keep)(
            certificate, certificate.checked + 1, source=Certificate.Source.ORACLE, **place
        )
        yield task, certificate


async def _certify_task(task: OracleTask) -> Certified:
    at = servers.profile(servers.BUILTIN)
    try:
        async with at.client() as first:
            await first.reset(scenario=task.scenario, task_idx=task.task_idx, state_diff=True, world=True)
            made = [await _call(first, name, arguments) for name, arguments in task.calls]
            world = first.world
            final = await _final(first)
        return await replayed(at, task.scenario, task.task_idx, world, made, final)
    except ServerUnreachable as away:
        raise NoServer(str(away)) from away
    except AwmenvError as fault:
        return Certified(Certificate.Grade.REFUSED, len(task.calls), 0, str(fault))


async def _call(client: EnvironmentClient, name: str, arguments: dict[str, Any]) -> Made:
    observation = await client.call_tool(name, arguments)
    return Made(name, arguments, mark=observation.metadata.get("mark"))


async def _final(client: EnvironmentClient) -> str:
    """Return the digest of the last committed database; "" if the task has no verifier to ask."""
    # in the order in which the verifier of an episode is tried
    for mode in ("code", "sql"):
        world = (await client.verify(mode=mode)).metadata.get("world")
        if isinstance(world, dict):
            return str(world.get("final", ""))
    return ""


async def certify_episode(episode: Episode) -> Certified:
    """Replay the recorded calls of an ended episode, and store the certificate."""
    steps = await database_sync_to_async(steps_of)(episode)
    # calls that the loop answered itself never reached the environment
    calls = [step for step in steps if reached_world(step)]
    made = [Made(step["name"], step.get("arguments") or {}, mark=(step.get("meta") or {}).get(WORLD)) for step in calls]
    try:
        final = episode.world.get("final", "")
        at_server = servers.known(episode.environment)
        certificate = await replayed(at_server, episode.scenario, episode.task_idx, episode.world or None, made, final)
    except ServerUnreachable as away:
        raise NoServer(str(away)) from away
    at = calls[certificate.checked]["seq"] if certificate.checked < len(calls) else episode.last_seq
    certificate = replace(certificate, clocks=episode.clocks)
    version = episode.scenario_digest
    place = {"scenario": episode.scenario, "task_idx": episode.task_idx, "scenario_digest": version, "episode": episode}
    await database_sync_to_async(_keep)(certificate, at, source=Certificate.Source.EPISODE, **place)
    return certificate


async def replayed(
    at: servers.ServerProfile,
    scenario: str,
    task_idx: int | None,
    world: dict[str, Any] | None,
    made: list[Made],
    final: str = "",
) -> Certified:
    """Replay in an environment of its own: first without a snapshot, and if that differs, with the rows of one
    restored.

    The result is *refused* without a record of the environment, or if a call has no mark.

    """
    if world is None or any(call.mark is None for call in made):
        return Certified(Certificate.Grade.REFUSED, len(made), 0, "The world was not recorded.")
    # without help first: a snapshot would hide that the replay alone differs
    alone = await _once(at, scenario, task_idx, world, made, final, put_back=False)
    if alone.grade != Certificate.Grade.REFUSED:
        return alone
    helped = await _once(at, scenario, task_idx, world, made, final, put_back=True)
    return helped if helped.grade == Certificate.Grade.DATABASE else alone


async def _once(
    at: servers.ServerProfile,
    scenario: str,
    task_idx: int | None,
    world: dict[str, Any],
    made: list[Made],
    final: str,
    *,
    put_back: bool,
) -> Certified:
    refused = Certificate.Grade.REFUSED
    async with at.client(restore=put_back) as client:
        try:
            await client.reset(scenario=scenario, task_idx=task_idx, state_diff=True, world=world)
            again = client.calls_again((call.name, call.arguments, call.mark) for call in made)
            async for _ in again:
                pass
            await client.settle()
            is_same = not final or await _final(client) == final
        except Diverged as differs:
            return Certified(refused, len(made), client.restored.calls, str(differs))
        except ServerUnreachable:
            raise
        except AwmenvError as fault:
            return Certified(refused, len(made), client.restored.calls, str(fault))
        restored = client.restored
    # *content* means other bytes and the same rows, so the digest of the last database differs, too
    if not is_same and restored.grade != "content":
        return Certified(refused, len(made), restored.calls, "The final database differs.")
    return Certified(restored.grade, len(made), restored.calls, restored.difference)


def _keep(certificate: Certified, place: int, **about: Any) -> None:
    """Store a certificate; `place` is the step at which the replay ended."""
    is_refused = certificate.grade == Certificate.Grade.REFUSED
    Certificate.objects.create(
        grade=certificate.grade,
        calls=certificate.calls,
        checked=certificate.checked,
        difference=storable(certificate.difference),
        differs_at=place if is_refused else None,
        **about,
    )
