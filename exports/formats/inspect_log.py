"""Samples of an Inspect log: one episode each, with the outcome as its score. Pure.

`writers/inspect_log.py` writes the log. A sample is named by its task; the writer numbers the episodes of one task as
epochs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from awmclient.schema import NOT_COUNTED
from awmclient.words.conversation import readable
from exports.formats.columns import sha256, source
from exports.record import EpisodeResult, Record
from exports.rules.leakage import Ground, result_of
from exports.rules.shaping import REASONING, Shaped, TrainingLine

VERSION = "inspect-log/3"
SCORER = "awm_verifier"


def rows(record: Record, shaped: Shaped, ground: Ground) -> Iterator[dict[str, Any]]:
    model = str(record.policy.get("model", ""))
    messages = list(_messages(record, shaped, model))
    about = source(VERSION, record, ground, shaped.messages)
    more = {"tools": list(shaped.tools), "stop_reason": record.stop_reason, "state": record.state}
    more |= {"fault": record.fault, "not_for_training": record.not_for_training}
    digest = sha256([shaped.messages, shaped.tools])
    yield {
        # a sample is named by its task, so that episodes of one task are its epochs
        "id": f"{record.scenario}:{record.task_idx}" if record.task_idx is not None else record.task_key,
        "input": record.task,
        # a verifier reads a database, so no text is expected
        "target": "",
        "messages": messages,
        "output": _output(messages, model),
        "scores": _scores(record, ground),
        "error": _error(record),
        "metadata": {**about, **more, "content_sha256": digest},
        "uuid": record.id,
        "started_at": record.started_at or None,
        "completed_at": record.ended_at or None,
    }


def _scores(record: Record, ground: Ground) -> dict[str, Any]:
    """Return the score of an episode that counts in its run: then the log's accuracy is the run's rate."""
    if record.assisted or record.is_continued:
        return {}
    # the agent's own fault is a task not solved; any other fault is no result
    if record.state == "failed" and record.fault == "policy":
        return {SCORER: {"value": 0.0, "explanation": "fault policy", "metadata": {"reward": None}}}
    result = result_of(record, ground)
    if result is None or record.state != "finished" or result.reward_type in NOT_COUNTED:
        return {}
    return {SCORER: _score(result)}


def _error(record: Record) -> dict[str, str] | None:
    if record.state != "failed":
        return None
    return {"message": f"fault {record.fault or 'unknown'}", "traceback": "", "traceback_ansi": ""}


def _score(result: EpisodeResult) -> dict[str, Any]:
    about = {"reward": result.reward, "reward_type": result.reward_type, "word": result.word}
    explanation = f"{result.reward_type} ({result.word})"
    return {"value": float(result.is_complete), "explanation": explanation, "metadata": about}


def _messages(record: Record, shaped: Shaped, model: str) -> Iterator[dict[str, Any]]:
    recorded = {int(step.get("seq") or 0): step for step in record.steps}
    names: dict[str, str] = {}
    for number, line in enumerate(shaped.lines):
        message = line.message
        # a result names its tool, which only the call knows
        names |= {call["id"]: call["function"]["name"] for call in message.get("tool_calls", ())}
        entry = {"id": f"{record.id}.{number}", "role": message["role"], "content": message["content"]}
        if message["role"] == "assistant":
            entry |= {"source": "generate", **({"model": model} if model else {})}
            if REASONING in message:
                # content with reasoning is a list of parts in Inspect
                thought = {"type": "reasoning", "reasoning": message[REASONING]}
                entry["content"] = [thought, {"type": "text", "text": message["content"]}]
            if calls := message.get("tool_calls"):
                entry["tool_calls"] = [_call(call) for call in calls]
        elif message["role"] == "tool":
            entry |= _answer(message, names, recorded.get(line.said.seqs[0], {}))
        yield {**entry, "metadata": _about(line)}


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {"id": call["id"], "function": function["name"], "arguments": function["arguments"], "type": "function"}


def _answer(message: Mapping[str, Any], names: Mapping[str, str], step: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a result beside its text: the call it answers, and its error."""
    call_id = message.get("tool_call_id")
    fields: dict[str, Any] = {} if call_id is None else {"tool_call_id": call_id, "function": names.get(call_id)}
    if step.get("error") is not None:
        fields["error"] = {"type": "unknown", "message": readable(str(step["error"]))}
    return fields


def _about(line: TrainingLine) -> dict[str, Any]:
    return {"part": line.said.part, "loss": line.loss}


def _output(messages: list[dict[str, Any]], model: str) -> dict[str, Any]:
    """Return the agent's last message as the model's output."""
    last = next((one for one in reversed(messages) if one["role"] == "assistant"), None)
    if last is None:
        return {"model": model, "choices": []}
    stop = "tool_calls" if last.get("tool_calls") else "stop"
    # the text follows the reasoning
    completion = last["content"] if isinstance(last["content"], str) else last["content"][-1]["text"]
    return {"model": model, "choices": [{"message": last, "stop_reason": stop}], "completion": completion}
