"""What TRL calls for each step: all rollouts together, each with its episode, its asks and its outcome at awmweb."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from awmclient.client import HttpDashboard
from awmclient.collecting import CollectingDashboard
from awmclient.rollout import rollout
from awmclient.schema import NOT_COUNTED, NextTask
from awmenv.batches import EnvironmentBatch
from awmenv.client import EnvironmentClient
from examples.batches import Batches, Continued, Generate
from examples.grpo.turns import Chat, Drawn, TokenPolicy


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


class Narrow:
    """A world as a level of the curriculum shows it: with some of its tools."""

    def __init__(self, world: EnvironmentClient, tools: Sequence[str]) -> None:
        self._world, self._tools = world, tools

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)

    async def list_tools(self) -> list[Any]:
        return [tool for tool in await self._world.list_tools() if tool.name in self._tools]


class Rollouts:
    """TRL's `rollout_func`. The curriculum says what is run: prompts of the dataset only count the groups."""

    def __init__(self, place: Place, run: str, chat: Chat, generate_with: Callable[[Any], Generate]) -> None:
        self._place, self._run, self._chat, self._generate_with = place, run, chat, generate_with
        self.step, self.mean = 0, 0.0

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        group = trainer.num_generations
        self.step = trainer.state.global_step + 1
        draw = Batches(self._generate_with(trainer))
        groups = asyncio.run(self._groups(len(prompts) // group, group, draw))
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
            "episode": [one.episode for one in played],
        }

    async def _groups(self, count: int, group: int, draw: Batches) -> list[list[Drawn]]:
        async with (
            HttpDashboard(self._place.url, self._place.token) as http,
            EnvironmentBatch(self._place.environment_url) as batch,
        ):
            dash = CollectingDashboard(http)
            coming = await http.next_tasks(count, run=self._run, seed=self.step)
            if coming.ratio.group_size != group:
                raise ValueError(f"The run's group has {coming.ratio.group_size} rollouts, the trainer's {group}.")
            experts = ["plain"] * coming.ratio.expert + ["off"] * coming.ratio.solo
            about = {"run": self._run, "training_step": self.step, "split": "train"}

            async def played(task: NextTask) -> list[Drawn]:
                level = {"tools": task.tools, "hint": task.hint, "max_steps": task.max_steps}
                where = {"scenario": task.scenario, "task_idx": task.task_idx, **level, **about}
                some = (play(self._place, self._chat, dash, batch, draw, expert=expert, **where) for expert in experts)
                return list(await asyncio.gather(*some))

            return list(await asyncio.gather(*map(played, coming.tasks)))


async def play(
    place: Place,
    chat: Chat,
    dash: CollectingDashboard,
    batch: EnvironmentBatch,
    draw: Callable[[list[int]], Awaitable[Continued]],
    *,
    scenario: str | None,
    task_idx: int | None,
    tools: Sequence[str] | None = None,
    hint: str | None = None,
    max_steps: int | None = None,
    **about: Any,
) -> Drawn:
    """Play one episode, and return its tokens with what the verifier said. `about` goes to `rollout`."""
    policy = TokenPolicy(chat, draw, place.longest)
    drawn = policy.drawn

    async def verdict(world: EnvironmentClient, answer: str | None) -> None:
        found = await world.verify(answer)  # over the control channel, which the policy never sees
        if found.reward_type not in NOT_COUNTED:
            drawn.reward = float(found.reward_type == "complete")

    limits = {"max_steps": max_steps or place.max_steps, "timeout_s": place.timeout_s}
    async with batch.client() as world:
        words = (await world.reset(scenario=scenario, task_idx=task_idx)).task
        done = await rollout(
            policy, Narrow(world, tools) if tools is not None else world, dash,
            task=f"{words}\n\n{hint}" if hint else words, on_end=verdict, verify=True, scenario=scenario,
            task_idx=task_idx, ask_deadline_s=place.ask_deadline_s, **limits, **about,
        )  # fmt: skip
    drawn.episode = done.episode or ""
    if done.fault not in (None, "policy"):
        drawn.reward = None
    return drawn


def settled(group: Sequence[Drawn]) -> list[Drawn]:
    """Return the group as TRL can take it: what has no outcome gets the mean of the others, which is no advantage, and
    an empty mask, which is no loss."""
    counted = [one.reward for one in group if one.reward is not None]
    for one in group:
        if one.reward is None:
            one.reward, one.mask = (fmean(counted) if counted else 0.0), [0] * len(one.ids)
    longest = max((one.prompt for one in group), key=len)
    for one in group:
        if not one.prompt or not one.ids:  # it ended before the first turn
            one.prompt, one.ids, one.mask, one.logps = list(longest or [0]), [0], [0], [0.0]
    return list(group)


def reward(completions: Sequence[Any], reward: Sequence[float], **_: Any) -> list[float]:
    """Return what the verifier said; TRL hands lists of the rollouts to reward functions by their names."""
    return list(reward)
