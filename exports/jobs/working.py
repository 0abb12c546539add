"""Builds one requested export to its end, called by `manage.py build_export ID` in a process of its own."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from django.conf import settings
from django.utils import timezone

from curriculum import snapshots
from curriculum.record import taking
from exports.assembly import datasets, storing
from exports.errors import StoreUnavailable
from exports.jobs import removing, requesting
from exports.models import Export
from exports.recipe import Recipe
from exports.select import curricula
from people.errors import AppError
from people.models import Project
from people.record import jobs

log = logging.getLogger(__name__)
TELL_EVERY_S = 1.0
STORE_PATIENCE_S, STORE_PAUSE_S = 120.0, 2.0
T = TypeVar("T")


def build(export_id: str) -> bool:
    """Build an export that no worker builds; return false if there is nothing to do. A fault is stored on its row."""
    export = requesting.claim(export_id)
    if export is None:
        return False
    try:
        _build(export)
    except datasets.Stopped:
        log.info("export %s was cancelled or taken over", export.pk)
        # still building: another process took over, in the same folder
        if not Export.objects.filter(pk=export.pk, state="building").exists():
            storing.forget_work(export.pk)
    except (AppError, OSError, ValueError) as error:
        log.exception("export %s failed", export.pk)
        requesting.fail(export, error.message if isinstance(error, AppError) else f"{type(error).__name__}: {error}")
    return True


def select(project: Project, recipe: Recipe, folder: Path) -> datasets.DatasetPlan:
    """Write what a recipe selects now into the folder. A curriculum without a snapshot gets its first one."""
    if recipe.kind.is_curriculum:
        run = curricula.run_of(project, recipe)
        if not snapshots.newest(run):
            taking.current(run)
    return datasets.take_snapshot(project, recipe, folder)


def _build(export: Export) -> None:
    folder = storing.work_folder(export.pk)
    plan = select(export.project, Recipe.read(export.recipe), folder)
    if not jobs.progress(export, episodes=plan.episodes, dataset=plan.id):
        raise datasets.Stopped
    # another export with this recipe and these episodes made it
    if _reached(export, lambda: storing.is_kept(export.project_id, plan.id)):
        manifest = _reached(export, lambda: storing.manifest_of(export.project_id, plan.id))
    else:
        tell = _telling(export)
        manifest = datasets.build(export.project, plan, folder, tell, settings.EXPORT_PROCESSES)
        goes_on = functools.partial(tell, plan.episodes, manifest["rows"])
        # the store keeps the dataset without its snapshot
        (folder / datasets.SNAPSHOT).unlink(missing_ok=True)
        # noted first: an attempt that is killed from here on can leave files that no row names
        removing.note(export.project_id, plan.id)
        _reached(export, lambda: storing.keep(export.project_id, plan.id, folder, goes_on))
    if not requesting.finish(export, manifest):
        # it was deleted or cancelled since, perhaps because a row of it was erased
        removing.attempt(removing.note(export.project_id, plan.id).pk)
        raise datasets.Stopped
    storing.forget_work(export.pk)


def _reached(export: Export, call: Callable[[], T]) -> T:
    """Return what a call of the store returns, waiting for one that does not respond, as while it restarts. One that
    refuses is not waited for."""
    give_up = time.monotonic() + STORE_PATIENCE_S
    while True:
        try:
            return call()
        except StoreUnavailable as away:
            if not away.is_silent or time.monotonic() > give_up:
                raise
            log.warning("export %s waits for the store: %s", export.pk, away.__cause__)
        if not jobs.progress(export):
            raise datasets.Stopped
        time.sleep(STORE_PAUSE_S)


def _telling(export: Export) -> datasets.BuildProgress:
    """Write progress at most once a second; the answer says whether to go on.

    The speed is measured from the first call on: what an earlier attempt had done took this one no time.
    """
    last = 0.0

    def tell(episodes: int, rows: int, files: int = 0) -> bool:
        nonlocal last
        if time.monotonic() - last < TELL_EVERY_S:
            return True
        start = {} if last else {"measured_at": timezone.now(), "measured_episodes": episodes}
        last = time.monotonic()
        return jobs.progress(export, episodes_done=episodes, rows=rows, files_done=files, **start)

    return tell
