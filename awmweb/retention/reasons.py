"""Reads: why the rules leave an episode out although it is old enough.

What people or runs are at must not vanish under them: a rule waits until they are done. One function is asked by the
preview, and again by a pass once it has locked the rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from datetime import datetime

from django.db.models import Exists, OuterRef, Q, QuerySet

from episodes.find.held import held_among
from episodes.models import Episode, Rejudging
from episodes.stored.settled import settled
from experts.models import Ask
from imports.models import Trace
from people.models import Project
from people.slots import OPEN
from reviews.models import ReviewSlot
from runs.models import ENDED, CampaignPoint, Plan

HELD = "on legal hold"
IN_WORK = "an export is being built"
Members = Collection[str]


def _live(members: Members, _before: datetime) -> QuerySet[Episode, str]:
    ended = settled().filter(pk=OuterRef("pk"))
    return _every(members).exclude(Exists(ended)).values_list("pk", flat=True)


def _younger(members: Members, before: datetime) -> QuerySet[Episode, str]:
    return _every(members).filter(Q(ended_at__gte=before) | Q(ended_at=None)).values_list("pk", flat=True)


def _asking(members: Members, _before: datetime) -> QuerySet[Ask, str]:
    return Ask.objects.open().filter(episode__in=members).values_list("episode_id", flat=True)


def _running(members: Members, _before: datetime) -> QuerySet[Episode, str]:
    plans = Plan.objects.filter(run=OuterRef("run")).exclude(state__in=ENDED)
    live = Episode.objects.live().filter(run=OuterRef("run"))
    return _every(members).filter(Q(Exists(plans)) | Q(Exists(live)), run__isnull=False).values_list("pk", flat=True)


def _in_review(members: Members, _before: datetime) -> QuerySet[ReviewSlot, str]:
    slots = ReviewSlot.objects.filter(state__in=OPEN, queue__closed_at=None)
    second = slots.filter(review__other__in=members).values_list("review__other_id", flat=True)
    return slots.filter(review__episode__in=members).values_list("review__episode_id", flat=True).union(second)


def _judged(members: Members, _before: datetime) -> QuerySet[Episode, str]:
    task = {name: OuterRef(name) for name in ("project", "scenario", "task_idx")}
    return _every(members).filter(Exists(Rejudging.objects.filter(ended_at=None, **task))).values_list("pk", flat=True)


def _in_campaign(members: Members, _before: datetime) -> set[str]:
    points = CampaignPoint.objects.filter(campaign__made_at=None, campaign__cancelled_at=None)
    roots = points.filter(root__in=members).values_list("root_id", flat=True)
    branches = _every(members).filter(fork__in=points.filter(fork__isnull=False).values("fork"))
    return {*roots, *branches.values_list("pk", flat=True)}


def _beside(members: Members, _before: datetime) -> QuerySet[Episode, str]:
    """Return branches of forks of which another branch is live: their finding is still being counted."""
    live = Episode.every.live().filter(fork=OuterRef("fork"))
    return _every(members).filter(Exists(live), fork__isnull=False).values_list("pk", flat=True)


def _waiting(members: Members, _before: datetime) -> set[str]:
    return {
        str(pk) for pk in Trace.objects.filter(episode__in=members, is_waiting=True).values_list("episode", flat=True)
    }


CHECKS: Mapping[str, Callable[[Members, datetime], Iterable[str]]] = {
    "it or a branch of it has not ended, or waits for its verifier": _live,
    "a branch of it ended later": _younger,
    "an ask of it is open": _asking,
    "its run is going on": _running,
    "another branch of its fork is live": _beside,
    "a review of it is open": _in_review,
    "its task is being judged again": _judged,
    "a campaign makes forks of it": _in_campaign,
    "spans of it are waiting": _waiting,
}
"""The reasons in their order, each with the episodes for which it holds. The first one counts."""


def left_out(project: Project, families: Mapping[str, Set[str]], before: datetime) -> dict[str, str]:
    """Return which of these episodes stay, each with the reason. A family is an episode with its branches."""
    roots = defaultdict[str, list[str]](list)
    for root, members in families.items():
        for member in members:
            roots[member].append(root)
    why = dict.fromkeys(held_among(project, list(families)), HELD)
    for reason, check in CHECKS.items():
        for member in check(list(roots), before):
            for root in roots.get(member, ()):
                why.setdefault(root, reason)
    return why


def _every(members: Members) -> QuerySet[Episode]:
    return Episode.every.filter(pk__in=list(members)).order_by()
