"""Steps in one table beside steps by month: ingest, an episode's steps, search, export, and a month that leaves.

Two databases with the same steps, one of them moved by `manage.py partitionsteps`. They are measured in turn, so other
work on the machine slows both: read `ratio` (by month to one table). `BENCH_STEPS` (by default 200,000) sets the size,
and `BENCH_FOLDER` where the data is; 20,000,000 take
40 GB. Run as `python bench/partitions.py`; one JSON object a line.
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
from typing import Any
from urllib.parse import urlsplit

import psycopg

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from awmweb.embedded import servers  # noqa: E402

STEPS = int(os.environ.get("BENCH_STEPS", "200000"))
EACH, ROUNDS, FOUND_IN = 200, 5, 20
"""Steps of an episode, rounds of each database, and the share of episodes (one in 20) whose words are searched."""
MONTHS = 24
PREPARE = """
from people.members import ensure_project
from people.access import system_actor
from awmclient.schema import EpisodeStart, Finish
from episodes.models import Run
from episodes.record import recording
ensure_project("demo", "demo")
actor = system_actor("demo")
run = Run.objects.create(project=actor.project, name="some", expert="off")
one, _ = recording.start_episode(actor, EpisodeStart(key="template", task="t"))
recording.finish(actor, one.pk, Finish(stop_reason="done"))
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
import json, os, random, statistics, time
from django.conf import settings
settings.ALLOWED_HOSTS = ["*"]
from django.core.management import call_command
from django.test import Client
from awmclient.schema import EpisodeStart, StepBatch
from episodes.models import Episode
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
one, _ = recording.start_episode(actor, EpisodeStart(key=os.urandom(8).hex(), task="t"))
batches = [batch(40 * n) for n in range(100)]
ingest = timed(lambda: [recording.append_steps(actor, one.pk, said) for said in batches])
def get(path):
    answer = client.get("/api/v1" + path)
    assert answer.status_code == 200, answer.content
    return answer
dice = random.Random(%d)
ids = json.loads(os.environ["BENCH_IDS"])
get(f"/episodes/{ids[0]}/steps")
page = statistics.median(timed(lambda pk=pk: get(f"/episodes/{pk}/steps?limit=200")) for pk in dice.sample(ids, 30))
words = ["frequent", "word7", "word11", "word13"]
search = statistics.median(timed(lambda said=said: get(f"/episodes?q={said}")) for said in words * 3)
export = timed(lambda: call_command("export", format="raw", filter=["run=some"], output=os.environ["BENCH_FILE"]))
print("MADE", json.dumps({"ingest": 4000 / ingest, "page": page * 1000, "search": search * 1000, "export": export}))
"""
TAKEN = """
SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname),
       format('ALTER TABLE %s ADD CONSTRAINT %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
  FROM pg_constraint
 WHERE conrelid = 'episodes_step'::regclass AND contype IN ('f', 'u')
"""
UNITS = {"ingest": "steps/s", "page": "ms", "search": "ms", "export": "s"}


class Databases:
    """The databases of one PostgreSQL, and commands of the product on them."""

    def __init__(self, var: Path, database: str, queue: str) -> None:
        self.var, self.url, self.queue = var, database, queue
        self.name = psycopg.conninfo.conninfo_to_dict(database)["dbname"]

    def of(self, name: str) -> str:
        return urlsplit(self.url)._replace(path=f"/{name}").geturl()

    def manage(self, name: str, *arguments: str, **more: str) -> str:
        environment = os.environ | {"AWMWEB_VAR": str(self.var), "REDIS_URL": self.queue, "DATABASE_URL": self.of(name)}
        command = [sys.executable, "manage.py", *arguments]
        done = subprocess.run(command, cwd=ROOT, env=environment | more, capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(done.stdout + done.stderr)
        return done.stdout

    def made(self, name: str, script: str, **more: str) -> str:
        return self.manage(name, "shell", "-c", script, **more).split("MADE", 1)[1].strip()


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


def measure(here: Databases, ids: list[str]) -> None:
    found: dict[str, list[dict[str, Any]]] = {here.name: [], "months": []}
    for turn in range(ROUNDS + 1):
        for name in (here.name, "months") if turn % 2 else ("months", here.name):
            words = ("createtoken", f"bench {turn}", "--project", "demo", "--scope", "read")
            token = here.manage(name, *words).split()[-1]
            more = {"BENCH_TOKEN": token, "BENCH_IDS": json.dumps(ids), "BENCH_FILE": str(here.var / f"{name}.jsonl")}
            got = json.loads(here.made(name, MEASURE % turn, **more))
            if turn:  # the first one warms the caches
                found[name].append(got)
    for what, unit in UNITS.items():
        plain, parted = ([one[what] for one in found[name]] for name in (here.name, "months"))
        ratios = [after / before for before, after in zip(plain, parted, strict=True)]
        say(what, statistics.median(parted), unit, limit=round(statistics.median(plain), 3),
            ratio=round(statistics.median(ratios), 3), ratios=[round(one, 2) for one in ratios])  # fmt: skip


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
