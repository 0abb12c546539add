"""The export of a curriculum: the tasks and weights of the snapshot that trainers draw from."""

from __future__ import annotations

import json

import pytest

from curriculum.record import taking
from exports.assembly import datasets
from exports.errors import BadRecipe
from exports.explain.preview import preview
from exports.formats import FORMATS
from exports.jobs import working
from exports.recipe import Recipe
from people.errors import Invalid
from tests.curriculum.trainer import Trainer
from tests.people_by_name import token

pytestmark = pytest.mark.usefixtures("shop")


def exported(project, folder, **more):
    folder.mkdir()
    plan = working.select(project, Recipe.read({"format": "curriculum", **more}), folder)
    manifest = datasets.build(project, plan, folder, lambda _episodes, _rows: True)
    rows = [json.loads(line) for line in (folder / "data" / "train.jsonl").read_text().splitlines()]
    return rows, manifest


def test_rows_are_the_tasks_that_trainers_draw_from(train, project, ada, tmp_path):
    for complete in (True, False, False):
        train.play(1, "shop/4", complete=complete)
    train.report(1)
    drawn = train.next(1000, secret=token(project, "export")[1])[1]
    rows, manifest = exported(project, tmp_path / "one")
    assert {row["snapshot"] for row in rows} == {drawn["snapshot"]} and manifest["rows"] == 12
    weights = {row["task"]: row["weight"] for row in rows if row["weight"]}
    assert weights == {task["task"]: task["weight"] for task in drawn["tasks"]}
    [row] = [row for row in rows if row["task"] == "shop/4"]
    assert row["difficulty"]["n"] == 3 and row["difficulty"]["solved"] == 1 and row["difficulty"]["rate"] == 1 / 3
    low, high = row["difficulty"]["ci95"]
    assert 0.06 < low < 0.07 and 0.79 < high < 0.80
    assert row["schedule"]["source_step"] == 1 and row["schedule"]["expert"] + row["schedule"]["solo"] == 8
    assert set(row) == set(FORMATS["curriculum"].features)
    assert row["noop"] == {"status": "unprobed", "probes": [], "verifier_sha256": ""}
    assert next(row for row in rows if row["task"] == "shop/5")["difficulty"]["rate"] is None


def test_held_out_tasks_are_left_out_and_named(train, project, tmp_path):
    train.report(1)
    rows, manifest = exported(project, tmp_path / "one")
    assert not {"shop/12", "shop/13"} & {row["task"] for row in rows}
    assert manifest["left_out"] == {"held_out": 2}


def test_dataset_keeps_its_snapshot_when_the_run_goes_on(train, project, tmp_path):
    train.report(1)
    rows, _ = exported(project, tmp_path / "one")
    train.report(2)
    again, _ = exported(project, tmp_path / "two", filter={"run": [train.run.pk]})
    assert rows[0]["snapshot"] != again[0]["snapshot"] == taking.current(train.run)
    (tmp_path / "one" / "manifest.json").unlink()
    plan = datasets.take_snapshot(project, Recipe.read({"format": "curriculum"}), tmp_path / "one")
    datasets.build(project, plan, tmp_path / "one", lambda _episodes, _rows: True)
    built = [json.loads(line) for line in (tmp_path / "one" / "data" / "train.jsonl").read_text().splitlines()]
    assert built == rows


def test_parquet_holds_the_same_tasks(train, project, tmp_path):
    import pyarrow.parquet as pq

    train.report(1)
    rows, _ = exported(project, tmp_path / "lines")
    folder = tmp_path / "table"
    folder.mkdir()
    plan = datasets.take_snapshot(project, Recipe.read({"format": "curriculum", "parquet": True}), folder)
    datasets.build(project, plan, folder, lambda _episodes, _rows: True)
    assert pq.read_table(folder / "data" / "train.parquet").to_pylist() == rows


def test_run_that_does_not_train_or_two_of_a_name_are_refused(train, project, tmp_path):
    with pytest.raises(BadRecipe, match="no run has trained. Name any"):
        exported(project, tmp_path / "none")
    with pytest.raises(Invalid, match="No run has this name or id"):
        exported(project, tmp_path / "unknown", filter={"run": ["x"]})
    Trainer(project)
    with pytest.raises(BadRecipe, match="by its id"):
        exported(project, tmp_path / "two", filter={"run": ["t-31"]})
    with pytest.raises(BadRecipe, match="no filter but run"):
        exported(project, tmp_path / "arm", filter={"arm": ["a"]})


def test_run_that_never_trained_has_levels_of_its_solo_episodes(train, project, ada, tmp_path):
    for number in range(8):
        train.play(None, "shop/4", complete=number > 0)
    recipe = {"format": "curriculum", "filter": {"run": [train.run.pk]}}
    with pytest.raises(BadRecipe, match="first export of this run takes one"):
        preview(ada, Recipe.read(recipe))
    rows, _ = exported(project, tmp_path / "one", filter=recipe["filter"])
    [row] = [row for row in rows if row["task"] == "shop/4"]
    assert (row["level"], row["difficulty"]["n"], row["difficulty"]["solved"]) == ("easy", 8, 7)
    assert preview(ada, Recipe.read(recipe)).rows == 12


def test_preview_shows_tasks_without_writing(train, ada):
    train.report(1)
    shown = preview(ada, Recipe.read({"format": "curriculum"}))
    assert (shown.matching, shown.rows, shown.left_out) == (14, 12, [("held_out", 2)])
    assert shown.is_whole and len(shown.shown) == 10
