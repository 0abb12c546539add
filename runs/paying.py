"""Writes: what the reward profiles pay the episodes of runs that have ended, with every component.

A run is paid once all its outcomes are there, a part at a time, by a periodic task: a call that is lost, or a worker
that is killed, costs a delay. What is stored never changes. A profile that is added later pays by the record
(`rewarding.py`).
"""

from __future__ import annotations

from django.db.models import F, Q
from django.utils import timezone

from runs import rewarding
from runs.comparison import is_settled
from runs.models import Plan, ShapedReward
from runs.rewards import PROFILES

AT_A_TIME = 1000
"""Episodes that one call pays: all their steps are read."""


def unpaid() -> list[Plan]:
    """Return the runs that ended since they were paid, the first to end first."""
    ended = Plan.objects.filter(Q(paid_at=None) | Q(paid_at__lt=F("ended_at")), ended_at__isnull=False)
    return list(ended.select_related("run__project").order_by("ended_at"))


def pay_ended() -> int:
    """Pay the next episodes of runs that have ended; returns how many it paid."""
    left = AT_A_TIME
    for plan in unpaid():
        if left > 0 and is_settled(plan):
            left -= _pay(plan, left)
    return AT_A_TIME - left


def _pay(plan: Plan, most: int) -> int:
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
        for one in rewarding.paid(missing[:most], judged)
        for name, reward in one.rewards.items()
    ]
    ShapedReward.objects.bulk_create(rows, ignore_conflicts=True)  # another worker can pay the same run
    if len(missing) <= most:
        Plan.objects.filter(pk=plan.pk).update(paid_at=now)
    return min(len(missing), most)
