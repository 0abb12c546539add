"""Builds wait for each other: one of a project, two of all. A child that stands still ends; one that is heard stays."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta

import pytest
from django.utils import timezone

from exports import tasks
from exports.jobs import requesting, turns
from exports.models import Export
from exports.recipe import Recipe
from people.errors import Busy
from people.record import jobs


def waiting(project, **more):
    return Export.objects.create(project=project, recipe={"format": "sft"}, format="sft", **more)


def heard(project):
    return waiting(project, state="building", attempt=1, heartbeat_at=timezone.now())


def test_builds_of_a_project_are_one_at_a_time(ada, elsewhere):
    first, second, other = waiting(ada.project), waiting(ada.project), waiting(elsewhere)
    assert requesting.claim(first.pk) is not None and requesting.claim(second.pk) is None
    assert jobs.next_one(Export) == other.pk and requesting.claim(other.pk) is not None
    requesting.fail(requesting.Export.objects.get(pk=first.pk), "")
    assert jobs.next_one(Export) == second.pk and requesting.claim(second.pk) is not None


def test_two_builds_of_all_projects_leave_room_for_other_work(ada, elsewhere, django_user_model):
    heard(elsewhere), heard(elsewhere)
    mine = waiting(ada.project)
    assert requesting.claim(mine.pk) is None and jobs.next_one(Export) is None
    Export.objects.filter(project=elsewhere).update(heartbeat_at=timezone.now() - timedelta(minutes=1))
    assert requesting.claim(mine.pk) is not None, "the worker of a silent one is gone"


def test_project_cannot_fill_the_queue(ada):
    for _ in range(turns.WAITING_MAX):
        waiting(ada.project)
    with pytest.raises(Busy, match="20 exports"):
        requesting.request(ada, Recipe.read({"format": "sft"}))


def test_stored_recipe_has_only_what_it_says(ada):
    """A worker of the version before refuses a field that it does not know, so a new one is stored only where it
    differs."""
    plain = requesting.request(ada, Recipe.read({"format": "sft"}))
    assert plain.recipe == {"format": "sft"}
    chosen = Recipe.read({"format": "sft", "pictures": "leave_out", "filter": {"outcome": "complete"}, "parquet": True})
    stored = requesting.request(ada, chosen).recipe
    assert stored == {"format": "sft", "filter": {"outcome": ["complete"]}, "parquet": True, "pictures": "leave_out"}
    assert Recipe.read(stored) == chosen


def test_woken_twice_is_built_once(ada, monkeypatch):
    started = []
    monkeypatch.setattr(jobs, "run_heard", lambda *call, **_more: started.append(call[2]))
    one = heard(ada.project)
    two = waiting(ada.project)
    tasks.build(two.pk)
    assert started == []
    Export.objects.filter(pk=one.pk).update(state="done")
    tasks.build(two.pk)
    assert started == [two.pk]


@pytest.fixture
def child(monkeypatch, ada):
    """A command that runs this text instead of the build, for the export of a lost worker that it claims."""
    monkeypatch.setattr(jobs, "BEAT_S", 0.05)
    made, plain = [], subprocess.Popen

    def popen(command, **more):
        made.append(plain([sys.executable, "-c", popen.text], **more))
        if popen.claims:
            assert jobs.claim(Export, export.pk).attempt == 2
            Export.objects.filter(pk=export.pk).update(heartbeat_at=old)
        return made[-1]

    monkeypatch.setattr(subprocess, "Popen", popen)
    old = timezone.now() - timedelta(hours=1)
    export = waiting(ada.project, state="building", attempt=1, heartbeat_at=old)

    def run(text, claims=True):
        popen.text, popen.claims = text, claims
        jobs.run_heard(Export, "build_export", export.pk, progress=("rows",), failed="failed")
        export.refresh_from_db()
        return export, made[-1]

    return run


def test_build_that_stands_still_is_stopped_with_its_children(child, monkeypatch):
    monkeypatch.setattr(Export, "STILL_S", 0.2)
    export, process = child("import os, time\nos.fork()\ntime.sleep(1000)")
    assert (export.state, export.problem) == ("failed", "Stopped: 0.00333333 minutes without progress.")
    assert process.returncode == -9


def test_build_is_heard_while_its_child_is_in_one_long_step(child):
    export, process = child("import time; time.sleep(0.5)")
    assert process.returncode == 0 and export.state == "building"
    assert timezone.now() - export.heartbeat_at < timedelta(minutes=1)
    assert jobs.claim(Export, export.pk) is None


def test_child_that_starts_slowly_can_still_claim_its_build(child):
    export, process = child("import time; time.sleep(0.5)", claims=False)
    assert process.returncode == 0 and timezone.now() - export.heartbeat_at > timedelta(minutes=50)
    assert jobs.claim(Export, export.pk).attempt == 2
