"""Files of datasets go although the process that took their rows was killed before it could delete them."""

from __future__ import annotations

import contextlib

import pytest

from awmweb.erasing.episodes import erase_episode
from exports import tasks
from exports.assembly import storing
from exports.errors import StoreUnavailable
from exports.jobs import requesting, working
from exports.models import Export, ExportState
from exports.recipe import Recipe
from people.access import system
from tests.awmweb.test_erasing import GONE, lives, places_of
from tests.exports.pages.test_export_pages import built, store

__all__ = ["lives", "store"]
pytestmark = pytest.mark.django_db


class Killed(BaseException):
    """In the place of a SIGKILL: nothing of the process handles it."""


@pytest.fixture
def killed(monkeypatch):
    """A context in which the process ends at the first call of a function of the store."""

    @contextlib.contextmanager
    def at(name, error=Killed):
        def stop(*_):
            raise error

        with monkeypatch.context() as patched:
            patched.setattr(storing, name, stop)
            with contextlib.suppress(error):
                yield

    return at


def left(store, export):
    folder = store / "datasets" / export.project_id / export.dataset
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("error", [Killed, StoreUnavailable])
def test_erase_that_is_killed_leaves_no_file(ada, lives, store, killed, error, django_capture_on_commit_callbacks):
    gone, _, exports = lives
    with killed("delete", error), django_capture_on_commit_callbacks(execute=True):
        erase_episode(system(ada.project), gone.pk)
    # the rows are gone, and no export names the files any more
    assert not Export.objects.filter(pk__in=[one.pk for one in exports]).exists() and left(store, exports[0])
    tasks.wake()
    assert places_of(GONE, store) == set()


def test_delete_that_is_killed_leaves_no_file(ada, lives, store, killed, django_capture_on_commit_callbacks):
    export = lives[2][0]
    with killed("delete"), django_capture_on_commit_callbacks(execute=True):
        requesting.delete(ada, export.pk)
    tasks.wake()
    assert not left(store, export)


def test_dataset_that_is_built_again_meanwhile_stays(ada, lives, store, killed, django_capture_on_commit_callbacks):
    export = lives[2][0]
    with killed("delete"), django_capture_on_commit_callbacks(execute=True):
        requesting.delete(ada, export.pk)
    again = built(ada, format="sft")
    assert again.dataset == export.dataset
    tasks.wake()
    assert left(store, again) and storing.manifest_of(ada.project.pk, again.dataset)["rows"] == again.rows


def test_build_that_is_killed_then_cancelled_leaves_nothing(ada, lives, store, monkeypatch):
    monkeypatch.setattr("exports.jobs.removing.ENDED_BEFORE", Export.SILENT_AFTER * 0)
    late = requesting.request(ada, Recipe.read({"format": "kto"}))
    keep = storing.keep

    def kept_then_killed(*about):
        keep(*about)
        raise Killed

    with monkeypatch.context() as patched, contextlib.suppress(Killed):
        patched.setattr(storing, "keep", kept_then_killed)
        working.build(late.pk)
    late.refresh_from_db()
    assert left(store, late) and (store / "exports" / "work" / late.pk).is_dir()
    tasks.wake()
    # another worker may go on with it
    assert left(store, late) and (store / "exports" / "work" / late.pk).is_dir()
    requesting.cancel(ada, late.pk)
    tasks.wake()
    assert not left(store, late) and not (store / "exports" / "work" / late.pk).exists()


def test_failed_build_leaves_no_words_in_its_folder(ada, lives, store, monkeypatch):
    monkeypatch.setattr("exports.jobs.removing.ENDED_BEFORE", Export.SILENT_AFTER * 0)
    late = requesting.request(ada, Recipe.read({"format": "raw", "filter": {"id": [lives[0].pk]}}))

    def full(*_):
        raise OSError("No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(storing, "keep", full)
        working.build(late.pk)
    late.refresh_from_db()
    folder = store / "exports" / "work" / late.pk
    assert late.state == ExportState.FAILED and any(folder.rglob("*"))
    tasks.wake()
    assert not folder.exists()
