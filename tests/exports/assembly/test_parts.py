"""Parts of a dataset written by several processes: the same bytes, rows that repeat, and a process that is killed."""

from __future__ import annotations

import json
import os

import pytest
from django.db import connection

from exports.assembly import datasets, parts
from exports.recipe import Recipe
from tests.exports.pages.test_export_pages import episode

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def made(ada, tmp_path, monkeypatch):
    """A function that builds in a folder by so many processes, each part one task; it returns manifest and files."""
    monkeypatch.setattr(parts, "PART_STEPS", 1)
    monkeypatch.setattr(datasets, "PART_STEPS", 1)
    for number in range(8):  # the words of 0 and 5 are the same, in different tasks
        episode(ada, f"e{number}", scenario=f"world_{number}", task_idx=0, answer=f"Done {number % 5}.")

    def make(name, processes, progress=lambda _episodes, _rows: True):
        folder = tmp_path / name
        folder.mkdir()
        plan = datasets.take_snapshot(ada.project, Recipe.read({"format": "sft", "redact": "off"}), folder)
        manifest = datasets.build(ada.project, plan, folder, progress, processes)
        files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        return manifest, files

    return make


def test_processes_write_the_bytes_of_one(made):
    told = []
    _, alone = made("alone", 1)
    _, together = made("together", 3, lambda *counts: told.append(counts) or True)
    assert together == alone and told[-1][0] == 8
    connection.ensure_connection()


def test_killed_process_leaves_a_whole_dataset(made, monkeypatch):
    parent, write = os.getpid(), parts.Parts._write

    def dying(self, number, part, progress):
        if os.getpid() != parent:
            self._count(1000, 1000)  # it had counted what is lost with it
            os._exit(9)
        write(self, number, part, progress)

    manifest, alone = made("alone", 1)
    monkeypatch.setattr(parts.Parts, "_write", dying)
    told = []
    again, together = made("together", 3, lambda *counts: told.append(counts) or True)
    assert together == alone and again == manifest
    assert told[-1] == (8, len(alone["data/train.jsonl"].splitlines()))


def test_stopped_build_stops_every_process_and_goes_on(ada, made, tmp_path):
    _, alone = made("alone", 1)
    with pytest.raises(datasets.Stopped):
        made("stopped", 3, lambda episodes, _rows: episodes < 3)
    folder = tmp_path / "stopped"
    plan = datasets.take_snapshot(ada.project, Recipe.read({"format": "sft", "redact": "off"}), folder)
    manifest = datasets.build(ada.project, plan, folder, lambda *_: True, 3)
    assert manifest == json.loads(alone["manifest.json"])
    assert (folder / "data" / "train.jsonl").read_bytes() == alone["data/train.jsonl"]
