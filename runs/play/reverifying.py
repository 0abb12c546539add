"""Judges stored episodes again: each world is restored from its record, and a verifier runs on it in the sandbox.

Owns which code judges, and what a restored world must be like. Leaves the replay to `EnvironmentClient`, what is stored
to `episodes.record.rejudging`. Called by the command, the API, pages and the worker's task.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from asgiref.sync import async_to_sync
from channels.db import database_sync_to_async
from django.conf import settings
from django.db import transaction
from django.db.models import Max
from django.db.models.functions import Coalesce
from django.utils import timezone

from awmclient.asking.gates import reached_world
from awmclient.record.observations import WORLD
from awmenv.attesting import question, sha256_of
from awmenv.client import EnvironmentClient
from awmenv.errors import AwmenvError, CapacityReached, Diverged, ServerUnreachable, SessionLost
from awmenv.models import Observation
from awmenv.repeated import Made
from episodes.errors import BlindReview
from episodes.models import Episode, RejudgedEpisode, Rejudging, VerifierVersion
from episodes.record import rejudging
from episodes.stored import outcomes, repairs
from episodes.visible import visibility
from episodes.visible.trajectory import steps_of
from people.access import Actor, may_repair, visible_or_404
from people.errors import Invalid
from people.text.plain_text import storable
from runs.errors import NoServer
from runs.launch import launching
from runs.plan import servers

log = logging.getLogger(__name__)
AT_A_TIME = 2 * (os.cpu_count() or 1)
"""Worlds that are restored at the same time: while one replays, another is being read or stored."""
BATCH = 200
"""Episodes whose results are stored together."""
FULL_PATIENCE_S = 60.0
FORGOTTEN_S, SWEEP_S = 120, 10
"""A live pass that has judged nothing for so long is called for again, and the seconds between two sweeps."""
NO_VERDICT = "judge_error"
Result = RejudgedEpisode.Result
OnJudged = Callable[[int, int], object]
"""Called with the number of judged episodes and that of all."""


@dataclass(frozen=True)
class Repair:
    """A pass, and the code that judges."""

    rejudging: Rejudging
    code: str


def request(actor: Actor, scenario: str, task_idx: int, code: str = "", reason: str = "") -> Rejudging:
    """Ask a worker to judge the stored episodes of a task again: by a repaired verifier, or without code by the one in
    force."""
    judging = prepare(actor, scenario, task_idx, code, reason)
    launching.reverify_later(judging.pk)
    return judging


@transaction.atomic
def prepare(actor: Actor, scenario: str, task_idx: int, code: str = "", reason: str = "") -> Rejudging:
    """Return the pass that judges with this code, which becomes the next version, or with the verifier in force. A
    refused repair leaves no version."""
    may_repair(actor)
    launching.task_text(scenario, task_idx)
    live = repairs.passes_of(actor.project, scenario, task_idx).filter(ended_at__isnull=True).first()
    if code:
        version: VerifierVersion | None = rejudging.add_version(actor, scenario, task_idx, code, reason)
    elif live is not None:  # it goes on
        version = live.version
    else:
        version = repairs.in_force(actor.project, scenario, task_idx)
    if not repairs.code_of(version, scenario, task_idx):
        raise Invalid(f"{scenario}/{task_idx} has no verifier of code. Send one.")
    return rejudging.begin(actor, scenario, task_idx, version)


def visible_pass(actor: Actor, rejudging_id: str) -> Rejudging:
    """Return a pass. Raises `BlindReview` while this actor has to judge an episode of its task blind."""
    may_repair(actor)
    judging = visible_or_404(Rejudging.objects.select_related("version", "project"), actor, rejudging_id)
    if visibility.judges_blind(actor, judging.scenario, judging.task_idx):
        raise BlindReview
    return judging


def judge_all(rejudging_id: str, on_judged: OnJudged = lambda done, total: None) -> Rejudging:
    """Judge every episode that a pass has yet to judge, and end the pass. A call that was lost goes on with the rest.

    Raises `NoServer`."""
    judging = Rejudging.objects.select_related("project", "version").get(pk=rejudging_id)
    if judging.ended_at is not None:
        return judging
    if not settings.ATTEST_KEY:
        raise NoServer("The environment server shares no key with awmweb, so it runs no repaired verifier.")
    work = Repair(judging, repairs.code_of(judging.version, judging.scenario, judging.task_idx))
    # again and again: others end meanwhile, judged by the verifier before
    while waiting := rejudging.to_judge(judging):
        done = len(rejudging.judged_before(judging))
        total = done + len(waiting)
        for start in range(0, len(waiting), BATCH):
            batch = waiting[start : start + BATCH]
            outputs = async_to_sync(_judged_together)(work, batch)
            rejudging.keep(row for row in outputs if isinstance(row, RejudgedEpisode))
            _raise_first(outputs)
            done += len(batch)
            on_judged(done, total)
    return rejudging.end(judging.pk)


def wake_forgotten() -> int:
    """Call a worker again, every two minutes, for passes that have judged nothing since: theirs was lost, or the
    environment server does not answer. Called every ten seconds."""
    still = Rejudging.objects.filter(ended_at__isnull=True).annotate(last=Coalesce(Max("episodes__at"), "created_at"))
    waited = {pk: (timezone.now() - last).total_seconds() for pk, last in still.values_list("pk", "last")}
    forgotten = [pk for pk, seconds in waited.items() if seconds >= FORGOTTEN_S and seconds % FORGOTTEN_S < SWEEP_S]
    for pk in forgotten:
        launching.reverify_later(pk)
    return len(forgotten)


def _raise_first(outputs: Sequence[RejudgedEpisode | BaseException | None]) -> None:
    for output in outputs:
        if isinstance(output, ServerUnreachable):
            raise NoServer(str(output)) from output
        if isinstance(output, BaseException):
            raise output


async def _judged_together(work: Repair, batch: Sequence[Episode]) -> Sequence[RejudgedEpisode | BaseException | None]:
    room = asyncio.Semaphore(AT_A_TIME)

    async def judged(episode: Episode) -> RejudgedEpisode | None:
        async with room:
            return await _judged(work, episode)

    return await asyncio.gather(*map(judged, batch), return_exceptions=True)


async def _judged(work: Repair, episode: Episode) -> RejudgedEpisode | None:
    """Return what the verifier says of an episode; None if it was erased meanwhile."""
    before = await database_sync_to_async(outcomes.of_episode)(episode)
    if before is None:
        return None
    row = RejudgedEpisode(rejudging=work.rejudging, episode=episode, before=before.reward_type)
    steps = await database_sync_to_async(steps_of)(episode)
    # calls that the loop answered itself never reached the environment
    calls = [step for step in steps if reached_world(step)]
    made = [Made(step["name"], step.get("arguments") or {}, mark=(step.get("meta") or {}).get(WORLD)) for step in calls]
    if not episode.world or any(call.mark is None for call in made):
        return _lost(row, "The world was not recorded.")
    try:
        observation, row.grade = await _in_its_world(work, episode, made)
    except ServerUnreachable:
        raise
    except AwmenvError as fault:
        return _lost(row, str(fault))
    return _with_verdict(row, observation)


def _lost(row: RejudgedEpisode, why: str) -> RejudgedEpisode:
    row.result, row.why = Result.LOST, storable(why)
    return row


def _with_verdict(row: RejudgedEpisode, observation: Observation) -> RejudgedEpisode:
    row.after, row.reward = observation.reward_type or NO_VERDICT, observation.reward
    result = observation.verify_result if isinstance(observation.verify_result, dict) else {}
    row.details = {"verify_result": result, "mode": "code", "tier": str(observation.metadata.get("tier", ""))}
    if row.after == NO_VERDICT:
        row.result = Result.FAILED
        row.why = storable(str(result.get("error_message") or observation.error or "It gave no verdict."))
    else:
        row.result = Result.KEPT if row.after == row.before else Result.CHANGED
    return row


async def _in_its_world(work: Repair, episode: Episode, made: list[Made]) -> tuple[Observation, str]:
    """Return what the verifier says in the restored world, and the grade of that. First without help; a replay that
    differs is tried once more with the rows of calls compared, and with snapshots."""
    at = servers.known(episode.environment)
    loop = asyncio.get_running_loop()
    give_up = loop.time() + FULL_PATIENCE_S
    helped = False
    while True:
        try:
            return await _once(at, work, episode, made, helped=helped)
        # a lost session as well: if the server went, the second try finds it away
        except (Diverged, SessionLost):
            if helped:
                raise
            helped = True
        except CapacityReached as full:
            if loop.time() > give_up:
                raise ServerUnreachable(str(full)) from full
            await asyncio.sleep(0.2)


async def _once(
    at: servers.ServerProfile, work: Repair, episode: Episode, made: list[Made], *, helped: bool
) -> tuple[Observation, str]:
    async with at.client(restore=helped) as client:
        place: dict[str, Any] = {"scenario": episode.scenario, "task_idx": episode.task_idx}
        await client.reset(**place, state_diff=helped, world=episode.world)
        async for _same in client.calls_again((call.name, call.arguments, call.mark) for call in made):
            pass
        await client.settle()
        observation = await _sent(client, work.code, episode.final_answer)
        recorded, final = episode.world.get("final"), (observation.metadata.get("world") or {}).get("final")
        # *content* means other bytes and the same rows, so the digest of the last database differs, too
        if recorded and final != recorded and client.restored.grade != "content":
            raise Diverged("The final database differs.")
        return observation, client.restored.grade


async def said_by(world: Any, version: VerifierVersion, final_answer: str | None) -> Observation:
    """Return what a repaired verifier says in the world of an episode that has just ended."""
    return await _sent(world, version.code, final_answer)


async def _sent(client: EnvironmentClient, code: str, final_answer: Any) -> Observation:
    # signed at the moment of use: it is taken for two minutes
    sent = question(settings.ATTEST_KEY, {"verifier": code})
    return await client.judge(sent, sha256_of(code), final_answer if isinstance(final_answer, str) else None)
