"""Reads: the filters of the list of episodes, with the number of episodes per value.

Owns the counts: those of a filter are taken after all the other filters, among the newest 10,000 episodes that match,
so that a count costs the same in a project of any size. Called by the list's page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import Count, F, Min, Q, QuerySet, Subquery
from django.http import QueryDict

from episodes.find import narrowing, search
from episodes.find.narrowing import SAID, by_words, matching
from episodes.find.selection import LENGTHS, NOT_VERIFIED
from episodes.models import Episode, EpisodeState, ExpertMode, Origin, Run
from episodes.stored import outcomes, run_names
from episodes.stored.strip import BRIEFED, OUTCOME_WORDS
from episodes.visible import visibility
from people.access import Actor, scoped, sees_outcomes
from people.models import Project

Asked = tuple[dict[str, list[str]], list[str]]
"""Filters to apply, and the filters whose values are counted among the matching episodes."""
COUNTED = 10_000
FREQUENT, SPARE = 0.3, 1.5
"""A word in at least this share of episodes is first searched in a window of the newest ones, with some spare."""
VALUES = 8
ASKED_WORDS = {
    **{"human": "A person", "llm": "A model", "cache": "A reused answer", "script": "A script"},
    **{"fallback": "Fell back", "cancelled": "Cancelled", "never": "Never asked"},
}
WORDS: dict[str, Mapping[str, str]] = {
    "state": dict(EpisodeState.choices),
    "outcome": {**OUTCOME_WORDS, NOT_VERIFIED: "Not verified"},
    "expert": dict(ExpertMode.choices),
    "origin": dict(Origin.choices),
    "asked": ASKED_WORDS,
    "error": {"any": "With errors", "none": "Without errors"},
    "briefed": {"yes": "Briefed", "no": "Not briefed"},
    "length": {"0-5": "0 to 5", "6-15": "6 to 15", "16-30": "16 to 30", "31-100": "31 to 100", "101-": "101 or more"},
}
TITLES = {
    **{"state": "State", "outcome": "Outcome", "scenario": "Scenario", "task_idx": "Task", "run": "Run", "arm": "Arm"},
    **{"expert": "Expert", "policy": "Policy", "asked": "Who answered", "tool": "Tool used", "error": "Errors"},
    **{"verdict": "Verdict", "label": "Label", "label_value": "Label value"},
    **{"briefed": "Briefing", "length": "Steps", "origin": "Origin"},
}
BESIDE = {
    "since": "Ended since",
    "until": "Ended before",
    "q": "Search",
    "split": "Split",
    "environment": "Environment",
}
LOOKS = ("sort", "columns")
"""Values of the address that change how the list looks, not what is in it."""
# without `tools`, which are most of a row
_COLUMNS = (
    *("id", "state", "scenario", "task_idx", "run_id", "arm", "expert", "policy_name", "origin", "last_seq"),
    "created_at",
)
_VALUES = {
    # the parameter holds the episodes withheld from this actor: they are counted under no outcome
    "outcome": f"CASE WHEN id NOT IN (SELECT unnest(%s::text[])) THEN coalesce(outcome, '{NOT_VERIFIED}') END",
    "run": "run_id",
    "policy": "policy_name",
    "briefed": "CASE WHEN has_briefing THEN 'yes' ELSE 'no' END",
    "error": "CASE WHEN facts_errors > 0 THEN 'any' WHEN facts_errors = 0 THEN 'none' END",
    # from the longest range down: the first lower bound that fits names the range
    "length": "CASE "
    + " ".join(f"WHEN last_seq >= {one.partition('-')[0]} THEN '{one}'" for one in reversed(LENGTHS))
    + " END",
}
"""SQL for the values of filters that are not a column of the same name."""
_SEVERAL = {
    "tool": "facts_tools",
    # without facts the episode was not read yet, and counts under no value
    "asked": "CASE WHEN facts_asks > 0 THEN facts_answered WHEN facts_asks = 0 THEN '{never}'::varchar[] END",
}
"""SQL for filters with several values per episode."""
_EACH = """
-- an episode counts once for each value in its array
SELECT {place}, '{name}', value, count(*) FROM (SELECT unnest({value}) AS value FROM found_{place}) one GROUP BY value
"""
_ONCE = """
-- GROUPING is 0 for the one column that a row counts
SELECT {place}, CASE {names} END, coalesce({columns}), count(*) FROM (SELECT {values} FROM found_{place}) one
 -- a set per filter: one pass over the episodes counts all of them
 GROUP BY GROUPING SETS ({sets})
"""
# thousands of IDs as one text; an empty name marks this line among the counts
_IDS = "SELECT {place}, '', string_agg(id, ',' ORDER BY created_at DESC, id DESC), 0 FROM found_{place}"


@dataclass(frozen=True)
class Choice:
    """One value of a filter; `query` is the address that adds it, or removes it if it is chosen."""

    value: str
    label: str
    count: int
    chosen: bool
    query: str


@dataclass(frozen=True)
class Facet:
    """One filter with its values, those in use first and then the most frequent; `more` are not shown."""

    name: str
    title: str
    choices: list[Choice]
    more: int

    @property
    def is_used(self) -> bool:
        return any(choice.chosen for choice in self.choices)


@dataclass(frozen=True)
class Chip:
    """One filter in use; `query` is the address without it."""

    title: str
    label: str
    query: str


@dataclass(frozen=True)
class Window:
    """The newest episodes: all that were created after a moment, none of which has an ID before `first`."""

    after: datetime
    first: str


@dataclass(frozen=True)
class ListQuery:
    """The parsed query string of a list: `said` filters it, `looks` has its order and its columns."""

    said: dict[str, list[str]]
    looks: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def read(cls, query: QueryDict) -> ListQuery:
        # a query string is a stranger's: each value becomes part of a statement
        found = {name: [value[:200] for value in query.getlist(name) if value][:50] for name in (*TITLES, *BESIDE)}
        looks = {name: [",".join(query.getlist(name))[:200]] for name in LOOKS if query.get(name)}
        return cls({name: values for name, values in found.items() if values}, looks)

    @classmethod
    def of(cls, address: str) -> ListQuery:
        """Read a query string, with or without the `?` before it."""
        return cls.read(QueryDict(address.removeprefix("?")))

    def first(self, name: str) -> str:
        return self.said.get(name, [""])[0]

    def query(self, **changed: list[str]) -> str:
        """Return the query string, with some values changed and without the list's page."""
        values = QueryDict(mutable=True)
        for name, said in {**self.said, **self.looks, **changed}.items():
            values.setlist(name, said)
        return f"?{values.urlencode()}"

    def turned(self, name: str, value: str) -> str:
        """Return the query string with one more value, or without it if it is chosen."""
        said = self.said.get(name, [])
        return self.query(**{name: [one for one in said if one != value] if value in said else [*said, value]})

    def cleared(self) -> str:
        """Return the query string without filters."""
        return ListQuery({}, self.looks).query()

    def without(self, name: str) -> dict[str, list[str]]:
        return {one: values for one, values in self.said.items() if one != name}


def counted(actor: Actor, wish: ListQuery) -> tuple[list[str], list[Facet]]:
    """Return the episodes that match, newest first and up to one more than `COUNTED`, and the filters with counts.

    An episode whose outcome the actor cannot see is counted under no outcome. Raises `Invalid` for an unknown filter.

    """
    shown = [name for name in TITLES if not _is_left_out(actor, wish, name)]
    used = [name for name in shown if name in wish.said]
    asked = [(wish.said, [name for name in shown if name not in used])]
    # a filter in use is counted without itself, so that its other values can be added
    asked += [(wish.without(name), [name]) for name in used]
    window = _window(actor.project, wish)
    found, counts = _counts(actor, asked, window)
    if window and any(len(ids) <= COUNTED for ids in found):  # there can be more after it
        found, counts = _counts(actor, asked, None)
    for ids, (_, names) in zip(found, asked, strict=True):
        counts |= {name: narrowing.sayings().counts(actor, name, ids) for name in names if name in SAID}
    if "label" in wish.said and "label_value" in counts:
        said = counts["label_value"].items()
        counts["label_value"] = Counter({one: n for one, n in said if one.partition(":")[0] in wish.said["label"]})
    facets = [_facet(name, counts[name], wish, _words(actor.project, name)) for name in shown]
    return found[0], [facet for facet in facets if facet.choices]


def _words(project: Project, name: str) -> Mapping[str, str]:
    if name == "run":
        rows = scoped(Run.objects.all(), project).order_by("-created_at")
        return run_names.apart(project, dict(rows.values_list("pk", "name")[:1000]))
    return narrowing.sayings().words(project, name) if name in SAID else WORDS.get(name, {})


def _is_left_out(actor: Actor, wish: ListQuery, name: str) -> bool:
    """Return whether this filter is useless here: task numbers need one scenario, values need one label."""
    if name in ("outcome", *SAID) and not sees_outcomes(actor):
        return True
    if name == "task_idx":
        return len(wish.said.get("scenario", [])) != 1
    return name == "label_value" and not {"label", "label_value"} & set(wish.said)


def _window(project: Project, wish: ListQuery) -> Window | None:
    """Return the newest episodes that likely hold a frequent word often enough; None to search them all."""
    words = wish.said.get("q", [])
    share = search.share_of(words[0]) if len(words) == 1 else 0
    if share < FREQUENT:
        return None
    # if the word is spread evenly, this many newest episodes hold `COUNTED` of them, and half as many again
    size = int(COUNTED * SPARE / share)
    newest = scoped(Episode.objects.all(), project).order_by("-created_at", "-pk")[:size]
    facts = newest.aggregate(after=Min("created_at"), first=Min("pk"), size=Count("pk"))
    # fewer episodes than a window: searching them all costs no more
    return Window(facts["after"], facts["first"]) if facts["size"] == size else None


def _counts(
    actor: Actor, asked: Sequence[Asked], window: Window | None
) -> tuple[list[list[str]], dict[str, Counter[str]]]:
    """Count the values of some filters among the episodes that pass others, for each of `asked`; also return those
    episodes, newest first. Filters by reviews are not counted here."""
    found: list[list[str]] = [[] for _ in asked]
    counts: dict[str, Counter[str]] = {name: Counter() for _, names in asked for name in names}
    with connection.cursor() as cursor:
        cursor.execute(*_statement(actor, asked, window))
        for place, name, value, count in cursor.fetchall():
            # the line of IDs, newest first
            if not name:
                found[place] = value.split(",") if value else []
            # null is an outcome that the actor cannot see, or a fact that was not read yet
            elif value:
                counts[name][value] = count
    return found, counts


def _statement(actor: Actor, asked: Sequence[Asked], window: Window | None) -> tuple[str, list[Any]]:
    """Return the statement that counts, with its values. It gathers the candidates of a search once for all parts: a
    frequent word has as many as there are episodes."""
    words = dict.fromkeys(word for said, _ in asked for word in said.get("q", []))
    queries = [search.candidates(word, window.first if window else "") for word in words]
    gathered = {word: f"searched_{number}" * bool(queries[number]) for number, word in enumerate(words)}
    tables: list[tuple[str, str, Sequence[Any]]] = [
        (f"searched_{number}", *query) for number, query in enumerate(queries) if query
    ]
    parts: list[tuple[str, list[Any]]] = []
    searched = by_words(actor, gathered) if gathered else None
    for place, (said, names) in enumerate(asked):
        rows = matching(actor, {name: values for name, values in said.items() if name != "q"})
        if searched is not None:
            rows = rows.filter(searched)
        if window:
            rows = rows.filter(created_at__gt=window.after)
        tables.append((f"found_{place}", *_newest(rows, names)))
        parts += _parts(actor, place, [name for name in names if name not in SAID])
    # MATERIALIZED: several parts read each table, and PostgreSQL would compute it for each of them
    before = ", ".join(f"{name} AS MATERIALIZED ({sql})" for name, sql, _ in tables)
    values = [value for *_, given in (*tables, *parts) for value in given]
    return f"WITH {before} {' UNION ALL '.join(sql for sql, _ in parts)}", values


def _newest(rows: QuerySet[Episode], names: Collection[str]) -> tuple[str, Sequence[Any]]:
    """Return the query for the episodes among which these filters are counted, with its values."""
    beside = _beside(names)
    newest = rows.order_by("-created_at", "-pk").annotate(**beside).values(*_COLUMNS, *beside)
    sql, values = newest[: COUNTED + 1].query.sql_with_params()
    return sql, values


def _parts(actor: Actor, place: int, names: Collection[str]) -> list[tuple[str, list[Any]]]:
    """Return the queries for the counts of these filters and for the episodes, each with its values. Filters with one
    value per episode are counted in one query."""
    parts = [(_IDS.format(place=place), list[Any]())]
    for name in _SEVERAL.keys() & names:
        parts.append((_EACH.format(place=place, name=name, value=_SEVERAL[name]), []))
    if once := [name for name in names if name not in _SEVERAL]:
        sql = _ONCE.format(
            place=place,
            names=" ".join(f"WHEN GROUPING({name}) = 0 THEN '{name}'" for name in once),
            columns=", ".join(once),
            values=", ".join(f"({_VALUES.get(name, name)})::text AS {name}" for name in once),
            sets=", ".join(f"({name})" for name in once),
        )
        # the withheld IDs are the only parameter, and only the outcome's value has it
        parts.append((sql, [sorted(visibility.held(actor))] * ("outcome" in once)))
    return parts


def _beside(names: Collection[str]) -> dict[str, Subquery | F | Q]:
    """Return the subqueries per episode for these filters: thousands of look-ups that other filters do not need."""
    found: dict[str, Subquery | F | Q] = {}
    if "outcome" in names:
        # "verifier" sorts after "attested": with both, the verifier's outcome counts
        outcome = outcomes.of_outer_episode().filter(source__in=["verifier", "attested"]).order_by("-source")
        found["outcome"] = Subquery(outcome.values("reward_type")[:1])
    if {"tool", "asked", "error"} & set(names):
        found |= {f"facts_{name}": F(f"facts__{name}") for name in ("tools", "answered", "asks", "errors")}
    if "briefed" in names:
        found["has_briefing"] = Q(strip__contains=BRIEFED)
    return found


def _facet(name: str, counts: Counter[str], wish: ListQuery, words: Mapping[str, str]) -> Facet:
    used = wish.said.get(name, [])
    # values in use first, also with a count of 0: otherwise they could not be removed
    ordered = [*used, *(value for value, _ in counts.most_common(VALUES + len(used)) if value not in used)]
    choices = [
        Choice(value, words.get(value, value), counts[value], value in used, wish.turned(name, value))
        for value in ordered[: max(VALUES, len(used))]
    ]
    return Facet(name, TITLES[name], choices, max(0, len(counts | Counter(used)) - len(choices)))


def chips(project: Project, wish: ListQuery) -> list[Chip]:
    """Return the filters in use, each with the address without it."""
    named = scoped(Run.objects.filter(pk__in=wish.said.get("run", [])), project)
    runs = run_names.apart(project, dict(named.values_list("pk", "name")))
    said = {name: narrowing.sayings().words(project, name) for name in SAID if name in wish.said}
    words = {**WORDS, "run": runs, **said}
    titles = {**TITLES, **BESIDE}
    return [
        Chip(titles[name], words.get(name, {}).get(value, value), wish.turned(name, value))
        for name, values in wish.said.items()
        for value in values
    ]
