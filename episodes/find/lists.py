"""Reads: lists of episodes and runs as the API gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.conf import settings

from awmclient.schema import EpisodeItem, EpisodePage, OutcomeView, RunItem, RunPage
from episodes.find.narrowing import matching
from episodes.find.selection import newest
from episodes.models import Episode, ExpertMode, Run
from episodes.stored import run_sizes
from episodes.visible import visibility
from people.access import Actor, may_read, scoped, sees_outcomes
from people.errors import Invalid

_SAME = (
    *("key", "state", "task_idx", "task", "environment", "expert", "origin", "seed", "training_step", "last_seq"),
    *("created_at", "started_at", "ended_at", "assisted"),
)
_OR_NONE = (
    *("arm", "scenario", "scenario_digest", "split", "policy_kind", "policy_name", "checkpoint", "group_key"),
    *("stop_reason", "fault"),
)
RUN_FILTERS = ("name", "arm", "expert")


def episodes(actor: Actor, filters: Mapping[str, Sequence[str]], cursor: str, limit: int) -> EpisodePage:
    """Return one page of the project's episodes, newest first.

    Raises:
        WrongScope: an agent's token filters by outcome, or by reviews.
        Invalid: a filter, its value or the cursor is unknown.

    """
    may_read(actor)
    # of a row only what the API returns: `tools` alone are most of it
    rows = matching(actor, filters).only("pk", "run_id", *_SAME, *_OR_NONE)
    page, cursor_next = newest(rows, cursor, limit)
    outcomes = _outcomes(actor, page) if sees_outcomes(actor) else None
    return EpisodePage(items=[_item(row, outcomes) for row in page], next=cursor_next)


def _outcomes(actor: Actor, page: Sequence[Episode]) -> dict[str, list[OutcomeView]]:
    by_episode: dict[str, list[OutcomeView]] = {row.pk: [] for row in page}
    rows = visibility.of_episodes(actor, by_episode)
    for episode, reward_type, reward, source in rows.values_list("episode_id", "reward_type", "reward", "source"):
        by_episode[episode].append(OutcomeView(reward_type=reward_type, reward=reward, source=source))
    return by_episode


def _item(row: Episode, outcomes: dict[str, list[OutcomeView]] | None) -> EpisodeItem:
    return EpisodeItem(
        id=row.pk,
        url=settings.AWMWEB_PUBLIC_URL + row.get_absolute_url(),
        run=row.run_id,
        **{name: getattr(row, name) for name in _SAME},
        **{name: getattr(row, name) or None for name in _OR_NONE},
        outcomes=outcomes[row.pk] if outcomes is not None else None,
    )


def runs(actor: Actor, filters: Mapping[str, Sequence[str]], cursor: str, limit: int) -> RunPage:
    """Return one page of the project's runs, newest first, each with its newest episodes counted by state."""
    may_read(actor)
    if unknown := sorted(set(filters) - set(RUN_FILTERS)):
        raise Invalid(f"Unknown filter: {unknown[0]}. Use one of {', '.join(RUN_FILTERS)}.")
    if unknown := sorted(set(filters.get("expert", ())) - set(ExpertMode.values)):
        raise Invalid(f"Unknown filter value: expert={unknown[0]}. Use one of {', '.join(ExpertMode.values)}.")
    # PostgreSQL refuses U+0000 in a parameter, and no stored name contains it
    conditions = {f"{name}__in": [value.replace("\x00", "") for value in values] for name, values in filters.items()}
    page, cursor_next = newest(scoped(Run.objects.filter(**conditions), actor.project), cursor, limit)
    counts = run_sizes.states_of([run.pk for run in page])
    return RunPage(items=[_run_item(run, counts[run.pk]) for run in page], next=cursor_next)


def _run_item(run: Run, counts: dict[str, int]) -> RunItem:
    return RunItem(
        id=run.pk,
        name=run.name,
        key=run.key or None,
        arm=run.arm or None,
        expert=run.expert,
        policy=run.policy,
        metadata=run.metadata,
        created_at=run.created_at,
        episodes=counts,
    )
