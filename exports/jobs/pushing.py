"""Writes: request, claim, progress and end of a push to the Hub.

Owns every change of a push's row. As with exports, a worker claims a row by raising its attempt, and what an older
attempt writes afterwards reaches no row. Leaves the Hub itself to `hub_commits.py`, which the worker's own process
loads.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import re
import tempfile
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from celery import current_app
from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models import F
from django.utils import timezone
from kombu.exceptions import OperationalError as BrokerError

from exports.build import storing
from exports.errors import HubRefused, HubTokenMissing, NotBuilt
from exports.models import Export, ExportState, Push, PushState
from people.access import Actor, may_push, visible_or_404
from people.audit import record
from people.errors import Invalid

log = logging.getLogger(__name__)
SILENT_AFTER = timedelta(seconds=30)
BEAT_S = 5.0
ATTEMPTS_MAX = 3
_REPO = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")


def request(actor: Actor, export_id: str, repo: str, *, private: bool) -> Push:
    """Ask for a push: 1. check right, token, name and export, 2. the row and its audit line, 3. wake a worker."""
    may_push(actor)
    if not settings.HUB_TOKEN:
        raise HubTokenMissing
    if not _REPO.fullmatch(repo):
        raise Invalid(f"Repository {repo[:200]!r}: use owner/name, with letters, digits, dots, dashes and underscores.")
    export = visible_or_404(Export.objects.all(), actor, export_id)
    if export.state != ExportState.DONE:
        raise NotBuilt
    try:
        with transaction.atomic():
            push = Push.objects.create(export=export, repo=repo, private=private, requested_by=actor.name)
            record(actor, "export.pushed", export.pk, f"{export.dataset[:12]} to {repo}")
            transaction.on_commit(functools.partial(wake, push.pk))
    except IntegrityError as error:
        raise HubRefused(f"This export is already being pushed to {repo}.") from error
    return push


def wake(push_id: str) -> None:
    """Call a worker. A call that is lost costs the time until the next sweep."""
    try:
        current_app.send_task("exports.tasks.push", [push_id], queue="default", retry=False)
    except BrokerError as error:
        log.warning("no worker could be called for push %s, the sweep will: %s", push_id, error)


def wake_forgotten() -> None:
    """Call a worker for every push that none works at."""
    forgotten = Push.objects.silent_since(timezone.now() - SILENT_AFTER).values_list("pk", flat=True)
    for push_id in forgotten[:20]:
        wake(push_id)


def claim(push_id: str) -> Push | None:
    """Take a push that no worker handles; None if there is nothing to do."""
    now = timezone.now()
    free = Push.objects.silent_since(now - SILENT_AFTER).filter(pk=push_id)
    if not free.update(state=PushState.PUSHING, attempt=F("attempt") + 1, heartbeat_at=now):
        return None
    push = Push.objects.select_related("export__project").get(pk=push_id)
    if push.attempt > ATTEMPTS_MAX:
        fail(push, f"Stopped after {ATTEMPTS_MAX} attempts: the process that pushes keeps ending.")
        return None
    return push


def _mine(push: Push) -> Any:
    return Push.objects.filter(pk=push.pk, attempt=push.attempt, state=PushState.PUSHING)


def progress(push: Push, done: int, total: int) -> None:
    _mine(push).update(heartbeat_at=timezone.now(), bytes_done=done, bytes_total=total)


def finish(push: Push, address: str) -> None:
    link = address[:500] if address.startswith(("http://", "https://")) else ""
    ended = {"state": PushState.DONE, "ended_at": timezone.now(), "problem": ""}
    _mine(push).update(address=link, bytes_done=F("bytes_total"), **ended)


def fail(push: Push, problem: str) -> None:
    _mine(push).update(state=PushState.FAILED, problem=problem[:4000], ended_at=timezone.now())


@contextlib.contextmanager
def heard(push: Push) -> Iterator[None]:
    """Keep a push from being taken for forgotten while one large file is on its way."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(BEAT_S):
            _mine(push).update(heartbeat_at=timezone.now())
        connection.close()

    beating = threading.Thread(target=beat, daemon=True)
    beating.start()
    try:
        yield
    finally:
        done.set()
        beating.join()


@contextlib.contextmanager
def files_of(export: Export) -> Iterator[Path]:
    """Provide a folder with all files of a dataset, brought from its store."""
    root = storing.work_folder("pushes")
    with tempfile.TemporaryDirectory(dir=root) as folder:
        for path, _ in storing.files_of(export.project_id, export.dataset):
            target = Path(folder) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with storing.open_file(export.project_id, export.dataset, path) as source, target.open("wb") as out:
                while block := source.read(1 << 20):
                    out.write(block)
        yield Path(folder)
