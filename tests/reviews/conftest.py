"""Episodes with outcomes, and a blind queue over them."""

from __future__ import annotations

import pytest

from awmclient.schema import EpisodeStart, Finish, Outcome, StepBatch
from episodes.models import Episode
from episodes.record import ending, recording
from people.access import Actor, system
from reviews.record import assigning

TOOLS = [
    {
        "name": "update",
        "description": "Change a row",
        "input_schema": {
            "type": "object",
            "properties": {"id": {"type": "integer"}, "status": {"type": "string", "enum": ["open", "shut"]}},
            "required": ["id"],
        },
    }
]


def ended(
    actor: Actor, key: str, found: str = "others", reward: float = 0.0, task_idx: int = 3, row: int = 7, before=()
) -> Episode:
    """An episode of two steps, and those before, that ended, with what its verifier found; without `found`, none
    ran."""
    start = EpisodeStart(key=key, task="Shut ticket 7", scenario="desk_1", task_idx=task_idx, tools=TOOLS)
    episode, _ = recording.start_episode(actor, start)
    said = {"name": "update", "arguments": {"id": row, "status": "open"}, "result": {"note": "row seven"}}
    steps = [*before, {"kind": "message", "role": "assistant", "content": "I shut it."}, {"kind": "tool_call", **said}]
    steps = [{**step, "seq": seq} for seq, step in enumerate(steps, 1)]
    recording.append_steps(actor, episode.pk, StepBatch.model_validate({"steps": steps}).steps)
    ending.finish(actor, episode.pk, Finish(stop_reason="done"))
    if found:
        outcome = Outcome(reward_type=found, reward=reward, details={"why": "zebra-detail"}, source="verifier")
        ending.record_outcome(system(actor.project), episode.pk, outcome)
    return Episode.objects.get(pk=episode.pk)


@pytest.fixture
def episode(ada: Actor) -> Episode:
    return ended(ada, "one")


@pytest.fixture
def queue(ada: Actor):
    return assigning.create_queue(ada, "First look", reviews_required=2)


@pytest.fixture
def review(ada: Actor, queue, episode):
    assigning.fill(ada, queue.pk, Episode.objects.filter(pk=episode.pk))
    return queue.reviews.get()
