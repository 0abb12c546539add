"""An agent of your own, recorded live, that asks an expert once and goes on; after a crash it goes on where it was.

AWMWEB_URL=http://127.0.0.1:8000 AWMWEB_TOKEN=<token of scope agent> PYTHONPATH=. .venv/bin/python examples/own_agent.py
With AWMWEB_KEY=<a name of yours> a second start resumes the episode of the first.
"""

import asyncio
import os

from awmclient.client import HttpDashboard

STOCK = {"tea": 4, "coffee": 0}
WAIT_S = int(os.environ.get("AWMWEB_ASK_S", "300"))


def look_up(item: str) -> dict[str, object]:
    return {"item": item, "left": STOCK[item]}


async def main() -> None:
    async with HttpDashboard(os.environ["AWMWEB_URL"], os.environ["AWMWEB_TOKEN"]) as dash:
        mine = {"key": key} if (key := os.environ.get("AWMWEB_KEY")) else {}
        run = await dash.start_run("orders", **mine)
        episode = await dash.start_episode(
            "Order what is running out", run=run, expert="plain", environment="my-shop", **mine
        )
        print(f"watch it: {episode.url}", flush=True)
        done = await episode.steps()  # empty at the first start
        for item in STOCK:
            call = {"kind": "tool_call", "name": "look_up", "arguments": {"item": item}}
            if not any(step.get("arguments") == call["arguments"] for step in done):
                await episode.append({**call, "result": look_up(item)})
        if asked := next((step["ask"] for step in done if step["kind"] == "ask"), None):
            advice = await episode.wait_for_advice(asked, deadline_s=WAIT_S)
        else:
            advice = await episode.ask("How many coffees do I order?", context="none are left", deadline_s=WAIT_S)
        words = "no answer, I order 10" if advice.is_fallback else f"I was told: {advice.text}"
        await episode.append({"kind": "message", "role": "assistant", "content": words})
        await episode.finish("done", final_answer=words, outcome={"reward_type": "own_check", "reward": 1.0})
        print(words)


asyncio.run(main())
