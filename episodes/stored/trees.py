"""Reads: how many forks the trees of episodes have. Forks of branches belong to the tree of the episode at its top."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from episodes.models import Episode, Fork


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


def _roots(episodes: Collection[str]) -> dict[str, str]:
    """Return the topmost episode of each of these."""
    roots = {pk: pk for pk in episodes}
    while above := dict(
        Episode.every.filter(pk__in=set(roots.values()), fork__isnull=False).values_list("pk", "fork__parent_id")
    ):
        roots = {pk: above.get(root, root) for pk, root in roots.items()}
    return roots
