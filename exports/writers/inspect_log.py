"""Inspect logs from samples: the `.eval` container (a ZIP) and the same log as `.json`.

Samples are read twice from the lines of the parts, once for the counts in the header and once to be written. Memory
holds one sample, a number per task and the directory of the ZIP, about 300 bytes per sample. The layout is that of
inspect_ai 0.3, log version 2, whose reader opens both files in `make test-train`.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, BinaryIO
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import orjson

BLOCK = 1 << 20
SHORT = 1_000
"""Characters of a text in a summary."""
UNKNOWN = "1970-01-01T00:00:00Z"


@dataclass
class LogHeader:
    """The values in the header of a log that depend on its samples."""

    samples: int = 0
    scored: int = 0
    failed: int = 0
    sum: float = 0.0
    ids: Counter[str] = field(default_factory=Counter)
    models: set[str] = field(default_factory=set)
    first: str = ""
    last: str = ""
    scorer: str = ""

    def add(self, sample: dict[str, Any]) -> None:
        # the loop sets `scorer`, which is the same in all samples
        for self.scorer, score in sample["scores"].items():
            self.scored += 1
            self.sum += score["value"]
        self.samples += 1
        self.failed += sample["error"] is not None
        self.ids[sample["id"]] += 1
        self.models.add(sample["metadata"]["model"] or sample["metadata"]["policy_name"])
        if at := sample["started_at"]:
            # times of one form and zone are in order as text
            self.first, self.last = min(self.first or at, at), max(self.last, sample["completed_at"] or at)


def facts(parts: Sequence[Path]) -> LogHeader:
    log_header = LogHeader()
    for line in _lines(parts):
        log_header.add(orjson.loads(line))
    return log_header


def _lines(parts: Sequence[Path]) -> Iterator[bytes]:
    for part in parts:
        with part.open("rb") as lines:
            yield from lines


def header(dataset: str, log_header: LogHeader) -> dict[str, Any]:
    """Return the log without its samples. Everything in it depends only on the samples and the dataset's ID."""
    model = next(iter(log_header.models)) if len(log_header.models) == 1 else "several"
    spec = {
        "eval_id": dataset[:22],
        "run_id": dataset[:22],
        "created": log_header.first or UNKNOWN,
        "task": "awmweb",
        "task_id": dataset[:22],
        "dataset": {"name": "awmweb", "samples": len(log_header.ids), "shuffled": False},
        "model": model or "unknown",
        # an epoch is the position of an episode among those of its task
        "config": {"epochs": max(log_header.ids.values(), default=1)},
        "metadata": {"dataset": dataset, "models": sorted(log_header.models)},
    }
    mean = log_header.sum / log_header.scored if log_header.scored else 0.0
    accuracy = {"accuracy": {"name": "accuracy", "value": mean}}
    score = {
        "name": log_header.scorer,
        "scorer": log_header.scorer,
        "scored_samples": log_header.scored,
        "metrics": accuracy,
    }
    scores = [score] if log_header.scored else []
    results = {
        "total_samples": log_header.samples,
        "completed_samples": log_header.samples - log_header.failed,
        "scores": scores,
    }
    stats = {"started_at": log_header.first or UNKNOWN, "completed_at": log_header.last or UNKNOWN}
    plan: dict[str, Any] = {"name": "plan", "steps": [], "config": {}}
    return {"version": 2, "status": "success", "eval": spec, "plan": plan, "results": results, "stats": stats}


def numbered(parts: Sequence[Path]) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Yield each sample and its JSON with its epoch. The JSON is the original text, because parsing would change
    numbers."""
    seen: Counter[str] = Counter()
    for line in _lines(parts):
        sample = orjson.loads(line)
        seen[sample["id"]] += 1
        epoch = seen[sample["id"]]
        # without the opening brace, which the prefix has
        yield {**sample, "epoch": epoch}, b'{"epoch":%d,%s' % (epoch, line.strip()[1:])


def write_json(parts: Sequence[Path], head: dict[str, Any], out: BinaryIO) -> None:
    out.write(orjson.dumps(head)[:-1] + b',"samples":[')
    for number, (_, text) in enumerate(numbered(parts)):
        out.write((b",\n" if number else b"\n") + text)
    out.write(b"]}\n")


def write_eval(parts: Sequence[Path], head: dict[str, Any], out: BinaryIO) -> None:
    """Write samples one by one, summaries in a file of their own, then both indexes."""
    with ZipFile(out, "w", ZIP_DEFLATED) as log, tempfile.TemporaryFile() as summaries:
        start = {"version": head["version"], "eval": head["eval"], "plan": head["plan"]}
        log.writestr(_member("_journal/start.json"), orjson.dumps(start))
        for number, (sample, text) in enumerate(numbered(parts)):
            log.writestr(_member(f"samples/{sample['id']}_epoch_{sample['epoch']}.json"), text)
            summaries.write((b",\n" if number else b"[") + orjson.dumps(_summary(sample)))
        # no sample, so no bracket was written
        summaries.write(b"]" if summaries.tell() else b"[]")
        summaries.seek(0)
        # the size is not known when the member is opened
        with log.open(_member("summaries.json"), "w", force_zip64=True) as member:
            _copy(summaries, member)
        log.writestr(_member("header.json"), orjson.dumps(head))


def _member(name: str) -> ZipInfo:
    """Return a member with a fixed time, so that the same samples give the same bytes."""
    info = ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.compress_type = ZIP_DEFLATED
    return info


def _copy(source: IO[bytes], target: IO[bytes]) -> None:
    while block := source.read(BLOCK):
        target.write(block)


def _summary(sample: dict[str, Any]) -> dict[str, Any]:
    short = {
        name: value[:SHORT] if isinstance(value, str) else value
        for name, value in sample["metadata"].items()
        if not isinstance(value, list | dict)
    }
    same = {name: sample[name] for name in ("id", "epoch", "target", "scores", "uuid", "started_at", "completed_at")}
    count = len(sample["messages"])
    error = {"error": sample["error"]["message"]} if sample["error"] else {}
    about = {"input": sample["input"][:SHORT], "metadata": short, "completed": not error, "message_count": count}
    return {**same, **about, **error}
