"""Writes: what the reward profiles pay the episodes of runs that have ended, with every component.

A run is paid once all its outcomes are there, a part at a time, by a task of its own, so that one that cannot be paid
holds up no other. A periodic task calls for them: a call that is lost, or a worker that is killed, costs a delay. What
is stored never changes. A profile that is added later pays by the record (`rewarding.py`).
"""

from __future__ import annotations

from django.db.models import F, Q, QuerySet
from django.utils import timezone

from runs.models import Plan, ShapedReward
from runs.rewards import PROFILES
from runs.show import rewarding
from runs.show.comparison import is_settled

AT_A_TIME = 1000
"""Episodes that one call pays: all their steps are read."""


def unpaid() -> QuerySet[Plan]:
    """Return the runs that ended since they were paid, the first to end first."""
    ended = Plan.objects.filter(Q(paid_at=None) | Q(paid_at__lt=F("ended_at")), ended_at__isnull=False)
    return ended.select_related("run__project").order_by("ended_at")


def pay(run_id: str) -> int:
    """Pay the next episodes of a run, if all its outcomes are there; returns how many it paid."""
    plan = unpaid().filter(pk=run_id).first()
    if plan is None or not is_settled(plan):
        return 0
    now, judged = timezone.now(), rewarding.judged(plan)
    known = rewarding.stored(judged)
    missing = [pk for pk in judged.tasks if len(known.get(pk, ())) < len(PROFILES)]
    rows = [
        ShapedReward(
            episode=one.episode,
            profile=name,
            reference=judged.reference(one.episode.pk),
            total=reward.total,
            pattern=reward.pattern,
            flags=list(reward.flags),
            components=dict(reward.components),
        )
        for one in rewarding.paid(missing[:AT_A_TIME], judged)
        for name, reward in one.rewards.items()
    ]
    ShapedReward.objects.bulk_create(rows, ignore_conflicts=True)  # another worker can pay the same run
    if len(missing) <= AT_A_TIME:
        Plan.objects.filter(pk=plan.pk).update(paid_at=now)
    return min(len(missing), AT_A_TIME)
