"""Reads: the asks of a period, a run or an arm as plain records for `metrics/statistics.py`.

Owns what is read and its limit: the newest asks by an index, the newest of these compared with the agent's next call.
Leaves every metric to `metrics/statistics.py`. Called by the page and the API; never for an agent.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime, time, timedelta
from typing import Any, NamedTuple

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import F, FilteredRelation, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Coalesce, Concat, Extract
from django.db.models.lookups import IsNull
from django.utils import timezone
from django.utils.http import urlencode

from awmclient.nouns.sources import SOURCES
from episodes.models import Episode, Origin, Run, Step, counted_as, found_here
from episodes.stored import run_names
from episodes.visible import visibility
from experts.metrics import statistics
from experts.metrics.adherence import followed, next_call
from experts.metrics.statistics import Asked, Called, Calls, MetricsLine
from experts.metrics.times import Middle
from experts.models import (
    CUT_OFF,
    NONCE_OF_PRESS,
    Advice,
    Ask,
    AskStatus,
    Decline,
    ModelCall,
    QuorumDecision,
    is_program,
)
from people.access import Actor, is_id, may_see_metrics, scoped
from people.models import Project
from people.text.plain_text import clean

NOTE = "Differences between rows are not effects. Asks vary in difficulty; only randomized asks are assigned at random."
MOST = 5_000
"""The newest asks that are counted; the page says if there are more. A share of 5,000 is precise to 1.4 %."""
COMPARED = 1_000
"""How many of their answers are compared with the agent's next call."""
FAR, CALLS = 40, 4
"""How many steps after its question the next call is searched, and how many of them are read at most."""
TOOLSETS = 30
"""Scenarios whose tools are read, to recognize their names in advice."""
CHOICES = 50
LOOKED_THROUGH = 2_000
FAULT_WORDS = 120
TIMES = {"day": ("24 hours", 1), "week": ("7 days", 7), "month": ("30 days", 30), "all": ("All time", None)}


class AskRecord(NamedTuple):
    """One ask, in the order of `COLUMNS`."""

    pk: str
    episode: str
    status: str
    reason: str
    chance: float
    asked_s: float
    waited_s: float
    unread: bool
    source: str | None
    author_key: str | None
    behind: str | None
    author: str | None
    nonce: str | None
    took_s: float | None
    drafted_by: str | None
    kept: float | None
    taken: str | None
    run: str | None
    arm: str
    scenario: str
    task_idx: int | None
    state: str
    fault: str
    assisted: bool
    knowledge: str
    verdict: str | None
    late: list[str]
    passed: list[str]
    quorum: int


COLUMNS = (
    *("pk", "episode_id", "status", "reason", "chance", "asked_s", "waited_s", "unread"),
    *("accepted__source", "accepted__author_key", "accepted__behind", "accepted__author"),
    *("accepted__nonce", "accepted__took_s"),
    *("accepted__drafted_by", "accepted__draft_kept", "accepted__taken_from_id"),
    *("episode__run_id", "episode__arm", "episode__scenario", "episode__task_idx"),
    *("episode__state", "episode__fault", "episode__assisted", "episode__knowledge", "verdict__reward_type"),
    *("late", "passed", "quorum_of"),
)
ANSWER = ("source", "author_key", "behind", "author", "nonce", "took_s", "drafted_by", "kept", "taken")
"""Fields of a record that are of its answer, in the order of `DECIDED`."""
DECIDED = (
    *("advice__source", "advice__author_key", "advice__behind", "advice__author", "advice__nonce", "advice__took_s"),
    *("advice__drafted_by", "advice__draft_kept", "advice__taken_from_id"),
)


@dataclass(frozen=True)
class Look:
    """Which asks are counted, and how the rows are sorted; as in the query string.

    `since` and `until` are days and override `time`. `drawn` keeps only asks whose route was randomized.
    """

    time: str = "week"
    since: str = ""
    until: str = ""
    run: str = ""
    arm: str = ""
    drawn: str = ""
    sort: str = "-asks"

    @classmethod
    def read(cls, query: Mapping[str, str]) -> Look:
        """Parse the query string; ignore unknown values."""
        sort, span = query.get("sort", ""), query.get("time", "")
        days = {name: query.get(name, "") for name in ("since", "until") if _day(query.get(name, "")) is not None}
        texts = {name: query.get(name, "")[:200] for name in ("run", "arm") if is_id(query.get(name, ""))}
        return cls(
            **days,
            **texts,
            time=span if span in TIMES else cls.time,
            drawn="1" if query.get("drawn") == "1" else "",
            sort=sort if sort.removeprefix("-") in statistics.SORTS else cls.sort,
        )

    def query(self, **other: str) -> str:
        """Return the query string with these changes."""
        fields, plain = asdict(replace(self, **other)), asdict(Look())
        return "?" + urlencode({name: value for name, value in fields.items() if value != plain[name]})

    @property
    def narrows(self) -> bool:
        return bool(self.since or self.until or self.run or self.arm or self.drawn)

    def within(self, now: datetime, path: str = "", at: str = "created_at") -> Q:
        """Return the matching asks among rows that reach an ask through `path`. `at` is the time that counts."""
        begin, end = self.span(now)
        conditions: dict[str, Any] = {f"{at}__gte": begin, f"{at}__lt": end}
        conditions |= {f"{path}episode__run_id": self.run or None, f"{path}episode__arm": self.arm or None}
        if self.drawn:
            conditions |= {f"{path}chance__gt": 0, f"{path}chance__lt": 1}
        return Q(**{name: value for name, value in conditions.items() if value is not None})

    def span(self, now: datetime) -> tuple[datetime | None, datetime | None]:
        """Return start and end of the period; None means open."""
        begin, end = _day(self.since), _day(self.until)
        days = TIMES[self.time][1]
        if begin is None and end is None:
            return (now - timedelta(days=days) if days else None), None
        return _midnight(begin), _midnight(end + timedelta(days=1) if end else None)


@dataclass(frozen=True)
class DeskMetrics:
    """All metrics of the page, the file and the API. `more`: older asks exist that are not counted."""

    since: datetime | None
    until: datetime | None
    desk: MetricsLine
    experts: list[MetricsLine]
    arms: list[MetricsLine]
    models: list[Calls]
    more: bool
    compared: int

    @property
    def lines(self) -> list[MetricsLine]:
        return [self.desk, *self.experts, *self.arms]


def metrics_of(actor: Actor, look: Look, now: datetime) -> DeskMetrics:
    """Return all metrics.

    1. Read the asks. 2. Compare with the agents' next calls. 3. Compute the rows of desk, experts, arms and models.
    """
    may_see_metrics(actor)
    rows = _rows(actor, look, now)
    asks = rows[:MOST]
    did = _compared([row for row in asks if row.source and SOURCES[row.source].is_answer and not row.unread][:COMPARED])
    hidden = visibility.withheld(actor, {row.episode for row in asks})
    others = _other_decisions(asks)
    answers = [*asks, *(row for some in others.values() for row in some)]
    together = {_sent_with(row) for row in answers if (row.nonce or "").endswith(f"/{row.pk}")}

    def asked(row: AskRecord) -> Asked:
        return _asked(row, together, did.get(row.pk, ""), row.episode in hidden)

    records = [replace(asked(row), decisions=tuple(map(asked, others.get(row.pk, ())))) for row in asks]
    begin, end = look.span(now)
    return DeskMetrics(
        # if the limit cut the list, the period begins with the oldest ask that is counted
        since=_oldest(asks) if len(rows) > MOST else begin,
        until=end,
        desk=statistics.desk_line(records, name=actor.project.name),
        experts=statistics.sorted_lines(statistics.expert_lines(records, _names(asks)), look.sort),
        arms=statistics.sorted_lines(statistics.arm_lines(records, _runs(actor.project, records)), look.sort),
        models=statistics.call_lines(_called(actor, look, now)),
        more=len(rows) > MOST,
        compared=len(did),
    )


def _rows(actor: Actor, look: Look, now: datetime) -> list[AskRecord]:
    """Return the newest asks, one more than are counted."""
    by_verifier = found_here("episode__outcomes__", "episode__")
    asks = _recorded(actor, look.within(now)).annotate(
        verdict=FilteredRelation("episode__outcomes", condition=by_verifier),
        **_times(now),
        unread=IsNull("consumed_at", True),
        late=_authors(Advice.objects.filter(late=True).exclude(reason=CUT_OFF)),
        passed=_authors(Decline.objects.all()),
    )
    return [AskRecord._make(row) for row in asks.order_by("-created_at").values_list(*COLUMNS)[: MOST + 1]]


def _other_decisions(rows: list[AskRecord]) -> dict[str, list[AskRecord]]:
    """Return, by answered approval that needed several people, its record with each decision that counts but is not the
    accepted one."""
    several = {row.pk: row for row in rows if row.quorum > 1 and row.status == AskStatus.ANSWERED}
    others: dict[str, list[AskRecord]] = defaultdict(list)
    if several:
        counted = QuorumDecision.objects.filter(ask__in=several, counts=True).exclude(advice=F("ask__accepted"))
        for pk, *answer in counted.order_by("pk").values_list("ask_id", *DECIDED):
            # who was late or declined is in the record of the ask
            other = several[pk]._replace(**dict(zip(ANSWER, answer, strict=True)), late=[], passed=[])
            others[pk].append(other)
    return others


def _oldest(rows: list[AskRecord]) -> datetime:
    return Ask.objects.values_list("created_at", flat=True).get(pk=rows[-1].pk)


def _authors(rows: QuerySet[Any]) -> ArraySubquery:
    """Return key and name of the authors of these rows about an ask."""
    # a line feed parts key and name: a key contains none
    named = Concat("author_key", Value("\n"), "author")
    return ArraySubquery(rows.filter(ask=OuterRef("pk")).annotate(named=named).values("named"))


def waits_for_people(actor: Actor, since: datetime, now: datetime) -> Middle:
    """Return the wait for people of the newest asks since a time."""
    asks = _recorded(actor, Q(created_at__gte=since)).annotate(**_times(now)).order_by("-created_at")
    columns = ("asked_s", "waited_s", "status", "accepted__source", "accepted__author_key", "accepted__behind")
    asked = [
        Asked("", asked_s=float(at), waited_s=float(took), status=status, source=source or "", behind=_behind(*sent))
        for at, took, status, source, *sent in asks.values_list(*columns)[:MOST]
    ]
    return statistics.waits(asked, for_people=True)


def _recorded(actor: Actor, among: Q) -> QuerySet[Ask]:
    """Return the asks of the project that are counted; those of branches, which are tried again, are not."""
    return scoped(Ask.objects.filter(among), actor.project).exclude(episode__origin=Origin.BRANCH)


def _times(now: datetime) -> dict[str, Any]:
    """Return when an ask was opened, and how long it waited so far, as annotations."""
    return {
        "asked_s": Extract("created_at", "epoch"),
        "waited_s": Extract(Coalesce("closed_at", now) - F("created_at"), "epoch"),
    }


def _behind(author_key: str | None, behind: str | None) -> str:
    return "script" if is_program(author_key or "", behind or "") else ""


def _names(rows: list[AskRecord]) -> dict[str, str]:
    """Return the names of experts who were late or declined."""
    both = [one.partition("\n") for row in rows for one in (*row.late, *row.passed)]
    return {key: name for key, _, name in both}


def _keys(named: list[str]) -> tuple[str, ...]:
    return tuple(one.partition("\n")[0] for one in named)


def _asked(row: AskRecord, together: Collection[str], did: str, is_hidden: bool) -> Asked:
    return Asked(
        episode=row.episode,
        task="" if row.task_idx is None else f"{row.scenario}/{row.task_idx}",
        asked_s=float(row.asked_s),
        answer=_answer_of(row, together),
        run=row.run or "",
        arm=row.arm,
        status=row.status,
        reason=row.reason,
        drawn=0 < row.chance < 1,
        waited_s=float(row.waited_s),
        source=row.source or "",
        author_key=row.author_key or "",
        behind=_behind(row.author_key, row.behind),
        author=row.author or "",
        took_s=row.took_s,
        drafted_by=row.drafted_by or "",
        kept=row.kept,
        taken=row.taken is not None,
        read=not row.unread,
        followed=did,
        complete=None if is_hidden else _became(row),
        late_by=_keys(row.late),
        passed_by=_keys(row.passed),
    )


def _became(row: AskRecord) -> bool | None:
    """Return whether the episode counts as complete, as in a run; None after another episode's first steps, which its
    end depends on, too."""
    return None if row.knowledge else counted_as(row.state, row.fault, row.verdict, row.assisted)


def _answer_of(row: AskRecord, together: Collection[str]) -> str:
    """Return what names an answer: the same for all asks of a group that were answered together. A nonce is unique in
    its ask alone, so that others differ by it."""
    name = _sent_with(row)
    return name if name in together or not name else f"{name}\n{row.pk}"


def _sent_with(row: AskRecord) -> str:
    """Return author and nonce; asks that follow in a group have its nonce before their own ID (`advising.nonce_of`)."""
    sent = (row.nonce or "").removesuffix(f"/{row.pk}")[:NONCE_OF_PRESS]
    return f"{row.author_key}\n{sent}" if sent else ""


def _compared(rows: list[AskRecord]) -> dict[str, str]:
    """Return, by ask, whether the agent's next call followed the advice."""
    tools = _tools(rows)
    scenario = {row.pk: row.scenario for row in rows}
    calls = _next_calls(scenario)
    asks = Ask.objects.filter(pk__in=scenario).values_list("pk", "accepted__text", "accepted__tool_calls")
    return {
        pk: followed(text or "", suggested or [], calls.get(pk), tools.get(scenario[pk], ()))
        for pk, text, suggested in asks
    }


def _next_calls(asks: Collection[str]) -> dict[str, Any]:
    """Return the agent's next call by ask.

    Steps are long and the one after the question is nearly always the call. More steps are read only if it belongs to
    the question's own turn.
    """
    calls, unclear = _calls_among(asks, 1)
    return calls | (_calls_among(unclear, CALLS)[0] if unclear else {})


def _calls_among(asks: Collection[str], steps: int) -> tuple[dict[str, Any], list[str]]:
    """Return the next calls within this many steps after each question, and the asks that need more steps."""
    reach = Q(seq__gte=OuterRef("seq"), seq__lte=OuterRef("seq") + FAR, kind__in=["ask", "tool_call"])
    rows = Step.objects.filter(reach, episode=OuterRef("episode")).order_by("seq")
    # large steps in their cut form: the call's name and most arguments are in it
    after = ArraySubquery(rows.annotate(data=Coalesce("cut", "body")).values("data")[: steps + 1])
    calls, unclear = {}, []
    for pk, data in Ask.objects.filter(pk__in=asks).annotate(after=after).values_list("pk", "after"):
        call = next_call([json.loads(step) for step in data])
        if call is not None:
            calls[pk] = call
        # fewer than were asked for: no further step exists
        elif len(data) > steps:
            unclear.append(pk)
    return calls, unclear


def _tools(rows: list[AskRecord]) -> dict[str, set[str]]:
    """Return names of tools by scenario, from one episode of each."""
    # the last episode of each scenario
    episodes = {row.scenario: row.episode for row in rows}
    some = dict(list(episodes.items())[:TOOLSETS])
    toolsets = Episode.objects.filter(pk__in=some.values()).values_list("scenario", "tools")
    return {name: {str(tool.get("name")) for tool in tools if isinstance(tool, dict)} for name, tools in toolsets}


def _runs(project: Project, asks: list[Asked]) -> dict[str, str]:
    """Return names of the runs among these asks."""
    ids = {one.run for one in asks} - {""}
    names = dict(Run.objects.filter(pk__in=ids).values_list("pk", "name"))
    return {pk: clean(name) for pk, name in run_names.apart(project, names).items()}


def _called(actor: Actor, look: Look, now: datetime) -> list[Called]:
    calls = scoped(ModelCall.objects.filter(look.within(now, "ask__", "at")), actor.project).order_by("-at")
    calls = calls.annotate(at_s=Extract("at", "epoch"))
    rows = calls.values_list("model_key", "tokens", "duration_s", "fault", "at_s")[:MOST]
    return [
        Called(key, tokens, took, clean(fault).strip()[:FAULT_WORDS], float(at))
        for key, tokens, took, fault, at in rows
    ]


def has_asks(actor: Actor) -> bool:
    """Return whether this project has any ask."""
    return scoped(Ask.objects.all(), actor.project).exists()


def choices(actor: Actor, look: Look) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the newest runs, and the arms of the newest episodes, as filters."""
    runs = scoped(Run.objects.order_by("-created_at"), actor.project).values_list("pk", "name")
    names_by_id = dict(runs[:CHOICES])
    if look.run and look.run not in names_by_id:
        names_by_id |= dict(runs.filter(pk=look.run))
    names = [(pk, clean(name)) for pk, name in run_names.apart(actor.project, names_by_id).items()]
    episodes = scoped(Episode.objects.order_by("-pk"), actor.project).values_list("arm", flat=True)
    return names, sorted({*episodes[:LOOKED_THROUGH], look.arm} - {""})


def _day(text: str) -> date | None:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if 1970 <= day.year <= 9000 else None


def _midnight(day: date | None) -> datetime | None:
    return timezone.make_aware(datetime.combine(day, time.min)) if day else None
