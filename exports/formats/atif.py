"""Trajectories in the Agent Trajectory Interchange Format (ATIF) 1.7, one per line. Pure.

A step is a message of a prompt, a nudge, or a turn of the agent with its calls and their results: an observation is on
the step whose calls it answers. The format has no field for rewards and rejects unknown keys, so awmweb's other fields
are in `extra.awm`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from exports.formats.columns import sha256, source
from exports.record import Record
from exports.rules.leakage import Ground
from exports.rules.shaping import REASONING, Shaped, TrainingLine

VERSION = "ATIF-v1.7"


def rows(record: Record, shaped: Shaped, ground: Ground) -> Iterator[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    recorded = {int(step.get("seq") or 0): step for step in record.steps}
    for line in shaped.lines:
        turn = steps[-1] if steps and steps[-1]["source"] == "agent" else None
        if turn is not None and _is_observation(line):
            _observe(turn, line)
        else:
            steps.append(_step(len(steps) + 1, line, recorded, ground))
    agent = {"name": record.policy_name or "agent", "version": record.checkpoint or "unversioned"}
    model = str(record.policy.get("model", ""))
    about = source(VERSION, record, ground, shaped.messages)
    # the row has ATIF's own version
    about.pop("schema_version")
    digest = sha256([shaped.messages, shaped.tools])
    mark = {"state": record.state, "fault": record.fault, "not_for_training": record.not_for_training}
    yield {
        "schema_version": VERSION,
        "session_id": record.id,
        "trajectory_id": record.id,
        "agent": {**agent, **({"model_name": model} if model else {}), "tool_definitions": list(shaped.tools)},
        "steps": steps,
        "final_metrics": {**_totals(steps), "total_steps": len(steps)},
        "extra": {
            "awm": {**about, "task": record.task, "stop_reason": record.stop_reason, **mark},
            "content_sha256": digest,
        },
    }


def _is_observation(line: TrainingLine) -> bool:
    return line.said.part in ("result", "advice") or line.message["role"] == "tool"


def _observe(turn: dict[str, Any], line: TrainingLine) -> None:
    result: dict[str, Any] = {"content": line.message["content"]}
    # calls that the agent wrote as text have no ID
    if "tool_call_id" in line.message:
        result = {"source_call_id": line.message["tool_call_id"], **result}
    if line.said.part == "advice":
        result["extra"] = {"awm": {"part": "advice"}}
    turn.setdefault("observation", {"results": []})["results"].append(result)


def _step(number: int, line: TrainingLine, recorded: Mapping[int, Mapping[str, Any]], ground: Ground) -> dict[str, Any]:
    recorded_steps = [recorded[seq] for seq in line.said.seqs if seq in recorded]
    message, turn = line.message, line.said
    # ATIF knows three sources: a nudge or a briefing is the user's
    speaker = {"assistant": "agent", "system": "system"}.get(message["role"], "user")
    step: dict[str, Any] = {"step_id": number}
    if times := [str(one["at"]) for one in recorded_steps if one.get("at")]:
        step["timestamp"] = times[0]
    step |= {"source": speaker, "message": message["content"]}
    if speaker == "agent":
        if REASONING in message:
            step[REASONING] = message[REASONING]
        if calls := message.get("tool_calls"):
            step["tool_calls"] = [_call(call) for call in calls]
        if metrics := _metrics(recorded_steps, ground):
            step["metrics"] = metrics
    if turn.copied:
        step["is_copied_context"] = True
    # a task that was added as a message has no step
    return {**step, "extra": {"awm": {"part": turn.part, "seqs": [seq for seq in turn.seqs if seq], "loss": line.loss}}}


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {"tool_call_id": call["id"], "function_name": function["name"], "arguments": function["arguments"]}


def _metrics(recorded_steps: list[Mapping[str, Any]], ground: Ground) -> dict[str, Any]:
    """Return the token counts of a turn as the loop reported them. Token IDs would contain text that redaction and
    `distil` remove, so they are included only if the recipe uses neither."""
    usage: Mapping[str, Any] = next(
        (one["usage"] for one in recorded_steps if isinstance(one.get("usage"), Mapping)), {}
    )
    counts = {name: usage[name] for name in ("prompt_tokens", "completion_tokens") if _is_count(usage.get(name))}
    if ground.recipe.redact != "off" or not ground.recipe.has_advice:
        return counts
    meta: Mapping[str, Any] = next((one["meta"] for one in recorded_steps if isinstance(one.get("meta"), Mapping)), {})
    ids = {"prompt_token_ids": meta.get("prompt_ids"), "completion_token_ids": meta.get("completion_ids")}
    token_ids = {name: value for name, value in ids.items() if _all(value, int)}
    return {**counts, **token_ids, **({"logprobs": meta["logprobs"]} if _all(meta.get("logprobs"), int, float) else {})}


def _is_count(value: Any) -> bool:
    # `True` is an int in Python
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _all(value: Any, *kinds: type) -> bool:
    """Return whether this is a non-empty list of values of these types."""
    # `type`, because `isinstance` takes `True` for an int
    return isinstance(value, list) and bool(value) and all(type(one) in kinds for one in value)


def _totals(steps: list[dict[str, Any]]) -> dict[str, int]:
    counted = [step["metrics"] for step in steps if "metrics" in step]
    # a loop may report one of them; a missing count is not 0
    names = [name for name in ("prompt_tokens", "completion_tokens") if any(name in one for one in counted)]
    return {f"total_{name}": sum(one.get(name, 0) for one in counted) for name in names}
