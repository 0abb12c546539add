"""A client of plain OpenEnv servers, as a world of tools: those that the server lists, or its actions.

It has the methods that the rollout loop calls, like `EnvironmentClient` for AWM. A session cannot be restored, and
there is no verifier: the reward and the end come with the server's own steps. A server that breaks the protocol raises
`BrokenServer` or `SessionLost`; what an agent did wrong is an observation with `error`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from awmenv.client import EnvironmentClient
from awmenv.errors import BrokenServer, ServerRefused
from awmenv.models import Observation, Tool, one_line
from awmenv.offers import OF_ENVIRONMENT, Offer, changed, done_of, lie_in, offer_of, result_in, reward_of, seen_in

MAX_FRAME = 4 * 1024 * 1024
"""The most of one message: an agent could read no more of it."""
NO_VERIFIER = "no_verifier"
OF_AGENT = frozenset({"validation_error", "execution_error"})
"""Codes of errors that a call can cause: the agent reads them, as it reads those of a tool."""


class PlainClient(EnvironmentClient):
    """One session on a plain OpenEnv server; `schema` is its answer to `/schema`."""

    max_frame = MAX_FRAME

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        *,
        timeout_s: float = 120.0,
        schema: Mapping[str, Any] | None = None,
        complete_at: float = 1.0,
    ) -> None:
        super().__init__(url, headers, reset_timeout_s=timeout_s, step_timeout_s=timeout_s)
        self._schema, self._complete_at = schema, complete_at
        self.offer: Offer | None = None
        self._last: tuple[float | None, bool] = (None, False)

    async def offered(self) -> Offer:
        """Ask the session for its tools, and return what the server offers. Makes no step."""
        return offer_of(self._schema, await self._listed())

    async def _listed(self) -> list[Tool]:
        """Return the tools that the session lists over MCP; none if it has no MCP."""
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        answer = await self._exchange({"type": "mcp", "data": asked}, "mcp", self._step_timeout_s)
        result = answer.get("result")
        tools = result.get("tools") if isinstance(result, Mapping) else None
        if tools is None:
            return []
        if not isinstance(tools, list) or not all(isinstance(one, dict) for one in tools):
            raise BrokenServer("The server's list of tools is no list of objects.")
        return [Tool.from_wire(one) for one in tools]

    async def begin(self, arguments: Mapping[str, Any]) -> Observation:
        """Reset with these arguments; `first_seen` of the answer is what the agent sees before its first step."""
        data = await self.reset_environment(**arguments)
        reward_of(data)
        if done_of(data):
            raise BrokenServer("The server ends the episode with its reset.")
        self._last = (None, False)
        return Observation(first_seen=seen_in(data))

    async def list_tools(self) -> list[Tool]:
        self.offer = self.offer or await self.offered()
        return list(self.offer.tools)

    async def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> Observation:
        """Make one call, as a step of the server. A server that changed its tools meanwhile is broken."""
        assert self.offer is not None, "list_tools comes first"
        if name not in {tool.name for tool in self.offer.tools}:
            return Observation(error=f"Unknown tool: {name}", tool_name=name)
        made, is_call = dict(arguments or {}), self.offer.kind == "tools"
        if is_call:
            action: dict[str, Any] = {"type": "call_tool", "tool_name": name, "arguments": made}
        else:
            action = {**{key: value for key, value in made.items() if key != "metadata"}, **self.offer.fixed[name]}
        try:
            data = await self.step(action)
        except ServerRefused as refused:
            if refused.code not in OF_AGENT:
                raise
            self._refuse_liar(name, refused)
            await self._still_offers()
            return Observation(error=one_line(str(refused), 2000), tool_name=name)
        reward, done = reward_of(data), done_of(data)
        result, error = result_in(data) if is_call else (seen_in(data), None)
        if not done:
            await self._still_offers()
        self._last = (reward if reward is not None else self._last[0], done)
        return Observation(reward=reward, done=done, tool_name=name, tool_result=result, error=error)

    async def _still_offers(self) -> None:
        """Raise `BrokenServer` if the session no longer lists the same tools."""
        if self.offer is None or self.offer.kind != "tools":
            return
        if (now := await self.offered()).digest != self.offer.digest:
            raise BrokenServer(changed(self.offer, now))

    def _refuse_liar(self, name: str, refused: ServerRefused) -> None:
        """Raise `BrokenServer` if the server wants a field that its schema lacks, or refuses one that it names."""
        assert self.offer is not None
        if self.offer.kind == "actions" and (lie := lie_in(self.offer, name, refused.errors)):
            raise BrokenServer(f"The server does not keep the schema of {name} that it publishes: {lie}.")

    async def verify(self, final_answer: str | None = None, mode: str = "code") -> Observation:
        """Return what the last step said. There is no verifier, and the words say so."""
        reward, done = self._last
        if done and reward is None:
            return Observation(
                reward_type=NO_VERIFIER,
                error="The environment ended the episode without a reward, and there is no verifier.",
            )
        kind, words = "others", "The agent stopped before the environment ended the episode. There is no verifier."
        if not done and reward is not None:
            words += f" The last step had the reward {reward:g}."
        if done and reward is not None:
            kind = "complete" if reward >= self._complete_at else "incomplete" if reward > 0 else "others"
            words = f"The environment gave the reward {reward:g} with the step that ended the episode."
            words += f" {self._complete_at:g} or more counts as complete. There is no verifier."
        verdict = {"result": kind, "found_by": "environment", "message": words}
        paid = reward if done and reward is not None else 0.0
        return Observation(
            reward_type=kind, reward=paid, done=True, verify_result=verdict, metadata={"mode": OF_ENVIRONMENT}
        )

    async def done(self) -> Observation:
        """End the session with its connection."""
        await self.close()
        return Observation(done=True)
