"""Writes: a fork and its branches, episodes that begin with the first steps of another.

Owns what a branch takes over from its parent, which it never changes. Leaves who can fork, and whether a world can be
restored, to `runs.play.forking`. The copies keep their numbers, so every reader of steps works on a branch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from awmclient.schema import EpisodeStart
from episodes.models import BranchArm, Episode, EpisodeState, Fork, Knowledge, Origin, OutcomeHold, Step
from episodes.record.appending import note
from episodes.record.pictures import copy_uses
from episodes.record.recording import announce, unsaved
from episodes.stored.entries import entry_of
from people.access import Actor, may_launch
from people.record.audit import record

SAME = ("task", "scenario", "task_idx", "scenario_digest", "environment", "tools", "seed", "split", "policy", "expert")
"""What a branch has of its parent's plan. It has no run, no arm and no group: it counts in none."""
COPIED = """
INSERT INTO episodes_step (episode_id, seq, kind, body, cut, at)
SELECT %s, seq, kind, body, cut, at FROM episodes_step WHERE episode_id = %s AND seq < %s AND kind <> 'verification'
"""


@dataclass(frozen=True)
class ArmPlan:
    """The steps with which the branches of an arm begin, after the copied ones, and what is known to their authors. A
    `policy` takes the place of the parent's."""

    arm: BranchArm
    steps: Sequence[Mapping[str, Any]]
    knowledge: Knowledge
    policy: Mapping[str, Any] | None = None


@transaction.atomic
def fork(actor: Actor, made: Fork, cut: int, arms: Sequence[ArmPlan]) -> list[Episode]:
    """Store a fork with its queued branches, as many for each arm as it has tries; the copied steps are those before
    number `cut`."""
    may_launch(actor)
    made.save(force_insert=True)
    record(actor, "episode.forked", made.parent_id, f"step {made.seq}, {made.tries} tries, {made.knowledge}")
    return [_branch(actor, made, cut, arm, number) for arm in arms for number in range(1, made.tries + 1)]


def _branch(actor: Actor, made: Fork, cut: int, plan: ArmPlan, number: int) -> Episode:
    parent, now = made.parent, timezone.now()
    own = [entry_of({**step, "seq": cut + place}, now) for place, step in enumerate(plan.steps)]
    fields = {name: value for name in SAME if (value := getattr(parent, name)) not in (None, "")}
    if plan.policy is not None:
        fields["policy"] = dict(plan.policy)
    start = EpisodeStart(key=f"{made.pk}/{plan.arm}/{number}", **fields)
    branch = unsaved(
        actor,
        start,
        None,
        origin=Origin.BRANCH,
        state=EpisodeState.QUEUED,
        max_steps=parent.max_steps,
        partial=parent.partial,
        # the digest of the final database is its parent's alone
        world={name: value for name, value in parent.world.items() if name != "final"},
        last_seq=cut - 1 + len(own),
        strip=parent.strip[: cut - 1] + "".join(entry.code for entry in own),
        heartbeat_at=now,
        fork=made,
        branch_arm=plan.arm,
        branch_seq=cut,
        knowledge=plan.knowledge,
    )
    branch.save(force_insert=True)
    with connection.cursor() as cursor:
        cursor.execute(COPIED, [branch.pk, parent.pk, cut])
    copy_uses(branch, parent.pk)
    columns = ("seq", "kind", "cut", "at")
    Step.objects.bulk_create(
        Step(episode=branch, body=entry.text, **{name: getattr(entry, name) for name in columns}) for entry in own
    )
    # who has to judge its parent blind learns nothing from it
    holds = OutcomeHold.objects.filter(episode=parent).values("actor_key", "by")
    OutcomeHold.objects.bulk_create(OutcomeHold(episode=branch, **one) for one in holds)
    note(branch, "queued", actor, f"{plan.arm} branch of {parent.pk} from step {made.seq}")
    announce(branch)
    return branch
