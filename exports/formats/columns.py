"""Columns that rows of all formats share: their types, and the origin of a row. Pure.

The types are explicit, because inferred types merge the arguments of different tools and fill the gaps with nulls that
a model would then be trained on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from awmclient.nouns.tools import OfferedTools
from awmclient.words.conversation import is_called_in_words
from awmclient.words.textcalls import CALL_MARKS
from exports.record import Record
from exports.rules.leakage import Ground, result_of
from exports.writers import jsonl

TEXT = {"dtype": "string", "_type": "Value"}
WHOLE = {"dtype": "int64", "_type": "Value"}
NUMBER = {"dtype": "float64", "_type": "Value"}
YES_NO = {"dtype": "bool", "_type": "Value"}
JSON_LIST = {"feature": {"_type": "Json"}, "_type": "List"}
TEXT_LIST = {"feature": TEXT, "_type": "List"}
MESSAGES = {
    "feature": {
        "role": TEXT,
        "content": TEXT,
        "reasoning_content": TEXT,
        "tool_call_id": TEXT,
        "tool_calls": JSON_LIST,
    },
    "_type": "List",
}
SOURCE: dict[str, Any] = {
    "schema_version": TEXT,
    "episode_id": TEXT,
    "origin": TEXT,
    "run": TEXT,
    "arm": TEXT,
    "scenario": TEXT,
    "task_idx": WHOLE,
    "scenario_digest": TEXT,
    "split": TEXT,
    "seed": WHOLE,
    "training_step": WHOLE,
    "checkpoint": TEXT,
    "policy_kind": TEXT,
    "policy_name": TEXT,
    "model": TEXT,
    "condition": TEXT,
    "phase": TEXT,
    "reward": NUMBER,
    "reward_type": TEXT,
    "outcome_word": TEXT,
    "expert_calls": WHOLE,
    "expert_kinds": TEXT_LIST,
    "verifier_informed": YES_NO,
    "advice_mode": TEXT,
    "tool_protocol": TEXT,
    "prompt_sha256": TEXT,
    "dataset_revision": TEXT,
    "policy_options": TEXT,
    "tools_per_task": WHOLE,
    "content_sha256": TEXT,
}
"""For `datasets.Features.from_dict`, like the constants above. `Json` needs datasets 4.7 or newer."""


def sha256(value: Any) -> str:
    """Return the digest of a value's JSON as rows are written."""
    return hashlib.sha256(jsonl.text(value)).hexdigest()


def source(version: str, record: Record, ground: Ground, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the origin of a row. Every column is present, empty or null if unknown."""
    result = result_of(record, ground)
    # the system prompt and the task
    prompt = [message for message in messages if message["role"] in ("system", "user")][:2]
    # a call that could not be read is still in the words
    in_words = any(mark in m["content"] for m in messages if m["role"] == "assistant" for mark in CALL_MARKS)
    in_words = in_words or any(is_called_in_words(step) for step in record.steps)
    return {
        "schema_version": version,
        "episode_id": record.id,
        "origin": record.origin,
        "run": record.run,
        "arm": record.arm,
        "scenario": record.scenario,
        # no task has number -1, and the column keeps its type
        "task_idx": record.task_idx if record.task_idx is not None else -1,
        "scenario_digest": record.scenario_digest,
        "split": record.split,
        "seed": record.seed,
        "training_step": record.training_step,
        "checkpoint": record.checkpoint,
        "policy_kind": record.policy_kind,
        "policy_name": record.policy_name,
        "model": str(record.policy.get("model", "")),
        "condition": condition_of(record),
        "phase": str(record.policy.get("phase", "")),
        "reward": result.reward if result is not None else None,
        "reward_type": result.reward_type if result is not None else "",
        "outcome_word": result.word if result is not None else "",
        "expert_calls": len(record.asks),
        "expert_kinds": sorted({kind_of(one) for one in record.advice}),
        "verifier_informed": record.is_informed,
        "advice_mode": ground.recipe.advice,
        "tool_protocol": "text" if in_words else "native",
        "prompt_sha256": sha256(prompt),
        "dataset_revision": str(record.policy.get("dataset_revision", "")),
        "policy_options": json.dumps(options, sort_keys=True) if (options := record.policy.get("options")) else "",
        # 0: all that the environment lists
        "tools_per_task": share.per_task if (share := OfferedTools.of(record.policy.get("tools"))) else 0,
    }


def kind_of(advice: Mapping[str, Any]) -> str:
    """Return who advised: the source, but `script` or `llm` for a program or a model behind a token."""
    behind = {"script": "script", "model": "llm"}.get(str(advice.get("behind")))
    return behind or str(advice.get("source", ""))


def condition_of(record: Record) -> str:
    """Return which help an episode had: *baseline* for none, else *expert* (to ask), *briefed* or *briefed_expert*."""
    parts = [*(["briefed"] if record.briefings else []), *(["expert"] if record.expert != "off" else [])]
    return "_".join(parts) or "baseline"


def provenance(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the index fields of a row of any format: its outcome, and the episode of its rejected side."""
    extra = row.get("extra") or {}
    # the outcome is in the row itself, in `metadata`, in `extra.awm` or in `extra`, by format
    about: Mapping[str, Any] = row if "outcome_word" in row else row.get("metadata") or extra.get("awm") or extra
    # `raw` has it as an object
    stated = row.get("outcome")
    if isinstance(stated, Mapping):
        about = {"reward_type": stated["reward_type"], "outcome_word": stated["source"], "reward": stated["reward"]}
    outcome = f"{about['reward_type']} ({about['outcome_word']})" if about.get("reward_type") else ""
    fields = {
        "outcome": f"{outcome}, reward {about['reward']:g}" if outcome and about["reward"] is not None else outcome
    }
    return {**fields, **({"rejected": row["rejected_episode_id"]} if row.get("rejected_episode_id") else {})}
