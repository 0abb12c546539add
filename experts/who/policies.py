"""Reads: a project's routing settings, and its expert models.

Owns the values that `rules/routing.py` decides from. Leaves changes to `record/desk.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import QuerySet, Sum

from awmclient.choosing.chat import NO_ANSWER
from episodes.models import Episode
from experts.models import Ask, Assignment, Desk, ModelCall
from experts.rules.routing import RoutingRules
from people.models import Project
from people.slots import SlotState
from people.text.in_words import model_in_words

LOOKS = 20
"""The newest second looks of a model of which the late ones are counted."""


def desk_of(project: Project) -> Desk:
    """Return the desk's settings. A project without a row has the defaults."""
    return Desk.objects.filter(project=project).first() or Desk(project=project)


def desk_read_with(project: Project) -> Desk:
    """Return the settings of a project that was read with its `desk` in this transaction, without another query."""
    return getattr(project, "desk", None) or Desk(project=project)


def undo_s_of(project: Project) -> int:
    """Return how long this project's answers from pages are held."""
    chosen = desk_of(project).undo_s
    return settings.AWMWEB_UNDO_S if chosen is None else chosen


def policy_of(desk: Desk, episode: Episode) -> RoutingRules:
    """Return the desk's settings as a value.

    An arm can narrow which experts its episodes ask: `policy.experts` of the episode.
    """
    shared = ("model_first", "people_while_free", "cache", "audit_share", "low_confidence", "large_group", "seed")
    more = ("per_hour", "per_training_step", "wait_limit_s", "capacity")
    fields: dict[str, Any] = {name: getattr(desk, name) for name in (*shared, *more)}
    # Loops record any JSON as their policy.
    only = episode.policy.get("experts") if isinstance(episode.policy, dict) else ""
    # any other value is a loop's own and narrows nothing
    fields["only"] = only if only in ("people", "models") else ""
    return RoutingRules(**fields, has_senior=desk.senior_id is not None, has_models=bool(settings.EXPERT_ENDPOINTS))


def why_no_model(ask: Ask) -> str:
    """Return why no model can help with an ask; empty if one can."""
    policy = policy_of(desk_of(ask.project), Episode.every.get(pk=ask.episode_id))
    if not policy.has_models:
        return "no expert model is configured"
    if policy.only == "people":
        return "this arm uses people only"
    return "models do not see its pictures" if ask.pictures_digest else ""


def models_may_help(ask: Ask) -> bool:
    return not why_no_model(ask)


def models_may_decide(ask: Ask) -> bool:
    """Return whether an ask can go to a model: one that needs several people cannot."""
    return ask.quorum_of < 2 and models_may_help(ask)


@dataclass(frozen=True)
class ExpertModel:
    """A configured expert model, the result of its last call, and how many of its last second looks came too late."""

    name: str
    asked: str
    """Its name at its endpoint, and its options."""
    base_url: str
    at_work: int
    last: ModelCall | None
    looks: int
    late_looks: int


def expert_models(project: Project, now: datetime) -> list[ExpertModel]:
    """Return the expert models in the order in which they are asked."""
    calls = ModelCall.objects.filter(project=project).order_by("-at")
    return [
        ExpertModel(
            name,
            model_in_words(endpoint.model, endpoint.without_secrets(dict(endpoint.options))),
            endpoint.base_url,
            held_by(f"model:{name}", now),
            calls.filter(model_key=f"model:{name}").first(),
            *_looks(calls.filter(model_key=f"model:{name}", purpose="look")),
        )
        for name, endpoint in settings.EXPERT_ENDPOINTS.items()
    ]


def _looks(calls: QuerySet[ModelCall]) -> tuple[int, int]:
    """Return how many of the newest looks of a model are counted, and how many of them had no answer in time."""
    faults = list(calls.values_list("fault", flat=True)[:LOOKS])
    return len(faults), sum(fault.startswith(NO_ANSWER) for fault in faults)


def held_by(key: str, now: datetime) -> int:
    """Return how many asks this expert has claimed."""
    return Assignment.objects.filter(holder=key, state=SlotState.CLAIMED, lease_until__gt=now).count()


def tokens_spent(project: Project, now: datetime) -> int:
    """Return the tokens that this project's models have used in the last hour."""
    recent = ModelCall.objects.filter(project=project, at__gt=now - timedelta(hours=1))
    return recent.aggregate(total=Sum("tokens"))["total"] or 0


def tokens_are_spent(project: Project, now: datetime) -> bool:
    """Return whether the project's models have used up this hour's tokens."""
    limit = desk_of(project).model_tokens_per_hour
    return limit is not None and tokens_spent(project, now) >= limit
