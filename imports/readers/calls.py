"""Formats that are lists of actions: AWM's `trajectory.json`, ATIF and SWE-agent. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from awmclient.schema import Trajectory
from imports.readers.chats import outcome_of
from imports.readers.found import Draft, Unreadable, tools_of, wants, whole
from imports.readers.messages import add_call, add_result, settle, text_of

ATIF = re.compile(r"ATIF-v1\.([0-8])")
RESULTS = ("tool_result", "result", "data")


def knows_awm(row: Mapping[str, Any]) -> bool:
    steps = row.get("steps")
    first = steps[0] if isinstance(steps, list) and steps else None
    return isinstance(first, Mapping) and "action" in first and "observation" in first


def read_awm(row: Mapping[str, Any], draft: Draft) -> Trajectory:
    """Return calls of the environment with what they returned. `verify` is no call of the agent: it is the outcome."""
    for number, step in enumerate(wants(row, "steps", list, "a list of steps"), 1):
        action = step.get("action") if isinstance(step, Mapping) else None
        seen = step.get("observation") if isinstance(step, Mapping) else None
        if not isinstance(action, Mapping) or not isinstance(seen, Mapping):
            raise Unreadable(f"Step {number} has no action with an observation.")
        if isinstance(name := action.get("tool_name"), str):
            if name not in ("verify", "done"):
                _called(draft, name, action, seen)
        else:
            draft.lose(f"actions of type {str(action.get('type'))[:40]}")
    verified = [one["observation"] for one in row["steps"] if one["action"].get("tool_name") == "verify"]
    kind = verified[-1].get("reward_type") if verified else None
    return draft.trajectory(
        task=draft.task(row.get("task")),
        environment="awm",
        scenario=draft.line(row.get("scenario"), "scenario"),
        task_idx=whole(row.get("task_idx")),
        tools=tools_of(row.get("tools"), draft),
        stop_reason="done",
        outcome=outcome_of(row.get("reward"), kind),
    )


def _called(draft: Draft, name: str, action: Mapping[str, Any], seen: Mapping[str, Any]) -> None:
    draft.turn += 1
    arguments = action.get("arguments")
    step = draft.add("tool_call", name=name, turn=draft.turn)
    step["arguments"] = arguments if isinstance(arguments, dict) else {}
    if isinstance(error := seen.get("error"), str) and error:
        step["error"] = error
    else:
        step["result"] = next((seen[one] for one in RESULTS if seen.get(one) is not None), None)
    if isinstance(kind := seen.get("reward_type"), str) and kind:
        step["reward_type"] = kind[:200]


def knows_atif(row: Mapping[str, Any]) -> bool:
    return str(row.get("schema_version")).startswith("ATIF-v")


def read_atif(row: Mapping[str, Any], draft: Draft) -> Trajectory:
    if not ATIF.fullmatch(str(row.get("schema_version"))):
        raise Unreadable(f"{str(row.get('schema_version'))[:40]!r} is not ATIF-v1.0 to ATIF-v1.8.")
    for number, step in enumerate(wants(row, "steps", list, "a list of steps"), 1):
        if not isinstance(step, Mapping) or step.get("source") not in ("system", "user", "agent"):
            raise Unreadable(f"Step {number} is not of source system, user or agent.")
        _told(draft, step)
    draft.lose("final metrics", int(bool(row.get("final_metrics"))))
    draft.lose("trajectories of subagents", len(row.get("subagent_trajectories") or []))
    agent: Mapping[str, Any] = row["agent"] if isinstance(row.get("agent"), Mapping) else {}
    extra = row.get("extra")
    ours = extra.get("awm") if isinstance(extra, Mapping) else None
    about: Mapping[str, Any] = ours if isinstance(ours, Mapping) else {}
    policy = {"name": draft.line(agent.get("name"), "agent"), "model": draft.line(agent.get("model_name"), "model")}
    return draft.trajectory(
        episode=draft.line(row.get("trajectory_id") or row.get("session_id"), "session id"),
        task=draft.task(about.get("task") or draft.first_user_text()),
        scenario=draft.line(about.get("scenario"), "scenario"),
        task_idx=whole(about.get("task_idx")),
        tools=tools_of(agent.get("tool_definitions"), draft),
        policy={name: value for name, value in policy.items() if value},
        stop_reason="done",
        final_answer=draft.last_answer(),
        outcome=outcome_of(about.get("reward"), about.get("reward_type")),
    )


def _told(draft: Draft, step: Mapping[str, Any]) -> None:
    """Add one step: what was said, its calls, and what came back, all at its time."""
    first = len(draft.steps)
    draft.lose("metrics of steps", int(bool(step.get("metrics"))))
    text = text_of(step.get("message"), draft)
    calls = step.get("tool_calls") or []
    if not isinstance(calls, list):
        raise Unreadable("The tool calls of a step are not a list.")
    if step["source"] != "agent":
        draft.add("message", role=step["source"], content=text)
    else:
        draft.turn += 1
        thought = step.get("reasoning_content")
        meta = {"reasoning": thought} if isinstance(thought, str) else None
        if text or meta or not calls:
            draft.add("message", role="assistant", content=text, turn=draft.turn, meta=meta)
        for call in calls:
            add_call(draft, call)
    observed = step.get("observation")
    results = observed.get("results") if isinstance(observed, Mapping) else []
    for result in results if isinstance(results, list) else []:
        if not isinstance(result, Mapping):
            raise Unreadable("A result is not an object.")
        draft.lose("links to subagents", len(result.get("subagent_trajectory_ref") or []))
        _came_back(draft, result)
    settle(draft)
    at = draft.moment(step.get("timestamp"))
    for added in draft.steps[first:] if at else []:
        added["at"] = at


def _came_back(draft: Draft, result: Mapping[str, Any]) -> None:
    text = text_of(result.get("content"), draft)
    if draft.unanswered:
        add_result(draft, {"tool_call_id": result.get("source_call_id")}, text)
    else:
        draft.add("message", role="user", content=text, turn=draft.turn or None)


def knows_swe(row: Mapping[str, Any]) -> bool:
    steps = row.get("trajectory")
    return isinstance(steps, list) and ("history" in row or "info" in row)


def read_swe(row: Mapping[str, Any], draft: Draft) -> Trajectory:
    """Return the prompts of the history up to the first answer, then each command with its output."""
    for message in row["history"] if isinstance(row.get("history"), list) else []:
        if not isinstance(message, Mapping) or message.get("role") not in ("system", "user"):
            break
        if message.get("is_demo"):
            draft.lose("demonstrations")
        else:
            draft.add("message", role=message["role"], content=text_of(message.get("content"), draft))
    for number, step in enumerate(wants(row, "trajectory", list, "a list of steps"), 1):
        if not isinstance(step, Mapping) or not isinstance(step.get("action"), str):
            raise Unreadable(f"Step {number} has no action.")
        draft.turn += 1
        said = step.get("thought") or step.get("response")
        if isinstance(said, str) and said.strip():
            draft.add("message", role="assistant", content=said, turn=draft.turn)
        meta = {"state": step["state"]} if step.get("state") else None
        done = draft.add("action", action={"command": step["action"]}, turn=draft.turn, meta=meta)
        done["observation"] = {"output": step.get("observation")}
    info = row.get("info")
    about: Mapping[str, Any] = info if isinstance(info, Mapping) else {}
    submitted = isinstance(about.get("submission"), str) and about.get("submission")
    return draft.trajectory(
        task=draft.task(draft.first_user_text()),
        environment="swe-agent",
        scenario=draft.line(row.get("environment"), "environment"),
        policy={"name": "swe-agent"},
        stop_reason="done" if submitted else "gave_up",
        final_answer=about["submission"] if submitted else None,
    )
