"""Formats that are lists of chat messages: OpenAI-style rows, OpenEnv, tau-bench, Inspect. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from awmclient.nouns.kinds import is_call
from awmclient.schema import Fault, Trajectory
from awmclient.words.faults import fault_of
from awmclient.words.pictures import picture_at
from imports.readers.found import EMPTY, MOMENT, TrajectoryDraft, UnreadableRow, tools_of, wants, whole
from imports.readers.messages import add_messages, content_of
from imports.readers.own import ended as own_end

TOOK_MAX_S = 10 * 365 * 86_400
LOGGED = ("events", "transcript", "store", "attachments")
TIMES = ("started_at", "completed_at", "total_time")
INSPECT = frozenset({"id", "epoch", "input", "messages", "scores", "uuid", "error", "metadata", *TIMES, *LOGGED})
OPENENV = frozenset(
    {
        *("episode_id", "messages", "reward", "done", "tool_trace", "task", "extra"),
        *("metrics", "artifacts", "verify_metrics"),
    }
)


def knows_openai(row: Mapping[str, Any]) -> bool:
    return isinstance(row.get("messages"), list) and not knows_openenv(row)


def read_openai(row: Mapping[str, Any], draft: TrajectoryDraft) -> Trajectory:
    add_messages(draft, wants(row, "messages", list, "a list of messages"))
    # `functions` is OpenAI's older name of `tools`.
    tools = "tools" if row.get("tools") else "functions"
    draft.lose_fields(row, {"messages", tools, "parallel_tool_calls", "model", "task", "id"})
    model = draft.line(row.get("model"), "model")
    return draft.trajectory(
        episode=draft.line(row.get("id"), "id"),
        task=draft.task(row.get("task") or draft.first_user_text()),
        tools=tools_of(row.get(tools), draft),
        policy={"model": model} if model else None,
        stop_reason="done" if draft.last_answer() is not None else None,
        final_answer=draft.last_answer(),
    )


def knows_openenv(row: Mapping[str, Any]) -> bool:
    return "episode_id" in row and "messages" in row and "tool_trace" in row


def read_openenv(row: Mapping[str, Any], draft: TrajectoryDraft) -> Trajectory:
    add_messages(draft, wants(row, "messages", list, "a list of messages"))
    task = row.get("task")
    about: Mapping[str, Any] = {} if isinstance(task, str) else draft.inner(row, "task")
    extra, checked = draft.inner(row, "extra"), draft.inner(row, "verify_metrics")
    trace = row.get("tool_trace")
    calls = sum(is_call(step) for step in draft.steps)
    # The trace repeats the calls of the messages, so only the surplus is lost.
    if isinstance(trace, list) and len(trace) > calls:
        draft.lose("calls of the tool trace that no message holds", len(trace) - calls)
    draft.lose("metrics", int(bool(row.get("metrics"))))
    draft.lose("artifacts", int(bool(row.get("artifacts"))))
    draft.lose_fields(row, OPENENV if isinstance(trace, list) else OPENENV - {"tool_trace"})
    draft.lose_fields(about, {"scenario", "task_idx", "task" if about.get("task") else "prompt"}, "task")
    is_own = str(extra.get("schema_version")).startswith("openenv-episode-record/")
    own = own_end(extra, draft) if is_own else {}
    draft.lose_fields(extra, {"tools", *own}, "extra")
    text = task if isinstance(task, str) else about.get("task") or about.get("prompt") or draft.first_user_text()
    draft.lose_fields(checked, {"reward_type"}, "verify_metrics")
    return draft.trajectory(
        episode=draft.line(row.get("episode_id"), "episode id"),
        task=draft.task(text),
        scenario=draft.line(about.get("scenario"), "scenario"),
        task_idx=draft.whole(about.get("task_idx"), "task index"),
        tools=tools_of(extra.get("tools"), draft),
        **{"stop_reason": "done" if row.get("done") is True else None, **own},
        final_answer=draft.last_answer(),
        outcome=outcome_of(draft, row.get("reward"), checked.get("reward_type")),
    )


def knows_tau(row: Mapping[str, Any]) -> bool:
    return isinstance(row.get("traj"), list) and "task_id" in row


def read_tau(row: Mapping[str, Any], draft: TrajectoryDraft) -> Trajectory:
    """Read a trajectory. The task is the instruction of the simulated user. The grader's own actions are left out,
    because they are the solution."""
    add_messages(draft, wants(row, "traj", list, "a list of messages"))
    info = draft.inner(row, "info")
    task = info.get("task")
    instruction = task.get("instruction") if isinstance(task, Mapping) else None
    draft.lose("the grader's details", int(bool(info)))
    draft.lose_fields(row, {"traj", "task_id", "trial", "reward", "info"})
    return draft.trajectory(
        # A task is tried several times: its ID alone names no episode.
        episode=f"{row['task_id']}.{row.get('trial', 0)}"[:200],
        environment="tau-bench",
        task=draft.task(instruction or draft.first_user_text()),
        # Another kind of ID is no loss: the name of the episode has it.
        task_idx=whole(row.get("task_id")),
        seed=draft.whole(row.get("trial"), "trial"),
        stop_reason="done",
        final_answer=draft.last_answer(),
        outcome=outcome_of(draft, row.get("reward")),
    )


def knows_inspect(row: Mapping[str, Any]) -> bool:
    return set(row) == {"eval", "sample"}


def read_inspect(row: Mapping[str, Any], draft: TrajectoryDraft) -> Trajectory:
    """Read one sample of a log. Its first score is the outcome. The target, which is the solution, is left out, and so
    is the scorer's explanation, which can quote the target."""
    about, sample = row["eval"], row["sample"]
    if not isinstance(about, Mapping) or not isinstance(sample, Mapping):
        raise UnreadableRow("The sample or the head of the log is not an object.")
    attached = _Attached(sample.get("attachments"))
    draft.beside = attached.read
    add_messages(draft, wants(sample, "messages", list, "a list of messages"))
    for name in LOGGED:
        draft.lose(name, int(bool(sample.get(name)) and not (name == "attachments" and attached.are_all_read)))
    scores = sample.get("scores")
    named = list(scores.items()) if isinstance(scores, Mapping) else []
    draft.lose("further scores", max(0, len(named) - 1))
    draft.lose_fields(sample, INSPECT if isinstance(scores, Mapping) else INSPECT - {"scores"})
    draft.lose("settings of the log", int(any(about[name] not in EMPTY for name in about.keys() - {"task", "model"})))
    model, error = draft.line(about.get("model"), "model"), sample.get("error")
    draft.lose("text of the error", int(bool(error)))
    own = _own_facts(draft, about, sample)
    number = whole(sample.get("id"))
    # The uuid names the episode then, and an ID that is not a number has no other place.
    draft.lose("field id", int(not own and number is None and bool(sample.get("id") and sample.get("uuid"))))
    task = sample.get("input")
    return draft.trajectory(
        episode=f"{sample.get('uuid') or sample.get('id')}"[:200],
        environment="inspect",
        task=draft.task(task if isinstance(task, str) else _asked(task, draft)),
        **{
            "scenario": draft.line(about.get("task"), "name of the task"),
            "task_idx": number,
            "seed": draft.whole(sample.get("epoch"), "epoch"),
            "policy": {"model": model, "kind": "model"} if model else None,
            "state": "failed" if error else "finished",
            "fault": _fault(error) if error else None,
            "stop_reason": "error" if error else "done",
            # Last, so that awmweb's own facts replace what Inspect's fields can only approximate.
            **own,
        },
        **_times(draft, sample),
        final_answer=draft.last_answer(),
        outcome=_scored(draft, *named[0]) if named else None,
    )


class _Attached:
    """What a log has of long texts and pictures beside its messages, by the names that these have of them."""

    SCHEME = "attachment://"

    def __init__(self, attachments: Any) -> None:
        self._attachments = attachments if isinstance(attachments, Mapping) else {}
        self._read: set[str] = set()

    def read(self, name: str) -> bytes | None:
        digest = name.removeprefix(self.SCHEME)
        address = self._attachments.get(digest) if name.startswith(self.SCHEME) else None
        data = picture_at(address) if isinstance(address, str) else None
        if data is not None:
            self._read.add(digest)
        return data

    @property
    def are_all_read(self) -> bool:
        return self._read == self._attachments.keys()


OWN_POLICY = {"policy_kind": "kind", "policy_name": "name", "model": "model"}


def _own_facts(draft: TrajectoryDraft, about: Mapping[str, Any], sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return what awmweb wrote of an episode into a sample of its own log; {} for another log."""
    metadata = sample.get("metadata")
    version = str(metadata.get("schema_version")) if isinstance(metadata, Mapping) else ""
    # Metadata of another log can have the same names with other meanings.
    if not isinstance(metadata, Mapping) or about.get("task") != "awmweb" or not version.startswith("inspect-log/"):
        draft.lose_fields({"metadata": metadata}, frozenset())
        return {}
    about_task = ("scenario", "scenario_digest", "arm", "split", "checkpoint")
    lines = {name: draft.line(metadata.get(name), name) for name in about_task}
    numbers = {name: draft.whole(metadata.get(name), name) for name in ("task_idx", "training_step")}
    policy = {name: draft.line(metadata.get(source), source) for source, name in OWN_POLICY.items()}
    return {
        **lines,
        **numbers,
        "seed": metadata.get("seed"),
        "tools": tools_of(metadata.get("tools"), draft),
        "policy": {name: value for name, value in policy.items() if value},
        **own_end(metadata, draft),
    }


def _fault(error: Any) -> Fault:
    message = error.get("message") if isinstance(error, Mapping) else error
    return fault_of(str(message), "environment")


def _times(draft: TrajectoryDraft, sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return when a sample began and ended. Its messages have no times. Without an end, it took no time."""
    began, ended = draft.moment(sample.get("started_at")), draft.moment(sample.get("completed_at"))
    if began and not ended and isinstance(took := sample.get("total_time"), int | float) and 0 <= took < TOOK_MAX_S:
        ended = str(MOMENT.validate_python(began) + timedelta(seconds=took))
    return {"started_at": began, "ended_at": ended}


def _asked(messages: Any, draft: TrajectoryDraft) -> str:
    """Return the user's text of an input that is a list of messages."""
    for message in messages if isinstance(messages, list) else []:
        if isinstance(message, Mapping) and message.get("role") == "user":
            # what it loses is counted where the messages are read
            return content_of(message.get("content"), TrajectoryDraft()).text
    return draft.first_user_text()


GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}  # Inspect: correct, incorrect, partial, no answer


def _scored(draft: TrajectoryDraft, name: str, raw: Any) -> dict[str, Any] | None:
    score: Mapping[str, Any] = raw if isinstance(raw, Mapping) else {"value": raw}
    value, about = score.get("value"), draft.inner(score, "metadata")
    draft.lose_fields(score, {"value", "metadata"}, "scores")
    draft.lose_fields(about, {"reward_type"}, "metadata of scores")
    number = GRADES.get(value, value) if isinstance(value, str) else value
    outcome = outcome_of(draft, number, about.get("reward_type"), "score")
    return {**outcome, "details": {"scorer": str(name)[:200], "value": value}} if outcome else None


def outcome_of(draft: TrajectoryDraft, reward: Any, kind: Any = None, what: str = "reward") -> dict[str, Any] | None:
    """Return a reported outcome: *complete* for a reward of 1, unless the source names its type. A reward that is not a
    number gives no outcome and counts as lost."""
    if isinstance(reward, bool):
        reward = float(reward)
    if not isinstance(reward, int | float) or not math.isfinite(reward):
        draft.lose(f"{what} that is not a number", int(reward not in EMPTY))
        draft.lose("reward type without a reward", int(kind not in EMPTY))
        return None
    named = draft.line(kind, "reward type") or ("complete" if reward >= 1 else "others")
    return {"reward_type": named, "reward": float(reward), "source": "reported"}
