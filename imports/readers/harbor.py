"""Trials of Harbor: the folder of one, or of a job with many, also as a ZIP. Pure.

A trial has `result.json` and, if its agent writes one, `agent/trajectory.json` in ATIF. The verifier's files are left
out, because they can have the solution; its reward is the outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from awmclient.schema import Outcome, Trajectory
from awmclient.words.faults import fault_of
from imports.readers.calls import read_atif
from imports.readers.chats import outcome_of
from imports.readers.found import TrajectoryDraft, UnreadableRow

RESULT, TRAJECTORY = "result.json", "agent/trajectory.json"
FIELDS = frozenset(
    {
        *("id", "task_name", "trial_name", "trial_uri", "task_id", "source", "task_checksum", "config", "agent_info"),
        *("agent_result", "verifier_result", "exception_info", "started_at", "finished_at"),
        *("environment_setup", "agent_setup", "agent_execution", "verifier"),
    }
)
TIMEOUTS = ("AgentTimeoutError", "TimeoutError")


def knows_harbor(row: Mapping[str, Any]) -> bool:
    return set(row) == {"harbor"}


def read_harbor(row: Mapping[str, Any], draft: TrajectoryDraft) -> Trajectory:
    """Read a trial: its trajectory with the task, the reward and the end that its result names."""
    result, steps = row["harbor"].get("result"), row["harbor"].get("trajectory")
    if not isinstance(result, Mapping):
        raise UnreadableRow(f"Its {RESULT} is not a JSON object.")
    trajectory = read_atif(steps, draft) if isinstance(steps, Mapping) else _without_steps(result, draft)
    verified, error = draft.inner(result, "verifier_result"), draft.inner(result, "exception_info")
    rewards = draft.inner(verified, "rewards")
    name = "reward" if "reward" in rewards else next(iter(sorted(rewards)), "reward")
    draft.lose("further rewards", max(0, len(rewards) - 1))
    outcome = outcome_of(draft, rewards.get(name))
    draft.lose("tokens and cost of the agent", int(bool(result.get("agent_result"))))
    draft.lose("config of the trial", int(bool(result.get("config"))))
    draft.lose("further parts of the trajectory", len(row["harbor"].get("further", [])))
    draft.lose_fields(result, FIELDS)
    words = f"{error.get('exception_type')}: {error.get('exception_message')}"
    is_late = error.get("exception_type") in TIMEOUTS
    is_failed = bool(error) and not is_late
    return trajectory.model_copy(
        update={
            "episode": draft.line(result.get("trial_name"), "trial name") or trajectory.episode,
            "environment": "harbor",
            "scenario": draft.line(result.get("task_name"), "task name"),
            "outcome": Outcome.model_validate(outcome) if outcome else trajectory.outcome,
            "state": "failed" if is_failed else trajectory.state,
            "fault": fault_of(words, "environment") if is_failed else trajectory.fault,
            "stop_reason": "timeout" if is_late else "error" if is_failed else trajectory.stop_reason,
        }
    )


def _without_steps(result: Mapping[str, Any], draft: TrajectoryDraft) -> Trajectory:
    """Return a trial that left no trajectory: its reward and its end still count."""
    draft.add("note", content=f"The trial has no {TRAJECTORY}.")
    draft.lose("steps of a trial without a trajectory")
    about = draft.inner(result, "agent_info")
    name = draft.line(about.get("name"), "name of the agent")
    return draft.trajectory(
        task=draft.task(result.get("task_name") or result.get("trial_name")), policy={"name": name} if name else None
    )
