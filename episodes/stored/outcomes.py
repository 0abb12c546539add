"""Every read of outcomes: those of verifiers and those that loops reported. `ending` and `admitting` write them.

Called by pages, lists, exports and the expert desk, which decide what an actor can see.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from django.db.models import CharField, ExpressionWrapper, OuterRef, Q

from awmenv.health import Health
from episodes.models import (
    RUN_HERE,
    Episode,
    OutcomeQuerySet,
    VerifierOutcome,
    found_here,
)
from people.access import scoped
from people.models import Project

VERIFIER = VerifierOutcome.Source.VERIFIER
FOUND = found_here() | Q(source=VerifierOutcome.Source.ATTESTED)
"""The outcomes that a curriculum counts: those that awmweb's own worker got, or that an environment
server signed."""


def of_episode(episode: Episode | str) -> VerifierOutcome | None:
    """Return the outcome that awmweb's own worker got."""
    return VerifierOutcome.objects.filter(episode=episode).found_here().first()


def in_force() -> OutcomeQuerySet:
    """Return the outcomes that count, without those that a repaired verifier superseded."""
    return VerifierOutcome.objects.exclude(source=VerifierOutcome.Source.SUPERSEDED)


def by_source(episode: Episode) -> dict[str, VerifierOutcome]:
    """Return the verifier's outcome, and the reported one."""
    return {one.source: one for one in in_force().filter(episode=episode)}


def superseded(episode: Episode | str) -> OutcomeQuerySet:
    """Return the outcomes of an episode that no longer count, the newest first."""
    return VerifierOutcome.objects.filter(episode=episode, source=VerifierOutcome.Source.SUPERSEDED).order_by("-pk")


def first_types(episodes: Iterable[str]) -> dict[str, str]:
    """Return the first reward type of each of these episodes whose outcome was superseded."""
    rows = VerifierOutcome.objects.filter(episode__in=list(episodes), source=VerifierOutcome.Source.SUPERSEDED)
    # the newest first, so that the oldest is the one that stays
    return dict(rows.order_by("-pk").values_list("episode_id", "reward_type"))


def of_outer_episode() -> OutcomeQuerySet:
    """Filter to the episode of the surrounding query."""
    return in_force().filter(episode=OuterRef("pk"))


def found_of_outer_episode() -> OutcomeQuerySet:
    """Return those of `FOUND` of the episode of the surrounding query, by its own origin: a join for each of thousands
    of episodes would cost more than the look-up itself."""
    origin = ExpressionWrapper(OuterRef("origin"), output_field=CharField())
    of_environment = Q(source=VerifierOutcome.Source.REPORTED, origin_of_outer__in=RUN_HERE)
    proved = Q(source__in=[VERIFIER, VerifierOutcome.Source.ATTESTED])
    return of_outer_episode().alias(origin_of_outer=origin).filter(proved | of_environment)


def of_episodes(episodes: Iterable[str]) -> OutcomeQuerySet:
    """Return outcomes of all sources, the oldest first; without superseded ones."""
    return in_force().filter(episode__in=list(episodes)).order_by("pk")


def of_project(project: Project) -> OutcomeQuerySet:
    """Return the outcomes in a project that awmweb's own worker got."""
    return scoped(VerifierOutcome.objects.counted().found_here(), project, "episode__project")


def verdicts_of(project: Project) -> OutcomeQuerySet:
    """Return the outcomes that count in a rate."""
    return scoped(VerifierOutcome.objects.counted().verdicts(), project, "episode__project")


def proved_of(project: Project) -> OutcomeQuerySet:
    """Return the outcomes that count in a curriculum."""
    return scoped(VerifierOutcome.objects.counted().unaided().filter(FOUND), project, "episode__project")


def has_session(session: str) -> bool:
    """Return whether an outcome of this session of an environment server is stored."""
    return VerifierOutcome.objects.filter(session=session).exists()


def named(ids: Collection[int]) -> OutcomeQuerySet:
    return VerifierOutcome.objects.filter(pk__in=ids)


def checks_of(project: Project, scenarios: Collection[str]) -> Iterator[tuple[str, int, str, Health]]:
    """Yield the newest check of the verifier of each task of these scenarios: scenario, number, version, check."""
    rows = scoped(VerifierOutcome.objects.filter(source=VERIFIER), project, "episode__project")
    rows = rows.filter(episode__scenario__in=scenarios, episode__task_idx__isnull=False).exclude(health={})
    task = ("episode__scenario", "episode__task_idx", "episode__scenario_digest")
    for *place, health in rows.order_by(*task, "-pk").distinct(*task).values_list(*task, "health"):
        if (check := Health.from_wire(health)) is not None and not check.unchecked:
            yield (*place, check)
