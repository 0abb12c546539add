"""Records for tests of exports: one plausible episode, changed as a test wants it."""

from __future__ import annotations

from exports.assembly.building import Walk
from exports.formats import FORMATS
from exports.formats.curriculum import TaskRecord
from exports.recipe import Recipe
from exports.record import EpisodeResult, Record
from exports.rules.leakage import Ground

TOOLS = [
    {"name": "get_ticket", "description": "One ticket.", "input_schema": {"type": "object", "properties": {"id": {}}}},
    {"name": "merge", "description": "Merge two.", "input_schema": {"type": "object", "properties": {"into": {}}}},
]
ADVICE = {"text": "Into 7.", "source": "human", "privilege": "blind", "author": "Mina Park"}
STEPS = [
    {"seq": 1, "kind": "message", "role": "system", "content": "You act in an environment."},
    {"seq": 2, "kind": "message", "role": "user", "content": "Merge the duplicates."},
    {"seq": 3, "kind": "message", "role": "assistant", "content": "I look first.", "turn": 1},
    {"seq": 4, "kind": "tool_call", "name": "get_ticket", "arguments": {"id": 7}, "result": {"open": True}, "turn": 1},
    {"seq": 5, "kind": "tool_call", "name": "get_ticket", "arguments": {"id": "8"}, "error": "no such id", "turn": 1},
    {"seq": 6, "kind": "note", "content": "the agent does not see this", "meta": {"prompt_ids": [1]}},
    {"seq": 7, "kind": "ask", "question": "Into which?", "advice": ADVICE, "turn": 2},
    {"seq": 8, "kind": "tool_call", "name": "merge", "arguments": {"into": 7}, "result": {"ok": True}, "turn": 3},
    {"seq": 9, "kind": "nudge", "content": "Finish if you are through.", "turn": 3},
    {"seq": 10, "kind": "message", "role": "assistant", "content": "Merged into 7.", "turn": 4},
]
COMPLETE = {"verified": EpisodeResult("complete", 1.0, "verified")}
FAILED = {"verified": EpisodeResult("others", 0.0, "verified")}


def record(**more):
    fields = {
        "id": "e1", "project": "lab", "task": "Merge the duplicates.", "task_key": "desk_1/3", "scenario": "desk_1",
        "task_idx": 3, "state": "finished", "steps": STEPS, "results": COMPLETE, "tools": TOOLS, "expert": "plain",
        "run": "first", "arm": "expert", "seed": 5, "stop_reason": "done", **more,
    }  # fmt: skip
    return Record(**fields)


def task_record():
    """A task of a curriculum snapshot."""
    rates = {"solo": 8, "solo_solved": 2, "helped": 4, "helped_solved": 3}
    place = {"task": "desk_1/3", "scenario": "desk_1", "task_idx": 3, "split": "train"}
    row = {**place, **rates, "level": "medium", "state": "served", "pinned": None, "weight": 0.85}
    level = {"name": "medium", "max_steps": 20, "tools": [], "hint": "", "open": True}
    content = {
        "run": "1kq0c5s1rz5qz8a0b2c4", "strategy": "adaptive", "phase": "balanced", "decided_by": "rule",
        "ratio": {"group_size": 8, "expert": 4, "solo": 4}, "format_error_rate": 0.56, "training_step": 14,
        "levels": [level],
    }  # fmt: skip
    return TaskRecord(
        id="desk_1/3", project="lab", task="Merge the duplicates.", task_key="desk_1/3", state="finished", steps=[],
        split="train", row=row, content=content, snapshot="1kq0c5s1rz5qz8a0b2c5",
    )  # fmt: skip


def with_advice(**more):
    """The steps, with other advice."""
    return [{**step, "advice": {**ADVICE, **more}} if step["kind"] == "ask" else step for step in STEPS]


def ground(shape="sft", *, held_out=(), **options):
    return Ground(Recipe.read({"format": shape, **options}), held_out)


def walk(shape="sft", *records, held_out=(), **options):
    """The rows of these records and what was counted."""
    walking = Walk(FORMATS[shape], ground(shape, held_out=held_out, **options))
    rows = [row.value for row in walking.rows(records or [record()])]
    return rows, walking.counts
