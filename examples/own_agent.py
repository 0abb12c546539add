"""An agent of your own, recorded live, that asks an expert once and goes on.

AWMWEB_URL=http://127.0.0.1:8000 AWMWEB_TOKEN=<token of scope agent> PYTHONPATH=. .venv/bin/python examples/own_agent.py
"""

import asyncio
import os

from awmclient.client import HttpDashboard

STOCK = {"tea": 4, "coffee": 0}


def look_up(item: str) -> dict[str, object]:
    return {"item": item, "left": STOCK[item]}


async def main() -> None:
    async with HttpDashboard(os.environ["AWMWEB_URL"], os.environ["AWMWEB_TOKEN"]) as dash:
        episode = await dash.start_episode("Order what is running out", expert="plain", environment="my-shop")
        print(f"watch it: {episode.url}", flush=True)
        for item in STOCK:
            call = {"kind": "tool_call", "name": "look_up", "arguments": {"item": item}}
            await episode.append({**call, "result": look_up(item)})
        wait_s = int(os.environ.get("AWMWEB_ASK_S", "300"))
        advice = await episode.ask("How many coffees shall I order?", context="none are left", deadline_s=wait_s)
        words = "nobody answered, I order 10" if advice.is_fallback else f"I was told: {advice.text}"
        await episode.append({"kind": "message", "role": "assistant", "content": words})
        await episode.finish("done", final_answer=words, outcome={"reward_type": "own_check", "reward": 1.0})
        print(words)


asyncio.run(main())
