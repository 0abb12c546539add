"""Reads: which episodes read the same answer, so that they are not independent. Called by `comparison`, `forks` and
`campaigns`."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection

from django.db.models import QuerySet

from experts.models import NONCE_OF_PRESS, Ask


def shared(asks: QuerySet[Ask]) -> dict[str, set[str]]:
    """Return names of the answers that were read, by episode: equal for an answer to a group or from the cache, for
    answers of one press, and for all answers that were edited from one earlier answer."""
    read = asks.filter(accepted__isnull=False).exclude(accepted__source="fallback")
    columns = (
        "pk",
        "episode_id",
        "group",
        "accepted_id",
        "accepted__author_key",
        "accepted__nonce",
        "accepted__text",
        "accepted__taken_from_id",
    )
    rows = list(read.values_list(*columns))
    # only who answered several asks in one press wrote the ID of one behind the nonce
    presses = {(author, nonce.removesuffix(f"/{pk}")) for pk, _, _, _, author, nonce, *_ in rows if f"/{pk}" in nonce}
    by_episode: dict[str, set[str]] = defaultdict(set)
    for pk, episode, group, advice, author, nonce, text, before in rows:
        same = hashlib.sha256(f"{author}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()
        # An answer to a group is a row for each ask, so group, author and text name it.
        # One that was written on from an earlier answer has the earlier one's name as well.
        by_episode[episode] |= {f"{group} {same}", *(name for name in (advice, before) if name)}
        if (press := (author, nonce.removesuffix(f"/{pk}")[:NONCE_OF_PRESS])) in presses:
            by_episode[episode].add(" ".join(press))
    return by_episode


def of_branches(branches: Collection[str]) -> dict[str, set[str]]:
    """Return names of the answers that each branch of a fork read behind its step."""
    return shared(Ask.objects.filter(episode__in=branches))
