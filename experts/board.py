"""Reads for pages: the queue as rows, its headline, closed asks, and one ask's page.

Owns the words about waiting, leases and why an ask reached whom. Leaves those about its end to `endings.py`, order and
place to `eligibility.py`, state to `queue.py`, rows to `models.py`. Called by views.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Aggregate, Count, DurationField, F, Q

from episodes.formatting import clock, in_words
from episodes.models import VerifierOutcome
from episodes.strip import actions_in
from experts import eligibility
from experts.availability import Outlook
from experts.eligibility import FREE, HELD, LOOKS, MINE, MODEL, PASSED, SENIOR, SKILL, Spot
from experts.endings import waited
from experts.filters import Wish, groups, matching, says, sorted_by
from experts.models import LATE, TOKEN, Ask, AskStatus, Tier
from experts.reading import NOT_LISTED, asks_of
from people.access import Actor
from people.plain_text import clean

ROWS = 25
TWINS = 24
CLOSED = 15
SEARCHED = 500
REASONS = {
    "policy": "",  # the usual way
    "audit_sample": "audit sample ({chance})",
    "people_free": "they had time ({chance})",
    "large_group": "many ask the same",
    "model_first": "it comes first, {chance} go to people",
    "budget": "the run's human budget is spent",
    "backpressure": "people's wait is above the limit",
    "people_busy": "people could not come in time",
    "arm": "this arm asks models only",
    "low_confidence": "the model was unsure",
    "llm_asked": "the model asked for a person",
    "fault": "the model broke",
    "human_passed": "the people here passed",
    "handed": "handed over from the queue",
}
ESCALATED = ("low_confidence", "llm_asked", "fault")


@dataclass
class AskRow:
    """One open ask in a list, with those that ask the same below it."""

    ask: Ask
    place: str
    question: str
    budget_s: float
    left_s: float
    waited_s: float
    held: bool
    may_claim: bool
    reached: str
    declined: str
    lacks: list[str]
    acted: int
    twins: list[AskRow] = field(default_factory=list)
    alike: int = 1

    @property
    def late(self) -> bool:
        return self.left_s < 0.2 * self.budget_s

    @property
    def state(self) -> str:
        return "leased" if self.held else "open"

    @property
    def mine(self) -> bool:
        return self.place == MINE

    @property
    def more(self) -> int:
        """Asks of the group that have no row."""
        return self.alike - 1 - len(self.twins)


@dataclass(frozen=True)
class Reason:
    """Why a person cannot take so many of the open asks; who holds them until when, if they are leased."""

    words: str
    holders: list[tuple[str, datetime]] = field(default_factory=list)


@dataclass(frozen=True)
class Board:
    """The queue as one person sees it."""

    found: list[Spot]
    matching: int
    rows: list[AskRow]
    pages: int


@dataclass(frozen=True)
class ClosedRow:
    ask: Ask
    question: str
    by: str
    waited: float


def budget_of(ask: Ask) -> float:
    return (ask.deadline_at - ask.created_at).total_seconds()


def board_of(actor: Actor, now: datetime, wish: Wish) -> Board:
    """1. every open ask, 2. those that match, in the order that is wished, 3. one row for each group,
    4. the rows of one page."""
    found = eligibility.spots(actor, now, turns=wish.sort == "turn")
    some = matching(actor, found, wish, now)
    families = groups(some, found, alone=bool(wish.group))
    page = families[(wish.page - 1) * ROWS : wish.page * ROWS]
    return Board(found, len(some), _rows(actor, page, now), max(1, -(-len(families) // ROWS)))


def front_rows(actor: Actor, now: datetime, room: int) -> tuple[list[Spot], list[AskRow]]:
    """The asks that stand before people, and the first rows of them."""
    found = [one for one in eligibility.spots(actor, now) if one.for_people]
    return found, _rows(actor, groups(sorted_by(found, Wish.sort), found)[:room], now)


def next_for(actor: Actor, now: datetime) -> Ask | None:
    """What this person should do next: go on with theirs, else the first in turn that is free for them."""
    spot = eligibility.next_of(eligibility.spots(actor, now, turns=True))
    return Ask.objects.filter(pk=spot.pk).first() if spot is not None else None


def _rows(actor: Actor, families: list[list[Spot]], now: datetime) -> list[AskRow]:
    shown = [one.pk for group in families for one in group[: 1 + TWINS]]
    asks = asks_of(actor).filter(pk__in=shown).defer("context", *NOT_LISTED).prefetch_related("declines").in_bulk()
    rows = []
    for group in families:
        drawn = [_row(asks[one.pk], one, now) for one in group[: 1 + TWINS] if one.pk in asks]
        if drawn:
            drawn[0].twins, drawn[0].alike = drawn[1:], len(group)
            rows.append(drawn[0])
    return rows


def _row(ask: Ask, spot: Spot, now: datetime) -> AskRow:
    declined = [one.author for one in ask.declines.all()]
    return AskRow(
        ask=ask,
        place=spot.place,
        question=clean(ask.question),
        budget_s=budget_of(ask),
        left_s=(ask.deadline_at - now).total_seconds(),
        waited_s=(now - ask.created_at).total_seconds(),
        held=spot.held(now),
        may_claim=spot.place == FREE,
        reached=reached(ask, spot.held(now)),
        declined=f"{', '.join(declined[:2])} passed." if declined and spot.place != PASSED else "",
        lacks=spot.lacks,
        acted=actions_in(ask.episode.strip[: ask.seq]),
    )


def reached(ask: Ask, held: bool = False) -> str:
    """Whom an ask stands before, and why: "People: audit sample (5 %)." """
    known = REASONS.get(ask.tier_reason)
    why = known.format(chance=percent(ask.chance)) if known is not None else clean(ask.tier_reason)
    if ask.tier == Tier.PEOPLE and ask.tier_reason == "policy":
        return "People come first here."
    if ask.tier == Tier.PEOPLE and ask.tier_reason in ESCALATED:
        return f"Escalated: {why}."
    who = {Tier.PEOPLE: "People", Tier.SENIOR: "Senior"}.get(Tier(ask.tier), "Model")
    if who == "Model" and held:
        who = "Model is answering"
    return f"{who}: {why}." if why else f"{who}."


def percent(share: float) -> str:
    return "under 1\u00a0%" if 0 < share < 0.01 else f"{share * 100:.0f}\u00a0%"


def headline(found: list[Spot], now: datetime) -> tuple[str, datetime | None]:
    """ "Three asks are open, one of them leased; models have two more. The first falls back in", and when that is: the
    page counts down."""
    people = [one for one in found if one.for_people]
    models = len(found) - len(people)
    if not people:
        return (f"No ask waits for people; {_models_have(models)}." if models else "No ask is open."), None
    count = f"{in_words(len(people))} {'ask is' if len(people) == 1 else 'asks are'} open"
    part = _leased(sum(one.held(now) for one in people), len(people))
    more = f"; {_models_have(models)} more" if models else ""
    first = "It" if len(people) == 1 else "The first"
    return f"{count}{part}{more}. {first} falls back in", min(one.deadline_at for one in people)


def _models_have(count: int) -> str:
    return f"models have {in_words(count).lower()}"


def _leased(leased: int, total: int) -> str:
    """How many of the open asks somebody is answering already, as the end of a sentence."""
    if not leased:
        return ""
    if leased == total:
        return " and leased" if total == 1 else ", all of them leased"
    return f", {in_words(leased).lower()} of them leased"


def reasons(found: list[Spot], now: datetime, capacity: int) -> list[Reason]:
    """Why none of these, or not more of them, is for this person to take."""
    by: dict[str, list[Spot]] = {}
    for one in found:
        by.setdefault(one.place, []).append(one)
    count = {place: len(some) for place, some in by.items()}
    working = sum(one.held(now) for one in by.get(MODEL, []))
    lacking = Counter(" and ".join(clean(skill) for skill in one.lacks) for one in by.get(SKILL, []))
    mine = count.get(MINE, 0)
    return [
        *_said(mine, "{n} {is} in your hands" + (", as many as one person may hold" if mine >= capacity else "")),
        *([Reason(_counted(len(held), "{n} {is} leased"), _holders(held))] if (held := by.get(HELD)) else []),
        *_said(count.get(LOOKS, 0), "{n} {is} open, and your role may look and not answer"),
        *(Reason(f"{n} need{'s' if n == 1 else ''} {skills}") for skills, n in sorted(lacking.items())),
        *_said(count.get(SENIOR, 0), "{n} {is} for the senior expert"),
        *_said(count.get(PASSED, 0), "you passed on {n}"),
        *_said(working, "a model is at work on {n}"),
        *_said(count.get(MODEL, 0) - working, "{n} {is} next for a model"),
    ]


def _said(count: int, words: str) -> list[Reason]:
    return [Reason(_counted(count, words))] if count else []


def _counted(count: int, words: str) -> str:
    return words.format(n=count, **{"is": "is" if count == 1 else "are"})


def _holders(held: list[Spot]) -> list[tuple[str, datetime]]:
    return [(one.holder_name, one.lease_until) for one in held if one.lease_until is not None][:5]


def underline(desk: Outlook) -> str:
    """ "2 people and 1 script are online. Expected wait: about 1:40." With models, what they do comes first."""
    if desk.models_first:
        return f"Expert models answer first. {_online(desk)}"
    if desk.has_models and not desk.present:
        return "No one is online. Asks wait for someone; a model prepares a draft for the deadline."
    return _online(desk)


def _online(desk: Outlook) -> str:
    if not desk.present:
        return "No one is online. Asks for people wait for someone or for the deadline."
    people = desk.present - desk.scripts
    kinds = ((people, "person", "people"), (desk.scripts, "script", "scripts"))
    who = " and ".join(f"{count} {one if count == 1 else many}" for count, one, many in kinds if count)
    wait = f"about {clock(desk.expected_wait_s)}" if desk.expected_wait_s >= 1 else "under 1 s"
    whom = " for people" if desk.models_first else ""
    return f"{who} {'is' if desk.present == 1 else 'are'} online. Expected wait{whom}: {wait}."


def closed_rows(actor: Actor, q: str = "") -> list[ClosedRow]:
    closed = asks_of(actor).exclude(status=AskStatus.OPEN).defer("context", *NOT_LISTED)
    asks = [ask for ask in closed.order_by("-closed_at")[: SEARCHED if q else CLOSED] if says(ask, q)][:CLOSED]
    return [ClosedRow(ask, clean(ask.question), _by(ask), waited(ask)) for ask in asks]


def _by(ask: Ask) -> str:
    return ask.accepted.author if ask.accepted and ask.status == AskStatus.ANSWERED else ""


def outcome_of(ask: Ask) -> str:
    """What the verifier found, once it has spoken."""
    found = VerifierOutcome.objects.filter(episode=ask.episode_id, source="verifier").order_by("-at")
    return found.values_list("reward_type", flat=True).first() or ""


def late_words(ask: Ask) -> list[tuple[str, str, str]]:
    """Texts that came too late or lost the lease, as (author, text, what they are kept as)."""
    kept = [(one.author, clean(one.text)) for one in ask.annotations.filter(label=LATE).order_by("created_at")]
    late = [(one.author, clean(one.text)) for one in ask.advice.filter(late=True).order_by("created_at")]
    beside = [one for one in late if not any(one[0] == by and text.startswith(one[1]) for by, text in kept)]
    annotation = f"too late, kept with the ask as an annotation of step {ask.seq}"
    return [(*one, annotation) for one in kept] + [(*one, "without the lease, kept with the ask") for one in beside]


class Median(Aggregate):
    """The middle of a column, by PostgreSQL."""

    function = "PERCENTILE_CONT"
    template = "%(function)s(0.5) WITHIN GROUP (ORDER BY %(expressions)s)"
    output_field = DurationField()


def closed_today(actor: Actor, since: datetime) -> dict[str, Any]:
    """Counts and the median wait of what was asked since midnight, in one look."""
    answered = Q(status=AskStatus.ANSWERED)
    by_hand, by_script = answered & Q(accepted__source="human"), Q(accepted__author_key__startswith=TOKEN)
    counts = (
        asks_of(actor)
        .filter(created_at__gte=since)
        .aggregate(
            asked=Count("pk"),
            answered=Count("pk", filter=answered),
            mine=Count("pk", filter=answered & Q(accepted__author_key=actor.key)),
            people=Count("pk", filter=by_hand & ~by_script),
            scripts=Count("pk", filter=by_hand & by_script),
            fell_back=Count("pk", filter=Q(status=AskStatus.FELL_BACK)),
            open=Count("pk", filter=Q(status=AskStatus.OPEN)),
            median=Median(F("closed_at") - F("created_at"), filter=answered),
        )
    )
    wait: timedelta | None = counts.pop("median")
    models = counts["answered"] - counts["people"] - counts["scripts"]
    return {**counts, "models": models, "median": wait.total_seconds() if wait is not None else None}


def burn_down(today: dict[str, Any]) -> list[tuple[str, str, int, float, float]]:
    """What became of the day's asks, as parts of a bar: words, class, count, start and width in percent."""
    closed = today["answered"] + today["fell_back"] + today["open"]
    parts = [
        ("answered by people", "by-people", today["people"]),
        ("answered by scripts", "by-scripts", today["scripts"]),
        ("answered by models", "by-models", today["models"]),
        ("fell back", "fell", today["fell_back"]),
        ("cancelled", "ended", today["asked"] - closed),
        ("open", "left", today["open"]),
    ]
    bar, start = [], 0.0
    for words, css, count in parts:
        width = 100 * count / today["asked"] if today["asked"] else 0.0
        bar.append((words, css, count, round(start, 2), round(width, 2)))
        start += width
    return [part for part in bar if part[2]]
