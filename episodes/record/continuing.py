"""Writes: the link of an episode that goes on from the prompt of another one.

Owns which episode can be named as a parent, and what was known to those whose words are in the prompt. Leaves the
prompt to `runs.play.prompting`. Called by `recording` when an external loop starts an episode.
"""

from __future__ import annotations

from awmclient.nouns.kinds import is_ask, is_briefing
from awmclient.schema import EpisodeStart
from episodes.models import Continuation, Episode, ExpertMode, Knowledge, OutcomeHold, Privilege
from episodes.visible.trajectory import steps_of
from people.access import Actor, visible_or_404
from people.errors import Invalid


def parent_of(actor: Actor, plan: EpisodeStart) -> Episode | None:
    """Return the ended episode that a plan continues, if it names one. Raises `NotFound` or `Invalid`."""
    if plan.parent is None or plan.branch_seq is None:
        return None
    parent = visible_or_404(Episode.every.all(), actor, plan.parent)
    if parent.is_live:
        raise Invalid("parent: the episode has not ended.")
    if parent.steps_erased_at is not None:
        raise Invalid("parent: a retention rule erased the words of its steps.")
    if plan.branch_seq > parent.last_seq:
        raise Invalid(f"branch_seq: the parent has {parent.last_seq} steps.")
    return parent


def knowledge_of(parent: Episode, seq: int) -> Knowledge:
    """Return what those knew whose words are in the prompt before a step. It only rises, as from episode to branch."""
    levels = [parent.knowledge or Knowledge.BLIND]
    sources = [
        step.get("advice") or step
        for step in steps_of(parent)
        if step["seq"] < seq and (is_ask(step) or is_briefing(step))
    ]
    is_informed = any(one.get("privilege") == Privilege.SEES_VERIFIER for one in sources)
    if is_informed or parent.expert == ExpertMode.INFORMED:
        levels.append(Knowledge.SEES_VERIFIER)
    return Knowledge(Knowledge.most(levels))


def link(episode: Episode, parent: Episode, seq: int) -> None:
    """Store where an episode goes on. Who has to judge the parent blind learns nothing from it."""
    Continuation.objects.create(episode=episode, parent=parent, seq=seq)
    holds = OutcomeHold.objects.filter(episode=parent).values("actor_key", "by")
    OutcomeHold.objects.bulk_create(OutcomeHold(episode=episode, **one) for one in holds)


def is_linked(episode: Episode, plan: EpisodeStart) -> bool:
    """Return whether a stored episode goes on where a plan says, or nowhere if it says nothing."""
    stored = Continuation.objects.filter(episode=episode).values_list("parent_id", "seq").first()
    return stored == (None if plan.parent is None else (plan.parent, plan.branch_seq))
