"""For tests of loops: `MemoryDashboard`, which behaves as the real one without a server, and `FakeEnv`, a small shop
with prices.

Owns both. Leaves the dashboard's rules to `memory_store.py`. Called by our tests and by yours.

    dash = MemoryDashboard(expert=lambda question: "Use 10 %.")
    result = await rollout(my_policy, FakeEnv(), dash, task="Discount the mug", expert="plain")
    assert dash.steps(result.episode)[-1]["kind"] == "message"
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Unpack

from awmclient.client.bodies import AskFields, EpisodeFields, StepLike, ask_body, episode_body, numbered
from awmclient.client.memory_store import MemoryAsk, MemoryStore
from awmclient.nouns.asks import Advice
from awmclient.nouns.episodes import DETAIL_MAX, ReportedOutcome
from awmclient.nouns.tools import ToolSpec
from awmclient.nouns.values import Fault, OwnFault, StopReason

Answer = Advice | str | None
Expert = Callable[[str], Answer | Awaitable[Answer]]
"""Takes the question; returns advice, a text (then by a person), or None to let the deadline pass."""


class MemoryEpisode:
    """One episode of a `MemoryDashboard`; the calls of `client.HttpEpisode`."""

    def __init__(self, book: MemoryStore, episode: str, expert: Expert | None) -> None:
        self.id, self.url = episode, f"memory:{episode}"
        self._book, self._expert = book, expert
        self._entry = book.entry(episode)

    @property
    def last_seq(self) -> int:
        return len(self._entry.steps)

    async def append(self, steps: StepLike | Sequence[StepLike]) -> int:
        plain = numbered(steps, self.last_seq)
        return self._book.append(self.id, plain) if plain else self.last_seq

    async def steps(self, since: int = 0) -> list[dict[str, Any]]:
        return [dict(step) for step in self._entry.steps[since:]]

    async def ask(self, question: str, **fields: Unpack[AskFields]) -> Advice:
        body = {**ask_body(question, fields), "episode": self.id, "seq": self.last_seq + 1}
        ask, _ = self._book.open_ask(body)
        return await self._awaited(ask)

    async def wait_for_advice(self, ask: str, deadline_s: int, typed: Mapping[str, Any] | None = None) -> Advice:
        return await self._awaited(self._book.ask(ask))

    async def _awaited(self, ask: MemoryAsk) -> Advice:
        # Beside the wait, so that an expert who never answers lets the deadline pass.
        answering = asyncio.ensure_future(self._answer(ask))
        try:
            await asyncio.wait_for(ask.closed.wait(), ask.plan.deadline_s)
        except TimeoutError:
            self._book.close(ask, "fell_back", ask.silence(), reason="deadline")
        finally:
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)
        ask.consumed = True
        return ask.advice or Advice(text="", source="fallback", reason=ask.reason)

    async def _answer(self, ask: MemoryAsk) -> None:
        if self._expert is None:
            return
        reply = self._expert(str(ask.plan.question))
        answer = await reply if inspect.isawaitable(reply) else reply
        if answer is not None:
            advice = Advice(text=answer, source="human", author="expert") if isinstance(answer, str) else answer
            self._book.close(ask, "answered", advice)

    async def heartbeat(self) -> None:
        self._book.heartbeat(self.id)

    async def finish(
        self,
        stop_reason: StopReason,
        *,
        final_answer: str | None = None,
        outcome: ReportedOutcome | Mapping[str, Any] | None = None,
        fault: OwnFault | None = None,
        detail: str = "",
    ) -> None:
        body: dict[str, Any] = {"stop_reason": stop_reason, "final_answer": final_answer, "fault": fault}
        body["detail"] = detail[:DETAIL_MAX] if fault is not None and detail else None
        if outcome is not None:
            body["outcome"] = outcome.model_dump() if isinstance(outcome, ReportedOutcome) else dict(outcome)
        self._book.finish(self.id, body)

    async def fail(self, fault: Fault, detail: str) -> None:
        self._book.fail(self.id, fault, detail)


class MemoryDashboard:
    """The `Dashboard` port in memory. `book` has everything for a test to read or to answer asks by hand."""

    def __init__(self, expert: Expert | None = None) -> None:
        self.book = MemoryStore()
        self._expert = expert

    async def start_episode(self, task: str, **fields: Unpack[EpisodeFields]) -> MemoryEpisode:
        entry, _ = self.book.start(episode_body(task, fields))
        return MemoryEpisode(self.book, entry.id, self._expert)

    def steps(self, episode: str) -> list[dict[str, Any]]:
        """Return the recorded steps of an episode."""
        return self.book.entry(episode).steps


@dataclass(frozen=True)
class FakeResult:
    """A result of `FakeEnv`; the fields of `rollout.ToolResult`."""

    tool_result: Any = None
    error: str | None = None
    reward: float | None = 0.0
    reward_type: str | None = "tool_call_ok"
    done: bool = False
    state_diff: dict[str, Any] | None = None


def _tool(name: str, description: str, **properties: str) -> ToolSpec:
    schema = {"type": "object", "properties": {key: {"type": kind} for key, kind in properties.items()}}
    return ToolSpec(name=name, description=description, input_schema={**schema, "required": list(properties)})


@dataclass
class FakeEnv:
    """A shop with prices, in memory: `list_items`, `get_item`, `set_price`. `calls` has the name of every call."""

    prices: dict[str, float] = field(default_factory=lambda: {"mug": 10.0, "pen": 2.0})
    calls: list[str] = field(default_factory=list)
    is_done: bool = False

    async def reset(self, **arguments: Any) -> FakeResult:
        self.calls.append("reset")
        return FakeResult(reward=None, reward_type="reset_ok")

    async def list_tools(self) -> list[ToolSpec]:
        return [
            _tool("list_items", "All items with their prices"),
            _tool("get_item", "One item", item="string"),
            _tool("set_price", "Change a price", item="string", price="number"),
        ]

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> FakeResult:
        self.calls.append(name)
        item, price = arguments.get("item"), arguments.get("price")
        if name == "list_items":
            return FakeResult(dict(self.prices))
        if name not in ("get_item", "set_price"):
            return FakeResult(error=f"Unknown tool: {name}", reward=-1.0, reward_type="tool_not_found")
        if not isinstance(item, str) or item not in self.prices:
            return FakeResult(error=f"No item {item!r}", reward=0.0, reward_type="tool_call_ok")
        if name == "get_item":
            return FakeResult({"item": item, "price": self.prices[item]})
        if isinstance(price, bool) or not isinstance(price, int | float):
            return FakeResult(error="price is not a number", reward=-1.0, reward_type="invalid_args")
        before, self.prices[item] = self.prices[item], float(price)
        diff = {"items": {"changed": [{"item": item, "before": {"price": before}, "after": {"price": float(price)}}]}}
        return FakeResult({"item": item, "price": float(price)}, state_diff=diff)

    async def done(self) -> FakeResult:
        self.is_done = True
        return FakeResult(reward_type="episode_done", done=True)
