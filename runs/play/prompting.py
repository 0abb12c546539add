"""A prompt to continue an ended episode from a step, for loops whose world awmweb cannot restore.

It is no fork: nothing is made, and what comes of it is an episode of its own.

Owns what the prompt holds: what the agent had read before its choice. Leaves where an agent chose to `forking`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from awmclient.nouns.kinds import is_ask, is_call, is_message, is_said, is_verification
from awmclient.words.conversation import messages
from episodes.errors import BlindReview
from episodes.models import Episode
from episodes.visible import trajectory, visibility
from episodes.visible.lens import MODEL
from people.access import Actor, may_launch, visible_or_404
from people.errors import AppError
from runs.errors import NotForkable, StillLive
from runs.play import forking


@dataclass(frozen=True)
class BranchPrompt:
    """The task, the tools and the messages before a step, ready for a chat endpoint. `why` says why the episode cannot
    be forked, or is empty; `privilege` is what those knew whose words are in the messages."""

    episode: str
    step: int
    task: str
    tools: list[Any]
    messages: list[dict[str, Any]]
    privilege: str
    why: str


def prompt_at(actor: Actor, episode_id: str, seq: int) -> BranchPrompt:
    """Return the prompt before a step of an ended episode. Raises `StillLive`, `NotForkable` for a step at which the
    agent chose nothing, or `BlindReview` for who judges its task blind."""
    may_launch(actor)
    episode = visible_or_404(Episode.every.select_related("project"), actor, episode_id)
    if episode.is_live:
        raise StillLive
    if episode.steps_erased_at is not None:
        raise NotForkable("A retention rule erased the words of its steps.")
    if not visibility.sees_outcome(actor, episode) or visibility.judges_its_task(actor, episode):
        raise BlindReview
    steps = [step for step in trajectory.steps_of(episode, lens=MODEL) if not is_verification(step)]
    has_turn = any(step["seq"] == seq and step.get("turn") is not None for step in steps)
    cut = forking.place_of(episode, seq)[1].cut if has_turn else cut_at(steps, seq)
    before = [step for step in steps if step["seq"] < cut]
    return BranchPrompt(
        episode=episode.pk,
        step=seq,
        task=episode.task,
        tools=episode.tools if isinstance(episode.tools, list) else [],
        messages=_messages(episode, before),
        privilege=forking.knowledge_before(episode, before).value,
        why=_why_no_fork(actor, episode),
    )


def cut_at(steps: Sequence[Mapping[str, Any]], seq: int) -> int:
    """Return the number of the first step that is left out, for a loop that numbers no turns: its agent chooses at each
    call, question and message. Raises `NotForkable`. Pure."""
    step = next((one for one in steps if one["seq"] == seq), None)
    if step is None:
        raise NotForkable(f"The episode has no step {seq}.")
    if not _is_choice(step):
        raise NotForkable(f"Step {seq} is no choice of the agent. Continue from a call, a question or its message.")
    cut = seq
    # what the agent said right before its call is part of the same choice
    for earlier_step in reversed([one for one in steps if one["seq"] < seq]):
        if not is_message(earlier_step) or earlier_step.get("role") != "assistant":
            break
        cut = earlier_step["seq"]
    return cut


def _is_choice(step: Mapping[str, Any]) -> bool:
    return is_said(step) or is_call(step) or is_ask(step)


def _messages(episode: Episode, before: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    history = messages(before)
    if any(one["role"] == "user" for one in history):
        return history
    # a loop need not record the task as a message
    place = next((number for number, one in enumerate(history) if one["role"] != "system"), len(history))
    return [*history[:place], {"role": "user", "content": episode.task}, *history[place:]]


def _why_no_fork(actor: Actor, episode: Episode) -> str:
    try:
        forking.parent_of(actor, episode.pk)
    except AppError as refused:
        return refused.message
    return ""
