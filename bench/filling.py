"""Fills a project for `review.py`: many episodes with their steps, outcomes, facts and the words of their steps.

One episode is made through the product; all others are copies of its rows by INSERT ... SELECT with values of their
own. Words and facts are those that `episodes/record/indexing.py` writes: the vector of a step is joined from vectors of
its parts, which equals the vector of its whole text. Indexes are dropped meanwhile and built again.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

import psycopg

SENTENCES, WORDS, LENGTH = 10_007, 20_000, 22
SCENARIOS, TASKS, RUNS = 200, 10, 40
COMMON, MIDDLE = "ba", "zu"
"""A word that half of the steps hold, and one that two in a hundred hold: most episodes hold it somewhere."""
RARE = "call {}"
"""A phrase that one step holds."""
LARGE = ("episodes_step", "episodes_stepwords", "episodes_episode")
APART = """
SELECT format('ALTER TABLE %%s DROP CONSTRAINT %%I', conrelid::regclass, conname),
       format('ALTER TABLE %%s ADD CONSTRAINT %%I %%s', conrelid::regclass, conname, pg_get_constraintdef(oid))
  FROM pg_constraint WHERE conrelid::regclass::text = ANY(%s) AND contype = 'f'
UNION ALL
SELECT format('DROP INDEX %%I', relname), pg_get_indexdef(indexrelid)
  FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
 WHERE indrelid::regclass::text = ANY(%s) AND NOT indisunique
"""
"""What is taken from the large tables while they are filled, and how it comes back."""
JOINED = """
INSERT INTO episodes_episodewords (episode_id, words)
SELECT id, (SELECT array_to_tsvector(array_agg(word))
              FROM episodes_stepwords step, unnest(tsvector_to_array(words)) word WHERE episode_id = episode.id)
  FROM episodes_episode episode WHERE id LIKE '0crowd-%' AND id >= '{}'
"""
BODY = """'{"seq": ' || s || ', "kind": "tool_call", "name": "' || tool || '", "arguments": {"call": '
    || n * %(each)s + s || '}, "result": {"text": "' || said || '"}}'"""


def sentences(seed: int = 1) -> list[str]:
    """Return texts whose words have the uneven frequencies of a language."""
    dice = random.Random(seed)
    letters = "bdfghklmnprstvz"
    known = [one + vowel for one in letters for vowel in "aeiou" if one + vowel not in (COMMON, MIDDLE)]
    words = ["".join(dice.choices(known, k=2 + number % 3)) for number in range(WORDS)]
    weights = list(accumulate(1 / (3 + number) for number in range(WORDS)))
    texts = [dice.choices(words, cum_weights=weights, k=LENGTH) for _ in range(SENTENCES)]
    for number, text in enumerate(texts):
        text += [COMMON] * (number % 2 == 0) + [MIDDLE] * (number % 50 == 0)
    return [" ".join(text) for text in texts]


def crowd(number: int) -> str:
    """Return an episode's ID. Like real ones they sort by time; real ones begin with a later character."""
    return f"0crowd-{number:08}"


def fill(database: str, template: str, episodes: int, each: int, first: int = 1, most: int = 0) -> int:
    """Copy the ended episode `template` this many times, with `each` steps; return the MB used. From a later `first`,
    what was filled before is added to, up to `most` in the end: later ones are newer."""
    with psycopg.connect(database, autocommit=True) as connection:
        for setting in ("synchronous_commit = off", "maintenance_work_mem = '768MB'", "work_mem = '256MB'"):
            connection.execute(f"SET {setting}")
        connection.execute("SET max_parallel_workers = 2; SET max_parallel_maintenance_workers = 2")
        connection.execute("CREATE TEMP TABLE said (pk int PRIMARY KEY, said text, words tsvector)")
        connection.cursor().executemany(
            "INSERT INTO said VALUES (%s, %s, to_tsvector('simple', 'text ' || %s))",
            [(pk, text, text) for pk, text in enumerate(sentences())],
        )
        connection.execute("ANALYZE said")
        # in one transaction, or a worker writes the facts of what it sees first
        with _apart(connection, *LARGE), connection.transaction():
            if first == 1:
                _runs(connection, template)
            _episodes(connection, template, episodes, each, first, max(most, episodes))
            _steps(connection, episodes, each, first)
        with _apart(connection, "episodes_episodewords"):
            connection.execute(JOINED.format(crowd(first)))
        for table in ("episode", "step", "stepwords", "episodewords", "episodefacts", "verifieroutcome", "run"):
            connection.execute(f"VACUUM ANALYZE episodes_{table}")
        size = connection.execute("SELECT pg_database_size(current_database()) / 1000000").fetchone()
        return int(size[0]) if size else 0


@contextmanager
def _apart(connection: psycopg.Connection[Any], *tables: str) -> Iterator[None]:
    """Take indexes and keys from these tables, and build them again afterwards."""
    taken = connection.execute(APART, [list(tables)] * 2).fetchall()
    for drop, _ in taken:
        connection.execute(drop)
    yield
    for _, make in taken:
        connection.execute(make)


def _copies(connection: psycopg.Connection[Any], table: str, own: Mapping[str, str], rest: str, where: str) -> None:
    """Insert copies of the rows of `where`, with other values for the columns in `own`."""
    columns = connection.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_name = %s AND is_identity = 'NO'", [table]
    ).fetchall()
    names = [name for (name,) in columns]
    values = ", ".join(own.get(name, f"one.{name}") for name in names)
    connection.execute(
        f"INSERT INTO {table} ({', '.join(names)}) SELECT {values} FROM {table} one, {rest} WHERE {where}"
    )


def _runs(connection: psycopg.Connection[Any], template: str) -> None:
    own = {"id": "'run-' || n", "name": "'Run ' || n", "key": "''", "created_at": "now() - n * interval '1 hour'"}
    where = f"one.id = (SELECT run_id FROM episodes_episode WHERE id = '{template}')"
    _copies(connection, "episodes_run", own, f"generate_series(1, {RUNS}) n", where)


def _episodes(
    connection: psycopg.Connection[Any], template: str, episodes: int, each: int, first: int, most: int
) -> None:
    """Write episodes, one a minute, their verifiers' outcomes and their facts."""
    states = (
        "(ARRAY['finished','finished','finished','finished','finished','finished','finished','failed','cancelled'])"
    )
    at = f"now() - interval '1 hour' - ({most} - n) * interval '1 minute'"
    own = {
        "id": "'0crowd-' || lpad(n::text, 8, '0')", "key": "'crowd-' || n", "run_id": f"'run-' || 1 + n * 7 % {RUNS}",
        "scenario": f"'scenario_' || n * 13 % {SCENARIOS}", "task_idx": f"n * 17 % {TASKS}",
        "task": f"(SELECT said FROM said WHERE pk = n * 13 % {SENTENCES}) || ' ticket ' || n",
        "arm": "(ARRAY['off','plain','informed','model'])[1 + n % 4]", "state": f"{states}[1 + n % 9]",
        "policy_name": "'policy-' || n % 12", "expert": "(ARRAY['off','plain','informed'])[1 + n % 3]",
        "last_seq": f"{each}", "strip": f"repeat('rrrrw', {each} / 5)", "created_at": at, "started_at": at,
        "ended_at": at, "heartbeat_at": at,
    }  # fmt: skip
    some = f"generate_series({first}, {episodes}) n"
    _copies(connection, "episodes_episode", own, some, f"one.id = '{template}'")
    outcome = {
        "episode_id": "'0crowd-' || lpad(n::text, 8, '0')", "session": "NULL", "source": "'verifier'",
        "reward": "n % 2",
        "reward_type": "(ARRAY['others','complete','others','complete','judge_error'])[1 + n % 5]", "at": at,
    }  # fmt: skip
    _copies(connection, "episodes_verifieroutcome", outcome, some, f"one.episode_id = '{template}' AND n % 9 < 7")
    facts = {
        "episode_id": "'0crowd-' || lpad(n::text, 8, '0')", "read_seq": f"{each}", "joined_seq": f"{each}",
        "done": "true", "errors": "n % 5 % 2", "asks": "n % 3 % 2",
        "tools": "ARRAY['get_' || n % 23, 'set_' || n % 7]", "waiting": "'{}'",
        "answered": "CASE WHEN n % 3 = 1 THEN ARRAY[(ARRAY['human','llm','fallback'])[1 + n % 7 % 3]] ELSE '{}' END",
    }  # fmt: skip
    _copies(connection, "episodes_episodefacts", facts, some, f"one.episode_id = '{template}'")


def _steps(connection: psycopg.Connection[Any], episodes: int, each: int, first: int) -> None:
    """Write steps in the order of episodes, and their words beside them, in two statements."""
    lines = f"""SELECT n, s, CASE s % 3 WHEN 0 THEN 'set_' || n % 7 ELSE 'get_' || n % 23 END AS tool, said.said, words
      FROM generate_series({first}, {episodes}) n, generate_series(1, {each}) s, said
     WHERE said.pk = (n * 31 + s * 977) % {SENTENCES}"""
    last = connection.execute("SELECT coalesce(max(id), 0) FROM episodes_step").fetchone()
    start = int(last[0]) if last else 0
    number = f"{start} + (n - {first}) * {each} + s"
    connection.execute(
        f"""INSERT INTO episodes_step (id, episode_id, seq, kind, body, at) OVERRIDING SYSTEM VALUE
            SELECT {number}, '0crowd-' || lpad(n::text, 8, '0'), s, 'tool_call', {BODY % {"each": each}},
                   now() - interval '1 hour' - ({episodes} - n) * interval '1 minute' FROM ({lines}) line"""
    )
    end = start + (episodes - first + 1) * each
    connection.execute(f"SELECT setval(pg_get_serial_sequence('episodes_step', 'id'), {end})")
    connection.execute(
        f"""INSERT INTO episodes_stepwords (step_id, episode_id, seq, words)
            SELECT {number}, '0crowd-' || lpad(n::text, 8, '0'), s,
                   to_tsvector('simple', replace(tool, '_', ' ') || ' call ' || n * {each} + s) || words
              FROM ({lines}) line"""
    )
