"""Reads: the queue's filters, search, sort order and groups.

Owns the queue's query string. Leaves the recommended order and states to `eligibility.py`, rows and their texts to
`board.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from django.utils.http import urlencode

from awmclient.nouns.ask_kinds import ASK_KINDS
from experts.models import Ask, Privilege, Tier
from experts.who import eligibility
from experts.who.eligibility import (
    DECIDED,
    FREE,
    HELD,
    LOOKS,
    MINE,
    MODEL,
    PASSED,
    ROLE,
    SENIOR,
    SKILL,
    Spot,
)
from people.access import Actor
from people.requests.forms import number_in
from people.text.plain_text import clean, folded

PAGES_MAX = 99_999
SHOWS = {
    "all": "Open",
    "unclaimed": "Unclaimed",
    "mine": "Mine",
    "forme": "Claimable",
    "model": "Model",
    "grouped": "Grouped",
}


class QueueOrder(NamedTuple):
    """An order of the queue: its label, and the key of an ask; without one they stay in the order of claims."""

    label: str
    key: Callable[[Spot], Any] | None = None


SORTS = {
    # asks for people before those of models
    "deadline": QueueOrder("deadline", lambda spot: (not spot.for_people, spot.deadline_at, -spot.priority)),
    "turn": QueueOrder("claim order"),
    "oldest": QueueOrder("longest wait", lambda spot: spot.created_at),
    "newest": QueueOrder("newest", lambda spot: -spot.created_at.timestamp()),
    "priority": QueueOrder("priority", lambda spot: (-spot.priority, spot.deadline_at)),
}

VALUES: dict[str, Callable[[Spot], Sequence[str | None]]] = {
    "tier": lambda spot: (spot.tier,),
    "skill": lambda spot: spot.skills,
    "run": lambda spot: (spot.run_id,),
    "arm": lambda one: (one.arm,),
    "sight": lambda one: (one.privilege,),
    "kind": lambda one: (one.kind,),
    "source": lambda one: (one.source,),
}


@dataclass(frozen=True)
class QueueQuery:
    """The queue's filters, search and sort order, as in the query string."""

    show: str = "all"
    q: str = ""
    sort: str = "deadline"
    tier: str = ""
    skill: str = ""
    run: str = ""
    arm: str = ""
    sight: str = ""
    kind: str = ""
    source: str = ""
    group: str = ""
    page: int = 1

    @classmethod
    def read(cls, query: Mapping[str, str]) -> QueueQuery:
        """Parse the query string; ignore unknown values."""
        texts = {name: query.get(name, "")[:200] for name in ("q", *VALUES, "group")}
        show, sort = query.get("show", ""), query.get("sort", "")
        return cls(
            **texts,
            show=show if show in SHOWS else "all",
            sort=sort if sort in SORTS else "deadline",
            page=number_in(query.get("page"), PAGES_MAX) or 1,
        )

    def query(self, **other: Any) -> str:
        """Return the query string with these changes. Another view starts at its first page."""
        fields = {**asdict(self), "page": 1, **other}
        plain = asdict(QueueQuery())
        return "?" + urlencode({name: value for name, value in fields.items() if value != plain[name]})

    @property
    def filters(self) -> int:
        """The number of set filters, without facet and search."""
        return sum(bool(getattr(self, name)) for name in (*VALUES, "group"))

    @property
    def narrows(self) -> bool:
        return self.query(sort=QueueQuery.sort) != "?"


def matching(actor: Actor, spots: list[Spot], wish: QueueQuery, now: datetime) -> list[Spot]:
    """Return the open asks that match, in the requested order."""
    # sizes of all open asks, also of those that the filters leave out
    sizes = Counter(one.family for one in spots)
    some = [one for one in spots if _belongs(one, wish.show, sizes) and _passes(one, wish)]
    if wish.q:
        saying = _saying(actor, now, wish.q)
        some = [one for one in some if one.pk in saying]
    return sorted_by(some, wish.sort)


def _belongs(spot: Spot, show: str, sizes: Counter[str]) -> bool:
    match show:
        case "unclaimed":
            # those of others do not wait for this person
            return spot.for_people and spot.place in (FREE, LOOKS)
        case "mine":
            return spot.place == MINE
        case "forme":
            # what they hold is claimed already
            return spot.place == FREE
        case "model":
            return not spot.for_people
        case "grouped":
            return sizes[spot.family] > 1
    return True


def _passes(spot: Spot, wish: QueueQuery) -> bool:
    pairs = (
        *((wish.tier, spot.tier), (wish.run, spot.run_id), (wish.arm, spot.arm)),
        *((wish.sight, spot.privilege), (wish.group, spot.family), (wish.kind, spot.kind)),
        (wish.source, spot.source),
    )
    return all(not want or want == has for want, has in pairs) and (not wish.skill or wish.skill in spot.skills)


def _saying(actor: Actor, now: datetime, q: str) -> set[str]:
    """Return open asks with these words in the question, the task or its name."""
    asks = eligibility.open_of(actor, now).select_related("episode")
    texts = asks.only("question", "episode__scenario", "episode__task_idx", "episode__task")
    return {ask.pk for ask in texts if says(ask, q)}


def says(ask: Ask, q: str) -> bool:
    return folded(q) in folded(f"{clean(ask.question)} {ask.episode} {ask.episode.task}")


def sorted_by(some: list[Spot], sort: str) -> list[Spot]:
    key = SORTS[sort].key if sort in SORTS else None
    return sorted(some, key=key) if key is not None else some


def groups(some: Iterable[Spot], spots: Iterable[Spot], *, alone: bool = False) -> list[list[Spot]]:
    """Group asks with the same question or equal calls at the position of the first; the ask this person can act on
    comes first."""
    families: dict[str, list[Spot]] = {}
    for spot in spots:
        families.setdefault(spot.family, []).append(spot)
    if alone:
        return [[one] for one in some]
    seen: dict[str, list[Spot]] = {}
    for spot in some:
        # the whole group, also asks that the filters leave out: one answer serves all of them
        seen.setdefault(spot.family, families[spot.family])
    return [sorted(family, key=_rank) for family in seen.values()]


def _rank(spot: Spot) -> int:
    return [MINE, FREE, LOOKS, HELD, DECIDED, PASSED, SKILL, ROLE, SENIOR, MODEL].index(spot.place)


def facets(spots: list[Spot], wish: QueueQuery) -> list[tuple[str, str, int, str]]:
    """Return name, label, count and address of each facet. Counts and addresses keep the other filters."""
    sizes = Counter(one.family for one in spots)
    left = [one for one in spots if _passes(one, wish)] if wish.filters else spots
    counts = {show: sum(_belongs(one, show, sizes) for one in left) for show in SHOWS}
    return [(show, words, counts[show], wish.query(show=show)) for show, words in SHOWS.items()]


def choices(spots: list[Spot], wish: QueueQuery) -> list[tuple[str, str, str, list[tuple[str, str]]]]:
    """Return the filters of the open asks.

    Each has name, label, selected value and values with their counts under the other filters. A filter that would
    narrow nothing is left out, unless it is set.
    """
    sizes = Counter(one.family for one in spots)
    shown = [one for one in spots if _belongs(one, wish.show, sizes)] if wish.show != QueueQuery.show else spots
    runs = {one.run_id: clean(one.run) for one in spots if one.run_id}
    called: dict[str, dict[str, str]] = {
        "tier": {str(value): word for value, word in Tier.choices},
        "sight": {str(value): word for value, word in Privilege.choices},
        "run": runs,
        "kind": {name: kind.label for name, kind in ASK_KINDS.items()},
    }
    made = []
    for name, words in (
        ("tier", "Tier"),
        ("skill", "Skill"),
        ("run", "Run"),
        ("arm", "Arm"),
        ("sight", "Verifier access"),
        ("kind", "Kind"),
        ("source", "Source"),
    ):
        without: dict[str, Any] = {name: ""}
        other = replace(wish, **without)
        left = [one for one in shown if _passes(one, other)] if other.filters else shown
        values = [value for one in left for value in VALUES[name](one) if value]
        made.append(_choice(name, words, values, called.get(name, {}), getattr(wish, name), len(left)))
    return [choice for choice in made if choice]


def _choice(
    name: str, words: str, values: list[str], called: dict[str, str], chosen: str, total: int
) -> tuple[str, str, str, list[tuple[str, str]]] | None:
    counts = Counter(values)
    if not chosen and not any(count < total for count in counts.values()):
        return None
    options = [(value, f"{called.get(value, clean(value))} ({count})") for value, count in sorted(counts.items())]
    if chosen and chosen not in counts:
        options.append((chosen, f"{called.get(chosen, clean(chosen))} (0)"))
    return name, words, chosen, options
