"""Steps in one table beside steps by month: ingest, an episode's steps, search, export, and a month that leaves.

Two databases with the same steps, one of them moved by `manage.py partitionsteps`. They are measured in turn, so other
work on the machine slows both: read `ratio` (by month to one table, of medians). `BENCH_STEPS` (by default 200,000)
sets the size, and `BENCH_FOLDER` where the data is; 20,000,000 take 40 GB. Run as `python bench/partitions.py`; one
JSON object a line.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from awmweb.embedded import servers  # noqa: E402

STEPS = int(os.environ.get("BENCH_STEPS", "200000"))
EACH, ROUNDS, EXPORTS, FOUND_IN = 200, 40, 5, 20
"""Steps of an episode, rounds of each database, those of exports, and of how many episodes one has words."""
MONTHS = 24
PREPARE = """
from people.record.members import ensure_project
from people.access import system_actor
from awmclient.schema import EpisodeStart, Finish
from episodes.models import Run
from episodes.record import ending, recording
ensure_project("demo", "demo")
actor = system_actor("demo")
run = Run.objects.create(project=actor.project, name="some", expert="off")
one, _ = recording.start_episode(actor, EpisodeStart(key="template", task="t"))
ending.finish(actor, one.pk, Finish(stop_reason="done"))
print("MADE", one.pk, run.pk)
"""
IDS = """
import json, sys
from datetime import UTC, datetime, timedelta
from people.models import first_id
count, months = {count}, {months}
start = datetime.now(UTC) - timedelta(days=30 * months)
gap = timedelta(days=30 * months) / (count + 1)
print("MADE", json.dumps([first_id(start + gap * n) for n in range(1, count + 1)]))
"""
MEASURE = """
import io, json, os, random, statistics, sys, time
from django.conf import settings
settings.ALLOWED_HOSTS = ["*"]
from django.core.management import call_command
from django.test import Client
from awmclient.schema import EpisodeStart, StepBatch
from episodes.record import recording
from people.access import system_actor
actor, client = system_actor("demo"), Client(HTTP_AUTHORIZATION="Bearer " + os.environ["BENCH_TOKEN"])
def timed(what):
    began = time.perf_counter()
    what()
    return time.perf_counter() - began
def batch(at):
    rows = [dict(seq=at + n, kind="tool_call", name="get", arguments={"id": n}, result="x" * 300) for n in range(1, 41)]
    return StepBatch.model_validate({"steps": rows}).steps
def get(path):
    answer = client.get("/api/v1" + path)
    assert answer.status_code == 200, answer.content
    return answer
batches = [batch(40 * n) for n in range(10)]
ids = json.loads(os.environ["BENCH_IDS"])
def ingest(dice):
    one, _ = recording.start_episode(actor, EpisodeStart(key=os.urandom(8).hex(), task="t"))
    return timed(lambda: [recording.append_steps(actor, one.pk, said) for said in batches]) / 10 * 1000
def page(dice):
    took = [timed(lambda pk=pk: get(f"/episodes/{pk}/steps?limit=200")) for pk in dice.sample(ids, 3)]
    return statistics.median(took) * 1000
def search(dice):
    return timed(lambda: get("/episodes?q=" + dice.choice(["frequent", "word7", "word11", "word13"]))) * 1000
def export(dice):
    options = dict(format="raw", filter=["run=some"], output=os.environ["BENCH_FILE"], stdout=io.StringIO())
    return timed(lambda: call_command("export", **options))
print("MADE ready", flush=True)
known = {"ingest": ingest, "page": page, "search": search, "export": export}
for line in sys.stdin:
    what, turn = line.split()
    print("MADE", known[what](random.Random(turn)), flush=True)
"""
TAKEN = """
SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname),
       format('ALTER TABLE %s ADD CONSTRAINT %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
  FROM pg_constraint
 WHERE conrelid = 'episodes_step'::regclass AND contype IN ('f', 'u')
"""
UNITS = {"ingest": "ms for 40 steps", "page": "ms", "search": "ms", "export": "s"}


class Databases:
    """The databases of one PostgreSQL, and commands of the product on them."""

    def __init__(self, var: Path, database: str, queue: str) -> None:
        self.var, self.url, self.queue = var, database, queue
        self.name = str(psycopg.conninfo.conninfo_to_dict(database)["dbname"])

    def of(self, name: str) -> str:
        return urlsplit(self.url)._replace(path=f"/{name}").geturl()

    def environment(self, name: str) -> dict[str, str]:
        return os.environ | {"AWMWEB_VAR": str(self.var), "REDIS_URL": self.queue, "DATABASE_URL": self.of(name)}

    def manage(self, name: str, *arguments: str) -> str:
        command = [sys.executable, "manage.py", *arguments]
        done = subprocess.run(
            command, cwd=ROOT, env=self.environment(name), capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise AssertionError(done.stdout + done.stderr)
        return done.stdout

    def made(self, name: str, script: str) -> str:
        return self.manage(name, "shell", "-c", script).split("MADE", 1)[1].strip()


def say(name: str, value: float, unit: str, **more: object) -> None:
    print(json.dumps({"name": f"partitions.{name}", "value": round(value, 3), "unit": unit, **more}), flush=True)


def fill(here: Databases) -> list[str]:
    """Fill the first database with episodes of two years, in the order of their IDs; return some of them."""
    here.manage(here.name, "migrate", "--verbosity", "0")
    template, run = here.made(here.name, PREPARE).split()
    count = STEPS // EACH
    ids = json.loads(here.made(here.name, IDS.format(count=count, months=MONTHS)))
    body = """'{"seq": ' || s || ', "kind": "tool_call", "name": "get_ticket", "arguments": {"call": ' || s
        || '}, "result": {"text": "frequent word' || n %% 50 || ' ' || repeat(md5(n::text || s::text), 9) || '"}}'"""
    with psycopg.connect(here.of(here.name), autocommit=True) as connection:
        connection.execute("SET synchronous_commit = off; SET maintenance_work_mem = '1GB'")
        connection.execute("CREATE TABLE ids (n int, id text)")
        with connection.cursor().copy("COPY ids FROM STDIN") as copy:
            for n, one in enumerate(ids):
                copy.write_row((n, one))
        names = [name for (name,) in connection.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_name = 'episodes_episode'"
        )]  # fmt: skip
        own = {"id": "ids.id", "key": "ids.id", "last_seq": str(EACH), "strip": f"repeat('r', {EACH})"}
        own["run_id"] = f"CASE WHEN n % {max(count // 500, 1)} = 0 THEN '{run}' END"
        values = ", ".join(own.get(name, f"one.{name}") for name in names)
        connection.execute(
            f"INSERT INTO episodes_episode ({', '.join(names)}) SELECT {values} FROM episodes_episode one, ids "
            f"WHERE one.id = '{template}'"
        )
        # without constraints and their indexes while it fills
        taken = connection.execute(TAKEN).fetchall()
        for drop, _ in taken:
            connection.execute(drop)
        connection.execute(
            "INSERT INTO episodes_step (episode_id, seq, kind, body, at) "
            f"SELECT id, s, 'tool_call', {body.replace('%%', '%')}, now() FROM ids, generate_series(1, {EACH}) s"
        )
        for _, make in taken:
            connection.execute(make)
        connection.execute(
            "INSERT INTO episodes_stepwords (step_id, episode_id, seq, words) SELECT step.id, episode_id, seq, "
            "to_tsvector('simple', 'frequent word' || n % 50 || ' ' || seq) FROM ids "
            f"JOIN episodes_step step ON episode_id = ids.id WHERE n % {FOUND_IN} = 0"
        )
        connection.execute(
            "INSERT INTO episodes_episodewords (episode_id, words) SELECT id, to_tsvector('simple', 'frequent word' || "
            f"n % 50) FROM ids WHERE n % {FOUND_IN} = 0"
        )
        connection.execute(
            "INSERT INTO episodes_episodefacts (episode_id, read_seq, joined_seq, done, errors, asks, tools, answered, "
            f"waiting) SELECT id, {EACH}, {EACH}, true, 0, 0, '{{}}', '{{}}', '{{}}' FROM ids"
        )
        connection.execute("DROP TABLE ids")
        connection.execute("VACUUM ANALYZE")
    return ids[:: max(count // 200, 1)]


def move(here: Databases) -> None:
    with psycopg.connect(here.of("postgres"), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE months TEMPLATE "{here.name}" STRATEGY file_copy')
    began = time.monotonic()
    said = here.manage("months", "partitionsteps")
    took = time.monotonic() - began
    locked = float(said.rsplit("locked for", 1)[1].split()[0])
    say("move", took, "s", steps=STEPS, per_s=round(STEPS / took), locked_s=locked)
    here.manage(
        "months", "shell", "-c", "from awmweb.partitions.tables import run; run('VACUUM ANALYZE episodes_step')"
    )


class Worker:
    """A process of the product on one database, which does one thing at a time."""

    def __init__(self, here: Databases, name: str, ids: list[str]) -> None:
        words = ("createtoken", "bench", "--project", "demo", "--scope", "read")
        more = {"BENCH_TOKEN": here.manage(name, *words).split()[-1], "BENCH_IDS": json.dumps(ids)}
        more["BENCH_FILE"] = str(here.var / f"{name}.jsonl")
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "shell", "-c", MEASURE],
            cwd=ROOT, env=here.environment(name) | more, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._answer()

    def do(self, what: str, turn: int) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{what} {turn}\n")
        self.process.stdin.flush()
        return float(self._answer())

    def _answer(self) -> str:
        assert self.process.stdout is not None
        return next(line.split()[1] for line in self.process.stdout if line.startswith("MADE"))


def measure(here: Databases, ids: list[str]) -> None:
    plain, parted = (Worker(here, name, ids) for name in (here.name, "months"))
    for what, unit in UNITS.items():
        found: dict[Worker, list[float]] = {plain: [], parted: []}
        for turn in range(-2, EXPORTS if what == "export" else ROUNDS):
            for one in (plain, parted) if turn % 2 else (parted, plain):
                took = one.do(what, turn)
                if turn >= 0:  # the first ones warm the caches
                    found[one].append(took)
        before, after = (statistics.median(found[one]) for one in (plain, parted))
        quick = [min(found[one]) for one in (plain, parted)]
        say(what, after, unit, limit=round(before, 3), ratio=round(after / before, 3),
            fastest=[round(one, 2) for one in quick], load=round(os.getloadavg()[0], 1))  # fmt: skip
    for one in (plain, parted):
        one.process.communicate()


def leave(here: Databases) -> None:
    now = datetime.now(UTC)
    for back in (3, 6, 9):
        month = (now.replace(day=15) - timedelta(days=30 * back)).strftime("%Y-%m")
        began = time.monotonic()
        said = here.manage("months", "partitionsteps", "--detach", month)
        locked = float(said.rsplit("locked for", 1)[1].split()[0])
        say(
            "detach",
            locked,
            "s",
            limit=1.0,
            whole_command_s=round(time.monotonic() - began, 1),
            said=said.splitlines()[-1],
        )


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="awmweb-partitions-", dir=os.environ.get("BENCH_FOLDER")))
    folder.chmod(0o711)
    try:
        with servers.running(folder / "var") as urls:
            here = Databases(folder / "var", urls.database, urls.redis)
            began = time.monotonic()
            ids = fill(here)
            say("filled", time.monotonic() - began, "s", steps=STEPS, load=os.getloadavg()[0])
            move(here)
            measure(here, ids)
            leave(here)
            say("load", os.getloadavg()[0], "processes", cores=os.cpu_count())
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
