"""Steps by month: moved while a loop writes, also when killed; read, found, exported; a month leaves; and back."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime

import pytest

from awmweb.partitions.months import Month, between, month_named, month_of
from people.models import first_id, new_id
from tests.running import product, until

PAST = [(2026, 1), (2026, 2), (2026, 8)]
EACH, STEPS = 12, 25
FILL = f"""
from datetime import UTC, datetime
from awmclient.schema import STEP, EpisodeStart, Finish, StepBatch
from episodes.models import Episode, EpisodeEvent
from episodes.record import ending, indexing, recording
from people import models
from people.access import system_actor
actor = system_actor("demo")
for year, month in {PAST}:
    for number in range({EACH}):
        at = datetime(year, month, 3 + number, tzinfo=UTC)
        models.time.time = lambda at=at: at.timestamp()
        one, _ = recording.start_episode(actor, EpisodeStart(key=f"{{year}}-{{month}}-{{number}}", task="t"))
        message = dict(kind="message", role="assistant", content=f"word{{month}}")
        said = [dict(seq=n, **message) for n in range(1, {STEPS} + 1)]
        recording.append_steps(actor, one.pk, StepBatch.model_validate({{"steps": said}}).steps)
        ending.finish(actor, one.pk, Finish(stop_reason="done"))
indexing.work()
"""
KILLED = """
import os, signal
from awmweb.partitions import moving
from django.core.management import call_command
moving.BATCH, copy, seen = 100, moving._copy_one, []
def once(last, upto):
    if len(seen) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    seen.append(upto)
    return copy(last, upto)
moving._copy_one = once
call_command("partitionsteps")
"""
LOOK = """
import json
from django.db import connection
from episodes.models import Episode, Step
from episodes.visible.trajectory import steps_of
with connection.cursor() as cursor:
    cursor.execute("SELECT relkind FROM pg_class WHERE oid = 'episodes_step'::regclass")
    kind = cursor.fetchone()[0]
every = {one.key: [step["seq"] for step in steps_of(one)] for one in Episode.objects.order_by("pk")}
print("SEEN", json.dumps({"kind": kind, "steps": Step.objects.count(), "episodes": every}))
"""
LATE = """
import json
from datetime import UTC, datetime
from django.db import IntegrityError
from django.utils import timezone
from awmclient.schema import EpisodeStart, Finish, StepBatch
from awmweb.partitions import keeping, tables
from episodes.record import recording
from people import models
from people.access import system_actor
month, real = keeping.months()[-1], models.time.time
tables.run(f"DROP TABLE {month.table}")
models.time.time = lambda: datetime(month.year, month.month, 5, tzinfo=UTC).timestamp()
one, _ = recording.start_episode(system_actor("demo"), EpisodeStart(key="late", task="t"))
models.time.time = real
said = [dict(seq=n, kind="note", content="late") for n in (1, 2, 3)]
recording.append_steps(system_actor("demo"), one.pk, StepBatch.model_validate({"steps": said}).steps)
ending.finish(system_actor("demo"), one.pk, Finish(stop_reason="done"))
count = lambda table: tables.rows(f"SELECT count(*) FROM {table}")[0][0]
before = count(tables.REST)
new = keeping.ensure(timezone.now())
print("SEEN", json.dumps([before, new == [month], count(tables.REST), count(month.table)]))
for last in (False,) * 99 + (True,):
    try:
        one.delete()
        break
    except IntegrityError:  # the indexer wrote facts of it meanwhile
        if last:
            raise
"""
ERASED = "2026-1-3"
DEPARTED = f"""
KEY = {ERASED!r}
import json
from django.db import connection
from episodes.models import Episode
with connection.cursor() as cursor:
    count = lambda: (cursor.execute("SELECT count(*) FROM episodes_step_2026_01"), cursor.fetchone()[0])[1]
    before = count()
    from awmweb.erasing.episodes import erase_episode
    from people.access import system_actor
    erase_episode(system_actor("demo"), Episode.objects.get(key=KEY).pk)
    print("SEEN", json.dumps([before, count()]))
"""


def test_bounds_of_months_are_ids():
    january, december = Month(2026, 1), Month(2025, 12)
    assert december.later() == january and january.later(-1) == december and january.later(13) == Month(2027, 2)
    assert january.first == first_id(datetime(2026, 1, 1, tzinfo=UTC)) and january.first < january.later().first
    now = month_of(datetime.now(UTC))
    assert now.first <= new_id() < now.later().first
    assert month_named("episodes_step_2026_01") == month_named("2026-01") == january
    assert [month_named(said) for said in ("2026-13", "January", "episodes_step_rest")] == [None] * 3
    assert len(list(between(december, Month(2027, 1)))) == 14


def seen(house, script=LOOK):
    return json.loads(house.manage("shell", "-c", script).split("SEEN", 1)[1])


class Loop(threading.Thread):
    """A loop that writes one episode, batch after batch, until it is asked to end."""

    def __init__(self, house):
        super().__init__()
        self.agent, self.last, self.ending = house.http(house.token("agent")), 0, threading.Event()
        self.problems = []
        self.id = self.agent.post("/episodes", json={"key": "live", "task": "t"}).json()["id"]

    def run(self):
        while not self.ending.is_set():
            steps = [{"seq": self.last + n, "kind": "note", "content": "live"} for n in (1, 2, 3)]
            answer = self.agent.post(f"/episodes/{self.id}/steps", json={"steps": steps})
            if answer.status_code != 200:
                self.problems.append(answer.text)
                return
            self.last += 3

    def end(self):
        self.ending.set()
        self.join(60)
        assert self.problems == [] and self.last > 0
        return self.last


@pytest.fixture(scope="module")
def house():
    with product() as running:
        running.manage("shell", "-c", FILL)
        yield running


@pytest.mark.long
def test_steps_move_by_month_and_back(house, tmp_path):
    before = seen(house)
    assert before["kind"] == "r" and before["steps"] == len(PAST) * EACH * STEPS
    loop = Loop(house)
    loop.start()
    code, *said = house.commands.run("shell", "-c", KILLED)
    assert code == -9, said
    assert "A move to partitions has begun: 3" in house.manage("partitionsteps", "--status")
    assert seen(house)["kind"] == "r"
    said = house.manage("partitionsteps")
    assert "Partitioned. The table was locked for" in said
    until(lambda: loop.last > 30, 60)
    live = loop.end()
    moved = seen(house)
    assert moved["kind"] == "p"
    assert moved["episodes"] == before["episodes"] | {"live": list(range(1, live + 1))}
    status = house.manage("partitionsteps", "--status")
    assert "episodes_step_2026_01" in status and "episodes_step_rest" in status
    assert "New months: none" in house.manage("partitionsteps")
    # a step that no month takes waits in the last partition, until its month is made
    assert seen(house, LATE) == [3, True, 0, 3]
    reader = house.http(house.token("read"))
    found = reader.get("/episodes", params={"q": "word2"}).json()["items"]
    assert len(found) == EACH
    assert len(reader.get(f"/episodes/{found[0]['id']}/steps").json()["steps"]) == STEPS
    rows_of(house, tmp_path, 0)
    a_month_leaves(house, tmp_path, reader)
    assert "One table again" in house.manage("partitionsteps", "--undo")
    after = seen(house)
    left = {key: said for key, said in moved["episodes"].items() if key != ERASED}
    gone = {key: steps for key, steps in moved["episodes"].items() if key.startswith("2026-1-")}
    assert after["kind"] == "r"
    assert after["episodes"] == {key: [] if key in gone else said for key, said in left.items()}
    agent = house.http(house.token("agent"))
    last = {"steps": [{"seq": live + 1, "kind": "note", "content": "after"}]}
    assert agent.post(f"/episodes/{loop.id}/steps", json=last).status_code == 200


def rows_of(house, folder, erased):
    """Export all episodes; those of a month that left say so."""
    house.manage("export", "--format", "raw", "--filter", "outcome=none", "--output", str(folder / "rows.jsonl"))
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    assert len(rows) == len(PAST) * EACH
    assert sum(row["not_for_training"] == "steps_erased" and row["steps"] == [] for row in rows) == erased
    assert sum(len(row["steps"]) for row in rows) == (len(rows) - erased) * STEPS


def a_month_leaves(house, folder, reader):
    with pytest.raises(AssertionError, match="is not over"):
        house.manage("partitionsteps", "--detach", str(month_of(datetime.now(UTC))))
    said = house.manage("partitionsteps", "--detach", "2026-01")
    assert f"{EACH} episodes. The table was locked for 0." in said
    assert "episodes_step_2026_01    detached" in house.manage("partitionsteps", "--status")
    assert reader.get("/episodes", params={"q": "word1"}).json()["items"] == []
    rows_of(house, folder, EACH)
    # who erases an episode of that month erases its steps there, too
    assert seen(house, DEPARTED) == [EACH * STEPS, (EACH - 1) * STEPS]
