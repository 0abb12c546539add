"""Reads: what the list of episodes can be narrowed by, with how many episodes each value has.

Owns the counts: those of a filter are taken after all the other filters, among the newest 10,000 episodes that match,
so that a count costs the same in a project of any size. Called by the list's page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from django.db import connection
from django.db.models import F, Q, QuerySet, Subquery
from django.http import QueryDict

from episodes import narrowing, outcomes, visibility
from episodes.models import Episode, EpisodeState, ExpertMode, Origin, Run
from episodes.narrowing import SAID, matching
from episodes.selection import LENGTHS, NOT_VERIFIED
from episodes.strip import BRIEFED, OUTCOME_WORDS
from people.access import Actor, scoped, sees_outcomes
from people.models import Project

COUNTED = 10_000
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
_COLUMNS = (
    *("id", "state", "scenario", "task_idx", "run_id", "arm", "expert", "policy_name", "origin", "last_seq"),
    "created_at",
)
_FOUND = "WITH found AS MATERIALIZED ({rows}) {counts} ORDER BY 3 DESC, 2"
_VALUE = "SELECT '{name}', value::text, count(*) FROM found, LATERAL (SELECT {value} AS value) of GROUP BY value"
_THESE = "SELECT NULL, id, -row_number() OVER (ORDER BY created_at DESC, id DESC) FROM found"
_VALUES = {
    "outcome": f"CASE WHEN id <> ALL(%s) THEN coalesce(outcome, '{NOT_VERIFIED}') END",
    "run": "run_id",
    "policy": "policy_name",
    "tool": "unnest(facts_tools)",
    "asked": "unnest(CASE WHEN facts_asks > 0 THEN facts_answered WHEN facts_asks = 0 THEN '{never}'::varchar[] END)",
    "briefed": "CASE WHEN has_briefing THEN 'yes' ELSE 'no' END",
    "error": "CASE WHEN facts_errors > 0 THEN 'any' WHEN facts_errors = 0 THEN 'none' END",
    "length": "CASE "
    + " ".join(f"WHEN last_seq >= {one.partition('-')[0]} THEN '{one}'" for one in reversed(LENGTHS))
    + " END",
}
"""Values of filters that are not simply a column of the same name, as PostgreSQL reads them."""


@dataclass(frozen=True)
class Choice:
    """One value of a filter; `query` is the address that takes it, or lets it go if it is chosen."""

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
    """One filter that is in use; `query` is the address without it."""

    title: str
    label: str
    query: str


@dataclass(frozen=True)
class Wish:
    """What a list's query string asks for."""

    said: dict[str, list[str]]

    @classmethod
    def read(cls, query: QueryDict) -> Wish:
        found = {name: [value[:200] for value in query.getlist(name) if value][:50] for name in (*TITLES, *BESIDE)}
        return cls({name: values for name, values in found.items() if values})

    def first(self, name: str) -> str:
        return self.said.get(name, [""])[0]

    def query(self, **changed: list[str]) -> str:
        """Return the query string, with some filters changed; a list's page is no part of it."""
        values = QueryDict(mutable=True)
        for name, said in {**self.said, **changed}.items():
            values.setlist(name, said)
        return f"?{values.urlencode()}"

    def turned(self, name: str, value: str) -> str:
        """Return the query string that takes one more value, or lets it go."""
        said = self.said.get(name, [])
        return self.query(**{name: [one for one in said if one != value] if value in said else [*said, value]})

    def without(self, name: str) -> dict[str, list[str]]:
        return {one: values for one, values in self.said.items() if one != name}


def counted(actor: Actor, wish: Wish) -> tuple[list[str], list[Facet]]:
    """Return the episodes that match, newest first and up to one more than `COUNTED`, and the filters with counts.

    An episode whose outcome the actor does not see is counted under no outcome. Raises `Invalid` for a filter that does
    not exist.
    """
    shown = [name for name in TITLES if not _is_left_out(actor, wish, name)]
    counts, found = _counts(actor, matching(actor, wish.said), [name for name in shown if name not in wish.said])
    for name in shown:
        if name in wish.said:
            counts |= _counts(actor, matching(actor, wish.without(name)), [name])[0]
    if "label" in wish.said and "label_value" in counts:
        said = counts["label_value"].items()
        counts["label_value"] = Counter({one: n for one, n in said if one.partition(":")[0] in wish.said["label"]})
    facets = [_facet(name, counts[name], wish, _words(actor.project, name)) for name in shown]
    return found, [facet for facet in facets if facet.choices]


def _words(project: Project, name: str) -> Mapping[str, str]:
    if name == "run":
        rows = scoped(Run.objects.all(), project).order_by("-created_at")
        return dict(rows.values_list("pk", "name")[:1000])
    return narrowing.sayings().words(project, name) if name in SAID else WORDS.get(name, {})


def _is_left_out(actor: Actor, wish: Wish, name: str) -> bool:
    """Return whether this filter says nothing here: tasks are told apart within a scenario, values within a label."""
    if name in ("outcome", *SAID) and not sees_outcomes(actor):
        return True
    if name == "task_idx":
        return len(wish.said.get("scenario", [])) != 1
    return name == "label_value" and not {"label", "label_value"} & set(wish.said)


def _counts(actor: Actor, rows: QuerySet[Episode], names: Sequence[str]) -> tuple[dict[str, Counter[str]], list[str]]:
    """Count the values of these filters in one statement, which looks for the episodes once and returns them, newest
    first."""
    told = rows.order_by("-created_at", "-pk").annotate(**_beside(names))
    sql, given = told.values(*_COLUMNS, *_beside(names))[: COUNTED + 1].query.sql_with_params()
    of_record = [name for name in names if name not in SAID]
    parts = [_VALUE.format(name=name, value=_VALUES.get(name, name)) for name in of_record]
    hidden = [sorted(visibility.held(actor))] * ("outcome" in of_record)
    counts: dict[str, Counter[str]] = {name: Counter() for name in of_record}
    found = []
    with connection.cursor() as cursor:
        cursor.execute(_FOUND.format(rows=sql, counts=" UNION ALL ".join([*parts, _THESE])), [*given, *hidden])
        for name, value, count in cursor.fetchall():
            if name is None:
                found.append(value)
            elif value:
                counts[name][value] = count
    told_of = {name: narrowing.sayings().counts(actor, name, found) for name in names if name in SAID}
    return counts | told_of, found


def _beside(names: Collection[str]) -> dict[str, Subquery | F | Q]:
    """Return what is looked up beside each episode for these filters: thousands of look-ups that others do not need."""
    found: dict[str, Subquery | F | Q] = {}
    if "outcome" in names:
        outcome = outcomes.of_outer_episode().filter(source__in=["verifier", "attested"]).order_by("-source")
        found["outcome"] = Subquery(outcome.values("reward_type")[:1])
    if {"tool", "asked", "error"} & set(names):
        found |= {f"facts_{name}": F(f"facts__{name}") for name in ("tools", "answered", "asks", "errors")}
    if "briefed" in names:
        found["has_briefing"] = Q(strip__contains=BRIEFED)
    return found


def _facet(name: str, counts: Counter[str], wish: Wish, words: Mapping[str, str]) -> Facet:
    used = wish.said.get(name, [])
    ordered = [*used, *(value for value, _ in counts.most_common(VALUES + len(used)) if value not in used)]
    choices = [
        Choice(value, words.get(value, value), counts[value], value in used, wish.turned(name, value))
        for value in ordered[: max(VALUES, len(used))]
    ]
    return Facet(name, TITLES[name], choices, max(0, len(counts | Counter(used)) - len(choices)))


def chips(project: Project, wish: Wish) -> list[Chip]:
    """Return the filters in use, each with the address without it."""
    runs = dict(scoped(Run.objects.filter(pk__in=wish.said.get("run", [])), project).values_list("pk", "name"))
    said = {name: narrowing.sayings().words(project, name) for name in SAID if name in wish.said}
    words = {**WORDS, "run": runs, **said}
    titles = {**TITLES, **BESIDE}
    return [
        Chip(titles[name], words.get(name, {}).get(value, value), wish.turned(name, value))
        for name, values in wish.said.items()
        for value in values
    ]
