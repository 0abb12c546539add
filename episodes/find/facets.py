"""Reads: the filters of the list of episodes, with the number of episodes per value.

Owns the counts: those of a filter are taken after all the other filters, among the newest 10,000 episodes that match,
and where no index leads to these, among the newest ones of the project (`recent.py`). So a count costs the same in a
project of any size. Called by the list's page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import connection
from django.db.models import Q, QuerySet, Subquery
from django.db.models.expressions import RawSQL
from django.http import QueryDict

from awmclient.nouns.sources import SOURCES
from episodes.find import narrowing, search
from episodes.find.narrowing import SAID, by_words, matching
from episodes.find.recent import Window, has_index, window_of
from episodes.find.selection import ANSWERED, LENGTHS, NOT_VERIFIED
from episodes.models import EXPERT_WORDS, Episode, EpisodeState, Origin, Run
from episodes.stored import outcomes, run_names
from episodes.stored.strip import BRIEFED, OUTCOMES, STOPS
from episodes.visible import visibility
from people.access import Actor, scoped, sees_outcomes
from people.models import Project
from people.requests.forms import texts_of

Asked = tuple[dict[str, list[str]], list[str]]
"""Filters to apply, and the filters whose values are counted among the matching episodes."""
COUNTED = 10_000
FEW = 50
"""A search with at most this many matches in a window goes on in all episodes by its indexes: its words are rare."""
VALUES = 8
_NO_SOURCE = {"script": "A script", "cancelled": "Cancelled", "never": "Never asked"}
ASKED_WORDS = {name: SOURCES[name].who if name in SOURCES else _NO_SOURCE[name] for name in ANSWERED}
WORDS: dict[str, Mapping[str, str]] = {
    "state": dict(EpisodeState.choices),
    "outcome": {**{name: kind.words for name, kind in OUTCOMES.items()}, NOT_VERIFIED: "Not verified"},
    "expert": {mode: word.capitalize() for mode, word in EXPERT_WORDS.items()},
    "origin": dict(Origin.choices),
    "stop_reason": {name: words.capitalize() for name, words in STOPS.items()},
    "asked": ASKED_WORDS,
    "error": {"any": "With errors", "none": "Without errors"},
    "briefed": {"yes": "Briefed", "no": "Not briefed"},
    "length": {"0-5": "0 to 5", "6-15": "6 to 15", "16-30": "16 to 30", "31-100": "31 to 100", "101-": "101 or more"},
}
TITLES = {
    **{"state": "State", "outcome": "Outcome", "scenario": "Scenario", "task_idx": "Task", "run": "Run", "arm": "Arm"},
    **{"expert": "Kind of arm", "policy": "Policy", "asked": "Who answered", "tool": "Tool used", "error": "Errors"},
    **{"verdict": "Verdict", "label": "Label", "label_value": "Label value"},
    **{"briefed": "Briefing", "length": "Steps", "origin": "Origin", "stop_reason": "Ended by"},
}
BESIDE = {
    "since": "Ended since",
    "until": "Ended before",
    "q": "Search",
    "split": "Split",
    "environment": "Environment",
}
WHOLE = "whole"
LOOKS = ("sort", "columns", WHOLE)
"""Values of the address that change how the list looks, not what is asked for. `whole=1` looks in all episodes."""
# without `tools`, which are most of a row
_COLUMNS = (
    *("id", "state", "scenario", "task_idx", "run_id", "arm", "expert", "policy_name", "origin", "last_seq"),
    *("stop_reason", "created_at"),
)
_VALUES = {
    # the parameter holds the episodes withheld from this actor: they are counted under no outcome
    "outcome": f"CASE WHEN id NOT IN (SELECT unnest(%s::text[])) THEN coalesce(outcome, '{NOT_VERIFIED}') END",
    "run": "run_id",
    "policy": "policy_name",
    "briefed": "CASE WHEN has_briefing THEN 'yes' ELSE 'no' END",
    "stop_reason": "nullif(stop_reason, '')",
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
_WITH_FACTS = """
SELECT newest.*, facts.* FROM ({newest}) newest
-- OFFSET 0: one look-up for each of them, where PostgreSQL would rather read the facts of all episodes
LEFT JOIN LATERAL (SELECT tools AS facts_tools, answered AS facts_answered, asks AS facts_asks, errors AS facts_errors
                     FROM episodes_episodefacts WHERE episode_id = newest.id OFFSET 0) facts ON true
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
class ListQuery:
    """The parsed query string of a list: `said` filters it, `looks` has its order and its columns."""

    said: dict[str, list[str]]
    looks: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def read(cls, query: QueryDict) -> ListQuery:
        # a query string is a stranger's: each value becomes part of a statement
        filters = {name: [value[:200] for value in texts_of(query, name) if value][:50] for name in (*TITLES, *BESIDE)}
        looks = {name: [",".join(texts_of(query, name))[:200]] for name in LOOKS if query.get(name)}
        return cls({name: values for name, values in filters.items() if values}, looks)

    @classmethod
    def of(cls, address: str) -> ListQuery:
        """Read a query string, with or without the `?` before it."""
        return cls.read(QueryDict(address.removeprefix("?")))

    @property
    def is_whole(self) -> bool:
        return self.looks.get(WHOLE) == ["1"]

    def first(self, name: str) -> str:
        return self.said.get(name, [""])[0]

    def query(self, **changed: list[str]) -> str:
        """Return the query string, with some values changed and without the list's page."""
        values = QueryDict(mutable=True)
        for name, chosen in {**self.said, **self.looks, **changed}.items():
            values.setlist(name, chosen)
        return f"?{values.urlencode()}"

    def turned(self, name: str, value: str) -> str:
        """Return the query string with one more value, or without it if it is chosen."""
        chosen = self.said.get(name, [])
        return self.query(**{name: [one for one in chosen if one != value] if value in chosen else [*chosen, value]})

    def cleared(self) -> str:
        """Return the query string without filters."""
        return ListQuery({}, self.looks).query()

    def without(self, name: str) -> dict[str, list[str]]:
        return {one: values for one, values in self.said.items() if one != name}


@dataclass(frozen=True)
class ListCounts:
    """The episodes that match, newest first and up to one more than `COUNTED`, and the filters with counts.

    `window` is None if all episodes were looked at. `by_index` says that those before the window were found by whole
    words alone, `is_narrow` that some filters were counted in the window.
    """

    ids: list[str]
    facets: list[Facet]
    window: Window | None = None
    by_index: bool = False
    is_narrow: bool = False


def counted(actor: Actor, wish: ListQuery) -> ListCounts:
    """Return the episodes that match and the filters with counts.

    An episode whose outcome the actor cannot see is counted under no outcome. Raises `Invalid` for an unknown filter.

    """
    shown = [name for name in TITLES if not _is_left_out(actor, wish, name)]
    used = [name for name in shown if name in wish.said]
    asked = [(wish.said, [name for name in shown if name not in used])]
    # a filter in use is counted without itself, so that its other values can be added
    asked += [(wish.without(name), [name]) for name in used]
    window = None if wish.is_whole else window_of(actor.project)
    windows = [None if has_index(said) else window for said, _ in asked]
    matches, counts = _counts(actor, asked, windows)
    rare = window and _rare(actor, wish, matches, window)
    if rare:
        matches, counts = _counts(actor, asked, [None for _ in asked], rare)
        windows = [None]
    for ids, (_, names) in zip(matches, asked, strict=True):
        counts |= {name: narrowing.sayings().counts(actor, name, ids) for name in names if name in SAID}
    if "label" in wish.said and "label_value" in counts:
        pairs = counts["label_value"].items()
        counts["label_value"] = Counter({one: n for one, n in pairs if one.partition(":")[0] in wish.said["label"]})
    facets = [_facet(name, counts[name], wish, _words(actor.project, name)) for name in shown]
    facets = [facet for facet in facets if facet.choices]
    return ListCounts(matches[0], facets, windows[0], by_index=bool(rare), is_narrow=any(windows))


def _rare(
    actor: Actor, wish: ListQuery, matches: Sequence[Sequence[str]], window: Window
) -> list[tuple[str, Sequence[Any]]]:
    """Return the queries that find the words of the list in all episodes by an index; none if the window holds more
    than a few matches, because each match costs."""
    words = dict.fromkeys(wish.said.get("q", []))
    if not words or max(map(len, matches)) > FEW:
        return []
    queries = [narrowing.by_index(actor, word, window.after) for word in words]
    return [query for query in queries if query] if all(queries) else []


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


def _counts(
    actor: Actor,
    asked: Sequence[Asked],
    windows: Sequence[Window | None],
    rare: Sequence[tuple[str, Sequence[Any]]] = (),
) -> tuple[list[list[str]], dict[str, Counter[str]]]:
    """Count the values of some filters among the episodes that pass others, for each of `asked` in its window; also
    return those episodes, newest first. Filters by reviews are not counted here."""
    matches: list[list[str]] = [[] for _ in asked]
    counts: dict[str, Counter[str]] = {name: Counter() for _, names in asked for name in names}
    with connection.cursor() as cursor:
        cursor.execute(*_statement(actor, asked, windows, rare))
        for place, name, value, count in cursor.fetchall():
            # the line of IDs, newest first
            if not name:
                matches[place] = value.split(",") if value else []
            # null is an outcome that the actor cannot see, or a fact that was not read yet
            elif value:
                counts[name][value] = count
    return matches, counts


def _statement(
    actor: Actor,
    asked: Sequence[Asked],
    windows: Sequence[Window | None],
    rare: Sequence[tuple[str, Sequence[Any]]] = (),
) -> tuple[str, list[Any]]:
    """Return the statement that counts, with its values. It gathers the candidates of a search once for all parts: a
    frequent word has as many as there are episodes. Those of rare words are the matches."""
    words = dict.fromkeys(word for said, _ in asked for word in said.get("q", []))
    first = windows[0].first if windows[0] else ""
    queries: list[tuple[str, Sequence[Any]] | None] = [search.candidates(word, first) for word in words]
    if rare:
        queries = [*rare]
    gathered = {word: f"searched_{number}" * bool(queries[number]) for number, word in enumerate(words)}
    tables: list[tuple[str, str, Sequence[Any]]] = [
        (f"searched_{number}", *query) for number, query in enumerate(queries) if query
    ]
    parts: list[tuple[str, list[Any]]] = []
    searched = None
    if rare:
        searched = Q(pk__in=RawSQL(" UNION ".join(f"SELECT id FROM {name}" for name in gathered.values()), []))
    elif gathered:
        searched = by_words(actor, gathered)
    for place, ((filters, names), window) in enumerate(zip(asked, windows, strict=True)):
        rows = matching(actor, {name: values for name, values in filters.items() if name != "q"})
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
    return _WITH_FACTS.format(newest=sql) if {"tool", "asked", "error"} & set(names) else sql, values


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


def _beside(names: Collection[str]) -> dict[str, Subquery | Q]:
    """Return the subqueries per episode for these filters: thousands of look-ups that other filters do not need."""
    subqueries: dict[str, Subquery | Q] = {}
    if "outcome" in names:
        # "verifier" sorts after "attested": with both, the verifier's outcome counts
        outcome = outcomes.found_of_outer_episode().order_by("-source")
        subqueries["outcome"] = Subquery(outcome.values("reward_type")[:1])
    if "briefed" in names:
        subqueries["has_briefing"] = Q(strip__contains=BRIEFED)
    return subqueries


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
    review_words = {name: narrowing.sayings().words(project, name) for name in SAID if name in wish.said}
    words = {**WORDS, "run": runs, **review_words}
    titles = {**TITLES, **BESIDE}
    return [
        Chip(titles[name], words.get(name, {}).get(value, value), wish.turned(name, value))
        for name, values in wish.said.items()
        for value in values
    ]
