"""Reads for pages: the queue as rows, its headline, closed asks, and one ask's page.

Owns the words about waiting, leases and why an ask reached whom. Leaves those about its end to `endings.py`, order and
place to `eligibility.py`, state to `queue.py`, rows to `models.py`. Called by views.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from awmclient.nouns.ask_kinds import ASK_KINDS
from awmclient.nouns.asks import PersonDecision
from episodes.show.decisions import Decided, decision_in_words, on_timeout_in_words, proposed_lines
from episodes.stored.strip import actions_in
from episodes.visible import visibility
from experts.endings import waited
from experts.find.filters import (
    QueueQuery,
    groups,
    matching,
    says,
    sorted_by,
)
from experts.find.reading import NOT_LISTED, asks_of
from experts.metrics.records import waits_for_people
from experts.models import CUT_OFF, LATE, Ask, AskStatus, QuorumDecision, Tier, by_program
from experts.rules.risk import is_high, only_call
from experts.rules.sources import BUILT_IN
from experts.who import advisers, counting, declining, eligibility, policies
from experts.who.advisers import Reach
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
from experts.who.online import Outlook
from people.access import Actor
from people.text.in_words import clock, countdown_level
from people.text.plain_text import clean
from reviews.models import Annotation

ROWS = 25
SAME_SHOWN = 24
CALLS_SHOWN = 2
"""Calls of an approval in its row with their arguments: an agent's texts can be long, and the queue draws itself again
often. Of the others the row has the names."""
NAME_CHARS = 80
CLOSED = 15
SEARCHED = 500
REASONS = {
    "policy": "",  # the default routing needs no reason
    "audit_sample": "audit sample ({chance})",
    "people_free": "capacity available ({chance})",
    "large_group": "many agents asked the same question",
    "registry": "the task's registry answered",
    "model_first": "first; {chance} go to people",
    "budget": "the run's budget for human answers is used up",
    "backpressure": "the expected wait for people is over the limit",
    "people_busy": "people can't answer before the deadline",
    "arm": "this arm uses models only",
    "low_confidence": "low model confidence",
    "llm_asked": "the model asked for a person",
    "fault": "the model failed",
    "human_passed": "every expert online declined",
    "handed": "transferred from the queue",
}
DID = {"approve": "approved", "edit": "edited the arguments", "reject": "rejected"}
ESCALATED = ("low_confidence", "llm_asked", "fault")


@dataclass(frozen=True)
class PeopleNeeded:
    """How many people an approval needs, and what those decided that count."""

    of: int
    role: str
    decided: list[tuple[str, str, datetime, float]]
    """Who, what, when, and how many seconds ago; oldest first."""


def people_needed(ask: Ask, decided: list[PersonDecision] | None, now: datetime) -> PeopleNeeded | None:
    """Return who has decided an approval that needs several people; None for any other ask."""
    if decided is None:
        return None
    lines = [(clean(one.by), DID[one.verdict], one.at, (now - one.at).total_seconds()) for one in decided]
    return PeopleNeeded(ask.quorum_of, ask.quorum_role, lines)


@dataclass
class AskRow:
    """One open ask in a list, with the asks that share its question or its calls below it."""

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
    missing: list[str]
    """Skills that no one has who could answer it."""
    if_declined: str
    """What declining it would lead to."""
    acted: int
    calls: list[Decided] = field(default_factory=list)
    """The first calls of an approval."""
    call_count: int = 0
    people: PeopleNeeded | None = None
    further: list[str] = field(default_factory=list)
    """The names of the calls after those."""
    high_risk: bool = False
    family: str = ""
    source: str = ""
    """Where it comes from; empty for awmweb's own rollouts."""
    others: list[AskRow] = field(default_factory=list)
    alike: int = 1

    @property
    def late(self) -> bool:
        return countdown_level(self.left_s, self.budget_s) == "late"

    @property
    def state(self) -> str:
        return "leased" if self.held else "open"

    @property
    def kind(self) -> str:
        """The word for a typed ask; empty for a question."""
        return ASK_KINDS[self.ask.kind].word

    @property
    def on_timeout(self) -> str:
        return on_timeout_in_words(self.ask.typed) if self.ask.typed else ""

    @property
    def together(self) -> str:
        """The tool whose calls one press can approve together, of an approval of one low-risk call."""
        return "" if self.high_risk else only_call(self.ask.typed)

    @property
    def mine(self) -> bool:
        return self.place == MINE

    @property
    def more(self) -> int:
        """Asks of the group that are not listed."""
        return self.alike - 1 - len(self.others)


@dataclass(frozen=True)
class Reason:
    """A cause why a person cannot claim some open asks, with the holders and lease ends if they are claimed."""

    words: str
    holders: list[tuple[str, datetime]] = field(default_factory=list)


@dataclass(frozen=True)
class Board:
    """The queue as one person sees it."""

    found: list[Spot]
    matching: int
    rows: list[AskRow]
    pages: int
    can_claim: bool
    """Whether "Claim next" would open an ask for this person: one they hold, or a free one of this list."""


@dataclass(frozen=True)
class ClosedRow:
    ask: Ask
    question: str
    by: str
    waited: float


def budget_of(ask: Ask) -> float:
    return (ask.deadline_at - ask.created_at).total_seconds()


def board_of(actor: Actor, now: datetime, wish: QueueQuery) -> Board:
    """1. every open ask, 2. those that match, in the order that is wished, 3. one row for each group,
    4. the rows of one page."""
    spots = eligibility.spots(actor, now, turns=wish.sort == "turn")
    some = matching(actor, spots, wish, now)
    families = groups(some, spots, alone=bool(wish.group))
    page = families[(wish.page - 1) * ROWS : wish.page * ROWS]
    # rounded up
    pages = max(1, -(-len(families) // ROWS))
    return Board(spots, len(some), _rows(actor, page, now), pages, eligibility.next_of(spots, some) is not None)


def front_rows(actor: Actor, now: datetime, room: int) -> tuple[list[Spot], list[AskRow]]:
    """Return the open asks for people, and rows of the first of them."""
    spots = [one for one in eligibility.spots(actor, now) if one.for_people]
    return spots, _rows(actor, groups(sorted_by(spots, QueueQuery.sort), spots)[:room], now)


def next_for(actor: Actor, now: datetime, after: str = "", wish: QueueQuery | None = None) -> Ask | None:
    """Return the ask this person should do next: one they hold, else the first that they can claim.

    In the order and with the filters of `wish`, else in turn. `after` is the ask that they are about to answer.
    """
    turns = wish is None or wish.sort == "turn"
    spots = [one for one in eligibility.spots(actor, now, turns=turns) if one.pk != after]
    listed = matching(actor, spots, wish, now) if wish is not None else spots
    spot = eligibility.next_of(spots, listed)
    return Ask.objects.filter(pk=spot.pk).first() if spot is not None else None


def _rows(actor: Actor, families: list[list[Spot]], now: datetime) -> list[AskRow]:
    # of a large group only the first are drawn, and the others counted
    shown = [one.pk for group in families for one in group[: 1 + SAME_SHOWN]]
    asks = asks_of(actor).filter(pk__in=shown).defer("context", *NOT_LISTED).prefetch_related("declines").in_bulk()
    rows = []
    desk = policies.desk_of(actor.project)
    reach, decided = advisers.reach_of(actor.project, now, desk), counting.decided_among(asks.values())
    seen = RowReader(actor.key, now, desk.high_risk, reach, decided)
    for group in families:
        drawn = [_row(asks[one.pk], one, seen) for one in group[: 1 + SAME_SHOWN] if one.pk in asks]
        if drawn:
            drawn[0].others, drawn[0].alike = drawn[1:], len(group)
            rows.append(drawn[0])
    return rows


@dataclass(frozen=True)
class RowReader:
    """What the rows of a list have in common: their reader, the moment, and who can answer."""

    me: str
    now: datetime
    high_risk: str
    reach: Reach
    decided: dict[str, list[PersonDecision]]


def _row(ask: Ask, spot: Spot, seen: RowReader) -> AskRow:
    calls, now, high_risk = (ask.typed or {}).get("calls") or [], seen.now, seen.high_risk
    declines = list(ask.declines.all())
    declined = [one.author for one in declines]
    return AskRow(
        ask=ask,
        place=spot.place,
        question=clean(ask.question),
        budget_s=budget_of(ask),
        left_s=(ask.deadline_at - now).total_seconds(),
        waited_s=(now - ask.created_at).total_seconds(),
        held=spot.held(now),
        may_claim=spot.place == FREE,
        family=spot.family,
        source="" if spot.source == BUILT_IN else spot.source,
        reached=reached(ask, spot.held(now)),
        declined=f"Declined by {', '.join(declined[:2])}." if declined and spot.place != PASSED else "",
        lacks=spot.lacks,
        missing=seen.reach.missing(ask.skills) if spot.for_people else [],
        if_declined=declining.before(ask, seen.me, seen.reach, {one.author_key for one in declines}, now),
        acted=actions_in(ask.episode.strip[: ask.seq]),
        calls=proposed_lines(calls[:CALLS_SHOWN]),
        call_count=len(calls),
        people=people_needed(ask, seen.decided.get(ask.pk), now),
        further=[clean(call["name"])[:NAME_CHARS] for call in calls[CALLS_SHOWN:]],
        high_risk=any(is_high(high_risk, call["name"]) for call in calls),
    )


def reached(ask: Ask, held: bool = False) -> str:
    """Return which tier an ask is routed to and why: "People: audit sample (5%)."; empty for the default routing."""
    if ask.handed_to:
        why = "" if ask.tier_reason == "handed" else clean(ask.tier_reason).rstrip(" .")
        return f"For {clean(ask.handed_to_name)}{f': {why}' if why else ''}."
    template = REASONS.get(ask.tier_reason)
    why = template.format(chance=percent(ask.chance)) if template is not None else clean(ask.tier_reason)
    if ask.tier == Tier.PEOPLE and ask.tier_reason == "policy":
        return ""
    if ask.tier == Tier.PEOPLE and ask.tier_reason in ESCALATED:
        return f"Escalated: {why}."
    who = {Tier.PEOPLE: "People", Tier.SENIOR: "Senior"}.get(Tier(ask.tier), "Model")
    if who == "Model" and ask.tier_reason == "model_first":
        return f"{'Model is answering' if held else 'Model'} {why}."
    if who == "Model" and held:
        who = "Model is answering"
    return f"{who}: {why}." if why else f"{who}."


def percent(share: float) -> str:
    return "under 1%" if 0 < share < 0.01 else f"{share * 100:.0f}%"


def headline(spots: list[Spot], now: datetime) -> tuple[str, datetime | None]:
    """Return the queue's headline without its time, and the deadline that the page counts down to behind it:
    "3 asks are open, 1 claimed. The next is due in".
    """
    people = [one for one in spots if one.for_people]
    models = len(spots) - len(people)
    if not people:
        return (f"No open asks for people; models have {models}." if models else "No open asks."), None
    claimed = sum(one.held(now) for one in people)
    more = f"; models have {models} more" if models else ""
    first = min(one.deadline_at for one in people)
    if len(people) == 1:
        open_one = "1 ask is open and claimed" if claimed else "1 ask is open"
        return (f"{open_one}{more}. It is due in" if more else f"{open_one}, due in"), first
    part = f", {'all' if claimed == len(people) else claimed} claimed" if claimed else ""
    return f"{len(people):,} asks are open{part}{more}. The next is due in", first


def barred(spot: Spot | None) -> str:
    """Return why this person cannot claim an unclaimed ask, if they can answer asks at all."""
    if spot is None:
        return ""
    if spot.place == SKILL:
        return f"Requires: {', '.join(clean(skill) for skill in spot.lacks)}."
    if spot.place == ROLE:
        return f"Requires the role {spot.quorum_role}."
    if spot.place == DECIDED:
        return "You decided. It needs another person."
    return "Only the senior expert can claim it." if spot.place == SENIOR else ""


def reasons(spots: list[Spot], now: datetime, capacity: int) -> list[Reason]:
    """Return why this person cannot claim some of these asks, one reason for each cause."""
    by: dict[str, list[Spot]] = {}
    for spot in spots:
        by.setdefault(spot.place, []).append(spot)
    count = {place: len(some) for place, some in by.items()}
    working = sum(one.held(now) for one in by.get(MODEL, []))
    lacking = Counter(" and ".join(clean(skill) for skill in one.lacks) for one in by.get(SKILL, []))
    mine = count.get(MINE, 0)
    return [
        *_count_reason(mine, "you have {n} claimed" + (" (the maximum)" if mine >= capacity else "")),
        *([Reason(_counted(len(held), "{n} claimed"), _holders(held))] if (held := by.get(HELD)) else []),
        *_count_reason(count.get(LOOKS, 0), "your role can view asks but not answer"),
        *(Reason(f"{n:,} require{'s' if n == 1 else ''} {skills}") for skills, n in sorted(lacking.items())),
        *_count_reason(count.get(SENIOR, 0), "{n} {is} for the senior expert"),
        *_count_reason(count.get(ROLE, 0), "{n} {is} for another role"),
        *_count_reason(count.get(DECIDED, 0), "{n} you decided {is} for another person"),
        *_count_reason(count.get(PASSED, 0), "you declined {n}"),
        *_count_reason(working, "{n} being answered by a model"),
        *_count_reason(count.get(MODEL, 0) - working, "{n} waiting for a model"),
    ]


def _count_reason(count: int, words: str) -> list[Reason]:
    return [Reason(_counted(count, words))] if count else []


def _counted(count: int, words: str) -> str:
    return words.format(n=count, **{"is": "is" if count == 1 else "are"})


def _holders(held: list[Spot]) -> list[tuple[str, datetime]]:
    return [(one.holder_name, one.lease_until) for one in held if one.lease_until is not None][:5]


def underline(desk: Outlook) -> str:
    """Return "2 people and 1 script are online. Expected wait: about 1:40." With models, what they do comes first. No
    wait is promised that an open ask has already exceeded."""
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
    online = f"{who} {'is' if desk.present == 1 else 'are'} online."
    if desk.expected_wait_s is None:
        return online
    wait = f"about {clock(desk.expected_wait_s)}" if desk.expected_wait_s >= 1 else "under 1 s"
    whom = " for people" if desk.models_first else ""
    return f"{online} Expected wait{whom}: {wait}."


def closed_rows(actor: Actor, q: str = "") -> list[ClosedRow]:
    closed = asks_of(actor).exclude(status=AskStatus.OPEN).defer("context", *NOT_LISTED)
    # the words of a question are in no index: a search looks through more rows to find as many
    asks = [ask for ask in closed.order_by("-closed_at")[: SEARCHED if q else CLOSED] if says(ask, q)][:CLOSED]
    return [ClosedRow(ask, clean(ask.question), _by(ask), waited(ask)) for ask in asks]


def _by(ask: Ask) -> str:
    return ask.accepted.author if ask.accepted and ask.status == AskStatus.ANSWERED else ""


def outcome_of(actor: Actor, ask: Ask) -> str:
    """Return the verifier's outcome; empty before it ran, and while it is withheld from this person."""
    outcome = visibility.of_episode(actor, ask.episode_id)
    return outcome.reward_type if outcome is not None else ""


def _late(ask: Ask) -> QuerySet[Annotation]:
    return Annotation.objects.filter(ask_id=ask.pk, label=LATE).order_by("created_at")


def late_words(ask: Ask) -> list[tuple[str, str, str]]:
    """Return texts sent too late or without the lease, as (author, text, how they were saved)."""
    kept = [(one.author, clean(one.text)) for one in _late(ask)]
    late = [
        (row.author, clean(row.text) or "; ".join(decision_in_words(ask.typed, row.decision)), _why_late(row.reason))
        for row in ask.advice.filter(late=True).order_by("created_at")
    ]
    # an annotation has the suggested calls below the text
    beside = [row for row in late if not any(row[0] == by and text.startswith(row[1]) for by, text in kept)]
    annotation = f"too late; saved as an annotation on step {ask.seq}"
    return [(*row, annotation) for row in kept] + beside


def _why_late(reason: str) -> str:
    if reason == CUT_OFF:
        return "not sent: the ask ended while the answer could still be undone; saved with the ask"
    return "sent without a claim; saved with the ask"


def closed_today(actor: Actor, since: datetime) -> dict[str, Any]:
    """Return counts of asks since midnight, and by when people had answered half of them."""
    answered = Q(status=AskStatus.ANSWERED)
    by_script = by_program("accepted__")
    by_hand = answered & Q(accepted__source="human")
    decided = QuorumDecision.objects.filter(ask=OuterRef("pk"), author_key__in=actor.keys, counts=True)
    counts = (
        asks_of(actor)
        .filter(created_at__gte=since)
        .aggregate(
            asked=Count("pk"),
            answered=Count("pk", filter=answered),
            mine=Count("pk", filter=answered & (Q(accepted__author_key=actor.key) | Q(Exists(decided)))),
            people=Count("pk", filter=by_hand & ~by_script),
            scripts=Count("pk", filter=by_hand & by_script),
            fell_back=Count("pk", filter=Q(status=AskStatus.FELL_BACK)),
            open=Count("pk", filter=Q(status=AskStatus.OPEN)),
        )
    )
    models = counts["answered"] - counts["people"] - counts["scripts"]
    return {**counts, "models": models, "wait": waits_for_people(actor, since, timezone.now())}


def burn_down(today: dict[str, Any]) -> list[tuple[str, str, int, float, float]]:
    """Return today's asks by result as parts of a bar: label, class, count, start and width in percent."""
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
