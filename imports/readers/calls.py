"""Formats that are lists of actions: AWM's `trajectory.json`, ATIF and SWE-agent. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from awmclient.nouns.fields import COPIED
from awmclient.schema import Trajectory
from awmclient.words.thinking import read_reasoning
from imports.readers.chats import outcome_of
from imports.readers.found import EMPTY, TrajectoryDraft, UnreadableRow, tools_of, wants
from imports.readers.messages import add_call, add_result, arguments_of, content_of, settle
from imports.readers.own import ENDS, ended

ATIF = re.compile(r"ATIF-v1\.([0-8])")
# The first of these that is not null is the result, else the first one; further ones count as lost fields.
RESULTS = ("tool_result", "result", "data")
AWM = frozenset({"steps", "task", "scenario", "task_idx", "tools", "reward"})
AWM_ACTION = frozenset({"type", "tool_name", "arguments"})
AWM_SEEN = frozenset({"done", "reward_type"})
AWM_DONE = frozenset({"done", "tool_name"})
AWM_VERIFIED = AWM_DONE | {"reward", "reward_type"}
ATIF_FIELDS = frozenset(
    {
        *("schema_version", "session_id", "trajectory_id", "agent", "steps", "extra", "final_metrics"),
        "subagent_trajectories",
    }
)
ATIF_STEP = frozenset({"step_id", "source", "message", "timestamp", "metrics", "observation", "is_copied_context"})
ATIF_COUNTS = ("prompt_tokens", "completion_tokens")
ATIF_IDS = {"prompt_token_ids": "prompt_ids", "completion_token_ids": "completion_ids", "logprobs": "logprobs"}
"""Lists of a step's metrics, by their names in a step's `meta`."""
ATIF_TURN = ATIF_STEP | {"tool_calls", "reasoning_content", "model_name", "reasoning_effort"}
SWE = frozenset({"environment", "trajectory", "history", "info"})
SWE_STEP = frozenset({"action", "observation", "state", "execution_time"})


def knows_awm(row: Mapping[str, Any]) -> bool:
    steps = row.get("steps")
    first = steps[0] if isinstance(steps, list) and steps else None
    return isinstance(first, Mapping) and "action" in first and "observation" in first


def read_awm(row: Mapping[str, Any], draft: TrajectoryDraft) -> Trajectory:
    """Return calls of the environment with their results. `verify` is not a call of the agent: it becomes the outcome,
    without its details, which can contain the solution."""
    for number, step in enumerate(wants(row, "steps", list, "a list of steps"), 1):
        action = step.get("action") if isinstance(step, Mapping) else None
        seen = step.get("observation") if isinstance(step, Mapping) else None
        if not isinstance(action, Mapping) or not isinstance(seen, Mapping):
            raise UnreadableRow(f"Step {number} has no action with an observation.")
        draft.lose_fields(step, {"action", "observation"}, "steps")
        if not isinstance(name := action.get("tool_name"), str):
            draft.lose(f"actions of type {str(action.get('type'))[:40]}")
        elif name in ("verify", "done"):
            draft.lose_fields(action, {"type", "tool_name"}, name)
            fields = AWM_VERIFIED if name == "verify" else AWM_DONE
            # The final observation repeats fields of the file: equal ones are no loss.
            draft.lose_fields(seen, fields | {one for one in AWM if seen.get(one) == row.get(one)}, name)
        else:
            _called(draft, name, action, seen)
    draft.lose_fields(row, AWM)
    verified = [one["observation"] for one in row["steps"] if one["action"].get("tool_name") == "verify"]
    last: Mapping[str, Any] = verified[-1] if verified else {}
    draft.lose("earlier verifications", max(0, len(verified) - 1))
    # The reward of the file goes before that of its last verification; if they differ, one is lost.
    reward = row.get("reward") if row.get("reward") is not None else last.get("reward")
    draft.lose("reward of verify", int(last.get("reward") not in (None, reward)))
    return draft.trajectory(
        task=draft.task(row.get("task")),
        environment="awm",
        scenario=draft.line(row.get("scenario"), "scenario"),
        task_idx=draft.whole(row.get("task_idx"), "task index"),
        tools=tools_of(row.get("tools"), draft),
        stop_reason="done",
        outcome=outcome_of(draft, reward, last.get("reward_type")),
    )


def _called(draft: TrajectoryDraft, name: str, action: Mapping[str, Any], seen: Mapping[str, Any]) -> None:
    draft.turn += 1
    step = draft.add("tool_call", name=name, turn=draft.turn)
    step["arguments"] = arguments_of(action.get("arguments"), draft)
    filled = (one for one in RESULTS if seen.get(one) is not None)
    source = next(filled, next((one for one in RESULTS if one in seen), "result"))
    fields = {*AWM_SEEN, source, *(["tool_name"] if seen.get("tool_name") == name else [])}
    error, reward = seen.get("error"), seen.get("reward")
    if isinstance(error, str) and error:
        step["error"] = error
        # A result that only repeats the error is not stored twice.
        if seen.get(source) not in (*EMPTY, error):
            step["meta"] = {"result_beside_error": seen[source]}
        fields.add("error")
    elif source in seen:
        step["result"] = draft.with_parts(seen[source])
    if kind := draft.line(seen.get("reward_type"), "reward type"):
        step["reward_type"] = kind
    if seen.get("done") is True:
        step["done"] = True
    # In Python a boolean is an int, and `true` is no reward.
    if isinstance(reward, int | float) and not isinstance(reward, bool):
        step["reward"] = reward
        fields.add("reward")
    draft.lose_fields(action, AWM_ACTION, "actions")
    draft.lose_fields(seen, fields, "observations")


def knows_atif(row: Mapping[str, Any]) -> bool:
    return str(row.get("schema_version")).startswith("ATIF-v")


def read_atif(row: Mapping[str, Any], draft: TrajectoryDraft) -> Trajectory:
    if not ATIF.fullmatch(str(row.get("schema_version"))):
        raise UnreadableRow(f"{str(row.get('schema_version'))[:40]!r} is not ATIF-v1.0 to ATIF-v1.8.")
    agent = draft.inner(row, "agent")
    for number, step in enumerate(wants(row, "steps", list, "a list of steps"), 1):
        if not isinstance(step, Mapping) or step.get("source") not in ("system", "user", "agent"):
            raise UnreadableRow(f"Step {number} is not of source system, user or agent.")
        _add_step(draft, step, agent.get("model_name"))
    _add_final_metrics(draft, draft.inner(row, "final_metrics"), row["steps"])
    draft.lose("trajectories of subagents", _length(row.get("subagent_trajectories")))
    extra = draft.inner(row, "extra")
    about = draft.inner(extra, "awm")
    draft.lose_fields(row, ATIF_FIELDS)
    draft.lose_fields(agent, {"name", "version", "model_name", "tool_definitions"}, "agent")
    draft.lose_fields(extra, {"awm"}, "extra")
    draft.lose_fields(about, {"task", "scenario", "task_idx", "reward", "reward_type", *ENDS}, "extra.awm")
    named = {"name": "name", "version": "version", "model": "model_name"}
    policy = {name: draft.line(agent.get(source), f"{name} of the agent") for name, source in named.items()}
    answer = draft.last_answer()
    return draft.trajectory(
        episode=draft.line(row.get("trajectory_id") or row.get("session_id"), "session id"),
        task=draft.task(about.get("task") or draft.first_user_text()),
        scenario=draft.line(about.get("scenario"), "scenario"),
        task_idx=draft.whole(about.get("task_idx"), "task index"),
        tools=tools_of(agent.get("tool_definitions"), draft),
        policy={name: value for name, value in policy.items() if value},
        # awmweb's own words, else *done* only if the answer of the agent is the last step
        **{"stop_reason": None if answer is None else "done", **ended(about, draft)},
        final_answer=answer,
        outcome=outcome_of(draft, about.get("reward"), about.get("reward_type")),
    )


def _length(raw: Any) -> int:
    return len(raw) if isinstance(raw, list) else int(raw not in EMPTY)


def _add_step(draft: TrajectoryDraft, step: Mapping[str, Any], model: Any) -> None:
    """Add one step: its text, its calls and their results, all at its time. A copied step is history: each entry says
    so."""
    first, is_copied = len(draft.steps), step.get("is_copied_context") is True
    if step["source"] == "agent":
        _add_turn(draft, step, model, is_copied=is_copied)
    else:
        draft.add("message", role=step["source"], **content_of(step.get("message"), draft).fields)
        draft.lose("metrics of steps of no agent", int(bool(step.get("metrics"))))
        draft.lose_fields(step, ATIF_STEP, "steps")
    observed = draft.inner(step, "observation")
    results = observed.get("results")
    draft.lose_fields(observed, {"results"} if isinstance(results, list) else set(), "observations")
    for result in results if isinstance(results, list) else []:
        if not isinstance(result, Mapping):
            raise UnreadableRow("A result is not an object.")
        draft.lose("links to subagents", _length(result.get("subagent_trajectory_ref")))
        _add_result(draft, result)
    settle(draft)
    at = draft.moment(step.get("timestamp"))
    for added in draft.steps[first:] if at or is_copied else []:
        if at:
            added["at"] = at
        if is_copied:
            added["meta"] = {**added.get("meta", {}), COPIED: True}


def _add_turn(draft: TrajectoryDraft, step: Mapping[str, Any], model: Any, *, is_copied: bool) -> None:
    """Add a turn of the agent. Its first entry has its metrics, and the model or the effort if it is not the agent's.
    A copied turn was paid for in its own episode."""
    calls = step.get("tool_calls") or []
    if not isinstance(calls, list):
        raise UnreadableRow("The tool calls of a step are not a list.")
    first, metrics = len(draft.steps), draft.inner(step, "metrics")
    draft.lose("metrics of copied steps", int(is_copied and bool(metrics)))
    metrics = {} if is_copied else metrics
    draft.turn += 1
    content, usage = content_of(step.get("message"), draft), _usage(metrics)
    _, thought = read_reasoning(step)
    # what a turn used is on its message, which can be empty
    if content or thought or usage or not calls:
        draft.add("message", role="assistant", **content.fields, reasoning=thought, turn=draft.turn, usage=usage)
    for call in calls:
        add_call(draft, call)
    # Only what differs from the head of the document, which the policy records once.
    beside = {one: step[one] for one in ("model_name", "reasoning_effort") if step.get(one) not in (*EMPTY, model)}
    beside |= {name: metrics[source] for source, name in ATIF_IDS.items() if metrics.get(source) not in EMPTY}
    if beside:
        draft.steps[first]["meta"] = {**draft.steps[first].get("meta", {}), **beside}
    draft.lose_fields(step, ATIF_TURN if thought else ATIF_TURN - {"reasoning_content"}, "steps")


def _usage(metrics: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what a turn used, by the names that the record's usage has; None if the metrics have nothing."""
    counted = {name: metrics[name] for name in ATIF_COUNTS if _is_count(metrics.get(name))}
    if _is_count(cached := metrics.get("cached_tokens")):
        counted["prompt_tokens_details"] = {"cached_tokens": cached}
    reported = {name: one for name, one in metrics.items() if name not in ATIF_IDS and one not in EMPTY}
    return {**counted, "reported": reported} if reported else None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _add_final_metrics(draft: TrajectoryDraft, final: Mapping[str, Any], steps: list[Mapping[str, Any]]) -> None:
    """Add a note with the metrics of the whole file, unless they only add up its steps. Where no step has counted, the
    note has what all of them used."""
    own = [step for step in steps if step.get("is_copied_context") is not True]
    counted = [step["metrics"] for step in own if isinstance(step.get("metrics"), Mapping)]
    sums = {
        f"total_{name}": sum(one[name] for one in counted if _is_count(one.get(name)))
        for name in (*ATIF_COUNTS, "cached_tokens")
        if any(_is_count(one.get(name)) for one in counted)
    }
    expected = {**sums, "total_steps": len(steps)}
    further = {name: one for name, one in final.items() if one not in EMPTY and expected.get(name) != one}
    if further:
        # what is a sum of counted steps would count twice
        rest = {name.removeprefix("total_"): one for name, one in further.items() if name not in sums}
        counts = {name: one for name, one in rest.items() if name in ATIF_COUNTS and _is_count(one)}
        draft.add("note", content=f"Metrics of the whole file: {json.dumps(further)}", usage=counts or None)


def _add_result(draft: TrajectoryDraft, result: Mapping[str, Any]) -> None:
    content = content_of(result.get("content"), draft)
    fields = {"source_call_id", "content", "subagent_trajectory_ref"} - (
        set() if draft.unanswered else {"source_call_id"}
    )
    draft.lose_fields(result, fields, "results")
    # Without an open call this is what the environment said by itself, which the agent reads as a user's message.
    if draft.unanswered:
        add_result(draft, {"tool_call_id": result.get("source_call_id")}, content)
    else:
        draft.add("message", role="user", **content.fields, turn=draft.turn or None)


def knows_swe(row: Mapping[str, Any]) -> bool:
    steps, history = row.get("trajectory"), row.get("history")
    if steps is None:  # a demonstration
        # A chat row can have a `history` beside its messages, which then decide.
        return isinstance(history, list) and "messages" not in row
    return isinstance(steps, list) and ("history" in row or "info" in row)


def _read_demonstration(row: Mapping[str, Any], draft: TrajectoryDraft) -> Trajectory:
    """Return the messages of a demonstration, which has no trajectory beside its history."""
    for number, message in enumerate(row["history"], 1):
        if not isinstance(message, Mapping) or message.get("role") not in ("system", "user", "assistant"):
            raise UnreadableRow(f"Message {number} is not of role system, user or assistant.")
        is_agent = message["role"] == "assistant"
        draft.turn += int(is_agent)
        content = content_of(message.get("content"), draft)
        draft.add("message", role=message["role"], **content.fields, turn=draft.turn if is_agent else None)
        draft.lose_fields(message, {"role", "content", "is_demo"}, "messages")
    draft.lose_fields(row, {"environment", "history"})
    return draft.trajectory(
        task=draft.task(draft.first_user_text()),
        environment="swe-agent",
        scenario=draft.line(row.get("environment"), "environment"),
        policy={"name": "swe-agent"},
        stop_reason="done" if draft.last_answer() is not None else None,
        final_answer=draft.last_answer(),
    )


def read_swe(row: Mapping[str, Any], draft: TrajectoryDraft) -> Trajectory:
    """Return the prompts of the history up to the first answer, then each command with its output."""
    history = row.get("history")
    if row.get("trajectory") is None:
        return _read_demonstration(row, draft)
    for message in history if isinstance(history, list) else []:
        # From the first answer on, `trajectory` has the same turns, with their outputs.
        if not isinstance(message, Mapping) or message.get("role") not in ("system", "user"):
            break
        # An example in the prompt, not a part of this episode.
        if message.get("is_demo"):
            draft.lose("demonstrations")
        else:
            draft.add("message", role=message["role"], **content_of(message.get("content"), draft).fields)
            draft.lose_fields(message, {"role", "content", "is_demo"}, "messages")
    for number, step in enumerate(wants(row, "trajectory", list, "a list of steps"), 1):
        if not isinstance(step, Mapping) or not isinstance(step.get("action"), str):
            raise UnreadableRow(f"Step {number} has no action.")
        draft.turn += 1
        words = {name: str(step[name]) for name in ("thought", "response") if isinstance(step.get(name), str)}
        texts = [text for text in words.values() if text.strip()]
        if texts:
            # A `response` that equals the thought is stored once.
            beside = {"response": texts[1]} if texts[1:] not in ([], texts[:1]) else None
            draft.add("message", role="assistant", content=texts[0], turn=draft.turn, meta=beside)
        meta = {name: step[name] for name in ("state", "execution_time") if step.get(name) not in EMPTY}
        done = draft.add("action", action={"command": step["action"]}, turn=draft.turn, meta=meta or None)
        if "observation" in step:
            done["observation"] = {"output": step["observation"]}
        draft.lose_fields(step, SWE_STEP | words.keys(), "steps")
    about = draft.inner(row, "info")
    submitted = isinstance(about.get("submission"), str) and about.get("submission")
    draft.lose_fields(row, SWE if isinstance(history, list) else SWE - {"history"})
    draft.lose_fields(about, {"submission"} if submitted else set(), "info")
    return draft.trajectory(
        task=draft.task(draft.first_user_text()),
        environment="swe-agent",
        scenario=draft.line(row.get("environment"), "environment"),
        policy={"name": "swe-agent"},
        stop_reason="done" if submitted else "gave_up",
        final_answer=about["submission"] if submitted else None,
    )
