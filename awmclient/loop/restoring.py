"""Bring a fresh world to the recorded state: repeat the calls and compare the results.

Leaves the reset to the caller. Called by the loop, which continues from there, and by callers that need a lost
outcome.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, cast

from awmclient.asking.gates import reached_world
from awmclient.errors import EnvironmentFault
from awmclient.loop.ports import ActionEnvironment, BatchedEnvironment, RecordedEnvironment, ToolEnvironment
from awmclient.nouns.fields import has_come
from awmclient.nouns.kinds import is_action
from awmclient.record.observations import WORLD, as_object, bounded, observed, result_of

COMPARED = ("result", "error")
Shown = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Puts a part in the place of each picture of a step."""


async def as_it_came(step: dict[str, Any]) -> dict[str, Any]:
    return step


async def restore(
    environment: ToolEnvironment | ActionEnvironment, steps: Iterable[Mapping[str, Any]], shown: Shown = as_it_came
) -> int:
    """Make the calls and actions of these steps again, in order; return how many. `shown` gives what came the form in
    which it is recorded.

    Raises EnvironmentFault, which names the step, if a result, error or observation differs: then it is not the world
    that the agent knows.
    """
    record = environment if isinstance(environment, RecordedEnvironment) else None
    if record is not None and not await record.begin_again():
        record = None
    # Calls of reserved names and rejected calls were refused by the loop, and never reached the world.
    made = [step for step in steps if reached_world(step) or is_action(step)]
    if isinstance(record, BatchedEnvironment) and all(map(reached_world, made)):
        results = record.calls_again((_name(step), _arguments(step), _mark(step)) for step in made)
        for step in made:
            _compare(step, bounded(await shown(result_of(await anext(results)))))
    else:
        for step in made:
            _compare(step, await _once_more(environment, record, step, shown))
    # All results are equal; this compares the database, too.
    if record is not None:
        await record.settle()
    return len(made)


async def _once_more(
    environment: ToolEnvironment | ActionEnvironment,
    record: RecordedEnvironment | None,
    step: Mapping[str, Any],
    shown: Shown,
) -> dict[str, Any]:
    if is_action(step):
        seen = as_object(observed(await cast(ActionEnvironment, environment).step(step["action"])))
        return bounded((await shown({"observation": seen}))["observation"])
    if record is not None:
        came = await record.call_again(_name(step), _arguments(step), _mark(step))
    else:
        came = await cast(ToolEnvironment, environment).call_tool(_name(step), _arguments(step))
    # Cut as when it was recorded, or a huge result would always differ.
    return bounded(await shown(result_of(came)))


def _compare(step: Mapping[str, Any], came: dict[str, Any]) -> None:
    is_same = (
        came == step.get("observation") if is_action(step) else all(came.get(it) == step.get(it) for it in COMPARED)
    )
    # null is what a tool can return; a step without a result says nothing of the world
    if not is_same or not has_come(step):
        raise EnvironmentFault(f"The world cannot be restored: step {step['seq']} brings something else now.")


def _name(step: Mapping[str, Any]) -> str:
    return str(step["name"])


def _arguments(step: Mapping[str, Any]) -> dict[str, Any]:
    return step.get("arguments") or {}


def _mark(step: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return (step.get("meta") or {}).get(WORLD)
