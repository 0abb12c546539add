"""Whether an actor sees an outcome now, and every read of outcomes on behalf of one.

The only module through which pages, fragments, counts, filters, the API and sockets read outcomes; `outcomes.py` has
the queries. Agents see none. A reviewer who has to judge an episode blind sees none of that episode until their
verdict: to them it is an episode without an outcome, which no filter by outcome matches and no count holds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, TypeVar

from django.db.models import Exists, OuterRef, QuerySet

from episodes.errors import BlindReview
from episodes.models import Episode, Origin, OutcomeHold, OutcomeQuerySet, Step, StepKind, VerifierOutcome
from episodes.stored import outcomes
from people.access import Actor, sees_outcomes

Rows = TypeVar("Rows", bound=QuerySet[Any])


def sees_outcome(actor: Actor, episode: Episode | str) -> bool:
    """Return the one answer to: may this actor see this episode's outcome, now?"""
    return sees_outcomes(actor) and not _holds(actor).filter(episode=episode).exists()


def is_withheld(actor: Actor, episode: Episode) -> bool:
    """Return whether it is withheld for a blind review, so that a page can say so; an agent gets no word of it."""
    return sees_outcomes(actor) and not sees_outcome(actor, episode)


def is_held_from(person: str, episode: Episode | str) -> bool:
    """Return whether it is withheld from the actor of this key for a blind review: for notices, which have no actor."""
    return OutcomeHold.objects.filter(actor_key=person, episode=episode).exists()


def withheld(actor: Actor, episodes: Collection[str]) -> set[str]:
    """Return those of these episodes whose outcome this actor does not see."""
    if not sees_outcomes(actor):
        return set(episodes)
    return set(_holds(actor).filter(episode__in=episodes).values_list("episode_id", flat=True))


def with_open_outcome(actor: Actor, rows: Rows, path: str = "pk") -> Rows:
    """Filter rows to those whose episode's outcome this actor sees: for filters by outcome, orders by it, and exports
    of it.
    """
    if not sees_outcomes(actor):
        return rows.none()
    return rows.exclude(Exists(_holds(actor).filter(episode=OuterRef(path))))


def held(actor: Actor) -> set[str]:
    """Return all episodes whose outcome is withheld from this actor for a blind review."""
    return set(_holds(actor).values_list("episode_id", flat=True))


def withheld_here(actor: Actor) -> int:
    """Return of how many episodes of the project the outcome is withheld from this actor for blind reviews."""
    if not sees_outcomes(actor):
        return 0
    held = _holds(actor).filter(episode__project=actor.project).exclude(episode__origin=Origin.BRANCH)
    return held.values("episode").distinct().count()


def refuse_while_blind(actor: Actor, run: str = "") -> None:
    """Raise while an outcome of the project, or only of a run, is withheld from this actor: for files and pages that
    show outcomes of many."""
    held = _holds(actor).filter(episode__project=actor.project)
    if (held.filter(episode__run=run) if run else held).exists():
        raise BlindReview


def judges_its_task(actor: Actor, episode: Episode) -> bool:
    """Return whether outcomes of an episode of this one's task are withheld from this actor for a blind review."""
    if episode.scenario and episode.task_idx is not None:
        return judges_blind(actor, episode.scenario, episode.task_idx)
    return _holds(actor).filter(episode__project=actor.project, episode__task=episode.task).exists()


def judges_blind(actor: Actor, scenario: str, task_idx: int) -> bool:
    """Return whether outcomes of an episode of this task are withheld from this actor for a blind review."""
    of_task = {"episode__scenario": scenario, "episode__task_idx": task_idx}
    return _holds(actor).filter(episode__project=actor.project, **of_task).exists()


def was_informed(path: str = "pk", kinds: Collection[str] = (StepKind.ASK, StepKind.BRIEFING)) -> Exists:
    """Filter to rows whose episode got words from someone who knew the verifier or outcomes, in such steps."""
    asked = Step.objects.filter(episode=OuterRef(path), kind__in=kinds)
    # bodies are text, written without spaces after a colon
    return Exists(asked.filter(body__contains='"privilege":"sees_verifier"'))


def _holds(actor: Actor) -> QuerySet[OutcomeHold]:
    return OutcomeHold.objects.filter(actor_key=actor.key)


def of_episode(actor: Actor, episode: Episode | str) -> VerifierOutcome | None:
    return outcomes.of_episode(episode) if sees_outcome(actor, episode) else None


def by_source(actor: Actor, episode: Episode) -> dict[str, VerifierOutcome]:
    return outcomes.by_source(episode) if sees_outcome(actor, episode) else {}


def of_episodes(actor: Actor, episodes: Iterable[str]) -> OutcomeQuerySet:
    """Return outcomes of all sources, the oldest first."""
    return with_open_outcome(actor, outcomes.of_episodes(episodes), "episode_id")


def of_project(actor: Actor) -> OutcomeQuerySet:
    """Return the outcomes in the actor's project that awmweb's own worker got."""
    return with_open_outcome(actor, outcomes.of_project(actor.project), "episode_id")


def verdicts_of(actor: Actor) -> OutcomeQuerySet:
    """Return the outcomes that count in a rate."""
    return with_open_outcome(actor, outcomes.verdicts_of(actor.project), "episode_id")


def verdict_types(actor: Actor, episodes: Iterable[str]) -> dict[str, str]:
    """Return reward types by episode, of outcomes that count in a rate."""
    rows = with_open_outcome(actor, outcomes.of_episodes(episodes).verdicts(), "episode_id")
    return dict(rows.values_list("episode_id", "reward_type"))
