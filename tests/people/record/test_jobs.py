"""Every kind of job is claimed by one worker at a time, and an earlier attempt's writes reach no row."""

from __future__ import annotations

import re
import sys
import threading
from datetime import timedelta

import pytest
from django.core.management import get_commands, load_command_class
from django.utils import timezone

from awmweb.embedded import services
from exports.models import Export, ExportState, Push
from imports.models import Import
from notices import sending
from people.models import AuditEntry
from people.record import jobs
from tests.commands import ROOT
from tests.running import until

KINDS = jobs.Job.__subclasses__()


@pytest.fixture
def called(monkeypatch):
    calls = []
    monkeypatch.setattr(jobs, "call_worker", lambda *call: calls.append(call))
    return calls


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def job(request, ada, called):
    export = {"project": ada.project, "recipe": {}, "format": "sft"}
    if request.param is Push:
        done = Export.objects.create(**export, state=ExportState.DONE)
        return Push(project=done.project, export=done, repo="lab/rows")
    return request.param(**(export if request.param is Export else {"project": ada.project}))


def test_kinds_of_jobs_are_known():
    assert {Export, Push, Import} == set(KINDS)


def test_commands_of_jobs_load_no_page():
    """Django's checks do, which takes longer than the rest of a start."""
    tasks = "".join(path.read_text() for path in ROOT.glob("*/tasks.py"))
    names = re.findall(r"jobs\.run_(?:aside|heard)\((?:\w+, )?\"(\w+)\"", tasks)
    assert {"build_export", "push_export", "read_import"} <= set(names)
    commands = {name: load_command_class(get_commands()[name], name) for name in names}
    assert [name for name, command in commands.items() if command.requires_system_checks] == []


COMMANDS = {"build_export", "push_export", "read_import", "load_demo"}


def test_children_leave_threads_of_the_worker_free():
    """Each command's children, the process that reads traces, the receivers of notices, and expert models."""
    tasks = "".join(path.read_text() for path in ROOT.glob("*/tasks.py"))
    assert set(re.findall(r"jobs\.run_(?:aside|heard)\((?:\w+, )?\"(\w+)\"", tasks)) == COMMANDS
    waiting = len(COMMANDS) * jobs.TOGETHER + 1 + sending.CONCURRENT + 1
    assert waiting + 4 <= services.WORKER_THREADS
    chart = (ROOT / "deploy/helm/awmweb/values.yaml").read_text()
    assert f"  replicas: 1\n  concurrency: {services.WORKER_THREADS}\n" in chart


def test_job_without_room_is_left_to_the_sweep(tmp_path, monkeypatch):
    """Children that wait for a file hold the room; one more is not started, and no thread waits for it."""
    go, script = tmp_path / "go", tmp_path / "child"
    script.write_text(f"#!/bin/sh\necho $3 >> {tmp_path}/started\nwhile ! [ -e {go} ]; do sleep 0.05; done\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    running = [threading.Thread(target=jobs.run_aside, args=("read_import", name)) for name in "ab"]
    for one in running:
        one.start()
    started = tmp_path / "started"
    until(lambda: started.exists() and len(started.read_text().split()) == 2, 60)
    jobs.run_aside("read_import", "c")
    go.touch()
    for one in running:
        one.join()
    jobs.run_aside("read_import", "d")
    assert sorted(started.read_text().split()) == ["a", "b", "d"]


def test_request_stores_calls_and_is_audited(job, ada, called, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        jobs.request(job, ada, "job.requested", job.pk)
        assert called == []
    assert called == [(job.TASK, job.pk)] and AuditEntry.objects.filter(verb="job.requested", target=job.pk).exists()


def test_job_is_claimed_once_until_its_worker_is_silent(job, called):
    job.save()
    first = jobs.claim(type(job), job.pk, problem="")
    assert first.attempt == 1 and first.state == job.WORKING[1] and jobs.claim(type(job), job.pk) is None
    silent(job)
    second = jobs.claim(type(job), job.pk)
    assert second.attempt == 2 and not jobs.progress(first) and not jobs.end(first, "failed", "too late")
    assert jobs.progress(second) and jobs.end(second, "done")
    job.refresh_from_db()
    assert (job.state, job.problem, job.is_working) == ("done", "", False) and jobs.claim(type(job), job.pk) is None


def test_job_is_worn_out_after_its_attempts(job, called):
    job.save()
    for _ in range(job.ATTEMPTS_MAX):
        assert not jobs.claim(type(job), job.pk).is_worn_out
        silent(job)
    assert jobs.claim(type(job), job.pk).is_worn_out


def test_sweep_calls_for_silent_jobs_alone(job, called):
    job.save()
    jobs.wake_forgotten(*KINDS)
    assert called == [(job.TASK, job.pk)]
    claimed = jobs.claim(type(job), job.pk)
    jobs.wake_forgotten(*KINDS)
    assert len(called) == 1
    silent(job)
    jobs.wake_forgotten(*KINDS)
    assert len(called) == 2 and jobs.end(claimed, "failed", "x" * 5000)
    jobs.wake_forgotten(*KINDS)
    job.refresh_from_db()
    assert len(called) == 2 and len(job.problem) == 4000


def test_cancelled_job_takes_no_more_writes(ada):
    export = Export.objects.create(project=ada.project, recipe={}, format="sft")
    claimed = jobs.claim(Export, export.pk)
    assert jobs.cancel(export, ExportState.CANCELLED) and not jobs.cancel(export, ExportState.CANCELLED)
    assert not jobs.progress(claimed)


def silent(job):
    type(job).objects.update(heartbeat_at=timezone.now() - job.SILENT_AFTER - timedelta(seconds=1))
