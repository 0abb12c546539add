"""The agent's next turn: asked of the policy, until its time is up or a person takes the wheel."""

from __future__ import annotations

import asyncio
import logging
import math

from awmclient.errors import ClientError, ModelFault, PolicyFault
from awmclient.loop.live import LiveRollout, LoopEnd, boundary
from awmclient.policies import Turn
from awmclient.words.faults import fault_of

log = logging.getLogger(__name__)
LOOK_S = 1.0
"""How often a loop looks for a person at the wheel while the agent chooses."""


async def _watch(loop: LiveRollout, timer: asyncio.Timeout) -> None:
    """End the agent's choice as soon as a person takes the wheel."""
    while loop.steered is not None:
        await asyncio.sleep(LOOK_S)
        try:
            is_held = await loop.steered.look()
        except ClientError as error:
            log.info("the wheel could not be read: %s", error)
            continue
        if is_held:
            loop.interrupted = True
            timer.reschedule(loop.clock())
            return


async def choose(loop: LiveRollout, number: int, *, watched: bool = True) -> Turn | None:
    """Return the policy's turn; None if it is `watched` and a person took the wheel before it was chosen."""
    left = loop.time_left()
    timer = asyncio.timeout(None if math.isinf(left) else left)
    loop.interrupted = False
    watching = asyncio.create_task(_watch(loop, timer)) if watched and loop.steered is not None else None
    try:
        with boundary(PolicyFault):
            async with timer:
                with loop.span("choose", turn=number):
                    return await loop.policy.act(loop.view(loop.steps, number, loop.progress.spent))
    except (PolicyFault, ModelFault) as failed:
        if timer.expired() and loop.interrupted:
            return None
        # The policy was cancelled by the time limit: this is an end, not its fault.
        if timer.expired():
            raise LoopEnd("timeout") from None
        # The words decide, whichever class the policy raised.
        kind = PolicyFault if fault_of(failed.message, failed.fault) == "policy" else ModelFault
        if isinstance(failed, kind):
            raise
        raise kind(failed.message) from failed
    finally:
        if watching is not None:
            watching.cancel()
