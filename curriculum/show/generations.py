"""Reads: a few turns of each training step as the model wrote them, beside the rewards of their episodes.

A reward that rises while the text gets worse is being hacked, and only the text shows it. The choice of turns depends
on the run and the step only, so that no one can pick the good ones and all readers see the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q

from awmclient.words.conversation import PromptMessage, as_text, conversation
from curriculum.counting import finished_of
from curriculum.models import TrainingStep
from episodes.models import Episode, ExpertMode, Run
from episodes.stored import outcomes, splits
from runs.rewards import Reward
from runs.show.rewarding import Judged, Paid, paid, references

TURNS = 5
LONGEST = 4000
"""Characters of a turn on the page; the file has the full text."""


@dataclass(frozen=True)
class SampledTurn:
    """One turn of an agent: its text, and its calls as JSON. `of` counts the turns of its episode; if it is 0 there is
    no text. `outcome` is empty if unknown, and `rewards` are then empty too."""

    episode: str
    task: str
    with_expert: bool
    seq: int
    number: int
    of: int
    text: str
    calls: list[str]
    outcome: str
    rewards: dict[str, Reward]

    @property
    def shown(self) -> str:
        return "\n".join([self.text, *self.calls]).strip()[:LONGEST]

    @property
    def is_cut(self) -> bool:
        return len("\n".join([self.text, *self.calls]).strip()) > LONGEST


def of_step(run: Run, training_step: int) -> list[SampledTurn]:
    """Return `TURNS` turns of a step, each of another episode, drawn from its finished rollouts by a hash."""
    rollouts = finished_of(run).filter(training_step=training_step).values_list("pk", flat=True)
    # By a hash, so that neither the trainer nor a reader chooses which turns are seen.
    chosen = sorted(rollouts, key=lambda pk: _draw(training_step, pk))[:TURNS]
    tasks = _tasks(run, chosen)
    proved = outcomes.proved_of(run.project).filter(episode__in=list(tasks))
    verdicts = proved.values_list("episode_id", "source", "reward_type")
    # of several outcomes the last one stays: the verifier's
    types = {pk: said for pk, _, said in sorted(verdicts, key=lambda row: row[1] == outcomes.VERIFIER)}
    judged = Judged({}, tasks, types, references(types, tasks))
    return [_turn(one, tasks[one.episode.pk], types, training_step) for one in paid(chosen, judged)]


def _tasks(run: Run, chosen: Sequence[str]) -> dict[str, str]:
    """Return the tasks of these episodes and of all that can be compared with them, by episode."""
    columns = ("scenario", "task_idx", "task")
    same = Q(pk__in=chosen)
    for scenario, number, text in Episode.objects.filter(pk__in=chosen).values_list(*columns).distinct():
        same |= Q(scenario=scenario, task_idx=number) if scenario and number is not None else Q(task=text)
    rows = finished_of(run).filter(same).values_list("pk", *columns)
    return {pk: splits.task_key(scenario, number, text) for pk, scenario, number, text in rows}


def _turn(payment: Paid, task: str, types: dict[str, str], training_step: int) -> SampledTurn:
    episode = payment.episode
    turns = [said for said in conversation(payment.steps) if said.part == "assistant"]
    place = _draw(training_step, f"{episode.pk}/turn") % len(turns) if turns else 0
    turn = turns[place] if turns else PromptMessage({}, "assistant")
    return SampledTurn(
        episode=episode.pk,
        task=task,
        with_expert=episode.expert != ExpertMode.OFF,
        seq=min((seq for seq in turn.seqs if seq), default=1),
        number=place + 1 if turns else 0,
        of=len(turns),
        text=turn.message.get("content", ""),
        calls=[f"{call['function']['name']} {as_text(call['function']['arguments'])}" for call in _calls(turn)],
        outcome=types.get(episode.pk, ""),
        rewards=payment.rewards,
    )


def _calls(turn: PromptMessage) -> list[dict[str, Any]]:
    return turn.message.get("tool_calls", [])  # type: ignore[no-any-return]


def _draw(training_step: int, name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{training_step}/{name}".encode()).digest()[:8])


def in_lines(run: Run) -> Iterator[str]:
    """Yield a JSON line per turn of each reported step, with the reward components that the trainer reported."""
    for step in TrainingStep.objects.filter(run=run).order_by("training_step"):
        for turn in of_step(run, step.training_step):
            row = {
                "training_step": step.training_step,
                **{name: getattr(turn, name) for name in ("episode", "task", "with_expert", "seq", "text", "calls")},
                "outcome": turn.outcome or None,
                "rewards": {
                    name: {"total": reward.total, "components": reward.components, "flags": list(reward.flags)}
                    for name, reward in turn.rewards.items()
                },
                "reported": step.components,
            }
            yield json.dumps(row, ensure_ascii=False) + "\n"
