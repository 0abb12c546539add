"""A training run of the tests, whose rollouts are recorded as a trainer's loop records them."""

from __future__ import annotations

import itertools
import json

from django.test import Client

from awmclient.schema import EpisodeStart, Finish, RunStart, StepBatch
from episodes.models import VerifierOutcome
from episodes.record import ending, recording
from people.access import bearer, system
from people.record.members import issue_token

numbers = itertools.count()


class Trainer:
    """A loop with an agent's token."""

    def __init__(self, project, **curriculum):
        self.project = project
        token, self.secret = issue_token(system(project), "trainer", "agent")
        self.actor = bearer(token)
        metadata = {"curriculum": curriculum} if curriculum else {}
        needs_launch = {"levels", "reference"} & curriculum.keys()
        starts = system(project) if needs_launch else self.actor
        self.run, _ = recording.start_run(starts, RunStart(name="t-31", metadata=metadata))

    def play(self, step, task="shop/0", *, calls=({},), complete=None, expert="off", finish="done", source="verifier"):
        """One rollout: its calls, or steps of another kind as they are, and what the verifier found of it."""
        scenario, _, number = task.rpartition("/")
        plan = EpisodeStart(
            key=f"r{next(numbers)}", task="Sell.", scenario=scenario, task_idx=int(number), run=self.run.pk,
            training_step=step, expert=expert,
        )  # fmt: skip
        episode, _ = recording.start_episode(self.actor, plan)
        sale = {"kind": "tool_call", "name": "sell", "arguments": {}, "result": 1}
        steps = [call if "kind" in call else {**sale, **call} for call in calls]
        for seq, one in enumerate(steps, 1):
            one = {"seq": seq, **one}
            if "error" in one:
                one.pop("result")
            recording.append_steps(self.actor, episode.pk, StepBatch.model_validate({"steps": [one]}).steps)
        if finish:
            ending.finish(self.actor, episode.pk, Finish(stop_reason=finish))
        if complete is not None:
            said = {"reward_type": "complete" if complete else "others", "reward": float(complete)}
            VerifierOutcome.objects.create(episode=episode, source=source, **said)
        return episode

    def send(self, method, path, body=None, secret=None):
        """A call of the API: its status and its answer."""
        more = {"data": json.dumps(body), "content_type": "application/json"} if body is not None else {}
        headers = {"Authorization": f"Bearer {secret or self.secret}"}
        answer = getattr(Client(), method)(f"/api/v1{path}", headers=headers, **more)
        return answer.status_code, answer.json()

    def report(self, step, **more):
        return self.send("post", f"/runs/{self.run.pk}/steps", {"training_step": step, **more})

    def next(self, n=5, secret=None, **query):
        more = "".join(f"&{name}={value}" for name, value in query.items())
        return self.send("get", f"/curriculum/next?n={n}{more}", secret=secret)
