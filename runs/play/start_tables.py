"""Reads: the initial tables of an episode's environment, from the environment server, a page of rows at a time.

Only the server opens databases of scenarios, in its sandbox. Its responses are bounded and untrusted. The dashboard
caches the last responses in memory, by the digest of the database, and stores none. Called by pages.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import httpx
from django.conf import settings

from awmenv.attesting import question
from episodes.models import Episode
from runs.errors import NoServer
from runs.play.environment import address

PATIENCE_S = 20.0
KEPT, FAILED_S = 32, 20.0
MAX_BYTES = 512_000
# of an answer; a server is not trusted to keep them
MAX_TABLES, MAX_COLUMNS, MAX_ROWS = 200, 64, 200
MAX_SEARCHED = 20_000
"""The most rows of a world that are all read."""
AWAY = "The environment server is unavailable, so other rows are not known."
NO_RECORD = "No environment server recorded how this episode began, so other rows are not known."


@dataclass(frozen=True)
class StartTablesPage:
    """The initial tables of an environment with their row counts, and some rows of one; `problem` says why they are
    unknown."""

    problem: str = ""
    tables: dict[str, int] = field(default_factory=dict)
    more: int = 0
    columns: list[str] = field(default_factory=list)
    key: list[str] = field(default_factory=list)
    offset: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)


def start_of(episode: Episode, table: str = "", offset: int = 0) -> StartTablesPage:
    """Return the initial tables of an episode, with rows of the named table."""
    base = episode.world.get("base") if isinstance(episode.world, dict) else None
    if not isinstance(base, dict) or not settings.ATTEST_KEY:
        return StartTablesPage(NO_RECORD)
    about = {"scenario": episode.scenario, "clock": base.get("clock"), "digest": base.get("digest")}
    asked = json.dumps([about, table, offset], sort_keys=True)
    return _answers.of(asked, {**about, "table": table, "offset": offset})


def all_values(scenario: str, base: Any) -> dict[str, list[Any]]:
    """Return the values of each column name, over all rows of all tables. Raises `NoServer` if one cannot be read.

    `base` is the clock and the digest of a recorded world.
    """
    if not isinstance(base, dict) or not settings.ATTEST_KEY:
        raise NoServer(NO_RECORD)
    about = {"scenario": scenario, "clock": base.get("clock"), "digest": base.get("digest")}
    first, columns = _read_page(about, "", 0), dict[str, list[Any]]()
    if first.more or sum(first.tables.values()) > MAX_SEARCHED:
        raise NoServer(f"{scenario} has more than {MAX_TABLES} tables or {MAX_SEARCHED} rows.")
    for table, count in first.tables.items():
        read = 0
        while read < count:
            page = _read_page(about, table, read)
            read += len(page.rows)
            for row in page.rows:
                for column, value in row.items():
                    columns.setdefault(column, []).append(value)
            if not page.rows:
                raise NoServer(f"The environment server does not show all rows of {scenario}.")
    return columns


def _read_page(about: dict[str, Any], table: str, offset: int) -> StartTablesPage:
    page = _fetched({**about, "table": table, "offset": offset})
    if page.problem:
        raise NoServer(page.problem)
    return page


class _Answers:
    """A cache of the last responses. A failure is cached briefly, so that an unavailable server is not asked at every
    step."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[float, StartTablesPage]] = OrderedDict()
        self._lock = Lock()

    def of(self, key: str, about: dict[str, Any]) -> StartTablesPage:
        with self._lock:
            ends, page = self._kept.get(key, (0.0, StartTablesPage()))
        if time.monotonic() < ends:
            return page
        # outside the lock: two requests can ask for the same page, but none waits for the other's
        page = _fetched(about)
        with self._lock:
            # the start of a recorded world never changes; a failure can pass
            self._kept[key] = (time.monotonic() + (FAILED_S if page.problem else float("inf")), page)
            self._kept.move_to_end(key)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return page


_answers = _Answers()


def _fetched(about: dict[str, Any]) -> StartTablesPage:
    try:
        with httpx.Client(base_url=address(), timeout=PATIENCE_S, trust_env=False) as client:
            # signed with the key that both sides share, and valid for two minutes: an agent may reach the port
            with client.stream("POST", "/start_tables", json=question(settings.ATTEST_KEY, about)) as answer:
                body = b"".join(_bounded(answer))
        reply = json.loads(body)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError):
        return StartTablesPage(AWAY)
    if not isinstance(reply, dict) or not answer.is_success:
        reason = reply.get("detail") if isinstance(reply, dict) else None
        return StartTablesPage(f"Other rows are not known. {reason[:300]}" if isinstance(reason, str) else AWAY)
    return _reply_page(reply)


def _bounded(answer: httpx.Response) -> Any:
    size = 0
    for part in answer.iter_bytes():
        size += len(part)
        # counted as it arrives, before it is all in memory
        if size > MAX_BYTES:
            raise ValueError("more than a page of rows")
        yield part


def _reply_page(reply: dict[str, Any]) -> StartTablesPage:
    """Return what a server said, as far as it has the form of an answer."""
    tables = [one for one in _list(reply.get("tables")) if isinstance(one, dict)][:MAX_TABLES]
    columns = [str(name) for name in _list(reply.get("columns"))][:MAX_COLUMNS]
    rows = [row for row in _list(reply.get("rows")) if isinstance(row, list)][:MAX_ROWS]
    return StartTablesPage(
        tables={str(one.get("name")): _count(one.get("rows")) for one in tables},
        more=_count(reply.get("more")),
        columns=columns,
        key=[str(name) for name in _list(reply.get("key"))][:MAX_COLUMNS],
        offset=_count(reply.get("offset")),
        # a row that is too short lacks its last cells
        rows=[dict(zip(columns, row, strict=False)) for row in rows],
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _count(value: Any) -> int:
    # not isinstance: a bool is an int in Python
    return value if type(value) is int and value > 0 else 0
