"""awmweb's own record, one episode per line: `schema.Trajectory` without verifications. Pure.

The importer reads this format, and custom tools can start from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from awmclient.schema import SCHEMA_VERSION
from exports.record import Record
from exports.rules.leakage import Ground, result_of
from exports.rules.shaping import Shaped

VERSION = SCHEMA_VERSION


def rows(record: Record, _shaped: Shaped, ground: Ground) -> Iterator[dict[str, Any]]:
    result = result_of(record, ground)
    outcome = {"reward_type": result.reward_type, "reward": result.reward, "source": result.word} if result else None
    yield {
        "schema_version": SCHEMA_VERSION,
        "episode": record.id,
        "project": record.project,
        "state": record.state,
        "task": record.task,
        "scenario": record.scenario or None,
        "task_idx": record.task_idx,
        "scenario_digest": record.scenario_digest or None,
        "environment": record.environment,
        "tools": record.tools,
        "run": record.run or None,
        "arm": record.arm or None,
        "seed": record.seed,
        "split": record.split or None,
        "policy": dict(record.policy),
        "training_step": record.training_step,
        "checkpoint": record.checkpoint or None,
        "group_key": record.group_key or None,
        "expert": record.expert,
        "stop_reason": record.stop_reason or None,
        "fault": record.fault or None,
        "final_answer": record.final_answer,
        "steps": record.steps,
        "outcome": outcome,
        "not_for_training": record.not_for_training or None,
    }
