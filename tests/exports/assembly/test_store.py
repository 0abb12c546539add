"""Datasets in an S3-compatible store, against a local S3 server: build, ranges, questions, delete, refusals."""

from __future__ import annotations

import importlib.util

import boto3
import pytest
from moto.server import ThreadedMotoServer

from awmweb.variables import exports_storage
from exports.assembly import storing
from exports.jobs import requesting, working
from exports.models import ExportState
from exports.recipe import Recipe
from tests.browsing import as_person, html
from tests.exports.pages.test_export_pages import built, data_of, episode
from tests.running import free_ports


@pytest.fixture(scope="module")
def server():
    running = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    running.start()
    yield "http://{}:{}".format(*running.get_host_and_port())
    running.stop()


@pytest.fixture
def bucket(server, settings, monkeypatch, tmp_path):
    """An empty bucket, which the settings name as the store of exports."""
    for name, value in (
        ("AWMWEB_EXPORTS_S3", "s3://rows/lab/one"), ("AWMWEB_S3_ENDPOINT", server), ("AWMWEB_S3_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret"), ("AWS_EC2_METADATA_DISABLED", "true"),
    ):  # fmt: skip
        monkeypatch.setenv(name, value)
    settings.VAR = tmp_path
    settings.STORAGES = {**settings.STORAGES, "exports": exports_storage(tmp_path)}
    made = boto3.resource("s3", endpoint_url=server, region_name="us-east-1").Bucket("rows")
    made.create()
    yield made
    made.objects.all().delete()
    made.delete()


def names(bucket):
    return sorted(one.key.rpartition("/")[2] for one in bucket.objects.all())


def test_dataset_lives_in_the_bucket_and_is_downloaded_by_ranges(ada, bucket, tmp_path, monkeypatch):
    one = episode(ada, "a")
    export = built(ada)
    assert {one.key.partition(export.project_id)[0] for one in bucket.objects.all()} == {"lab/one/"}
    assert {"train.jsonl", "manifest.json", "README.md", "rows.jsonl"} <= set(names(bucket))
    assert not list(tmp_path.rglob("*.jsonl")), "nothing stays on this machine"
    whole, person, address = data_of(export), as_person(ada), f"/exports/{export.pk}/download"

    def got(header=None, **query):
        answer = person.get(address, query, headers={"Range": header} if header else {})
        return answer.status_code, b"".join(answer.streaming_content) if answer.streaming else b""

    assert got() == (200, whole)
    monkeypatch.setattr(storing, "open_file", None)  # a range must not fetch the whole file
    assert got("bytes=5-9") == (206, whole[5:10]) and got("bytes=-4") == (206, whole[-4:])
    assert got(f"bytes={len(whole)}-")[0] == 416
    assert got(path="data/none.jsonl")[0] == 404 and got(path="../../../other/x")[0] == 404
    monkeypatch.undo()
    assert f"/episodes/{one.pk}/" in html(person.get(f"/exports/{export.pk}/?row=1"))


def test_equal_exports_share_files_until_the_last_delete(ada, bucket, django_capture_on_commit_callbacks):
    episode(ada, "a")
    first, second = built(ada), built(ada)
    person = as_person(ada)
    with django_capture_on_commit_callbacks(execute=True):
        person.post(f"/exports/{first.pk}/delete")
    assert data_of(second)
    with django_capture_on_commit_callbacks(execute=True):
        person.post(f"/exports/{second.pk}/delete")
    assert names(bucket) == []


def test_unreachable_store_fails_the_export_with_the_setting(ada, bucket, settings):
    episode(ada, "a")
    options = {**settings.STORAGES["exports"]["OPTIONS"], "bucket_name": "missing"}
    settings.STORAGES = {**settings.STORAGES, "exports": {**settings.STORAGES["exports"], "OPTIONS": options}}
    export = requesting.request(ada, Recipe.read({"format": "sft"}))
    working.build(export.pk)
    export.refresh_from_db()
    assert export.state == ExportState.FAILED and "check AWMWEB_EXPORTS_S3" in export.problem


def at(settings, port):
    """Have the settings name this port as the store."""
    options = {**settings.STORAGES["exports"]["OPTIONS"], "endpoint_url": f"http://127.0.0.1:{port}"}
    settings.STORAGES = {**settings.STORAGES, "exports": {**settings.STORAGES["exports"], "OPTIONS": options}}


def test_store_that_restarts_is_waited_for(ada, bucket, settings, monkeypatch):
    episode(ada, "a")
    (port,) = free_ports(1)
    at(settings, port)
    monkeypatch.setattr(working, "STORE_PAUSE_S", 0.2)
    late = ThreadedMotoServer("127.0.0.1", port, verbose=False)
    paused = []

    def progress(export, **fields):
        if not fields and not paused:
            late.start()
            paused.append(export.pk)
        return progressed(export, **fields)

    progressed = working.jobs.progress
    monkeypatch.setattr(working.jobs, "progress", progress)
    try:
        export = built(ada)
        assert paused == [export.pk] and export.state == ExportState.DONE and "train.jsonl" in names(bucket)
    finally:
        late.stop()


def test_store_that_stays_away_fails_the_export(ada, bucket, settings, monkeypatch):
    episode(ada, "a")
    at(settings, free_ports(1)[0])
    monkeypatch.setattr(working, "STORE_PATIENCE_S", 0.0)
    export = requesting.request(ada, Recipe.read({"format": "sft"}))
    working.build(export.pk)
    export.refresh_from_db()
    assert export.state == ExportState.FAILED and "Cannot reach the store of datasets" in export.problem


@pytest.mark.parametrize("value", ["rows", "https://rows", "s3://", "s3://key:secret@rows"])
def test_wrong_address_of_a_bucket_stops_the_start(monkeypatch, tmp_path, value):
    monkeypatch.setenv("AWMWEB_EXPORTS_S3", value)
    with pytest.raises(SystemExit, match="AWMWEB_EXPORTS_S3: expected s3://bucket"):
        exports_storage(tmp_path)


def test_bucket_without_boto3_stops_with_the_command(monkeypatch, tmp_path):
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "boto3" else there(name))
    assert exports_storage(tmp_path)["BACKEND"].endswith("FileSystemStorage"), "a folder needs none"
    monkeypatch.setenv("AWMWEB_EXPORTS_S3", "s3://rows")
    with pytest.raises(SystemExit, match="AWMWEB_EXPORTS_S3: needs boto3.*make install-extras"):
        exports_storage(tmp_path)
