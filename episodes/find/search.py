"""Reads: episodes by the words of their steps, and the hit that a row shows.

Owns the meaning of a search; `selection.py` owns the list of filters. A search finds the steps that `indexing.py` has
read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.postgres.search import SearchQuery
from django.db import connection
from django.db.models import Exists, OuterRef, Q
from django.db.models.expressions import RawSQL

from episodes.find.search_text import excerpt_of, terms_of, text_of
from episodes.models import Episode, SearchMark, Step, StepWords
from episodes.stored.entries import read
from people.text.plain_text import clean

WORDS_MAX = 200
READ_THROUGH = 20_000
"""The most steps that are read one by one for the hits of a page: a frequent word has more entries in the index."""
HITS = """
-- window functions run before DISTINCT ON: the count covers every step with the words
SELECT DISTINCT ON (episode_id) episode_id, seq, step_id, count(*) OVER (PARTITION BY episode_id)
  FROM (SELECT * FROM episodes_stepwords WHERE episode_id = ANY(%s){without_index}) step
 WHERE words @@ websearch_to_tsquery('simple', %s)
 ORDER BY episode_id, seq
"""

IN_STEP = """
SELECT FROM episodes_stepwords WHERE episode_id = found.id AND words @@ websearch_to_tsquery('simple', %s)
"""


@dataclass(frozen=True)
class Hit:
    """The first step of an episode that holds the words: its excerpt in parts, hits marked, and the number of further
    steps with them. For a label or comment on a whole episode `seq` is None."""

    seq: int | None
    name: str
    parts: list[tuple[str, bool]]
    more: int


def candidates(search: str, first: str = "") -> tuple[str, list[str]] | None:
    """Return a query for the IDs of episodes that can match, with its values; None if any episode can. IDs before
    `first` are not included.

    It reads the joined words of episodes, in which a frequent word has one entry per episode, and the steps whose words
    were not joined yet.

    """
    terms = " ".join(said for is_wanted, said in terms_of(search[:WORDS_MAX]) if is_wanted)
    # with a first one the plan also has the index of episodes: of a frequent word it reads only those after it
    name = "episodes_with_words_since" if first else "episodes_with_words"
    return (f"SELECT {name}(%s, %s, %s) AS id", [terms, _query(search), first]) if terms else None


def by_index(project: str, search: str) -> list[tuple[str, list[str]]]:
    """Return queries for the IDs of episodes that match by the index of words alone: those of steps, and those of names
    and tasks. They cost as much as they find, in a project of any size. None if only words without a match are named.
    """
    query = candidates(search)
    if query is None:
        return []
    sql, values = query
    if _is_several(search):
        sql, values = f"SELECT id FROM ({sql}) found WHERE EXISTS ({IN_STEP})", [*values, _query(search)]
    return [(sql, values), ("SELECT episodes_with_task_words(%s, %s)", [project, _query(search)])]


def _is_several(search: str) -> bool:
    """Return whether a step has to hold more than one word: joined words do not say which step holds which."""
    terms = terms_of(search[:WORDS_MAX])
    return len(terms) != 1 or " " in terms[0][1]


def condition(search: str, gathered: str = "") -> Q:
    """Return a filter for episodes with a step that matches: all words, "a phrase", none with a minus before it.

    `gathered` is a table that holds the candidates already. Joined words do not say which step holds them, so for more
    than one word each of those episodes is checked for a single step as well.

    """
    query = SearchQuery(_query(search), search_type="websearch", config="simple")
    step = Q(Exists(StepWords.objects.filter(episode=OuterRef("pk"), words=query)))
    asked = candidates(search)
    if asked is None:
        return step
    match = Q(pk__in=RawSQL(f"SELECT id FROM {gathered}", []) if gathered else RawSQL(*asked))
    return match & step if _is_several(search) else match


def _query(search: str) -> str:
    """Return the search in PostgreSQL's websearch syntax; a phrase of many words is one phrase."""
    terms = terms_of(search[:WORDS_MAX])
    # in quotes: without them `or` would be an operator of websearch_to_tsquery
    return " ".join(f'{"" if wanted else "-"}"{said}"' for wanted, said in terms)


def hits(episodes: Collection[Episode], search: str) -> dict[str, Hit]:
    """Return the first hit of each of these episodes, by ID; none for those that did not match by a step."""
    query = _query(search)
    if not episodes or not query:
        return {}
    # OFFSET 0 keeps PostgreSQL from merging the subquery and using the index of words
    is_short = sum(one.last_seq for one in episodes) <= READ_THROUGH
    with connection.cursor() as cursor:
        cursor.execute(HITS.format(without_index=" OFFSET 0" * is_short), [[one.pk for one in episodes], query])
        rows = cursor.fetchall()
    # with the episodes, which find the partitions (`awmweb/partitions/`)
    steps = Step.objects.filter(pk__in=[row[2] for row in rows], episode__in=[row[0] for row in rows])
    bodies = {step.pk: read(step.body) for step in steps}
    return {episode: _hit(seq, bodies[pk], search, count - 1) for episode, seq, pk, count in rows if pk in bodies}


def _hit(seq: int, body: Mapping[str, Any], search: str, more: int) -> Hit:
    parts = [(clean(said), marked) for said, marked in excerpt_of(text_of(body), search[:WORDS_MAX])]
    return Hit(seq, clean(str(body.get("name") or "")), parts, more)


def read_until() -> datetime | None:
    """Return the moment before which all stored steps can be found; None before the first reading."""
    return SearchMark.objects.filter(pk=1).values_list("read_until", flat=True).first()
