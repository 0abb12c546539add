"""Reads: how many forks the trees of episodes have, and how their branches went on. Forks of branches belong to the
tree of the episode at its top."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from django.db.models import Count, Max, Q

from awmclient.nouns.kinds import by_agent, is_ask, is_call
from episodes.models import Episode, Fork, Step

ACTS = ("role", "content", "name", "arguments", "question")
"""What an agent chose in a step; results, times and IDs are not its own."""


class AskedFork(NamedTuple):
    """A fork of a tree: when it was made, and when the last of its branches ended, so that it could be read; None while
    one is live. One whose branches were erased was read, for all that is known."""

    pk: str
    made_at: datetime
    read_at: datetime | None


def forks_asked(episodes: Collection[str]) -> dict[str, list[AskedFork]]:
    """Return the forks in the tree of each of these episodes, by episode, in the order in which they were made."""
    roots = _roots(episodes)
    asked: dict[str, list[str]] = {root: [] for root in roots.values()}
    level = dict(Fork.objects.filter(parent__in=asked).values_list("pk", "parent_id"))
    while level:
        for pk, root in level.items():
            asked[root].append(pk)
        below = Fork.objects.filter(parent__fork__in=level).values_list("pk", "parent__fork_id")
        level = {pk: level[above] for pk, above in below}
    rows = Fork.objects.filter(pk__in=[pk for forks in asked.values() for pk in forks]).order_by("created_at", "pk")
    is_live = Q(branches__ended_at=None, branches__isnull=False)
    rows = rows.annotate(end=Max("branches__ended_at"), live=Count("branches", filter=is_live))
    made = [
        AskedFork(pk, made_at, None if live else end or made_at)
        for pk, made_at, end, live in rows.values_list("pk", "created_at", "end", "live")
    ]
    root_of = {pk: root for root, forks in asked.items() for pk in forks}
    of_root: dict[str, list[AskedFork]] = {root: [] for root in asked}
    for fork in made:
        of_root[root_of[fork.pk]].append(fork)
    return {pk: of_root[root] for pk, root in roots.items()}


def continuations(branches: Sequence[Episode]) -> dict[str, str]:
    """Return a digest of all that the agent of each branch said and called behind the step at which it was forked, by
    branch; equal ones chose the same. Branches without a step of their own are left out."""
    begins = {branch.pk: branch.branch_seq or 0 for branch in branches}
    digests: dict[str, hashlib._Hash] = {}
    behind = Step.objects.filter(episode__in=begins, seq__gt=min(begins.values(), default=0))
    for pk, seq, body in behind.order_by("episode", "seq").values_list("episode_id", "seq", "body").iterator():
        # steps that a branch has from its parent are not parsed
        if seq > begins[pk] and by_agent(step := json.loads(body)):
            chosen = json.dumps([is_call(step), is_ask(step), *(step.get(name) for name in ACTS)])
            digests.setdefault(pk, hashlib.sha256()).update(chosen.encode("utf-8", "surrogatepass") + b"\n")
    return {pk: digest.hexdigest() for pk, digest in digests.items()}


def _roots(episodes: Collection[str]) -> dict[str, str]:
    """Return the topmost episode of each of these."""
    roots = {pk: pk for pk in episodes}
    while above := dict(
        Episode.every.filter(pk__in=set(roots.values()), fork__isnull=False).values_list("pk", "fork__parent_id")
    ):
        roots = {pk: above.get(root, root) for pk, root in roots.items()}
    return roots
