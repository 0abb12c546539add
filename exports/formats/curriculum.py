"""Rows of tasks as a curriculum serves them: level, weight, difficulty, and the schedule of help. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from curriculum.rules.levels import VERSION
from exports.formats.columns import NUMBER, TEXT, TEXT_LIST, WHOLE, YES_NO, sha256
from exports.record import Record
from exports.rules.leakage import Ground
from exports.rules.shaping import Shaped
from people.rates import wilson

FEATURES: dict[str, Any] = {
    "schema_version": TEXT,
    "snapshot": TEXT,
    "run": TEXT,
    "task": TEXT,
    "scenario": TEXT,
    "task_idx": WHOLE,
    "split": TEXT,
    "level": TEXT,
    "state": TEXT,
    "unlocked": YES_NO,
    "pinned": YES_NO,
    "weight": NUMBER,
    "difficulty": {
        "method": TEXT,
        "n": WHOLE,
        "solved": WHOLE,
        "rate": NUMBER,
        "ci95": {"feature": NUMBER, "_type": "List"},
    },
    "helped": {"n": WHOLE, "solved": WHOLE},
    "noop": {"status": TEXT, "probes": TEXT_LIST, "verifier_sha256": TEXT},
    "limits": {"max_steps": WHOLE, "tools": TEXT_LIST, "hint": TEXT},
    "schedule": {
        **{"strategy": TEXT, "phase": TEXT, "decided_by": TEXT, "group_size": WHOLE, "expert": WHOLE, "solo": WHOLE},
        **{"signal": TEXT, "signal_value": NUMBER, "source_step": WHOLE},
    },
    "content_sha256": TEXT,
}


@dataclass
class TaskRecord(Record):
    """A task of a curriculum snapshot: its row there, and the snapshot's values for all tasks."""

    row: Mapping[str, Any] = field(default_factory=dict)
    content: Mapping[str, Any] = field(default_factory=dict)
    snapshot: str = ""


def rows(record: Record, _shaped: Shaped, _ground: Ground) -> Iterator[dict[str, Any]]:
    """Return the row of one task: everything that `GET /curriculum/next` draws from."""
    assert isinstance(record, TaskRecord)
    task, content = record.row, record.content
    # a task without a level is open
    level: Mapping[str, Any] = next((one for one in content["levels"] if one["name"] == task["level"]), {})
    solo, solved = task["solo"], task["solo_solved"]
    row = {
        "schema_version": VERSION,
        "snapshot": record.snapshot,
        "run": content["run"],
        **{name: task[name] for name in ("task", "split", "level", "state", "weight")},
        "scenario": task["scenario"] or "",
        "task_idx": task["task_idx"] if task["task_idx"] is not None else -1,
        "unlocked": bool(level.get("open", True)),
        "pinned": task["pinned"] is not None,
        "difficulty": {
            "method": "solo_solve_rate",
            "n": solo,
            "solved": solved,
            "rate": solved / solo if solo else None,
            "ci95": list(wilson(solved, solo)),
        },
        "helped": {"n": task["helped"], "solved": task["helped_solved"]},
        "noop": _noop(task.get("probe")),
        "limits": {
            "max_steps": level.get("max_steps"),
            "tools": list(level.get("tools") or ()),
            "hint": level.get("hint") or "",
        },
        "schedule": {
            **{name: content[name] for name in ("strategy", "phase", "decided_by")},
            **content["ratio"],
            "signal": "format_error_rate",
            "signal_value": content["format_error_rate"],
            "source_step": content["training_step"],
        },
    }
    # in the order of the columns
    yield {**{name: row[name] for name in FEATURES if name in row}, "content_sha256": sha256(row)}


def _noop(probe: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the probe results of a task; status `unprobed` if none counted when the snapshot was made."""
    if probe is None:
        return {"status": "unprobed", "probes": [], "verifier_sha256": ""}
    return {"status": probe["state"], "probes": probe["attempts"], "verifier_sha256": probe["verifier"]}
