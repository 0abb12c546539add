"""What an earlier client does in a loop of its own: its package is a zip file, the product is that of today."""

import asyncio
import json
import sys
import uuid

import awmclient
from awmclient.client import HttpDashboard
from awmclient.policies import Turn
from awmclient.rollout import rollout
from awmclient.testing import FakeEnv
from awmclient.toolcalls import Call


class Asking:
    """Asks once, and sets the price that it is told."""

    async def act(self, view):
        if view.turn == 1:
            return Turn(calls=[Call("ask_expert", {"question": "Which price?"})])
        if view.turn == 2:
            price = float(view.steps[-1]["advice"]["advice"])
            return Turn(calls=[Call("set_price", {"item": "mug", "price": price})])
        return Turn(answer="Done.")


async def main(url: str, token: str) -> None:
    shop, own = FakeEnv(), uuid.uuid4().hex
    async with HttpDashboard(url, token) as dash:
        played = await rollout(Asking(), shop, dash, task="Price the mug", expert="plain", key=f"asks-{own}")
        episode = await dash.start_episode("By hand", key=f"hand-{own}", expert="plain")
        await episode.append({"kind": "message", "role": "assistant", "content": "Hello"})
        await episode.heartbeat()
        view, steps = await episode.view(), await episode.steps()
        await episode.finish("done", final_answer="Hello")
        whole = {"episode": {"key": f"whole-{own}", "task": "t"}, "steps": [], "finish": {"stop_reason": "done"}}
        (kept,) = await dash.record_whole([whole])
        run = await dash.start_run("by an earlier client")
        step = await dash.report_step(run, 1, losses={"policy": 0.1})
    told = {"package": awmclient.__file__, "stop_reason": played.stop_reason, "fault": played.fault}
    told |= {"price": shop.prices["mug"], "state": view.state, "steps": len(steps), "kept": sorted(kept)}
    print(json.dumps(told | {"reported": step.training_step}))


asyncio.run(main(*sys.argv[1:]))
