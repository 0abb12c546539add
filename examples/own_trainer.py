"""A training loop of your own: awmweb says what to run next and with how much help, the rollouts of a group run
together, and the step is reported. Put your optimizer's step into `update`.

AWMWEB_URL=http://127.0.0.1:8000 AWMWEB_TOKEN=<token of scope agent> AWMENV_URL=http://127.0.0.1:8100
MODEL_URL=<up to /chat/completions> MODEL=<name> PYTHONPATH=. .venv/bin/python examples/own_trainer.py
"""

import asyncio
import os
from statistics import fmean

from awmclient.chat import ChatPolicy
from awmclient.client import HttpDashboard
from awmclient.collecting import CollectingDashboard
from awmclient.rollout import rollout
from awmclient.schema import NextTask
from awmenv.batches import EnvironmentBatch
from awmenv.client import EnvironmentClient

STEPS, TASKS, GROUP = int(os.environ.get("STEPS", "3")), 2, 4


async def play(dash: CollectingDashboard, batch: EnvironmentBatch, task: NextTask, **about: object) -> float:
    """Play one rollout; the reward comes over the control channel, which the policy never sees."""
    rewards: list[float] = []

    async def verdict(world: EnvironmentClient, answer: str | None) -> None:
        rewards.append((await world.verify(answer)).reward or 0.0)

    async with batch.client() as world:
        words = (await world.reset(scenario=task.scenario, task_idx=task.task_idx)).task
        policy = ChatPolicy(os.environ["MODEL_URL"], model=os.environ["MODEL"])
        place = {"scenario": task.scenario, "task_idx": task.task_idx, "max_steps": task.max_steps or 15}
        await rollout(policy, world, dash, task=words, on_end=verdict, verify=True, **place, **about)
    return rewards[0] if rewards else 0.0


def update(groups: list[list[float]]) -> dict[str, float]:
    """Compare each rollout with its group, train on that, and return what to report as losses."""
    advantages = [reward - fmean(group) for group in groups for reward in group]
    return {"mean_advantage_size": fmean(map(abs, advantages))}


async def main() -> None:
    # finished rollouts are recorded, and the worlds stepped, many in one message; who asks an expert is live
    async with (
        HttpDashboard(os.environ["AWMWEB_URL"], os.environ["AWMWEB_TOKEN"]) as http,
        EnvironmentBatch(os.environ["AWMENV_URL"]) as batch,
    ):
        dash = CollectingDashboard(http)
        run = await http.start_run("own trainer", metadata={"curriculum": {"group_size": GROUP}})
        for step in range(1, STEPS + 1):
            coming = await http.next_tasks(TASKS, run=run, seed=step)
            experts = ["plain"] * coming.ratio.expert + ["off"] * coming.ratio.solo
            some = [{"run": run, "training_step": step, "split": "train", "expert": expert} for expert in experts]
            groups = await asyncio.gather(
                *(asyncio.gather(*(play(dash, batch, task, **one) for one in some)) for task in coming.tasks)
            )
            mean = fmean(reward for group in groups for reward in group)
            said = await http.report_step(run, step, losses=update(groups), components={"primary": mean})
            print(f"step {step}: {said.next_phase} next, mean reward {mean:.2f}", flush=True)


asyncio.run(main())
