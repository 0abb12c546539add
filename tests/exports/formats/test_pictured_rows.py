"""Rows with pictures: as trainers read them, one file for each picture, and nothing of an episode that has none."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
from pathlib import Path

import pytest
from django.core.management import call_command
from PIL import Image

from awmclient.nouns.pictures import ImagePart
from awmclient.schema import EpisodeStart, Finish, Outcome, StepBatch, ToolSpec
from awmweb.erasing.episodes import erase_episode
from episodes.models import Picture
from episodes.record import ending, pictures, recording
from exports import tasks
from exports.assembly import datasets, storing
from exports.assembly.building import Walk
from exports.formats import FORMATS, conversational, pictured
from exports.jobs import working
from exports.models import Export
from exports.recipe import BadRecipe, Recipe
from exports.record import StoredPicture
from exports.rules.leakage import Ground
from exports.writers import jsonl, parquet
from people.access import system
from people.record import jobs
from tests.browsing import as_person, html
from tests.documented import proves, run
from tests.exports.pages.test_export_pages import SECRET, built, store
from tests.exports.records import FAILED, STEPS, record, walk
from tests.pictures import drawn

__all__ = ["store"]
BEFORE = {
    **{"sft": "d15630379a23", "steps": "87a34dd55142", "dpo": "d309078f4b6d", "kto": "662d2ee6a259"},
    **{"openai": "5807d7464aca", "prompts": "704919252232", "ask_decision": "1ede8734ea81", "atif": "ebf5c0cdc8dd"},
    **{"inspect": "c8102d592a85", "openenv": "89064e10743f", "raw": "ade327fd80fd"},
}
"""Digests of the rows of two episodes without pictures, from before rows could have any."""
FORM, CART, LEFT = ("a" * 64, "b" * 64, "c" * 64)


def part(digest, **more):
    return {"type": "image", "blob": digest, "media_type": "image/png", "width": 4, "height": 4, **more}


def seen(**more):
    """An episode whose task has a picture, and of whose two calls in a turn the first returned another."""
    steps = [dict(step) for step in STEPS]
    steps[1] |= {"pictures": [part(FORM, alt="An empty form")]}
    steps[3] |= {"result": {"content": [{"type": "text", "text": "open"}, part(CART)]}}
    stored = {digest: StoredPicture(f"images/{digest}.png", 10) for digest in (FORM, CART)}
    return record(**{"steps": steps, "pictures": stored, **more})


def pictured_walk(shape, *records, **options):
    walking = Walk(FORMATS[shape].with_pictures(), Ground(Recipe.read({"format": shape, **options})))
    return [row.value for row in walking.rows(records)], walking.counts


@pytest.mark.parametrize("shape", BEFORE)
def test_rows_without_pictures_keep_their_bytes(shape):
    steps = [{**step, "arguments": {"into": 8}} if step["seq"] == 8 else step for step in STEPS]
    rows, _ = walk(shape, record(), record(id="e2", results=FAILED, steps=steps))
    assert hashlib.sha256(b"".join(map(jsonl.line, rows))).hexdigest()[:12] == BEFORE[shape]


def test_pictures_are_parts_behind_words_and_results():
    (row,), _ = pictured_walk("sft", seen())
    said = [(one["role"], one["content"]) for one in row["messages"]]
    text = '{"content": [{"type": "text", "text": "open"}, "[picture]"]}'
    assert said[1] == ("user", [{"type": "text", "text": "Merge the duplicates."}, {"type": "image"}])
    assert [role for role, _ in said[2:6]] == ["assistant", "tool", "tool", "user"]
    assert said[3][1] == [{"type": "text", "text": text}]
    assert said[5][1] == [{"type": "text", "text": "The pictures of these results, in order:"}, {"type": "image"}]
    assert row["images"] == [f"images/{FORM}.png", f"images/{CART}.png"] and row["schema_version"] == "awmweb.sft/7"
    assert len(row["loss"]) == len(row["acted_by"]) == len(row["messages"]) and row["loss"][5] == 0


def test_prompts_have_the_pictures_before_their_turn():
    rows, _ = pictured_walk("steps", seen())
    assert [len(row["images"]) for row in rows] == [1, 2, 2, 2]
    for row in rows:
        parts = [one for message in row["prompt"] for one in message["content"] if one["type"] == "image"]
        assert len(parts) == len(row["images"]) and row["completion"][0]["content"][0]["type"] == "text"
    (row,), _ = pictured_walk("prompts", seen())
    assert row["images"] == [f"images/{FORM}.png"]


def test_pairs_are_of_equal_pictures():
    steps = [{**step, "arguments": {"into": 8}} if step["seq"] == 8 else step for step in seen().steps]
    failed = seen(id="e2", results=FAILED, steps=steps)
    (pair,), _ = pictured_walk("dpo", seen(), failed)
    assert pair["images"] == [f"images/{FORM}.png", f"images/{CART}.png"]
    other = json.loads(json.dumps(steps).replace(CART, LEFT))
    stored = {**failed.pictures, LEFT: StoredPicture(f"images/{LEFT}.png", 10)}
    rows, counts = pictured_walk("dpo", seen(), seen(id="e2", results=FAILED, steps=other, pictures=stored))
    assert rows == [] and counts.left_out == {"no_row": 2}


def test_rows_that_differ_in_a_picture_are_no_repeats():
    other = seen(id="e2", steps=json.loads(json.dumps(seen().steps).replace(CART, FORM)))
    assert len(pictured_walk("sft", seen(), other)[0]) == 2
    assert len(pictured_walk("sft", seen(), seen(id="e2"))[0]) == 1


def with_one(seq):
    return [{**step, "pictures": [part(FORM)]} if step["seq"] == seq else step for step in STEPS]


@pytest.mark.parametrize(
    ("shape", "change", "options"),
    [
        ("sft", {"steps": with_one(3)}, {}),
        ("sft", {"steps": with_one(7)}, {}),
        ("sft", {"pictures": {}}, {}),
        ("sft", {}, {"pictures": "leave_out"}),
        ("openai", {}, {}),
        ("ask_decision", {}, {}),
        ("tokens", {}, {}),
    ],
)
def test_episode_is_left_out_if_rows_cannot_have_a_picture(shape, change, options):
    rows, counts = pictured_walk(shape, seen(**change), **options)
    assert (rows, counts.left_out) == ([], {"pictures": 1})


def test_question_with_a_picture_stays_out_with_its_advice():
    steps = [{**step, "pictures": [part(FORM)]} if step["seq"] == 7 else step for step in seen().steps]
    rows, _ = pictured_walk("sft", seen(steps=steps), advice="distil", include=["ungrounded"])
    assert len(rows) == 1 and "Into which?" not in json.dumps(rows)


def test_recipe_that_keeps_pictures_has_the_digest_of_before():
    assert "pictures" not in Recipe.read({"format": "sft"}).canonical
    assert Recipe.read({"format": "sft", "pictures": "leave_out"}).digest != Recipe.read({"format": "sft"}).digest
    with pytest.raises(BadRecipe, match="pictures"):
        Recipe.read({"format": "raw", "pictures": "leave_out"})


def test_result_that_only_says_a_digest_stays_words():
    rows, _ = pictured_walk("sft", seen(pictures={FORM: StoredPicture(f"images/{FORM}.png", 10)}))
    assert rows[0]["images"] == [f"images/{FORM}.png"] and CART not in json.dumps(rows)


def test_large_rows_of_parquet_are_left_out():
    large = {FORM: StoredPicture(f"images/{FORM}.png", pictured.PARQUET_ROW_BYTES), CART: StoredPicture("images/x", 1)}
    rows, counts = pictured_walk("sft", seen(pictures=large), parquet=True)
    assert rows == [] and counts.rows_left_out == {"pictures_too_large": 1}
    assert len(pictured_walk("sft", seen(pictures=large))[0]) == 1


def test_prompts_of_one_episode_are_bounded_beside_pictures(monkeypatch):
    monkeypatch.setattr(conversational, "PROMPT_BYTES", 5000)
    steps = [dict(step) for step in seen().steps]
    steps[1]["content"] = "x" * 2000
    rows, counts = pictured_walk("steps", seen(steps=steps))
    assert 0 < len(rows) < 4 and counts.rows_left_out == {"prompts_too_large": 4 - len(rows)}


def test_pictures_inside_of_rows_count_into_their_bound(monkeypatch):
    monkeypatch.setattr(conversational, "PROMPT_BYTES", 50_000)
    stored = {digest: StoredPicture(f"images/{digest}.png", 12_000) for digest in (FORM, CART)}
    assert len(pictured_walk("steps", seen(pictures=stored))[0]) == 4
    rows, counts = pictured_walk("steps", seen(pictures=stored), parquet=True)
    assert len(rows) == 2 and counts.rows_left_out == {"prompts_too_large": 2}


def test_groups_of_parquet_have_few_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "BYTES_PER_GROUP", 25)
    rows, _ = pictured_walk("steps", seen())
    writer = parquet.Writer(tmp_path / "rows.parquet", FORMATS["steps"].with_pictures().features, lambda _: b"x" * 10)
    for row in rows:
        writer.write(row)
    writer.close()
    sizes = [parquet.pq.ParquetFile(tmp_path / "rows.parquet").metadata.row_group(n).num_rows for n in range(2)]
    assert sizes == [2, 2]


CANARY = b"canary of a camera at 48.137, 11.575"
LOOK = ToolSpec(name="look", input_schema={"type": "object"})


def browsed(actor, key, *datas):
    """A finished, verified episode in which a call returned these pictures."""
    one, _ = recording.start_episode(actor, EpisodeStart(key=key, task=f"Order the shirt {key}.", tools=[LOOK]))
    rows = [pictures.upload(actor, one.pk, data)[0] for data in datas]
    facts = [(row.sha256, row.media_type, row.width, row.height) for row in rows]
    parts = [ImagePart(type="image", blob=a, media_type=b, width=c, height=d) for a, b, c, d in facts]
    shown = [{**one.model_dump(exclude_none=True), "alt": f"A shirt, {SECRET}"} for one in parts]
    steps = [
        {"seq": 1, "kind": "message", "role": "user", "content": "Order it.", "pictures": shown[:1]},
        {"seq": 2, "kind": "tool_call", "name": "look", "arguments": {}, "result": {"content": shown}, "turn": 1},
        {"seq": 3, "kind": "message", "role": "assistant", "content": f"Ordered {key}.", "turn": 2},
    ]
    recording.append_steps(actor, one.pk, StepBatch.model_validate({"steps": steps}).steps)
    ending.finish(actor, one.pk, Finish(stop_reason="done"))
    ending.record_outcome(actor, one.pk, Outcome(reward_type="complete", reward=1.0))
    return one, rows


@pytest.fixture
def shop(ada):
    exif = Image.Exif()
    exif[0x010E] = CANARY.decode()
    photo, screen = drawn("JPEG", exif=exif), drawn(shade=7)
    assert CANARY in photo
    return browsed(ada, "one", photo, screen), browsed(ada, "two", screen)


def written(ada, folder, processes=1, **recipe):
    folder.mkdir()
    plan = datasets.take_snapshot(ada.project, Recipe.read({"format": "sft", **recipe}), folder)
    manifest = datasets.build(ada.project, plan, folder, lambda *_: True, processes)
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return manifest, files


@pytest.mark.django_db
def test_files_beside_rows_are_the_stored_pictures(ada, shop, tmp_path):
    manifest, files = written(ada, tmp_path / "one")
    stored = {row.sha256: bytes(Picture.objects.get(pk=row.pk).data) for _, rows in shop for row in rows}
    beside = {Path(name).stem: data for name, data in files.items() if name.startswith("data/images/")}
    assert beside == stored and len(stored) == 2 and not any(CANARY in data for data in files.values())
    text = b"".join(files.values())
    assert SECRET.encode() not in text and manifest["redacted"] == {"openai": 3}
    assert manifest["pictures"] == {"count": 2, "bytes": sum(map(len, stored.values()))}
    assert "2 pictures of " in files["README.md"].decode() and "loss" in manifest["features"]
    rows = [json.loads(line) for line in files["data/train.jsonl"].splitlines()]
    assert all((tmp_path / "one" / "data" / path).is_file() for row in rows for path in row["images"])
    again, same = written(ada, tmp_path / "two")
    assert (again, same) == (manifest, files)


@pytest.mark.django_db
def test_datasets_reads_rows_with_their_pictures(ada, shop, tmp_path, monkeypatch):
    from datasets import Features, load_dataset
    from trl.data_utils import prepare_multimodal_messages

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    manifest, _ = written(ada, tmp_path / "lines")
    features = Features.from_dict(json.loads(json.dumps(manifest["features"])))
    file, cache = str(tmp_path / "lines/data/train.jsonl"), str(tmp_path / "cache")
    lines = load_dataset("json", data_files=file, features=features, split="train", cache_dir=cache)
    monkeypatch.chdir(tmp_path / "lines" / "data")
    read = {row["episode_id"]: row for row in lines}
    written(ada, tmp_path / "table", parquet=True)
    table = str(tmp_path / "table/data/train.parquet")
    monkeypatch.chdir(tmp_path)  # bytes are inside
    inside = {
        row["episode_id"]: row for row in load_dataset("parquet", data_files=table, split="train", cache_dir=cache)
    }
    assert not (tmp_path / "table/data/images").exists()
    for one, rows in shop:
        shapes = [(row.width, row.height) for row in (rows[0], *rows)]
        for source in (read, inside):
            row = source[one.pk]
            assert [image.size for image in row["images"]] == shapes
            filled = prepare_multimodal_messages(row["messages"], row["images"])
            given = [part["image"] for message in filled for part in message["content"] if part["type"] == "image"]
            assert [image.size for image in given] == shapes


@proves("docs/exports.md", "import json\nimport os")
@pytest.mark.django_db
def test_documented_lines_read_pictures(ada, shop, tmp_path, monkeypatch, block):
    written(ada, tmp_path / "dataset")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    made = asyncio.run(run(block, {}))
    assert made["rows"][0]["images"][0].size in ((640, 400), (320, 200))


@pytest.mark.django_db
def test_digest_of_another_episode_brings_no_picture(ada, shop, tmp_path):
    """Who writes a part into a result does not get what was uploaded for another episode."""
    (one, (photo, _)), _ = shop
    thief, _ = recording.start_episode(ada, EpisodeStart(key="thief", task="Look.", tools=[LOOK]))
    own = part(photo.sha256, width=photo.width, height=photo.height)
    steps = [
        {"seq": 1, "kind": "tool_call", "name": "look", "arguments": {}, "result": [own], "turn": 1},
        {"seq": 2, "kind": "message", "role": "assistant", "content": "Done.", "turn": 2},
    ]
    recording.append_steps(ada, thief.pk, StepBatch.model_validate({"steps": steps}).steps)
    ending.finish(ada, thief.pk, Finish(stop_reason="done"))
    ending.record_outcome(ada, thief.pk, Outcome(reward_type="complete", reward=1.0))
    erase_episode(system(ada.project), one.pk)
    _, files = written(ada, tmp_path / "one", filter={"id": [thief.pk]})
    assert files["data/train.jsonl"] and not [name for name in files if "images" in name]
    _, both = written(ada, tmp_path / "both")
    rows = [json.loads(line) for line in both["data/train.jsonl"].splitlines()]
    assert [row["images"] for row in rows if row["episode_id"] == thief.pk] == [[]]


@pytest.mark.django_db
def test_page_and_download_have_pictures_while_rows_do(ada, shop, store, django_capture_on_commit_callbacks):
    export = built(ada, format="sft")
    paths = [path for path, _ in storing.files_of(ada.project.pk, export.dataset) if path.startswith("data/images/")]
    page, client = html(as_person(ada).get(f"/exports/{export.pk}/")), as_person(ada)
    assert len(paths) == 2 and "2 pictures" in page and not any(path in page for path in paths)
    reply = client.get(f"/exports/{export.pk}/download?path={paths[0]}")
    assert reply["X-Content-Type-Options"] == "nosniff" and reply["Content-Disposition"].startswith("attachment")
    assert hashlib.sha256(b"".join(reply.streaming_content)).hexdigest() == Path(paths[0]).stem
    with django_capture_on_commit_callbacks(execute=True):
        erase_episode(system(ada.project), shop[0][0].pk)
    assert not Export.objects.filter(pk=export.pk).exists()
    assert not [path for path in (store / "datasets").rglob("*") if path.is_file()]


@pytest.mark.django_db
def test_command_puts_pictures_beside_its_file(ada, shop, tmp_path):
    target, said = tmp_path / "rows.jsonl", io.StringIO()
    call_command("export", "--format", "sft", "--project", ada.project.slug, "--output", str(target), stdout=said)
    (row, *_) = [json.loads(line) for line in target.read_text().splitlines()]
    assert all((tmp_path / path).is_file() for path in row["images"]) and row["images"]
    none = tmp_path / "none.jsonl"
    options = ("--pictures", "leave_out", "--project", ada.project.slug, "--output", str(none))
    call_command("export", "--format", "sft", *options, stdout=said)
    assert none.read_bytes() == b"" and "Skipped 2: pictures" in said.getvalue()


@pytest.mark.django_db
def test_preview_draws_a_word_for_each_picture(ada, shop):
    page = html(as_person(ada).get("/exports/preview?format=sft"))
    assert page.count("[picture]") >= 3 and "The pictures of these results" in page


@pytest.mark.django_db(transaction=True)
def test_processes_write_the_pictures_of_one(ada, shop, tmp_path, monkeypatch):
    from exports.assembly import parts

    monkeypatch.setattr(parts, "PART_STEPS", 1)
    monkeypatch.setattr(datasets, "PART_STEPS", 1)
    for table in (False, True):
        alone = written(ada, tmp_path / f"alone{table}", parquet=table)
        assert written(ada, tmp_path / f"together{table}", processes=2, parquet=table) == alone


@pytest.mark.django_db
def test_progress_moves_while_pictures_are_written_and_kept(ada, shop, store, monkeypatch):
    monkeypatch.setattr(working, "TELL_EVERY_S", 0)
    seen_by_watcher, plain = [], jobs.progress

    def progress(job, **fields):
        went_on = plain(job, **fields)
        # what the watcher of the child compares
        seen_by_watcher.append(Export.objects.values_list(*tasks.WATCHED).get(pk=job.pk))
        return went_on

    monkeypatch.setattr(jobs, "progress", progress)
    export = built(ada, format="sft")
    files = len(list(storing.files_of(ada.project.pk, export.dataset)))
    moves = len(set(seen_by_watcher))
    assert moves >= 2 + files, "each picture that is written, and each file that is kept"


@pytest.mark.django_db
def test_pictures_that_are_stored_are_not_stored_again(ada, shop, store, tmp_path, monkeypatch):
    manifest, files = written(ada, tmp_path / "one")
    name, dataset, folder = manifest["dataset"], ada.project.pk, tmp_path / "one"
    (folder / "manifest.json").rename(tmp_path / "later")
    storing.keep(dataset, name, folder)
    (tmp_path / "later").rename(folder / "manifest.json")
    saved, plain = [], type(storing.store()).save
    monkeypatch.setattr(type(storing.store()), "save", lambda *call: saved.append(call[1]) or plain(*call))
    storing.keep(dataset, name, folder)
    assert saved and not [one for one in saved if "images" in one] and storing.is_kept(dataset, name)
    saved.clear()
    (folder / "manifest.json").unlink()
    before = {path: path.stat().st_mtime_ns for path in (folder / "data" / "images").iterdir()}
    plan = datasets.take_snapshot(ada.project, Recipe.read({"format": "sft"}), folder)
    datasets.build(ada.project, plan, folder, lambda *_: True)
    assert {path: path.stat().st_mtime_ns for path in (folder / "data" / "images").iterdir()} == before


@pytest.mark.django_db
def test_keeping_ends_when_the_export_is_cancelled(ada, shop, store, tmp_path):
    manifest, _ = written(ada, tmp_path / "one")
    with pytest.raises(datasets.Stopped):
        storing.keep(ada.project.pk, manifest["dataset"], tmp_path / "one", lambda files: files < 2)
    assert not storing.is_kept(ada.project.pk, manifest["dataset"])
