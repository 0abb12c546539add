"""A person at the wheel of a live rollout: orders are carried out until they hand it back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from awmclient.errors import DashboardFault, EnvironmentFault
from awmclient.loop.choice import choose
from awmclient.loop.live import LiveRollout, boundary, naming
from awmclient.loop.ports import (
    SteeredEpisode,
    ToolEnvironment,
)
from awmclient.nouns.wheel import WheelOrderView, WheelView
from awmclient.record import wheel
from awmclient.record.observations import result_of
from awmclient.words.toolcalls import Call, is_reserved, unknown_tool


async def obey(
    loop: LiveRollout, dropped: Sequence[Call] = (), turn: int | None = None, usage: Mapping[str, Any] | None = None
) -> bool:
    """Do what a person at the wheel says until they hand it back. Return whether someone had it: then what the
    agent had decided (`dropped`, in this `turn`) is not to be made.
    """
    if loop.steered is None or not (loop.steered.steered or loop.progress.driven):
        return False
    start, had, dropped = loop.clock(), False, list(dropped)
    view = await _read_wheel(loop, loop.steered)
    while loop.progress.end is None and (view.held or view.orders):
        if not loop.progress.driven:
            await loop.record(wheel.taken(dropped, turn, usage))
        had = True
        for order in view.orders:
            if order.propose:
                # The agent's own time counts.
                loop.waited += loop.clock() - start
                await _suggest(loop, order)
                start = loop.clock()
            else:
                await _carry_out(loop, order)
            if loop.progress.end is not None:
                break
        view = await _read_wheel(loop, loop.steered)
    if loop.progress.driven:
        await loop.record(wheel.handed_back())
    # `timeout_s` does not count the time of people.
    loop.waited += loop.clock() - start
    return had


async def _suggest(loop: LiveRollout, order: WheelOrderView) -> None:
    """Let the agent choose for the person at the wheel, and note what it would do."""
    number = loop.progress.turn + 1
    turn = await choose(loop, number, watched=False)
    assert turn is not None
    await loop.record(wheel.proposed(order, number, turn))


async def _read_wheel(loop: LiveRollout, episode: SteeredEpisode) -> WheelView:
    with boundary(DashboardFault):
        view = await episode.wheel(loop.progress.acted)
    changed: dict[str, Any] = dict(view.limits)
    loop.limits = replace(loop.limits, **changed)
    return view


async def _carry_out(loop: LiveRollout, order: WheelOrderView) -> None:
    """Make a call that a person ordered, or record their words to the agent."""
    came: dict[str, Any] = {}
    # Not sent: a person reaches no control tool either.
    if order.call is not None and is_reserved(order.call.name):
        came = {"error": unknown_tool(order.call.name), "reward_type": "tool_not_found"}
    elif order.call is not None:
        await loop.restored()
        with boundary(EnvironmentFault):
            observation = await cast(ToolEnvironment, loop.environment).call_tool(order.call.name, order.call.arguments)
            with naming(f"order {order.number}, {order.call.name}"):
                came = result_of(observation)
    await loop.record(wheel.step_of(order, loop.progress.turn + 1, came))
