"""Bring a fresh world to the recorded state: repeat the calls and compare the results.

Leaves the reset to the caller. Called by `rollout.py`, which continues from there, and by callers that need a lost
outcome.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from awmclient.errors import EnvironmentFault
from awmclient.gates import reached_world
from awmclient.observations import WORLD, as_object, bounded, observed, result_of
from awmclient.ports import ActionEnvironment, RecordedEnvironment, ToolEnvironment


async def restore(environment: ToolEnvironment | ActionEnvironment, steps: Iterable[Mapping[str, Any]]) -> int:
    """Make the calls and actions of these steps again, in order; return how many.

    Raises EnvironmentFault, which names the step, if a result, error or observation differs: then it is not the world
    that the agent knows.
    """
    made, record = 0, environment if isinstance(environment, RecordedEnvironment) else None
    if record is not None and not await record.begin_again():
        record = None
    for step in steps:
        # Calls of reserved names and rejected calls were refused by the loop, and never reached the world.
        if reached_world(step):
            name, arguments = step["name"], step.get("arguments") or {}
            if record is not None:
                found = await record.call_again(name, arguments, (step.get("meta") or {}).get(WORLD))
            else:
                found = await cast(ToolEnvironment, environment).call_tool(name, arguments)
            # Cut as when it was recorded, or a huge result would always differ.
            came = bounded(result_of(found))
            is_same = all(came.get(name) == step.get(name) for name in ("result", "error"))
        elif step["kind"] == "action":
            came = as_object(observed(await cast(ActionEnvironment, environment).step(step["action"])))
            is_same = bounded(came) == step.get("observation")
        else:
            continue
        if not is_same:
            raise EnvironmentFault(f"The world cannot be restored: step {step['seq']} brings something else now.")
        made += 1
    # All results are equal; this compares the database, too.
    if record is not None:
        await record.settle()
    return made
