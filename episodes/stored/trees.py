"""Reads: how many forks the trees of episodes have, and how their branches went on. Forks of branches belong to the
tree of the episode at its top."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Sequence

from awmclient.nouns.kinds import is_ask, is_call
from episodes.models import Episode, Fork, Step

ACTS = ("role", "content", "name", "arguments", "question")
"""What an agent chose in a step; results, times and IDs are not its own."""


def forks_asked(episodes: Collection[str]) -> dict[str, int]:
    """Return the number of forks in the tree of each of these episodes, by episode."""
    roots = _roots(episodes)
    asked = Counter[str]()
    level = dict(Fork.objects.filter(parent__in=set(roots.values())).values_list("pk", "parent_id"))
    while level:
        asked.update(level.values())
        below = Fork.objects.filter(parent__fork__in=level).values_list("pk", "parent__fork_id")
        level = {pk: level[above] for pk, above in below}
    return {pk: asked[root] for pk, root in roots.items()}


def continuations(branches: Sequence[Episode]) -> dict[str, str]:
    """Return a digest of all that the agent of each branch said and called behind the step at which it was forked, by
    branch; equal ones chose the same. Branches without a step of their own are left out."""
    begins = {branch.pk: branch.branch_seq or 0 for branch in branches}
    digests: dict[str, hashlib._Hash] = {}
    rows = Step.objects.filter(episode__in=begins).order_by("episode", "seq").values_list("episode_id", "seq", "body")
    for pk, seq, body in rows.iterator():
        step = json.loads(body)
        if seq > begins[pk] and (step.get("role") == "assistant" or is_call(step) or is_ask(step)):
            chosen = json.dumps([step["kind"], *(step.get(name) for name in ACTS)])
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
