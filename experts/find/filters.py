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
    FREE,
    HELD,
    LOOKS,
    MINE,
    MODEL,
    PASSED,
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
    "deadline": QueueOrder("deadline", lambda one: (not one.for_people, one.deadline_at, -one.priority)),
    "turn": QueueOrder("claim order"),
    "oldest": QueueOrder("longest wait", lambda one: one.created_at),
    "newest": QueueOrder("newest", lambda one: -one.created_at.timestamp()),
    "priority": QueueOrder("priority", lambda one: (-one.priority, one.deadline_at)),
}

VALUES: dict[str, Callable[[Spot], Sequence[str | None]]] = {
    "tier": lambda one: (one.tier,),
    "skill": lambda one: one.skills,
    "run": lambda one: (one.run_id,),
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
        given = {name: query.get(name, "")[:200] for name in ("q", *VALUES, "group")}
        show, sort = query.get("show", ""), query.get("sort", "")
        return cls(
            **given,
            show=show if show in SHOWS else "all",
            sort=sort if sort in SORTS else "deadline",
            page=number_in(query.get("page"), PAGES_MAX) or 1,
        )

    def query(self, **other: Any) -> str:
        """Return the query string with these changes. Another view starts at its first page."""
        said = {**asdict(self), "page": 1, **other}
        plain = asdict(QueueQuery())
        return "?" + urlencode({name: value for name, value in said.items() if value != plain[name]})

    @property
    def filters(self) -> int:
        """The number of set filters, without facet and search."""
        return sum(bool(getattr(self, name)) for name in (*VALUES, "group"))

    @property
    def narrows(self) -> bool:
        return self.query(sort=QueueQuery.sort) != "?"


def matching(actor: Actor, found: list[Spot], wish: QueueQuery, now: datetime) -> list[Spot]:
    """Return the open asks that match, in the requested order."""
    # sizes of all open asks, also of those that the filters leave out
    sizes = Counter(one.family for one in found)
    some = [one for one in found if _belongs(one, wish.show, sizes) and _passes(one, wish)]
    if wish.q:
        saying = _saying(actor, now, wish.q)
        some = [one for one in some if one.pk in saying]
    return sorted_by(some, wish.sort)


def _belongs(one: Spot, show: str, sizes: Counter[str]) -> bool:
    match show:
        case "unclaimed":
            return one.for_people and one.place not in (MINE, HELD)
        case "mine":
            return one.place == MINE
        case "forme":
            return one.place in (MINE, FREE)
        case "model":
            return not one.for_people
        case "grouped":
            return sizes[one.family] > 1
    return True


def _passes(one: Spot, wish: QueueQuery) -> bool:
    wanted = (
        *((wish.tier, one.tier), (wish.run, one.run_id), (wish.arm, one.arm)),
        *((wish.sight, one.privilege), (wish.group, one.family), (wish.kind, one.kind)),
        (wish.source, one.source),
    )
    return all(not want or want == has for want, has in wanted) and (not wish.skill or wish.skill in one.skills)


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


def groups(some: Iterable[Spot], found: Iterable[Spot], *, alone: bool = False) -> list[list[Spot]]:
    """Group asks with the same question or equal calls at the position of the first; the ask this person can act on
    comes first."""
    families: dict[str, list[Spot]] = {}
    for one in found:
        families.setdefault(one.family, []).append(one)
    if alone:
        return [[one] for one in some]
    seen: dict[str, list[Spot]] = {}
    for one in some:
        # the whole group, also asks that the filters leave out: one answer serves all of them
        seen.setdefault(one.family, families[one.family])
    return [sorted(family, key=_rank) for family in seen.values()]


def _rank(one: Spot) -> int:
    return [MINE, FREE, LOOKS, HELD, PASSED, SKILL, SENIOR, MODEL].index(one.place)


def facets(found: list[Spot], wish: QueueQuery) -> list[tuple[str, str, int, str]]:
    """Return name, label, count and address of each facet. Counts and addresses keep the other filters."""
    sizes = Counter(one.family for one in found)
    left = [one for one in found if _passes(one, wish)] if wish.filters else found
    counts = {show: sum(_belongs(one, show, sizes) for one in left) for show in SHOWS}
    return [(show, words, counts[show], wish.query(show=show)) for show, words in SHOWS.items()]


def choices(found: list[Spot], wish: QueueQuery) -> list[tuple[str, str, str, list[tuple[str, str]]]]:
    """Return the filters of the open asks.

    Each has name, label, selected value and values with their counts under the other filters. A filter that would
    narrow nothing is left out, unless it is set.
    """
    sizes = Counter(one.family for one in found)
    shown = [one for one in found if _belongs(one, wish.show, sizes)] if wish.show != QueueQuery.show else found
    runs = {one.run_id: clean(one.run) for one in found if one.run_id}
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
    known = [(value, f"{called.get(value, clean(value))} ({count})") for value, count in sorted(counts.items())]
    if chosen and chosen not in counts:
        known.append((chosen, f"{called.get(chosen, clean(chosen))} (0)"))
    return name, words, chosen, known
