"""A row of work that one worker claims at a time: its columns, its conditional updates, and the calls of workers.

Owns the one way to such a row. A worker claims it by raising its attempt; what an older attempt writes afterwards
reaches no row. Leaves what a job does to the app that has it.
"""

from __future__ import annotations

import functools
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, ClassVar, TypeVar

from celery import current_app
from django.conf import settings
from django.db import models, transaction
from django.db.models import QuerySet
from django.utils import timezone
from kombu.exceptions import OperationalError as BrokerError

from people.access import Actor
from people.models import IdField, unheard_since
from people.record.audit import record

log = logging.getLogger(__name__)
# Six beats fit into `SILENT_AFTER`: one slow update does not make a worker look lost.
BEAT_S = 5.0
TOGETHER, LOOKED_AT = 2, 100
"""Children of one command that a worker waits for, and jobs of a kind that are done, at the same time, so that the
worker's other threads stay free; and waiting jobs that are looked at for the next turn."""
WOKEN_PER_SWEEP = 20
"""Forgotten jobs of a kind that one sweep wakes."""
_rooms: dict[str, threading.BoundedSemaphore] = {}


class Job(models.Model):
    """Columns of every kind of job. A kind has its own states, and names the task that does it."""

    TASK: ClassVar[str]
    WORKING: ClassVar[Sequence[str]]
    """States before the end: queued, then the one in which a worker has it."""
    SILENT_AFTER: ClassVar[timedelta] = timedelta(seconds=30)
    """Silence after which a worker counts as lost, and another claims its job."""
    ATTEMPTS_MAX: ClassVar[int] = 3
    STILL_S: ClassVar[float] = 30 * 60
    """Time without progress after which `run_heard` ends a child process."""
    MOST_S: ClassVar[float] = 12 * 3600

    id = IdField()
    state = models.CharField(max_length=10)
    attempt = models.IntegerField(default=0)
    problem = models.TextField(blank=True)
    requested_by = models.CharField(max_length=160, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True

    @property
    def is_working(self) -> bool:
        return self.state in self.WORKING

    @property
    def is_worn_out(self) -> bool:
        """Tell whether its processes ended too often for another one."""
        return self.attempt > self.ATTEMPTS_MAX


J = TypeVar("J", bound=Job)


def request(job: Job, actor: Actor, verb: str, target: str, reason: str = "") -> None:
    """Store a job: 1. the row, 2. its line in the audit trail, 3. a call of a worker once both are committed."""
    with transaction.atomic():
        job.save(force_insert=True)
        record(actor, verb, target, reason)
        call_after_commit(job.TASK, job.pk)


def wake_forgotten(*kinds: type[Job]) -> None:
    """Call a worker for the jobs that none has."""
    for kind in kinds:
        for job_id in _silent(kind).values_list("pk", flat=True)[:WOKEN_PER_SWEEP]:
            call_worker(kind.TASK, job_id)


def _silent(kind: type[J]) -> QuerySet[J]:
    unheard = unheard_since(timezone.now() - kind.SILENT_AFTER)
    return kind._default_manager.filter(unheard, state__in=kind.WORKING)


def claim(kind: type[J], job_id: str, **fields: Any) -> J | None:
    """Claim a job that no worker has; None if it is done, cancelled or claimed. A row that another transaction holds is
    being ended right now.
    """
    with transaction.atomic():
        job = _silent(kind).filter(pk=job_id).select_for_update(skip_locked=True).first()
        if job is None:
            return None
        fields |= {"state": kind.WORKING[1], "attempt": job.attempt + 1, "heartbeat_at": timezone.now()}
        for name, value in fields.items():
            setattr(job, name, value)
        job.save(update_fields=list(fields))
    return job


def begin(job: Job) -> None:
    """Store a job that this process does itself, as claimed: no worker takes it while it is heard."""
    job.state, job.attempt, job.heartbeat_at = job.WORKING[1], 1, timezone.now()
    job.save(force_insert=True)


def is_heard(kind: type[J]) -> QuerySet[J]:
    """Return the jobs that a worker has and that were heard recently."""
    silent = unheard_since(timezone.now() - kind.SILENT_AFTER)
    return kind._default_manager.filter(~silent, state=kind.WORKING[1])


def claimed(job: J) -> QuerySet[J]:
    """Return the row as long as this attempt has it."""
    return type(job)._default_manager.filter(pk=job.pk, attempt=job.attempt, state=job.WORKING[1])


def has_room(kind: type[J], job_id: str) -> bool:
    """Return whether it is a job's turn: few of a kind at a time, and one of a project. A later call finds its row
    otherwise."""
    waits = kind._default_manager.filter(pk=job_id, state__in=kind.WORKING)
    project = waits.values_list("project_id", flat=True).first()
    return project is not None and is_free(is_heard(kind).exclude(pk=job_id), project)


def is_free(others: QuerySet[Any], project: str) -> bool:
    busy = list(others.values_list("project_id", flat=True)[:TOGETHER])
    return len(busy) < TOGETHER and project not in busy


def next_one(kind: type[J]) -> str | None:
    """Return the oldest job that waits and whose turn it is."""
    queued = kind._default_manager.filter(state=kind.WORKING[0]).order_by("created_at").values_list("pk", flat=True)
    return next((pk for pk in queued[:LOOKED_AT] if has_room(kind, pk)), None)


def call_next(kind: type[J]) -> None:
    if (following := next_one(kind)) is not None:
        call_worker(kind.TASK, following)


def progress(job: Job, **fields: Any) -> bool:
    """Write how far it is; false if this attempt was overtaken or the job cancelled."""
    return bool(claimed(job).update(heartbeat_at=timezone.now(), **fields))


def end(job: Job, state: str, problem: str = "", **fields: Any) -> bool:
    return bool(claimed(job).update(state=state, problem=problem[:4000], ended_at=timezone.now(), **fields))


def cancel(job: Job, state: str) -> bool:
    """End a job that has not ended; its worker stops at its next write."""
    waiting = type(job)._default_manager.filter(pk=job.pk, state__in=job.WORKING)
    # Without the attempt: a cancel counts, whichever worker has the job by now.
    return bool(waiting.update(state=state, ended_at=timezone.now()))


@contextmanager
def _room(command: str, job_id: str) -> Iterator[bool]:
    """Hold one of the few threads of this process that may wait for children of a command, if one is free."""
    room = _rooms.setdefault(command, threading.BoundedSemaphore(TOGETHER))
    if not room.acquire(blocking=False):
        log.info("%s %s waits: %s are running", command, job_id, TOGETHER)
        yield False
        return
    try:
        yield True
    finally:
        room.release()


def run_aside(command: str, job_id: str, most_s: float | None = None) -> None:
    """Run a command in a child process, whose writes are the result. The sweep finds a child that was killed, and a job
    that found no room."""
    with _room(command, job_id) as is_free:
        if is_free:
            _run(command, job_id, most_s)


def _run(command: str, job_id: str, most_s: float | None) -> None:
    child = [sys.executable, str(settings.BASE_DIR / "manage.py"), command, job_id]
    try:
        done = subprocess.run(child, check=False, cwd=settings.BASE_DIR, timeout=most_s)
    except subprocess.TimeoutExpired:
        log.warning("%s %s took more than %s s and was stopped", command, job_id, most_s)
    else:
        if done.returncode:
            log.warning("%s %s ended with %s", command, job_id, done.returncode)


def run_heard(kind: type[Job], command: str, job_id: str, *, progress: Sequence[str], failed: str) -> None:
    """Run a command in a child process, as long as its job moves; until it ends, no other worker takes the job.

    A child that moves none of the columns in `progress` for a while, or that takes too long, is ended with all its own
    children, and the job has failed. One that found no room waits for the sweep.
    """
    with _room(command, job_id) as is_free:
        if is_free:
            _run_heard(kind, command, job_id, progress, failed)


def _run_heard(kind: type[Job], command: str, job_id: str, progress: Sequence[str], failed: str) -> None:
    before = kind._default_manager.filter(pk=job_id).values_list("attempt", flat=True).first() or 0
    child = subprocess.Popen(
        [sys.executable, str(settings.BASE_DIR / "manage.py"), command, job_id],
        cwd=settings.BASE_DIR,
        # A group of its own, so that the kill below also ends what the child has started.
        process_group=0,
    )
    began = moved = time.monotonic()
    seen: Any = None
    while (code := _waited(child)) is None:
        # A later attempt than before: the child has claimed the job. A beat before that would keep the child itself
        # from claiming the job of a lost worker, wherever it takes longer to start than `BEAT_S`.
        now, rows = time.monotonic(), kind._default_manager.filter(pk=job_id, state=kind.WORKING[1], attempt__gt=before)
        # Written here, not by the child: a child that hangs must not look lost, or a second one would start beside it.
        rows.update(heartbeat_at=timezone.now())
        # Any change of these columns is progress; the heartbeat is not among them.
        if (at := rows.values_list(*progress).first()) != seen:
            seen, moved = at, now
        if now - moved <= kind.STILL_S and now - began <= kind.MOST_S:
            continue
        # The child can have ended since the last look.
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        why = f"{kind.STILL_S / 60:g} minutes without progress" if now - moved > kind.STILL_S else "the limit of time"
        log.warning("%s %s was stopped: %s", command, job_id, why)
        if (job := rows.first()) is not None:
            end(job, failed, f"Stopped: {why}.")
        return
    if code:
        log.warning("%s %s ended with %s", command, job_id, code)


def _waited(child: subprocess.Popen[bytes]) -> int | None:
    try:
        return child.wait(BEAT_S)
    except subprocess.TimeoutExpired:
        return None


def call_worker(task: str, *args: str, queue: str = "default", delay_s: float = 0) -> bool:
    """Call a worker. A call that is lost costs the time until the next sweep; the answer says whether it was sent."""
    try:
        # A request must not wait for a broker that is down: the next sweep calls for the job.
        current_app.send_task(task, list(args), queue=queue, countdown=delay_s or None, retry=False)
    except BrokerError as error:
        log.warning("no worker could be called for %s, the sweep will: %s", " ".join((task, *args)), error)
        return False
    return True


def call_after_commit(task: str, *args: str, delay_s: float = 0) -> None:
    # A worker that is called before the commit finds no row.
    call = functools.partial(call_worker, task, *args)
    transaction.on_commit(functools.partial(call, delay_s=delay_s) if delay_s else call)
