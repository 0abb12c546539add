"""Inspect logs: their files without inspect_ai, and in `make test-train` through its own reader."""

from __future__ import annotations

import io
import json
import tracemalloc
import zipfile

import pytest

from exports.record import EpisodeResult
from exports.writers import inspect_log
from exports.writers.jsonl import line
from tests.documented import proves
from tests.exports.records import FAILED, record, walk


def samples():
    """Two goes at one task, one of them failed, and one at a task without a scenario."""
    again = record(id="e2", results=FAILED, policy={"model": "m/1"}, started_at="2026-11-22T10:00:00Z")
    free = record(id="e3", scenario="", task_idx=None, task_key="5e1f", task="Weiß 漢 \u2028")
    first = record(policy={"model": "m/1"}, started_at="2026-11-22T09:00:00Z")
    rows, _ = walk("inspect", first, again, free, include=["duplicates"])
    return rows


def parts_of(rows, folder):
    """The rows as the lines of two parts."""
    files = [folder / "00000.jsonl", folder / "00001.jsonl"]
    for file, some in zip(files, (rows[:1], rows[1:]), strict=True):
        file.write_bytes(b"".join(line(row) for row in some))
    return files


@pytest.fixture
def logs(tmp_path):
    parts = parts_of(samples(), tmp_path)
    head = inspect_log.header("d" * 64, inspect_log.facts(parts))
    for name, write in (("log.eval", inspect_log.write_eval), ("log.json", inspect_log.write_json)):
        with (tmp_path / name).open("wb") as out:
            write(parts, head, out)
    return tmp_path


def test_accuracy_of_a_log_is_the_rate_of_its_run(tmp_path):
    judge = {"verified": EpisodeResult("judge_error", 0.0, "verified")}
    told = [
        record(),
        record(id="e2", results=FAILED, split="val"),
        record(id="e3", results={}, state="failed", fault="policy"),
        record(id="e4", results={}, state="failed", fault="model", steps=[]),
        record(id="e5", results=judge),
        record(id="e6", results={}),
    ]
    rows, counts = walk("inspect", *told)
    found = inspect_log.header("d", inspect_log.facts(parts_of(rows, tmp_path)))["results"]
    assert (found["total_samples"], found["completed_samples"], counts.left_out) == (6, 4, {})
    assert found["scores"][0]["scored_samples"] == 3
    assert found["scores"][0]["metrics"]["accuracy"]["value"] == pytest.approx(1 / 3)
    assert [row["error"] and row["error"]["message"] for row in rows][2:4] == ["fault policy", "fault model"]


def test_container_has_one_member_per_sample_and_epochs(logs):
    with zipfile.ZipFile(logs / "log.eval") as log:
        assert log.testzip() is None
        assert [name for name in log.namelist() if name.startswith("samples/")] == [
            "samples/desk_1:3_epoch_1.json", "samples/desk_1:3_epoch_2.json", "samples/5e1f_epoch_1.json",
        ]  # fmt: skip
        head, summaries = json.loads(log.read("header.json")), json.loads(log.read("summaries.json"))
    assert head["results"]["scores"][0]["metrics"]["accuracy"]["value"] == pytest.approx(2 / 3)
    assert head["eval"]["created"] == "2026-11-22T09:00:00Z" and head["eval"]["config"] == {"epochs": 2}
    assert [(one["id"], one["epoch"], one["uuid"]) for one in summaries] == [
        ("desk_1:3", 1, "e1"), ("desk_1:3", 2, "e2"), ("5e1f", 1, "e3"),
    ]  # fmt: skip
    assert json.loads((logs / "log.json").read_bytes())["samples"][1]["epoch"] == 2


def test_same_samples_give_the_same_bytes(logs, tmp_path):
    parts, again = [tmp_path / "00000.jsonl", tmp_path / "00001.jsonl"], io.BytesIO()
    inspect_log.write_eval(parts, inspect_log.header("d" * 64, inspect_log.facts(parts)), again)
    assert again.getvalue() == (logs / "log.eval").read_bytes()


def test_integers_that_no_float_holds_stay(tmp_path):
    (row, *_) = samples()
    row["metadata"]["seed"] = 2**70
    (tmp_path / "a").write_bytes(line(row))
    out = io.BytesIO()
    inspect_log.write_json([tmp_path / "a"], inspect_log.header("d", inspect_log.facts([tmp_path / "a"])), out)
    assert json.loads(out.getvalue())["samples"][0]["metadata"]["seed"] == 2**70


def test_memory_does_not_grow_with_the_samples(tmp_path):
    (row, *_) = samples()
    peaks = []
    for count in (40, 400):
        row["input"], part = "x" * 200_000, tmp_path / f"{count}.jsonl"
        with part.open("wb") as out:
            for number in range(count):
                out.write(line({**row, "uuid": f"u{number}"}))
        tracemalloc.start()
        head = inspect_log.header("d", inspect_log.facts([part]))
        with (tmp_path / "log.eval").open("wb") as out:
            inspect_log.write_eval([part], head, out)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 2_000_000, peaks


@pytest.mark.train
@proves("docs/exports.md", "from inspect_ai.log")
def test_documented_lines_read_a_log(block, logs, monkeypatch):
    monkeypatch.chdir(logs)
    given = {}
    exec(compile(block.text, str(block), "exec"), given)
    assert len(given["log"].samples) == 3


@pytest.mark.train
def test_inspects_own_reader_opens_both_files_alike(logs):
    from inspect_ai.log import read_eval_log, read_eval_log_sample, read_eval_log_sample_summaries

    log, text = read_eval_log(str(logs / "log.eval")), read_eval_log(str(logs / "log.json"))
    assert log.status == "success" and len(log.samples) == 3
    for one in (log, text):
        one.samples.sort(key=lambda sample: sample.uuid)  # the reader of `.eval` puts them in an order of its own
        one.eval.dataset.sample_ids.sort()
    assert log.model_dump(exclude={"location"}) == text.model_dump(exclude={"location"})
    rows = samples()
    for row, sample in zip(
        sorted(rows, key=lambda row: row["uuid"]), sorted(log.samples, key=lambda s: s.uuid), strict=True
    ):
        assert [message.text for message in sample.messages] == [message["content"] for message in row["messages"]]
        assert [message.role for message in sample.messages] == [message["role"] for message in row["messages"]]
        assert sample.scores["awm_verifier"].value == row["scores"]["awm_verifier"]["value"]
        calls = [
            call for message in sample.messages if message.role == "assistant" for call in message.tool_calls or []
        ]
        assert [call.function for call in calls] == ["get_ticket", "get_ticket", "ask_expert", "merge"]
        assert calls[1].arguments == {"id": "8"}
    tools = [message for message in log.samples[0].messages if message.role == "tool"]
    assert tools[1].error.message == "no such id" and tools[2].metadata["part"] == "advice"
    assert read_eval_log(str(logs / "log.eval"), header_only=True).results.scores[0].metrics["accuracy"].value < 1
    assert read_eval_log(str(logs / "log.json"), header_only=True).eval.dataset.samples == 2
    assert [one.uuid for one in read_eval_log_sample_summaries(str(logs / "log.eval"))] == ["e1", "e2", "e3"]
    assert read_eval_log_sample(str(logs / "log.eval"), id="desk_1:3", epoch=2).uuid == "e2"
