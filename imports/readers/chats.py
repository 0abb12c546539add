"""Formats that are lists of chat messages: OpenAI-style rows, OpenEnv, tau-bench, Inspect. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from awmclient.schema import Trajectory
from imports.readers.found import Draft, Unreadable, tools_of, wants, whole
from imports.readers.messages import add_messages, text_of


def knows_openai(row: Mapping[str, Any]) -> bool:
    return isinstance(row.get("messages"), list) and not knows_openenv(row)


def read_openai(row: Mapping[str, Any], draft: Draft) -> Trajectory:
    add_messages(draft, wants(row, "messages", list, "a list of messages"))
    known = {"messages", "tools", "functions", "parallel_tool_calls", "model", "task", "id"}
    for name in sorted(set(row) - known)[:20]:
        draft.lose(f"field {name[:60]}")
    model = draft.line(row.get("model"), "model")
    return draft.trajectory(
        episode=draft.line(row.get("id"), "id"),
        task=draft.task(row.get("task") or draft.first_user_text()),
        tools=tools_of(row.get("tools") or row.get("functions"), draft),
        policy={"model": model} if model else None,
        stop_reason="done" if draft.last_answer() is not None else None,
        final_answer=draft.last_answer(),
    )


def knows_openenv(row: Mapping[str, Any]) -> bool:
    return "episode_id" in row and "messages" in row and "tool_trace" in row


def read_openenv(row: Mapping[str, Any], draft: Draft) -> Trajectory:
    add_messages(draft, wants(row, "messages", list, "a list of messages"))
    task = row.get("task")
    about: Mapping[str, Any] = task if isinstance(task, Mapping) else {}
    extra: Mapping[str, Any] = row["extra"] if isinstance(row.get("extra"), Mapping) else {}
    trace = row.get("tool_trace")
    calls = sum(step["kind"] == "tool_call" for step in draft.steps)
    if isinstance(trace, list) and len(trace) > calls:
        draft.lose("calls of the tool trace that no message holds", len(trace) - calls)
    draft.lose("metrics", int(bool(row.get("metrics"))))
    draft.lose("artifacts", int(bool(row.get("artifacts"))))
    text = task if isinstance(task, str) else about.get("task") or about.get("prompt") or draft.first_user_text()
    measured = row.get("verify_metrics")
    named = measured.get("reward_type") if isinstance(measured, Mapping) else None
    return draft.trajectory(
        episode=draft.line(row.get("episode_id"), "episode id"),
        task=draft.task(text),
        scenario=draft.line(about.get("scenario"), "scenario"),
        task_idx=whole(about.get("task_idx")),
        tools=tools_of(extra.get("tools"), draft),
        stop_reason="done" if row.get("done") is True else None,
        final_answer=draft.last_answer(),
        outcome=outcome_of(row.get("reward"), named),
    )


def knows_tau(row: Mapping[str, Any]) -> bool:
    return isinstance(row.get("traj"), list) and "task_id" in row


def read_tau(row: Mapping[str, Any], draft: Draft) -> Trajectory:
    """Read a trajectory. The instruction of the simulated user is the task. The grader's own actions stay out: they are
    the solution.
    """
    add_messages(draft, wants(row, "traj", list, "a list of messages"))
    info = row.get("info") if isinstance(row.get("info"), Mapping) else {}
    task = info.get("task") if isinstance(info, Mapping) else None
    instruction = task.get("instruction") if isinstance(task, Mapping) else None
    draft.lose("the grader's details", int(bool(info)))
    return draft.trajectory(
        episode=f"{row['task_id']}.{row.get('trial', 0)}"[:200],
        environment="tau-bench",
        task=draft.task(instruction or draft.first_user_text()),
        task_idx=whole(row.get("task_id")),
        stop_reason="done",
        final_answer=draft.last_answer(),
        outcome=outcome_of(row.get("reward")),
    )


def knows_inspect(row: Mapping[str, Any]) -> bool:
    return set(row) == {"eval", "sample"}


def read_inspect(row: Mapping[str, Any], draft: Draft) -> Trajectory:
    """Read one sample of a log. Its first score is the outcome; the target, which is the solution, stays out."""
    about, sample = row["eval"], row["sample"]
    if not isinstance(about, Mapping) or not isinstance(sample, Mapping):
        raise Unreadable("The sample or the head of the log is not an object.")
    add_messages(draft, wants(sample, "messages", list, "a list of messages"))
    for name in ("events", "transcript", "store", "attachments"):
        draft.lose(name, int(bool(sample.get(name))))
    scores = sample.get("scores")
    named = list(scores.items()) if isinstance(scores, Mapping) else []
    draft.lose("further scores", max(0, len(named) - 1))
    model, error = draft.line(about.get("model"), "model"), sample.get("error")
    task = sample.get("input")
    return draft.trajectory(
        episode=f"{sample.get('uuid') or sample.get('id')}"[:200],
        environment="inspect",
        state="failed" if error else "finished",
        fault="environment" if error else None,
        task=draft.task(task if isinstance(task, str) else _asked(task, draft)),
        scenario=draft.line(about.get("task"), "name of the task"),
        task_idx=whole(sample.get("id")),
        seed=whole(sample.get("epoch")),
        policy={"model": model, "kind": "model"} if model else None,
        stop_reason="error" if error else "done",
        final_answer=draft.last_answer(),
        outcome=_scored(*named[0]) if named else None,
    )


def _asked(messages: Any, draft: Draft) -> str:
    """Return the user's text of an input that is a list of messages."""
    for message in messages if isinstance(messages, list) else []:
        if isinstance(message, Mapping) and message.get("role") == "user":
            return text_of(message.get("content"), draft)
    return draft.first_user_text()


GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}


def _scored(name: str, score: Any) -> dict[str, Any] | None:
    value = score.get("value") if isinstance(score, Mapping) else None
    number = GRADES.get(value) if isinstance(value, str) else value
    about = score.get("metadata") if isinstance(score, Mapping) else None
    kind = about.get("reward_type") if isinstance(about, Mapping) else None
    found = outcome_of(number, kind)
    return {**found, "details": {"scorer": str(name)[:200], "value": value}} if found else None


def outcome_of(reward: Any, kind: Any = None) -> dict[str, Any] | None:
    """Return a reported outcome: *complete* for a reward of 1, unless the source names its type."""
    if isinstance(reward, bool):
        reward = float(reward)
    if not isinstance(reward, int | float) or not math.isfinite(reward):
        return None
    named = kind[:200] if isinstance(kind, str) and kind else "complete" if reward >= 1 else "others"
    return {"reward_type": named, "reward": float(reward), "source": "reported"}
