"""Result files of tau2-bench and its successors: simulations of an agent, a user who has tools, and a world. Pure.

A simulation is one episode. What the simulated user does with tools is no step of the agent, who does not see it: it
becomes notes. The grader's checks are left out, because they hold the solution; its reward is the outcome.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from awmclient.schema import Trajectory
from imports.readers.chats import outcome_of
from imports.readers.found import EMPTY, TrajectoryDraft, UnreadableRow, wants, whole
from imports.readers.messages import Content, add_call, content_of, fail, settle
from imports.readers.unpacking import UNPACKED_MAX, BadFile

MESSAGE = frozenset(
    {"role", "content", "tool_calls", "turn_idx", "timestamp", "cost", "usage", "id", "requestor", "error"}
)
DEFAULTS: dict[str, Any] = {"is_audio": False, "is_final_chunk": True, "contains_speech": True}
"""Fields of a message about speech, with the values that say nothing."""
SIMULATION = frozenset(
    {
        *("id", "task_id", "trial", "seed", "mode", "timestamp", "start_time", "end_time", "duration", "messages"),
        *("termination_reason", "reward_info", "agent_cost", "user_cost", "policy"),
    }
)
CHECKS = ("db_check", "env_assertions", "action_checks", "nl_assertions", "communicate_checks", "info")
ENDS: dict[str, dict[str, str]] = {
    "user_stop": {"stop_reason": "done"},
    "agent_stop": {"stop_reason": "done"},
    "max_steps": {"stop_reason": "max_steps"},
    "timeout": {"stop_reason": "timeout"},
    "too_many_errors": {"stop_reason": "error"},
    "agent_error": {"stop_reason": "error", "state": "failed", "fault": "policy"},
    "context_window_exceeded": {"stop_reason": "error", "state": "failed", "fault": "policy"},
    "user_error": {"stop_reason": "error", "state": "failed", "fault": "environment"},
    "infrastructure_error": {"stop_reason": "error", "state": "failed", "fault": "environment"},
    "unexpected_error": {"stop_reason": "error", "state": "failed", "fault": "environment"},
}
"""How an episode ended, by the simulation's reason. The last three are no doing of the agent."""
SEED_MAX = 2**63


def knows_tau2(row: Mapping[str, Any]) -> bool:
    """Return whether a row is a simulation, of a file with its head or alone."""
    return isinstance(of := row.get("simulation", row), Mapping) and "task_id" in of and "termination_reason" in of


def rows_of(results: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the simulations of a result file, each with the head of the file and its own task.

    Raises `BadFile` if these come to too much: each simulation has its copy.
    """
    listed = results.get("tasks")
    tasks = {str(one.get("id")): one for one in listed if isinstance(one, Mapping)} if isinstance(listed, list) else {}
    sizes, head, copied = {name: _size(one) for name, one in tasks.items()}, _size(results.get("info")), 0
    for number, run in enumerate(results["simulations"], 1):
        task_id = str(run.get("task_id")) if isinstance(run, Mapping) else ""
        copied += head + sizes.get(task_id, 0)
        if copied > UNPACKED_MAX:
            raise BadFile("Its head and tasks, once for each simulation, come to more than 4 GB. Split the file.")
        yield f"simulation {number}", {"info": results.get("info"), "task": tasks.get(task_id), "simulation": run}


def _size(value: Any) -> int:
    return len(json.dumps(value))


def read_tau2(row: Mapping[str, Any], draft: TrajectoryDraft) -> Trajectory:
    """Read a simulation. The task is the instruction of the simulated user, as for tau-bench."""
    run = row.get("simulation", row)
    if run.get("messages") is None and run.get("ticks"):
        raise UnreadableRow("It is a simulation of speech without messages. Only its text is imported.")
    head, task = draft.inner(row, "info"), draft.inner(row, "task")
    world, agent = draft.inner(head, "environment_info"), draft.inner(head, "agent_info")
    if policy := run.get("policy") or world.get("policy"):
        draft.add("note", content=f"Policy of the domain:\n{policy}", at=draft.moment(run.get("start_time")))
    for number, message in enumerate(wants(run, "messages", list, "a list of messages"), 1):
        for single in _single(message):
            _add(draft, single, number)
    settle(draft)
    graded = draft.inner(run, "reward_info")
    draft.lose("the grader's details", int(any(graded.get(name) not in EMPTY for name in CHECKS)))
    draft.lose("costs", int(any(run.get(name) not in EMPTY for name in ("agent_cost", "user_cost"))))
    draft.lose("settings of the file", int(bool(head.keys() - {"environment_info", "agent_info"})))
    draft.lose_fields(run, SIMULATION, "simulations")
    return draft.trajectory(
        # a task is tried several times
        episode=f"{run.get('id') or ''} {run.get('task_id')}.{run.get('trial') or 0}".strip()[:200],
        environment="tau2-bench",
        scenario=draft.line(world.get("domain_name"), "domain"),
        task=draft.task(_instruction(task) or draft.first_user_text()),
        # another kind of ID is no loss: the name of the episode has it
        task_idx=whole(int(run["task_id"])) if _is_number(run["task_id"]) else whole(run["task_id"]),
        seed=_seed(run.get("seed"), draft),
        tools=_tools(world.get("tool_defs"), draft),
        policy=_policy(agent, draft),
        **{"stop_reason": "done", **_end(run.get("termination_reason"), draft)},
        started_at=draft.moment(run.get("start_time")),
        ended_at=draft.moment(run.get("end_time")),
        final_answer=draft.last_answer(),
        outcome=_outcome(graded, draft),
    )


def _single(message: Any) -> list[Any]:
    """Return a message, or the results of several tools that one message holds."""
    inside = message.get("tool_messages") if isinstance(message, Mapping) else None
    return inside if isinstance(inside, list) else [message]


def _add(draft: TrajectoryDraft, message: Any, number: int) -> None:
    if not isinstance(message, Mapping) or message.get("role") not in ("system", "user", "assistant", "tool"):
        raise UnreadableRow(f"Message {number} is not of role system, user, assistant or tool.")
    role, content = message["role"], content_of(message.get("content"), draft)
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise UnreadableRow(f"Message {number} has tool calls that are not a list.")
    first = len(draft.steps)
    if role == "assistant":
        draft.turn += 1
        usage = _usage(message)
        # what a turn used is on its message, which can be empty
        if content or usage or not calls:
            draft.add("message", role=role, **content.fields, turn=draft.turn, usage=usage)
        for call in calls:
            _add_call(draft, call)
    elif role == "tool":
        _add_result(draft, message, content)
    else:
        if content or not calls:
            draft.add("message", role=role, **content.fields)
        for call in calls:
            _add_user_call(draft, call)
    at = draft.moment(message.get("timestamp"))
    for added in draft.steps[first:] if at else []:
        added["at"] = at
    unsaid = {name for name, value in DEFAULTS.items() if message.get(name) is value}
    draft.lose_fields(message, MESSAGE | unsaid, "messages")


def _add_call(draft: TrajectoryDraft, call: Any) -> None:
    if not isinstance(call, Mapping):
        raise UnreadableRow("A tool call is not an object.")
    flat = {name: value for name, value in call.items() if name not in ("name", "requestor")}
    add_call(draft, {**flat, "function_name": call.get("name")})


def _add_result(draft: TrajectoryDraft, message: Mapping[str, Any], content: Content) -> None:
    """Add what a tool returned: to the agent's call, or as a note if the user called it."""
    name = str(message.get("id") or "")
    if message.get("requestor") == "user":
        what = "failed" if message.get("error") is True else "returned"
        words = f"The user's call {what}: {content.text}"
        draft.lose("pictures of the user's calls", len(content.pictures))
        draft.add("note", content=words, meta={"requestor": "user", "call_id": name})
        return
    step = draft.unanswered.take(name, "", draft.turn)
    if step is None:
        draft.add("message", role="tool", **content.fields)
        draft.lose("results without a call (kept as messages)")
    elif message.get("error") is True:
        fail(draft, step, content)
    else:
        step["result"] = content.result


def _add_user_call(draft: TrajectoryDraft, call: Any) -> None:
    if not isinstance(call, Mapping):
        raise UnreadableRow("A tool call is not an object.")
    words = f"The user called {call.get('name')}: {json.dumps(call.get('arguments'), ensure_ascii=False)}"
    draft.add("note", content=words, meta={"requestor": "user", "call_id": str(call.get("id") or "")})


def _usage(message: Mapping[str, Any]) -> dict[str, Any] | None:
    usage, cost = message.get("usage"), message.get("cost")
    counted = dict(usage) if isinstance(usage, Mapping) else {}
    return {**counted, **({"cost_usd": cost} if cost else {})} or None


def _instruction(task: Mapping[str, Any]) -> str:
    """Return the instructions of the simulated user: a text, or fields of which each is a paragraph."""
    scenario = task.get("user_scenario")
    text = scenario.get("instructions") if isinstance(scenario, Mapping) else scenario
    if isinstance(text, Mapping):
        lines = {"reason_for_call": "Reason for call", "known_info": "Known", "unknown_info": "Unknown"}
        lines["task_instructions"] = "Instructions"
        text = "\n".join(f"{words}: {text[name]}" for name, words in lines.items() if text.get(name))
    return text if isinstance(text, str) else ""


def _is_number(task_id: Any) -> bool:
    return isinstance(task_id, str) and task_id.isascii() and task_id.isdecimal() and len(task_id) <= 10


def _seed(raw: Any, draft: TrajectoryDraft) -> int | None:
    is_number = isinstance(raw, int) and not isinstance(raw, bool) and -SEED_MAX <= raw < SEED_MAX
    draft.lose("seed", int(not is_number and raw is not None))
    return raw if is_number else None


def _tools(raw: Any, draft: TrajectoryDraft) -> list[dict[str, Any]]:
    """Return the agent's tools, by name in the file."""
    if not isinstance(raw, Mapping):
        draft.lose("tools that are not an object", int(raw not in EMPTY))
        return []
    return [
        {"name": str(name), "description": str(tool.get("doc") or ""), "input_schema": tool.get("params") or {}}
        for name, tool in raw.items()
        if isinstance(tool, Mapping)
    ]


def _policy(agent: Mapping[str, Any], draft: TrajectoryDraft) -> dict[str, Any] | None:
    named = {"name": "implementation", "model": "llm"}
    policy = {name: draft.line(agent.get(source), f"{name} of the agent") for name, source in named.items()}
    return {name: value for name, value in policy.items() if value} or None


def _end(reason: Any, draft: TrajectoryDraft) -> dict[str, str]:
    draft.lose("reason of the end", int(str(reason) not in ENDS))
    return ENDS.get(str(reason), {})


def _outcome(graded: Mapping[str, Any], draft: TrajectoryDraft) -> dict[str, Any] | None:
    """Return the reward with what it is made of, without the checks."""
    outcome = outcome_of(draft, graded.get("reward"))
    details = {name: graded[name] for name in ("reward_basis", "reward_breakdown") if graded.get(name) not in EMPTY}
    return {**outcome, "details": details} if outcome else None
