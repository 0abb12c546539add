"""Beat goes on when the clock was ahead, and what its tasks did is known."""

from __future__ import annotations

import os
import shelve
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from celery.beat import PersistentScheduler

from awmweb import beat
from awmweb.celery import app, measure_task
from people import measures
from tests.browsing import Browser

SWEEP = "experts.tasks.sweep"


class Sent(list):
    """The names of tasks that a schedule sends."""

    def take(self, entry, producer=None, advance=True, **_):
        self.append(entry.task)


def scheduler(tmp_path, kind, days):
    """A schedule whose file says that everything was sent so many days from now, as Celery itself writes it."""
    file = str(tmp_path / "schedule")
    with closing(PersistentScheduler(app, schedule_filename=file)) as earlier:
        for entry in earlier.schedule.values():
            entry.last_run_at = entry.default_now() + timedelta(days=days)
    with closing(shelve.open(file)) as stored:
        assert all(one.last_run_at for one in stored["entries"].values())
    return kind(app, schedule_filename=file)


def sent_by(monkeypatch, schedule):
    """What it sends after an hour of its life."""
    sent = Sent()
    monkeypatch.setattr(schedule, "apply_entry", sent.take)
    for entry in schedule.schedule.values():
        entry.last_run_at -= timedelta(hours=1)
    schedule._heap = None
    for _ in range(100):
        schedule.tick()
    return set(sent)


@pytest.mark.parametrize(("kind", "sends"), [(PersistentScheduler, False), (beat.Scheduler, True)])
def test_schedule_from_the_future_starts_over(tmp_path, monkeypatch, kind, sends):
    """Celery's own sends nothing, which shows that the file is from the future."""
    schedule = scheduler(tmp_path, kind, days=5)
    assert (SWEEP in sent_by(monkeypatch, schedule)) is sends


def test_schedule_survives_a_clock_that_is_set_back_meanwhile(tmp_path, monkeypatch):
    schedule = scheduler(tmp_path, beat.Scheduler, days=0)
    schedule.tick()
    for entry in schedule.schedule.values():  # as ticks leave it while the clock is ahead
        entry.last_run_at += timedelta(days=5)
    schedule._heap = None
    schedule.populate_heap()
    assert schedule.tick() < 60  # the next one is due within seconds: Celery's own would sleep
    assert {SWEEP, "runs.tasks.wake", "notices.tasks.send"} <= sent_by(monkeypatch, schedule)


def test_missed_night_is_made_up_for(tmp_path, monkeypatch):
    schedule = scheduler(tmp_path, beat.Scheduler, days=-2)
    assert "awmweb.tasks.retain" in sent_by(monkeypatch, schedule)


def test_beat_of_the_product_uses_this_schedule(tmp_path):
    """A real `celery beat`, on a file from the future."""
    scheduler(tmp_path, beat.Scheduler, days=0).close()
    with closing(PersistentScheduler(app, schedule_filename=str(tmp_path / "schedule"))) as earlier:
        for entry in earlier.schedule.values():
            entry.last_run_at = entry.default_now() + timedelta(days=5)
    words = ["beat", "--loglevel", "warning", "--schedule", str(tmp_path / "schedule"), "--pidfile", ""]
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "awmweb.settings"}
    command = [sys.executable, "-m", "celery", "-A", "awmweb", *words]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        try:
            assert any("the clock was ahead: " in line for line in run.stdout or ())
        finally:
            run.kill()


def test_full_disk_does_not_end_the_schedule(tmp_path, monkeypatch):
    schedule = scheduler(tmp_path, beat.Scheduler, days=0)
    monkeypatch.setattr(PersistentScheduler, "sync", lambda self: os.write(os.open("/dev/full", os.O_WRONLY), b"x"))
    schedule.sync()


@pytest.fixture
def no_record(db):
    measures._ending.set()
    measures._ran.clear()
    measures.connection().delete(measures.RAN)


def ended(task, at):
    measures.connection().hset(measures.RAN, task, at)


def test_health_says_when_each_periodic_task_ran(no_record):
    """From the report of the worker that ran it. One from the future is none."""
    assert Browser().get("/health").json()["beat"][SWEEP] is None
    measure_task("1", SimpleNamespace(name=SWEEP), "SUCCESS")
    measure_task("2", SimpleNamespace(name="runs.tasks.play"), "SUCCESS")
    measures.send("worker")
    ended("runs.tasks.wake", time.time() - 90)
    ended("notices.tasks.send", time.time() + 86_400)
    ran = Browser().get("/health").json()["beat"]
    assert 0 <= ran[SWEEP] < 60 and 90 <= ran["runs.tasks.wake"] < 150
    assert ran["notices.tasks.send"] is None and "runs.tasks.play" not in ran


def test_task_is_overdue_after_its_turn_and_not_before(no_record, monkeypatch):
    monkeypatch.setattr(beat, "STARTED_AT", time.time())  # no turn of a night is between it and now
    ended(SWEEP, time.time() - 605)
    ended("runs.tasks.wake", time.time() - 5)
    ended("awmweb.tasks.retain", (datetime.now(UTC) - timedelta(days=2)).timestamp())
    late = beat.overdue()
    assert 600 <= late[SWEEP] < 660 and late["runs.tasks.wake"] == 0
    assert late["awmweb.tasks.retain"] > 86_400 - 60
    assert late["awmweb.tasks.make_partitions"] == 0 and late["notices.tasks.forget"] == 0
    monkeypatch.setattr(beat, "STARTED_AT", time.time() - 4000)
    assert beat.overdue()["notices.tasks.forget"] >= 400


def test_reports_wait_for_valkey(no_record, monkeypatch):
    measures.note_run(SWEEP)
    with monkeypatch.context() as away:
        away.setattr(measures, "connection", lambda: measures.client("redis://127.0.0.1:1/0"))
        assert not measures.send("worker")
        assert beat.seconds_since() is None
    assert measures.send("worker") and beat.last_runs()[SWEEP] is not None
