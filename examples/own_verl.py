"""An agent loop of verl (0.9) whose tools, experts and outcomes come from awmweb. verl starts one per rollout and runs
them together, so asks of a batch wait side by side. Each row of the dataset has `extra_info` with `scenario`,
`task_idx` and `expert` (`plain` or `off`); set `actor_rollout_ref.rollout.agent.default_agent_loop=awmweb` and have
this module imported by every worker. AWMWEB_URL, AWMWEB_TOKEN (scope agent), AWMWEB_RUN and AWMENV_URL say where.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput, register

from examples.batches import Continued
from examples.grpo.rollouts import Connections, Place, connected, play, settled
from examples.grpo.turns import Chat

PLACE = Place(os.environ["AWMWEB_URL"], os.environ["AWMWEB_TOKEN"], os.environ["AWMENV_URL"])


class Shared:
    """What the rollouts of a worker process share, so that many are stepped in one message and recorded in one request.
    It is connected while one of them is at work."""

    def __init__(self) -> None:
        self._at_work, self._turn, self._stack = 0, asyncio.Lock(), contextlib.AsyncExitStack()

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[Connections]:
        async with self._turn:
            if not self._at_work:
                self._connections = await self._stack.enter_async_context(connected(PLACE))
            self._at_work += 1
        try:
            yield self._connections
        finally:
            async with self._turn:
                self._at_work -= 1
                if not self._at_work:
                    await self._stack.aclose()


SHARED = Shared()


@register("awmweb")
class AwmwebLoop(AgentLoopBase):
    """One rollout: verl's servers draw the turns, awmweb records them, and the mask is 1 where the model drew."""

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        request, told = uuid4().hex, row["extra_info"]

        async def draw(context: list[int]) -> Continued:
            said = {"request_id": request, "prompt_ids": context, "sampling_params": sampling_params}
            found = await self.server_manager.generate(**said)
            return list(found.token_ids), list(found.log_probs or [])

        async with SHARED.connected() as connections:
            where = {name: told[name] for name in ("scenario", "task_idx", "expert")}
            about = {"run": os.environ.get("AWMWEB_RUN"), "split": "train", **where}
            drawn = await play(connections, Chat(self.tokenizer), draw, **about)
        [drawn] = settled([drawn])  # a rollout without an outcome has an empty mask
        return AgentLoopOutput(
            prompt_ids=drawn.prompt, response_ids=drawn.ids, response_mask=drawn.mask, response_logprobs=drawn.logps,
            reward_score=drawn.reward, num_turns=2, metrics=AgentLoopMetrics(), extra_fields={"episode": drawn.episode},
        )  # fmt: skip
