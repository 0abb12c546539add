"""Writes: the shaped rewards of each profile for the episodes of runs that have ended, with every component.

A run is paid once all its outcomes are stored, a part at a time, by a separate task, so that a run that fails here
delays no other. A periodic task retries: a lost call or a killed worker costs a delay. Stored rewards never change,
unless a repaired verifier finds another outcome. A profile that is added later reads the record (`rewarding.py`).
"""

from __future__ import annotations

from collections.abc import Collection

from django.db.models import F, Q, QuerySet
from django.utils import timezone

from runs.models import Plan, ShapedReward
from runs.show import rewarding
from runs.show.comparison import is_settled

AT_A_TIME = 1000
"""The number of episodes per call: all their steps are read."""


def unpaid() -> QuerySet[Plan]:
    """Return the runs that ended since they were paid, first ended first."""
    ended = Plan.objects.filter(Q(paid_at=None) | Q(paid_at__lt=F("ended_at")), ended_at__isnull=False)
    return ended.select_related("run__project").order_by("ended_at")


def pay(run_id: str) -> int:
    """Pay the next episodes of a run, if all its outcomes are stored; return how many it paid."""
    plan = unpaid().filter(pk=run_id).first()
    if plan is None or not is_settled(plan):
        return 0
    # taken before the outcomes are read: seeds that end meanwhile are paid by the next call
    now, judged = timezone.now(), rewarding.judged(plan)
    rewards = rewarding.stored(judged)
    missing = [pk for pk in judged.tasks if len(rewards.get(pk, ())) < len(judged.profiles(pk))]
    rows = [
        ShapedReward(
            episode=payment.episode,
            profile=name,
            reference=judged.reference(payment.episode.pk),
            total=reward.total,
            pattern=reward.pattern,
            flags=list(reward.flags),
            components=dict(reward.components),
        )
        for payment in rewarding.paid(missing[:AT_A_TIME], judged)
        for name, reward in payment.rewards.items()
    ]
    ShapedReward.objects.bulk_create(rows, ignore_conflicts=True)  # another worker can pay the same run
    if len(missing) <= AT_A_TIME:
        Plan.objects.filter(pk=plan.pk).update(paid_at=now)
    return min(len(missing), AT_A_TIME)


def forget(episodes: Collection[str]) -> None:
    """Delete the rewards of episodes that got another outcome; the next sweep pays them again."""
    deleted, _ = ShapedReward.objects.filter(episode__in=list(episodes)).delete()
    if deleted:
        Plan.objects.filter(tries__episode__in=list(episodes)).update(paid_at=None)
