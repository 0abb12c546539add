"""The model as a policy of rollouts: one sampler answers all who wait together, and a ground where many run together.

Rollouts run on the environment server. A drawn share is recorded in the product, where a desk answers what they ask;
the others are kept in this process, and the same expert answers them. Rewards and counts are of all.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
from tokenizers import Tokenizer

from awmclient.client import HttpDashboard
from awmclient.collecting import CollectingDashboard
from awmclient.conversation import messages, offered
from awmclient.policies import Turn, View
from awmclient.rollout import rollout
from awmclient.testing import MemoryDashboard
from awmclient.toolcalls import Call
from awmenv.batches import EnvironmentBatch
from awmenv.client import EnvironmentClient
from examples.batches import Batches
from examples.train_demo.learning import Played
from examples.train_demo.model import Tiny
from examples.train_demo.words import END, Redrawn, call_of, encoded, told
from examples.train_demo.worlds import NO_ONE, Task, World

LONGEST = 400
"""Tokens of an episode; a longer one gives up."""
LIMITS = {"max_steps": 8, "max_asks": 2, "nudge_after": 0, "stall_after": 0}
TOGETHER = 128
"""Rollouts at work at the same time."""
NOT_EXECUTED = ("tool_not_found", "invalid_args", "invalid_action")


class Sampler(Batches):
    """The model at a temperature, for all who wait together."""

    def __init__(self, model: Tiny, tokenizer: Tokenizer, temperature: float) -> None:
        end = tokenizer.token_to_id(END)
        super().__init__(lambda contexts: model.sampled(contexts, end=end, temperature=temperature))
        self.tokenizer = tokenizer


class TinyPolicy:
    """Runs one episode, and keeps the very tokens that were read and drawn, for learning.

    With `redrawn` the model reads and writes other names and numbers than the desk has.
    """

    def __init__(self, sampler: Sampler, redrawn: Redrawn | None = None) -> None:
        self._sampler, self._redrawn = sampler, redrawn
        self.played = Played([], [], [])

    async def act(self, view: View) -> Turn:
        tools, played = offered(view.tools or [], expert=False), self.played  # the loop has added the expert's
        segments = told(messages(view.steps), tools)
        written = [place for place, (_, learns) in enumerate(segments) if learns]
        new = segments[written[-1] + 1 if written else 0 :]
        if self._redrawn is not None:
            new = [(self._redrawn.there(text), learns) for text, learns in new]
        read, _ = encoded(self._sampler.tokenizer, new)
        if len(played.ids) + len(read) > LONGEST:
            return Turn(gave_up=True)
        self._keep(read, [0.0] * len(read), 0)
        drawn, logps = await self._sampler(list(played.ids))
        self._keep(drawn, logps, 1)
        words = str(self._sampler.tokenizer.decode(list(drawn), skip_special_tokens=True))
        meant = call_of(words if self._redrawn is None else self._redrawn.back(words), tools)
        return Turn(answer=meant) if isinstance(meant, str) else Turn(calls=[Call(*meant)])

    def _keep(self, ids: Sequence[int], logps: Sequence[float], drawn: int) -> None:
        self.played.ids += ids
        self.played.logps += logps
        self.played.drawn += [drawn] * len(ids)


@dataclass(frozen=True)
class Place:
    """A task of a desk."""

    world: World
    at: int

    @property
    def name(self) -> str:
        return f"{self.world.name}/{self.at}"

    @property
    def task(self) -> Task:
        return self.world.tasks[self.at]


def places(worlds: Sequence[World]) -> list[Place]:
    return [Place(world, at) for world in worlds for at in range(len(world.tasks))]


@dataclass(frozen=True)
class Reading:
    """How a model did on one task."""

    place: str
    family: str
    needs: bool
    complete: bool
    asks: int


class Ground:
    """Where many rollouts run together. `share` of them, drawn by chance, are recorded."""

    def __init__(self, batch: EnvironmentBatch, http: HttpDashboard | None, share: float, seed: int) -> None:
        self._batch, self._share = batch, share
        self._http, self._recording = http, None if http is None else CollectingDashboard(http)
        self._chance, self._room = random.Random(seed), asyncio.Semaphore(TOGETHER)  # noqa: S311

    async def play(
        self, sampler: Sampler, place: Place, *, helped: bool, redrawn: Redrawn | None = None, **about: Any
    ) -> Played:
        """Play one episode."""
        recorded = self._recording is not None and self._chance.random() < self._share
        dash: Any = self._recording if recorded else MemoryDashboard(expert=place.world.answer)
        policy, verdicts = TinyPolicy(sampler, redrawn), list[bool]()

        async def verdict(env: EnvironmentClient, answer: str | None) -> None:
            verdicts.append((await env.verify(answer)).reward_type == "complete")

        fields = {"scenario": place.world.name, "task_idx": place.at, "expert": "plain" if helped else "off", **about}
        fields |= {"policy_about": {"name": "tiny", "recorded_with_chance": self._share}}
        async with self._room, self._batch.client() as env:
            text = place.task.text
            done = await rollout(policy, env, dash, task=text, on_end=verdict, verify=recorded, **LIMITS, **fields)
        played = policy.played
        played.counts, played.complete = bool(verdicts), any(verdicts)
        played.helped, played.asks = helped, done.asks
        calls = [step for step in done.steps if step["kind"] == "tool_call"]
        played.executed = any(step.get("reward_type") not in NOT_EXECUTED for step in calls)
        return played

    async def start_run(self, name: str, metadata: dict[str, Any]) -> dict[str, str]:
        """Open a run at the product for what is recorded; returns what its rollouts are given."""
        return {} if self._http is None else {"run": await self._http.start_run(name, metadata=metadata)}

    async def report(self, run: Mapping[str, str], step: int, losses: dict[str, float], counts: Any) -> None:
        """Report a training step with the counts of all its rollouts, recorded or not."""
        if self._http is None:
            return
        parts = {"primary": counts.primary, "asks": counts.asks / max(1, counts.counted)}
        await self._http.report_step(run["run"], step, losses=losses, components=parts)

    async def read(self, sampler: Sampler, some: Sequence[Place], *, helped: bool, **about: Any) -> list[Reading]:
        """Run each task once. One that something other than the policy failed runs again, three times at most."""

        async def one(place: Place) -> Reading:
            for _ in range(3):
                played = await self.play(sampler, place, helped=helped, **about)
                if played.counts:
                    task = place.task
                    return Reading(place.name, task.family, task.needs, played.complete, played.asks)
            raise RuntimeError(f"{place.name} could not be run: the product or its environment server failed.")

        return list(await asyncio.gather(*(one(place) for place in some)))


@contextlib.asynccontextmanager
async def ground(environment: str, product: str, token: str, *, share: float, seed: int) -> AsyncIterator[Ground]:
    """Open a ground on a product and its environment server, by their addresses."""
    async with HttpDashboard(product, token) as http, EnvironmentBatch(environment) as batch:
        yield Ground(batch, http, share, seed)


@contextlib.contextmanager
def answering(desk: Callable[[], httpx.Client], answer: Callable[[str], str]) -> Iterator[None]:
    """Answer what recorded rollouts ask, from a thread. `desk` opens a client with a token of scope *expert*."""
    through = threading.Event()

    def run() -> None:
        with desk() as http:
            while not through.wait(0.2):
                # one that failed is tried again soon: a thread that ends would leave every rollout waiting
                with contextlib.suppress(httpx.HTTPError):
                    answer_all(http, answer)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        through.set()
        thread.join(30)


def answer_all(desk: httpx.Client, answer: Callable[[str], str]) -> None:
    """Claim and answer every open ask."""
    for ask in desk.get("/asks", params={"status": "open"}).raise_for_status().json()["asks"]:
        claimed = desk.post(f"/asks/{ask['id']}/claim", json={})
        if claimed.is_error:
            continue  # its episode has ended meanwhile
        lease: Mapping[str, Any] = claimed.json()
        body = {"lease_token": lease["lease_token"], "text": answer(ask["question"]), "nonce": f"note-{ask['id']}"}
        desk.post(f"/assignments/{lease['assignment']}/answer", json=body).raise_for_status()


def answer_of(worlds: Sequence[World]) -> Callable[[str], str]:
    """Return an expert who knows all of these desks."""

    def answer(question: str) -> str:
        return next((said for world in worlds if (said := world.answer(question)) != NO_ONE), NO_ONE)

    return answer
