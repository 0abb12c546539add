"""Writes: request, claim, progress and end of a push to the Hub.

Owns every change of a push's row. Leaves what all jobs do alike to `people/record/jobs.py`, the Hub itself to
`hub_commits.py`, which the worker's own process loads, and whose turn it is to `turns.py`.
"""

from __future__ import annotations

import contextlib
import re
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models import F

from exports.assembly import storing
from exports.errors import HubRefused, HubTokenMissing, NotBuilt, PushTooSlow
from exports.explain import errata
from exports.jobs import turns
from exports.models import Export, ExportState, Push, PushState
from exports.recipe import Recipe
from exports.rules.redaction import Redactor
from people.access import Actor, may_push, visible_or_404
from people.errors import AppError, Invalid
from people.record import jobs

BEAT_S = 5.0
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
    push = Push(project=actor.project, export=export, repo=repo, private=private, requested_by=actor.name)
    with _once(push), transaction.atomic():
        turns.refuse_more(Push, actor.project, "pushes")
        jobs.request(push, actor, "export.pushed", export.pk, f"{export.dataset[:12]} to {repo}")
    return push


@contextlib.contextmanager
def _once(push: Push) -> Iterator[None]:
    try:
        yield
    # the constraint `one_push_at_a_time`, under which two requests race
    except IntegrityError as error:
        raise HubRefused(f"This export is already being pushed to {push.repo}.") from error


@contextlib.contextmanager
def by_command(
    actor: Actor, export: Export | None, repo: str, *, private: bool, wait: Callable[[], object]
) -> Iterator[Push]:
    """Provide a push that this process makes itself, with the bounds of one that a worker makes: 1. wait for its turn,
    2. end it after `Push.MOST_S`, 3. write its end. `wait` is called as long as others have their turn."""
    may_push(actor)
    push = Push(project=actor.project, export=export, repo=repo, private=private, requested_by=actor.name)
    with _once(push):
        while not turns.begin(push):
            wait()
    try:
        with _limited(push.MOST_S), heard(push):
            yield push
    except BaseException as error:
        # also Ctrl-C: without this, a worker would make the push again
        fail(push, error.message if isinstance(error, AppError) else f"Stopped: {type(error).__name__}.")
        raise


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise `PushTooSlow` in the main thread after this time, and again each minute until it is heeded."""

    def stop(*_: object) -> None:
        raise PushTooSlow(f"Stopped: the push took more than {seconds / 3600:g} hours.")

    before = signal.signal(signal.SIGALRM, stop)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds, 60)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *timer)


def claim(push_id: str) -> Push | None:
    """Take a push that no worker handles; None if there is nothing to do, or if others are pushed now."""
    push = turns.claim(Push, push_id)
    if push is not None and push.is_worn_out:
        fail(push, f"Stopped after {push.ATTEMPTS_MAX} attempts: the process that pushes keeps ending.")
        return None
    return push


def finish(push: Push, address: str) -> None:
    # the page makes it a link, so no other scheme passes
    link = address[:500] if address.startswith(("http://", "https://")) else ""
    jobs.end(push, PushState.DONE, address=link, bytes_done=F("bytes_total"))


def fail(push: Push, problem: str) -> None:
    jobs.end(push, PushState.FAILED, problem)


@contextlib.contextmanager
def heard(push: Push) -> Iterator[None]:
    """Keep a push from being taken for forgotten while one large file is on its way."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(BEAT_S):
            jobs.progress(push)
        # a thread has its own connection, which nothing else closes
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
    """Provide a folder with all files of a dataset, brought from its store, and its errata."""
    root = storing.work_folder(storing.PUSHES)
    with tempfile.TemporaryDirectory(dir=root) as folder:
        for path, _ in storing.files_of(export.project_id, export.dataset):
            target = Path(folder) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with storing.open_file(export.project_id, export.dataset, path) as source, target.open("wb") as out:
                while block := source.read(1 << 20):
                    out.write(block)
        # beside the files, which stay those of the dataset
        if text := errata.text(errata.of_exports([export.pk])[export.pk]):
            # the name of a task can hold a secret, as in the files
            redactor = Redactor(Recipe.read(export.recipe), salt=export.project_id)
            (Path(folder) / errata.FILE).write_text(redactor.redact(text), encoding="utf-8")
        yield Path(folder)
