"""Episodes as openenv's own collector writes them: one `EpisodeRecord` of openenv 0.10 per line of `results.jsonl`.
Pure.

Trainers read `messages`. `tool_trace` holds the calls of the environment with their unchanged results, without asks,
which are not calls of the environment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from awmclient.nouns.fields import has_come
from awmclient.nouns.kinds import is_call
from awmclient.schema import ASK_TOOL
from awmclient.words.conversation import readable
from exports.formats.columns import sha256, source
from exports.record import Record
from exports.rules.leakage import Ground, result_of
from exports.rules.shaping import Shaped

VERSION = "openenv-episode-record/0.10"


def rows(record: Record, shaped: Shaped, ground: Ground) -> Iterator[dict[str, Any]]:
    """Yield one row. Its reward is null if the episode has no outcome that counts, or one without a number."""
    result = result_of(record, ground)
    trace = [_entry(call) for line in shaped.lines for call in line.said.calls if _is_of_environment(call)]
    about = source(VERSION, record, ground, shaped.messages)
    loss = [line.loss for line in shaped.lines]
    digest = sha256([shaped.messages, shaped.tools])
    mark = {
        "state": record.state,
        "fault": record.fault,
        "stop_reason": record.stop_reason,
        "not_for_training": record.not_for_training,
    }
    yield {
        "episode_id": record.id,
        "messages": shaped.messages,
        "reward": float(result.reward) if result is not None and result.reward is not None else None,
        "done": record.stop_reason == "done",
        "tool_trace": trace,
        "metrics": {"turns": sum(line.said.part == "assistant" for line in shaped.lines), "tool_calls": len(trace)},
        "verify_metrics": {"reward_type": result.reward_type, "word": result.word} if result is not None else {},
        "artifacts": {},
        "task": {"scenario": record.scenario, "task_idx": record.task_idx, "task": record.task},
        "extra": {"tools": list(shaped.tools), "loss": loss, **about, **mark, "content_sha256": digest},
    }


def _is_of_environment(call: Mapping[str, Any]) -> bool:
    return is_call(call) and call.get("name") != ASK_TOOL


def _entry(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call as a trace has it. The format needs a result of each: metadata say that there was none."""
    error = call.get("error")
    seq = {"seq": call["seq"]} if call.get("seq") else {}
    result = {
        "data": readable(call.get("result")) if error is None else None,
        "done": bool(call.get("done")),
        "metadata": seq if has_come(call) else {**seq, "has_result": False},
        "error": None if error is None else readable(str(error)),
    }
    return {
        "tool_name": readable(str(call["name"])),
        "arguments": readable(call.get("arguments") or {}),
        "result": result,
    }
