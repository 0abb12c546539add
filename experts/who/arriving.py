"""Reads: the desk as a new ask finds it, in one statement under the locks of its episode and of asks like it.

Owns the numbers that decide where an ask goes; the rules are in `rules/routing.py`. In words, because every ask needs
it: the ORM takes longer to write these reads than the database to answer them. Called by `record/opening.py` and
`placing.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from statistics import median
from typing import Any

from django.db import connection

from episodes.models import Episode
from experts.models import Ask, Privilege
from experts.rules.routing import PRESENT_FOR, USUAL_S
from notices.models import LISTENED
from people.models import Project

LOOKED_AT = 200
"""Open asks of one task that a new question is compared with."""
# a script takes no time
TIMES = """
SELECT advice.took_s FROM experts_advice AS advice JOIN experts_ask AS ask ON ask.id = advice.ask_id
 WHERE ask.project_id = %(project)s AND advice.source = 'human' AND NOT advice.late AND advice.took_s IS NOT NULL
   AND NOT EXISTS (SELECT FROM experts_advice AS edited WHERE edited.supersedes_id = advice.id)
   -- the others of a group: their one answer took the time of its first ask
   AND right(advice.nonce, length(ask.id) + 1) <> '/' || ask.id
   AND (advice.behind = 'person' OR (advice.behind = '' AND NOT starts_with(advice.author_key, 'token:')))
 ORDER BY advice.created_at DESC LIMIT 20
"""
"""Seconds from claim to answer of the last 20 answers of people."""
SAME_TASK = {
    True: "episode.scenario = %(scenario)s AND episode.task_idx = %(task_idx)s",
    False: "episode.task = %(task)s",
}
# without a key only the task decides
ALIKE = """(
  SELECT json_agg(json_build_array(id, question, "group", pictures_digest)) FROM (
    SELECT ask.id, ask.question, ask."group", ask.pictures_digest
      FROM experts_ask AS ask JOIN episodes_episode AS episode ON episode.id = ask.episode_id
     WHERE ask.project_id = %(project)s AND ask.status = 'open' AND ask.id <> %(ask)s
       AND ((%(group_key)s <> '' AND ask.group_key = %(group_key)s) OR ({same_task}))
     ORDER BY ask.created_at DESC LIMIT %(looked_at)s
  ) AS recent
)"""
FOUND = f"""
SELECT (
  SELECT json_object_agg(key, id) FROM experts_ask
   WHERE episode_id = %(episode)s AND (key = %(key)s OR status = 'open')
), {{alike}}, (
  SELECT json_build_array(count(*), count(*) FILTER (WHERE unit = %(unit)s), count(DISTINCT unit)) FROM (
    SELECT coalesce(episode.run_id, ask.episode_id) AS unit
      FROM experts_ask AS ask JOIN episodes_episode AS episode ON episode.id = ask.episode_id
     WHERE ask.project_id = %(project)s AND ask.status = 'open' AND ask.tier IN ('people', 'senior')
       AND ask.id <> %(ask)s
  ) AS ahead
), (
  -- as `online.here`
  SELECT json_agg(json_build_array(actor_key, skills)) FROM experts_presence
   WHERE project_id = %(project)s AND seen_at > %(recent)s AND (NOT away OR away_until <= %(now)s)
), (
  SELECT json_agg(took_s) FROM ({TIMES}) AS usual
), {LISTENED}, EXISTS (
  -- as `StandingAnswerQuerySet.active`
  SELECT FROM experts_standinganswer
   WHERE project_id = %(project)s AND tool = ANY(%(tools)s) AND privilege = %(privilege)s
     AND ended_at IS NULL AND until > %(now)s AND used < at_most
)
"""
_QUESTION = Ask._meta.get_field("question")


@dataclass(frozen=True)
class NearAsk:
    """An open ask of the same task, or of the group that the asker named."""

    pk: str
    question: str
    group: str
    pictures: str
    """The digest of its pictures."""


@dataclass(frozen=True)
class FoundDesk:
    """The desk as a new ask finds it."""

    keys: dict[str, str]
    """Its episode's open asks, and the one with its key."""
    alike: list[NearAsk]
    """Newest first; empty for a typed ask."""
    ahead: int
    ahead_of_run: int
    runs: int
    present: dict[str, list[str]]
    """The skills of everyone who is online, by key."""
    usual_s: float
    """The median seconds from claim to answer."""
    is_listened: bool
    """Whether anyone has a channel that is notified about asks."""
    has_standing: bool
    """Whether a standing answer can decide about one of these tools."""


def arrival(
    episode: Episode,
    now: datetime,
    *,
    key: str = "",
    group_key: str = "",
    tools: Iterable[str] = (),
    privilege: str = Privilege.BLIND,
    ask: str = "",
    is_question: bool = True,
) -> FoundDesk:
    """Return what an ask of this episode finds now, without the stored `ask` itself."""
    values = {
        "episode": episode.pk,
        "key": key,
        "project": episode.project_id,
        "ask": ask,
        "group_key": group_key,
        "scenario": episode.scenario,
        "task_idx": episode.task_idx,
        "task": episode.task,
        "looked_at": LOOKED_AT,
        "unit": episode.run_id or episode.pk,
        "recent": now - PRESENT_FOR,
        "now": now,
        "tools": list(tools),
        "privilege": privilege,
    }
    with connection.cursor() as cursor:
        cursor.execute(_statement(is_question, is_indexed(episode)), values)
        keys, alike, ahead, present, times, is_listened, has_standing = cursor.fetchone()
    near = [NearAsk(pk, _question_text(question), *rest) for pk, question, *rest in alike or ()]
    count, of_run, runs = ahead
    return FoundDesk(
        keys or {}, near, count, of_run, runs, dict(present or ()), usual(times), is_listened, has_standing
    )


def is_indexed(episode: Episode) -> bool:
    """Return whether the place in a scenario says which task it is, and not its words."""
    return bool(episode.scenario) and episode.task_idx is not None


def usual_time(project: Project) -> float:
    """Return the median seconds from claim to answer over the last answers of people."""
    return usual(answer_times(project))


def answer_times(project: Project) -> list[float]:
    """Return the seconds from claim to answer of the last answers of people."""
    with connection.cursor() as cursor:
        cursor.execute(TIMES, {"project": project.pk})
        return [took for (took,) in cursor.fetchall()]


def usual(times: Sequence[float] | None) -> float:
    return median(times) if times else USUAL_S


@cache
def _statement(is_question: bool, by_place: bool) -> str:
    alike = ALIKE.format(same_task=SAME_TASK[by_place]) if is_question else "NULL"
    return FOUND.format(alike=alike)


def _question_text(stored: str) -> Any:
    return _QUESTION.from_db_value(stored, None, connection)
