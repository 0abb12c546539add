"""An OpenEnv environment of your own, without tools and without a verifier, recorded by an external loop.

Starts `echo_env.py` as its own server and reaches it with openenv's `GenericEnvClient`; a step is recorded as `action`.

    export AWMWEB_URL=http://127.0.0.1:8000 AWMWEB_TOKEN=<token of scope agent> PYTHONPATH=.
    .venv/bin/python examples/own_openenv.py
"""

import asyncio
import os
import socket
import sys
from contextlib import asynccontextmanager
from pathlib import Path

from openenv.core.generic_client import GenericEnvClient

from awmclient.client import HttpDashboard
from awmclient.policies import Turn, View
from awmclient.rollout import rollout


class Guesser:
    """A policy: says the word as it is first, and then backwards."""

    async def act(self, view: View) -> Turn:
        tried = sum(step["kind"] == "action" for step in view.steps)
        if tried == 0:
            return Turn(content="I try the word itself.", action={"word": "curriculum"})
        return Turn(content="Backwards, then.", action={"word": "curriculum"[::-1]})


@asynccontextmanager
async def environment_server():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = Path(__file__).with_name("echo_env.py")
    process = await asyncio.create_subprocess_exec(sys.executable, str(script), str(port))
    try:
        for _ in range(600):
            try:
                (await asyncio.open_connection("127.0.0.1", port))[1].close()
                break
            except OSError:
                await asyncio.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


async def main() -> int:
    async with environment_server() as url, GenericEnvClient(base_url=url) as environment:
        async with HttpDashboard(os.environ["AWMWEB_URL"], os.environ["AWMWEB_TOKEN"]) as dash:
            result = await rollout(
                Guesser(), environment, dash, task="Say the word backwards", environment_name="backwards", max_steps=5
            )
    print(f"{result.stop_reason or result.detail} after {result.turns} turns: {result.url}")
    return 0 if result.stop_reason == "done" else 1


sys.exit(asyncio.run(main()))
