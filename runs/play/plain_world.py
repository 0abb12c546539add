"""The world of an episode on a plain OpenEnv server: what the run found out at its launch must still hold.

It has the face of the AWM world in `playing.py`, so that nothing else asks which kind an episode has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import httpx

from awmenv.errors import BrokenServer, ServerUnreachable
from awmenv.models import Observation
from awmenv.offers import Offer, reset_arguments
from awmenv.plain import PlainClient
from episodes.models import Episode
from runs.errors import NotPlayable
from runs.launch import planning
from runs.models import Plan
from runs.plan.plans import COMPLETE_AT
from runs.plan.servers import ServerProfile, ServerReport, reason_of, splits_of, with_offer
from runs.play.database import in_database


def plain_world(episode: Episode, at: ServerProfile, now: ServerReport, schema: Mapping[str, Any]) -> PlainWorld:
    """Return the world of an episode, with what its run stored of the server."""
    plan = Plan.objects.filter(run=episode.run_id).first()
    stored = plan.server if plan is not None else {}
    complete_at = float(plan.document.get("complete_at", COMPLETE_AT)) if plan is not None else COMPLETE_AT
    return PlainWorld(episode, at, now, schema, ServerReport(**stored) if stored else None, complete_at)


async def _first_word(at: ServerProfile, now: ServerReport, then: ServerReport, offer: Offer) -> ServerReport:
    """Return what a server offers that was full or silent at the launch, so that it could not say it."""
    try:
        splits = then.splits or await splits_of(at)
        return replace(with_offer(at, now, offer), splits=splits, sessions=then.sessions)
    except (TimeoutError, httpx.TransportError) as error:
        raise ServerUnreachable(f"Cannot reach the environment server {at.name}: {reason_of(error)}") from error
    except (NotPlayable, ValueError) as error:
        raise BrokenServer(str(error)) from error


class PlainWorld(PlainClient):
    """One session for one episode. Entering raises `CapacityReached` while the server is full, and `BrokenServer` if it
    no longer is what the run was launched on."""

    def __init__(
        self,
        episode: Episode,
        at: ServerProfile,
        now: ServerReport,
        schema: Mapping[str, Any],
        then: ServerReport | None,
        complete_at: float,
    ) -> None:
        super().__init__(at.url, at.headers, timeout_s=at.timeout_s, schema=schema, complete_at=complete_at)
        self.episode, self._at, self._now, self._then = episode, at, now, then

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        try:
            self.offer = await self.offered()
            if self._then is not None and not self._then.digest:
                report = await _first_word(self._at, self._now, self._then, self.offer)
                stored = await in_database(planning.keep_server)(self.episode.run_id, report.stored())
                self._then = ServerReport(**stored)
            self._refuse_other(self.offer.digest)
        except BaseException:
            await self.close()
            raise
        return self

    def _refuse_other(self, digest: str) -> None:
        then, now = self._then, self._now
        if then is None:
            raise BrokenServer("No launch on this server is stored, so nothing is known of what it offers.")
        if then.digest != digest:
            raise BrokenServer(
                f"The server offers something else than at the launch: schemas {then.digest[:12]} then, {digest[:12]} "
                "now. Launch another run."
            )
        if (then.title, then.version) != (now.title, now.version):
            raise BrokenServer(
                f"The server is another one than at the launch: {then.title} {then.version} then, {now.title} "
                f"{now.version} now. Launch another run."
            )

    async def reset(self, **_arguments: Any) -> Observation:
        """Start the task of the episode; the loop's arguments are those of scenarios, which this server has not."""
        assert self._then is not None
        splits = list(self._then.splits)
        episode = self.episode
        return await self.begin(reset_arguments(splits, episode.scenario, episode.task_idx or 0, episode.seed))

    def fresh(self) -> dict[str, Any]:
        """Return nothing: no start of the world is recorded."""
        return {}
