"""What TRL calls for each step: all rollouts together, each with its episode, its asks and its outcome at awmweb."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from awmclient.client import HttpDashboard
from awmclient.collecting import CollectingDashboard
from awmclient.rollout import rollout
from awmclient.schema import NextTask, OfferedTools
from awmenv.batches import EnvironmentBatch
from awmenv.client import EnvironmentClient
from examples.batches import Batches, Continued, Generate
from examples.grpo.turns import Chat, Drawn, TokenPolicy
from examples.strategies.plan import Arm, help_of, strategy_of
from runs.rewards import PROFILES, Played


@dataclass(frozen=True)
class Place:
    """Where to play. `token` has the scope *agent*; `longest` bounds the tokens of a rollout, `new_tokens` those of
    one turn, `ask_deadline_s` how long one waits for advice."""

    url: str
    token: str
    environment_url: str
    longest: int = 4096
    new_tokens: int = 512
    max_steps: int = 15
    ask_deadline_s: int = 120
    timeout_s: float = 900.0
    thinking: bool = False


@dataclass(frozen=True)
class Connections:
    """What many rollouts share: `dash` records ended episodes many in one request, and `batch` sends what
    their worlds do in the same moment in one message."""

    place: Place
    http: HttpDashboard
    dash: CollectingDashboard
    batch: EnvironmentBatch


@contextlib.asynccontextmanager
async def connected(place: Place) -> AsyncIterator[Connections]:
    """Connect to a place, for rollouts that run together."""
    async with (
        HttpDashboard(place.url, place.token) as http,
        EnvironmentBatch(place.environment_url) as batch,
    ):
        yield Connections(place, http, CollectingDashboard(http), batch)


class Rollouts:
    """TRL's `rollout_func`. The curriculum says what is run: prompts of the dataset only count the groups.

    The product decides how many of a group may ask, if its curriculum has the rule of the arm. Else the arm decides, by
    the solo rollouts of each scenario in `solo`, which has a row for each step.
    """

    def __init__(self, place: Place, run: str, arm: Arm, chat: Chat, generate_with: Callable[[Any], Generate]) -> None:
        self._place, self._run, self._arm, self._chat, self._generate_with = place, run, arm, chat, generate_with
        self.step, self.mean = 0, 0.0
        self.solo: list[dict[str, dict[str, list[int]]]] = []

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        group = trainer.num_generations
        self.step = trainer.state.global_step + 1
        draw = Batches(self._generate_with(trainer))
        groups = apart(self._groups(len(prompts) // group, group, draw))
        counted = [one.reward for each in groups for one in each if one.reward is not None]
        self.mean = fmean(counted) if counted else 0.0
        played = [one for each in groups for one in settled(each)]
        has_logps = any(value for one in played for value in one.logps)
        return {
            "prompt_ids": [one.prompt for one in played],
            "completion_ids": [one.ids for one in played],
            "logprobs": [one.logps for one in played] if has_logps else None,
            "env_mask": [one.mask for one in played],
            "reward": [one.reward for one in played],
            "lead": [one.lead for one in played],
            "helped": [one.helped for one in played],
            "episode": [one.episode for one in played],
        }

    async def _groups(self, count: int, group: int, draw: Batches) -> list[list[Drawn]]:
        async with connected(self._place) as connections:
            coming = await connections.http.next_tasks(count, run=self._run, seed=self.step)
            if coming.ratio.group_size != group:
                raise ValueError(f"The run's group has {coming.ratio.group_size} rollouts, the trainer's {group}.")
            decided = help_of(self._arm, group, self.solo) if strategy_of(self._arm) is None else None
            about = {"run": self._run, "training_step": self.step, "split": "train", "price": self._arm.price}

            async def played(task: NextTask) -> list[Drawn]:
                offers = decided(str(task.scenario)) if decided else coming.ratio.expert
                level = {"tools": offered_by(task), "hint": task.hint, "max_steps": task.max_steps}
                where = {"scenario": task.scenario, "task_idx": task.task_idx, **level, **about}
                experts = ["plain" if at < offers else "off" for at in range(group)]
                some = (play(connections, self._chat, draw, expert=expert, **where) for expert in experts)
                return list(await asyncio.gather(*some))

            groups = list(await asyncio.gather(*map(played, coming.tasks)))
        self.solo.append({"solo": _solo(coming.tasks, groups)})
        return groups


def offered_by(task: NextTask) -> OfferedTools | None:
    """Return the tools of a task: those of its level, or its own and some others; None for all."""
    return OfferedTools(per_task=0, own=task.tools) if task.tools else task.offered


def _solo(tasks: Sequence[NextTask], groups: Sequence[Sequence[Drawn]]) -> dict[str, list[int]]:
    """Return complete and counted rollouts without an expert, by scenario."""
    found: dict[str, list[int]] = {}
    for task, group in zip(tasks, groups, strict=True):
        counts = found.setdefault(str(task.scenario), [0, 0])
        counted = [one.complete for one in group if not one.helped and one.reward is not None]
        counts[0], counts[1] = counts[0] + sum(counted), counts[1] + len(counted)
    return found


def apart(work: Coroutine[Any, Any, Any]) -> Any:
    """Run it in a thread of its own: in a notebook this one runs an event loop already."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


async def play(
    connections: Connections,
    chat: Chat,
    draw: Callable[[list[int]], Awaitable[Continued]],
    *,
    scenario: str | None,
    task_idx: int | None,
    expert: str = "off",
    price: float = 0.0,
    tools: OfferedTools | None = None,
    hint: str | None = None,
    max_steps: int | None = None,
    **about: Any,
) -> Drawn:
    """Play one episode, and return its tokens with its reward: what the verifier said, less `price` for each ask.
    `about` goes to `rollout`."""
    place = connections.place
    policy, verdicts = TokenPolicy(chat, draw, place.longest), list[str]()
    drawn = policy.drawn

    async def verdict(world: EnvironmentClient, answer: str | None) -> None:
        verdicts.append(str((await world.verify(answer)).reward_type))  # over the control channel, which no policy sees

    limits = {"max_steps": max_steps or place.max_steps, "timeout_s": place.timeout_s}
    async with connections.batch.client() as world:
        words = (await world.reset(scenario=scenario, task_idx=task_idx)).task
        done = await rollout(
            policy, world, connections.dash, tools=tools,
            task=f"{words}\n\n{hint}" if hint else words, on_end=verdict, verify=True, scenario=scenario,
            task_idx=task_idx, expert=expert, ask_deadline_s=place.ask_deadline_s, **limits, **about,
        )  # fmt: skip
    drawn.episode, drawn.helped = done.episode or "", expert != "off"
    if verdicts and done.fault in (None, "policy"):
        ended = Played(done.steps, verdicts[0], ask_price=price)
        drawn.complete, drawn.reward = ended.is_complete, PROFILES["priced"].pay(ended).total
    return drawn


def settled(group: Sequence[Drawn]) -> list[Drawn]:
    """Return the group as a trainer can take it: compared are rollouts that had the same offer of help. What has no
    outcome gets the mean of the others, which is no lead, and an empty mask, which is no loss."""
    for offer in (False, True):
        part = [one for one in group if one.helped is offer]
        counted = [one.reward for one in part if one.reward is not None]
        mean = fmean(counted) if counted else 0.0
        for one in part:
            if one.reward is None:
                one.reward, one.mask = mean, [0] * len(one.ids)
            one.lead = one.reward - mean
    longest = max((one.prompt for one in group), key=len)
    for one in group:
        if not one.prompt or not one.ids:  # it ended before the first turn
            one.prompt, one.ids, one.mask, one.logps = list(longest or [0]), [0], [0], [0.0]
    return list(group)


def lead(completions: Sequence[Any], lead: Sequence[float], **_: Any) -> list[float]:
    """Return what TRL learns from; it hands lists of the rollouts to reward functions by their names."""
    return list(lead)
