"""Episodes of the built-in loop in a real world, with faults at their writes: every commit is one, found by counting.

A fault comes before a commit, which then does not happen, or after it, when its writer does not hear of it. It ends the
worker, or it is a database that went away. Another attempt takes over as it does in the product.
"""

from __future__ import annotations

import contextlib
import json
import random
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.db import OperationalError, connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone

from awmclient.policies import Turn
from awmclient.words.toolcalls import Call
from episodes.record import appending, ending
from episodes.stored import settled
from episodes.visible.trajectory import steps_of
from experts.models import Ask
from experts.record import advising, queue
from people.models import new_id
from runs import tasks
from runs.launch import launching
from runs.play import local, playing
from tests.awmenv.conftest import OpenFolders, start_server

WORKER = "rollouts@here"
PLACES, KINDS = ("before", "after"), ("killed", "database away")
MOST_ATTEMPTS = 12
HANG_S = 60
"""Who waits so long for an answer that is there never comes to it: then the question falls back, and a test fails."""
WRITES = ("INSERT", "UPDATE", "DELETE")
CODE = """
import os
import time
from fastapi import FastAPI
from pydantic import BaseModel
from sqlalchemy import create_engine, text

engine = create_engine(os.getenv("DATABASE_PATH", "sqlite:///x.db"))
app = FastAPI()
calls = 0


class Row(BaseModel):
    word: str


@app.post("/rows", operation_id="add_row")
def add_row(row: Row) -> dict:
    global calls
    calls += 1
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO t (word) VALUES (:word)"), {"word": row.word})
        rows = connection.execute(text("SELECT count(*) FROM t")).scalar()
    return {"rows": rows, "calls": calls}


@app.post("/drift", operation_id="drift")
def drift() -> str:
    with engine.begin() as connection:  # no record holds this clock
        connection.execute(text("INSERT INTO t (word) VALUES (:word)"), {"word": str(time.monotonic_ns())})
    return "done"


@app.get("/rows", operation_id="count_rows")
def count_rows() -> dict:
    global calls
    calls += 1
    with engine.connect() as connection:
        return {"rows": connection.execute(text("SELECT count(*) FROM t")).scalar(), "calls": calls}
"""
VERIFIER = """
def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    import sqlite3
    with sqlite3.connect(f"file:{final_db_path}?mode=ro", uri=True) as database:
        words = [word for (word,) in database.execute("SELECT word FROM t ORDER BY x")]
    return {"result": "complete" if " ".join(words) == final_answer else "others"}
"""


class Killed(BaseException):
    """The worker ends here."""


class Faults:
    """Counts the commits of one thread, and makes faults of those that are planned: (commit, place, kind)."""

    def __init__(self, planned=()):
        self.planned = {at: (place, kind) for at, place, kind in planned}
        self.commits, self.met = 0, []

    @contextlib.contextmanager
    def armed(self, monkeypatch):
        commit, sent = BaseDatabaseWrapper._commit, appending._sent
        with monkeypatch.context() as patched, connection.execute_wrapper(self._write_alone):
            patched.setattr(BaseDatabaseWrapper, "_commit", lambda wrapper: self._at(lambda: commit(wrapper), wrapper))
            patched.setattr(appending, "_sent", lambda values, **how: self._append_alone(lambda: sent(values, **how)))
            yield

    def _append_alone(self, write):
        """An append that continues its episode is one statement, past Django's cursor, and commits itself."""
        connection.ensure_connection()
        return write() if connection.in_atomic_block else self._at(write, connection)

    def _write_alone(self, execute, sql, params, many, context):
        """A write outside a transaction commits itself."""
        wrapper = context["connection"]
        if wrapper.in_atomic_block or not sql.lstrip().startswith(WRITES):
            return execute(sql, params, many, context)
        return self._at(lambda: execute(sql, params, many, context), wrapper)

    def _at(self, write, wrapper):
        self.commits += 1
        place, kind = self.planned.pop(self.commits, ("", ""))
        if not place:
            return write()
        self.met.append((self.commits, place, kind))
        if place == "after":
            write()
        elif wrapper.in_atomic_block or wrapper.connection.info.transaction_status:
            wrapper._rollback()
        wrapper.run_on_commit = []
        raise Killed if kind == "killed" else OperationalError("the connection was closed")


class Plan:
    """A policy that knows its turns: calls, a question, an answer. It keeps nothing between turns."""

    def __init__(self, turns):
        self.turns = turns

    async def act(self, view):
        turn = self.turns[view.turn - 1]
        if "answer" in turn:
            return Turn(answer=turn["answer"])
        return Turn(content=turn.get("say", ""), calls=[Call(name, arguments) for name, arguments in turn["calls"]])


def plan(seed=None):
    """Turns of one to three calls, one question, an answer that lists what was written."""
    if seed is None:
        return plan_of([["a", "b"], ["?"], ["ask"], ["c"]])
    chance = random.Random(seed)
    turns = [[chance.choice("abcdef?") for _ in range(chance.randint(1, 3))] for _ in range(chance.randint(2, 4))]
    turns.insert(chance.randint(1, len(turns)), ["ask"])
    return plan_of(turns)


def plan_of(turns):
    calls = {"?": ("count_rows", {}), "drift": ("drift", {}), "ask": ("ask_expert", {"question": "Which word next?"})}
    planned = [{"calls": [calls.get(one) or ("add_row", {"word": one}) for one in turn]} for turn in turns]
    words = [one for turn in turns for one in turn if one not in calls]
    return [{"say": "Let me see.", **planned[0]}, *planned[1:], {"answer": " ".join(words)}]


def pack(folder: Path) -> Path:
    folder.mkdir(parents=True)
    table = {"name": "t", "ddl": "CREATE TABLE t (x INTEGER PRIMARY KEY, word TEXT)", "indexes": []}
    tables = [{"table_name": "t", "insert_statements": []}]
    rows = {
        "gen_scenario": {"name": "words_1", "description": ""},
        "gen_tasks": {"scenario": "words_1", "tasks": ["Write words."]},
        "gen_db": {"scenario": "words_1", "db_schema": {"tables": [table]}},
        "gen_sample": {"scenario": "words_1", "sample_data": {"tables": tables}},
        "gen_envs": {"scenario": "words_1", "full_code": CODE},
        "gen_verifier.pure_code": {"scenario": "words_1", "task_idx": 0, "verification": {"code": VERIFIER}},
        "scripts": {"scenario": "words_1", "task_idx": 0, "scripts": {"oracle": [{"answer": "done"}]}},
    }
    for file, row in rows.items():
        (folder / f"{file}.jsonl").write_text(json.dumps(row) + "\n")
    return folder


class Desk:
    """Plays episodes to their verdict, each with its faults; answers its asks in between as an expert would."""

    def __init__(self, ada, edo, monkeypatch):
        self.ada, self.edo, self.monkeypatch, self.owed = ada, edo, monkeypatch, []
        monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: None)
        monkeypatch.setattr(launching, "judge_later", lambda pk, delay_s=0: self.owed.append(pk))

    def played(self, turns, faults):
        """Return the episode at its end, and how many attempts it took."""
        self.monkeypatch.setattr(playing, "policy_of", lambda episode: Plan(turns))
        policy = {"awmweb": "script", "script": "oracle", "ask_deadline_s": HANG_S}
        start = launching.LaunchRequest("words_1", 0, "Write words.", policy, expert="plain")
        episode = launching.launch(self.ada, "faulty", [start]).episodes.get()
        for tries in range(1, MOST_ATTEMPTS):
            try:
                with faults.armed(self.monkeypatch):
                    self._work(episode)
            except Killed:
                tasks.take_over(SimpleNamespace(hostname=WORKER, controller=SimpleNamespace(concurrency=16)))
            except OperationalError:
                pass  # the task is made again
            ending.lose_silent(timezone.now() + timedelta(days=2))  # no worker has it now
            self._answer(episode)
            episode.refresh_from_db()
            if not episode.is_live and not settled.unverified().filter(pk=episode.pk).exists():
                return episode, tries
            if not episode.is_live and episode.pk not in self.owed:
                self.owed.append(episode.pk)
        raise AssertionError(f"{episode.state} after {tries} attempts, {list(episode.events.values_list('verb'))}")

    def _work(self, episode):
        if episode.pk in self.owed:
            self.owed.remove(episode.pk)
            playing.judge(episode.pk)
        else:
            playing.play(episode.pk, WORKER)

    def _answer(self, episode):
        for ask in Ask.objects.open().filter(episode=episode):
            lease = queue.claim(self.edo, ask.pk)
            advising.answer(self.edo, lease.assignment_id, lease.lease_token, "The next one.", new_id(), [])


@pytest.fixture(scope="session")
def words():
    """A server with the pack of words, and the folder that has it."""
    folders = OpenFolders()
    folder = folders.mktemp("var")
    running = start_server(folders.mktemp("awmenv"), pack(folder / "packs" / "words"), own_zygotes=False)
    yield running, folder
    running.stop()
    folders.remove()


@pytest.fixture
def desk(words, ada, edo, settings, monkeypatch):
    server, settings.VAR = words
    settings.AWMENV_URL = server.url
    settings.AWMWEB_PARK_AFTER_S = 0
    monkeypatch.setattr(local, "FIRST_PAUSE_S", 0.02)
    return Desk(ada, edo, monkeypatch)


def told(episode):
    """What must be the same however often an episode was taken over: its end, its steps, its final database."""
    outcome = [(one.reward_type, one.reward) for one in episode.outcomes.all()]
    end = (episode.state, episode.stop_reason, episode.fault, episode.final_answer, outcome)
    return end, [_bare(step) for step in steps_of(episode)], episode.world.get("final", "")


def _bare(step):
    """A step without times, ids, and what the server measured."""
    bare = {name: value for name, value in step.items() if name not in ("at", "ask", "details", "meta", "advice")}
    mark = (step.get("meta") or {}).get("world") or {}
    advice = (step.get("advice") or {}).get("text")
    return bare | {"mark": {name: value for name, value in mark.items() if name != "clock"}, "advice": advice}


def added(episode):
    """Return the words in the order in which the surviving world took them."""
    return [step["arguments"]["word"] for step in steps_of(episode) if step.get("name") == "add_row"]


def walked(desk, turns, faults_at):
    """Play a plan without a fault, then once for each list of faults that `faults_at` gives for its number of commits;
    every time the record and the final database are the same. Returns how many episodes were played, and attempts."""
    calm = Faults()
    first, attempts = desk.played(turns, calm)
    words = turns[-1]["answer"].split()
    assert added(first) == words and first.outcomes.get().reward_type == "complete" and first.world["final"]
    wanted, played = told(first), 1
    for faults in faults_at(calm.commits):
        episode, tries = desk.played(turns, made := Faults(faults))
        assert made.met[0] == faults[0], faults
        assert told(episode) == wanted, (faults, made.met)
        assert added(episode) == words
        played, attempts = played + 1, attempts + tries
    return played, attempts
