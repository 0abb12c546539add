"""Small files of every format that is imported, as their makers write them: one task, two calls, one answer."""

from __future__ import annotations

import io
import json
import zipfile

from tests.imports import spans

TASK = "Merge the duplicates."
TOOL = {"name": "get_ticket", "description": "One ticket.", "input_schema": {"type": "object", "properties": {}}}
STEPS = [
    {"seq": 1, "kind": "message", "role": "user", "content": TASK},
    {"seq": 2, "kind": "message", "role": "assistant", "content": "I look first.", "turn": 1},
    {"seq": 3, "kind": "tool_call", "name": "get_ticket", "arguments": {"id": 7}, "result": {"open": True}, "turn": 1},
    {
        **{"seq": 4, "kind": "ask", "ask": "a1", "question": "Into which?", "turn": 2},
        "advice": {"text": "Into 7.", "source": "human", "author": "Edo", "privilege": "sees_verifier"},
    },
    {"seq": 5, "kind": "message", "role": "assistant", "content": "Merged into 7.", "turn": 3},
]
VERIFICATION = {"seq": 6, "kind": "verification", "reward_type": "complete", "reward": 1.0}
RECORD = {
    **{"schema_version": "awmweb.trajectory/1", "episode": "e1", "project": "lab", "state": "finished", "task": TASK},
    **{"scenario": "desk_1", "task_idx": 3, "tools": [TOOL], "run": "march", "expert": "plain", "stop_reason": "done"},
    **{"policy": {"awmweb": "demo", "model": "m-1"}, "final_answer": "Merged into 7.", "steps": STEPS},
    "outcome": {"reward_type": "complete", "reward": 1.0, "source": "verified"},
}
CALL = {"id": "c1", "type": "function", "function": {"name": "get_ticket", "arguments": '{"id": 7}'}}
MESSAGES = [
    {"role": "system", "content": "You act."},
    {"role": "user", "content": TASK},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": '{"open": true}'},
    {"role": "assistant", "content": "Merged into 7."},
]
OPENAI = {"messages": MESSAGES, "tools": [{"type": "function", "function": {"name": "get_ticket", "parameters": {}}}]}
SFT = {
    **{
        "schema_version": "awmweb.sft/2",
        "episode_id": "e1",
        "messages": MESSAGES,
        "tools": [],
        "loss": [0, 0, 1, 0, 1],
    },
    **{"scenario": "desk_1", "task_idx": -1, "reward": 1.0, "reward_type": "complete", "condition": "baseline"},
}
SAMPLE = {
    **{"id": 1, "epoch": 1, "input": TASK, "target": "the solution", "uuid": "u1", "events": [{"event": "model"}]},
    "messages": [*MESSAGES[:2], {"role": "assistant", "content": "", "tool_calls": [
        {"id": "c1", "function": "get_ticket", "arguments": {"id": 7}, "type": "function"}
    ]}, {**MESSAGES[3], "error": {"type": "timeout", "message": "took too long"}}, MESSAGES[4]],
    "scores": {"match": {"value": "C"}, "other": {"value": 1}},
}  # fmt: skip
HEAD = {"version": 2, "status": "success", "eval": {"task": "popularity", "model": "ollama/gemma3"}}
INSPECT = {**HEAD, "samples": [SAMPLE]}
AWM = {
    **{"scenario": "desk_1", "task": TASK, "task_idx": 0, "tools": ["get_ticket"], "reward": 0.0},
    "steps": [
        {
            "action": {"tool_name": "get_ticket", "arguments": {"id": 7}},
            "observation": {"done": False, "reward_type": "tool_call_ok", "tool_result": '{"open": true}'},
        },
        {"action": {"tool_name": "get_ticket", "arguments": {"id": 8}}, "observation": {"error": "no such id"}},
        {"action": {"tool_name": "verify"}, "observation": {"reward_type": "others", "verify_result": {"r": 1}}},
    ],
}
ATIF = {
    **{"schema_version": "ATIF-v1.7", "session_id": "s1", "agent": {"name": "a", "version": "1", "model_name": "m-1"}},
    "steps": [
        {"step_id": 1, "source": "user", "message": TASK},
        {
            **{"step_id": 2, "source": "agent", "message": "", "reasoning_content": "first look"},
            "tool_calls": [
                {"tool_call_id": "c1", "function_name": "get_ticket", "arguments": {"id": 7}},
                {"tool_call_id": "c2", "function_name": "get_ticket", "arguments": {"id": 8}},
            ],
            "observation": {"results": [
                {"source_call_id": "c2", "content": "two"},
                {"source_call_id": "c1", "content": [{"type": "text", "text": "one"}, {"type": "image"}],
                 "subagent_trajectory_ref": [{"session_id": "s2"}]},
            ]},
        },
        {"step_id": 3, "source": "agent", "message": "Merged into 7."},
    ],
}  # fmt: skip
OPENENV = {
    **{"episode_id": "o1", "messages": MESSAGES, "reward": 1.0, "done": True, "metrics": {"turns": 2}, "artifacts": {}},
    "tool_trace": [{"tool_name": "get_ticket"}, {"tool_name": "get_ticket"}],
    "task": {"scenario": "desk_1", "task_idx": 3, "task": TASK},
}
TAU = {
    **{"task_id": 4, "reward": 0.0, "trial": 1},
    "info": {"task": {"instruction": TASK, "actions": [{"name": "the_solution"}]}},
    "traj": [{**one, "tool_calls": one.get("tool_calls")} for one in MESSAGES],
}


def _tau2(role: str, number: int, content: object, **more: object) -> dict[str, object]:
    speech = {"is_audio": False, "is_final_chunk": True, "contains_speech": True, "audio_path": None}
    about = {"role": role, "content": content, "turn_idx": number, "timestamp": f"2026-03-01T12:00:{number:02}.5"}
    return {**about, **({} if role == "tool" else {"tool_calls": None, "cost": 0.0, "usage": None, **speech}), **more}


def _tau2_call(name: str, number: int, requestor: str) -> list[dict[str, object]]:
    return [{"id": f"c{number}", "name": name, "arguments": {"id": number}, "requestor": requestor}]


TAU2_USED = {"usage": {"prompt_tokens": 90, "completion_tokens": 9}, "cost": 0.002, "generation_time_seconds": 1.5}
TAU2_INFO = {
    **{"git_commit": "0", "num_trials": 4, "max_steps": 100, "max_errors": 10, "seed": 300},
    "user_info": {"implementation": "user_simulator", "llm": "m-2", "llm_args": {}},
    "agent_info": {"implementation": "llm_agent", "llm": "m-1", "llm_args": {"temperature": 0.0}},
    "environment_info": {
        **{"domain_name": "telecom", "policy": "Never merge closed tickets."},
        "tool_defs": {"get_ticket": {"name": "get_ticket", "doc": "One ticket.", "params": {"type": "object"}}},
    },
}
TAU2_TASK = {
    **{"id": "7", "description": {"purpose": "a merge"}, "initial_state": None},
    "user_scenario": {"persona": None, "instructions": TASK},
    "evaluation_criteria": {"actions": [{"action_id": "a", "name": "the_solution", "arguments": {}}]},
}
TAU2_SIMULATION = {
    **{"id": "0b1c", "task_id": "7", "trial": 1, "seed": 2**40 + 1, "mode": "half_duplex"},
    **{"timestamp": "2026-03-01T12:00:00", "start_time": "2026-03-01T12:00:00", "end_time": "2026-03-01T12:00:07.5"},
    **{"duration": 7.5, "termination_reason": "user_stop", "agent_cost": 0.004, "user_cost": 0.001, "ticks": None},
    "reward_info": {
        **{"reward": 1.0, "reward_basis": ["DB"], "reward_breakdown": {"DB": 1.0}, "nl_assertions": None},
        "action_checks": [{"action": {"name": "the_solution"}, "action_match": True}],
    },
    "messages": [
        _tau2("assistant", 0, "Hi! How can I help you today?"),
        _tau2("user", 1, TASK),
        _tau2("assistant", 2, None, tool_calls=_tau2_call("get_ticket", 1, "assistant"), **TAU2_USED),
        _tau2("tool", 3, '{"open": true}', id="c1", requestor="assistant", error=False),
        _tau2("assistant", 4, "Please restart your phone.", **TAU2_USED),
        _tau2("user", 5, None, tool_calls=_tau2_call("restart_phone", 2, "user")),
        _tau2("tool", 6, "It is on.", id="c2", requestor="user", error=False),
        _tau2("user", 7, "It works. ###STOP###"),
    ],
}
TAU2 = {"timestamp": "2026-03-01T12:00:00", "info": TAU2_INFO, "tasks": [TAU2_TASK], "simulations": [TAU2_SIMULATION]}
SWE = {
    "environment": "swe_main",
    "history": [
        {"role": "system", "content": "You program."},
        {"role": "user", "content": "A demonstration.", "is_demo": True},
        {"role": "user", "content": TASK},
        {"role": "assistant", "content": "ls"},
    ],
    "trajectory": [{"action": "ls\n", "observation": "a.py", "thought": "I look.", "state": "{}", "response": "x"}],
    "info": {"exit_status": "submitted", "submission": "diff"},
}
ABOUT = {"sessionId": "s1", "version": "2.1.0", "cwd": "/desk", "isSidechain": False, "userType": "external"}
USES = [
    {"type": "tool_use", "id": "c1", "name": "get_ticket", "input": {"id": 7}},
    {"type": "tool_use", "id": "c2", "name": "get_ticket", "input": {"id": 8}},
]


def _claude(kind: str, number: int, message: object, **more: object) -> dict[str, object]:
    return {**ABOUT, "type": kind, "uuid": f"u{number}", "timestamp": f"2026-03-01T12:00:{number:02}Z",
            "message": message, **more}  # fmt: skip


def _turn(content: object, name: str = "m1") -> dict[str, object]:
    usage = {"input_tokens": 2, "cache_read_input_tokens": 8, "output_tokens": 5}
    return {"id": name, "type": "message", "role": "assistant", "model": "m-1", "content": [content], "usage": usage}


def _result(number: int, text: object, **more: object) -> dict[str, object]:
    part = {"type": "tool_result", "tool_use_id": f"c{number}", "content": text, **more}
    return {"role": "user", "content": [part]}


CLAUDE_CODE = [
    {"type": "summary", "summary": "Merging", "leafUuid": "u9"},
    _claude("user", 1, {"role": "user", "content": TASK}, parentUuid=None),
    _claude("assistant", 2, _turn({"type": "thinking", "thinking": "Both first.", "signature": "sig"})),
    _claude("assistant", 3, _turn({"type": "text", "text": "I look."})),
    _claude("assistant", 4, _turn(USES[0])),
    _claude("user", 5, _result(1, "ticket 7"), toolUseResult={"stdout": "ticket 7", "stderr": "slow"}),
    _claude("assistant", 6, _turn(USES[1])),
    _claude("user", 7, _result(2, [{"type": "text", "text": "no such ticket"}], is_error=True)),
    _claude("assistant", 8, _turn({"type": "text", "text": "Merged into 7."}, "m2")),
    {**ABOUT, "type": "system", "subtype": "turn_duration", "content": "took 9 s", "timestamp": "2026-03-01T12:00:09Z"},
]


def _codex(kind: str, number: int, **payload: object) -> dict[str, object]:
    return {"timestamp": f"2026-03-01T12:00:{number:02}Z", "type": kind, "payload": payload}


def _item(number: int, kind: str, **fields: object) -> dict[str, object]:
    return _codex("response_item", number, **{"type": kind, **fields})


CODEX = [
    _codex("session_meta", 1, id="s1", cli_version="0.90.0", instructions="You act.", cwd="/desk"),
    _item(2, "message", role="user", content=[{"type": "input_text", "text": "<environment_context/>"}]),
    _item(3, "message", role="user", content=[{"type": "input_text", "text": TASK}]),
    _codex("event_msg", 3, type="user_message", message=TASK),
    _codex("turn_context", 4, model="m-1", cwd="/desk", effort="high"),
    _item(5, "reasoning", summary=[{"type": "summary_text", "text": "Both first."}], encrypted_content="x"),
    _item(5, "function_call", name="get_ticket", arguments='{"id": 7}', call_id="c1"),
    _item(5, "function_call", name="get_ticket", arguments='{"id": 8}', call_id="c2"),
    _item(6, "function_call_output", call_id="c2", output={"content": "no such ticket", "success": False}),
    _item(7, "function_call_output", call_id="c1", output="ticket 7"),
    _codex("event_msg", 8, type="agent_message", message="Merged into 7."),
    _item(8, "message", role="assistant", content=[{"type": "output_text", "text": "Merged into 7."}]),
    _codex("event_msg", 9, type="turn_aborted", reason="interrupted"),
]
TRIAL = {
    "result": {
        **{"id": "t1", "task_name": "merge", "trial_name": "merge__1", "task_checksum": "0", "config": {"n": 1}},
        "agent_info": {"name": "a", "version": "1"},
        "verifier_result": {"rewards": {"reward": 1.0}},
        **{"exception_info": None, "started_at": "2026-03-01T12:00:00Z", "finished_at": "2026-03-01T12:01:00Z"},
    },
    "trajectory": ATIF,
}
ROWS = {
    **{"raw": RECORD, "sft": SFT, "openai": OPENAI, "inspect": INSPECT, "awm": AWM, "atif": ATIF, "openenv": OPENENV},
    **{"tau_bench": TAU, "swe_agent": SWE, "harbor": TRIAL, "otlp": spans.request(*spans.gen_ai(TASK))},
    **{"claude-code": CLAUDE_CODE, "codex": CODEX, "tau2": TAU2},
}
LINES = ("raw", "sft", "openai", "openenv")
"""Formats whose makers write JSON Lines."""


def text_of(name: str, task: str = TASK) -> bytes:
    row = json.loads(json.dumps(ROWS[name]).replace(TASK, task))
    if name == "harbor":
        return archive({"merge__1": row})
    if name == "tau_bench":
        return json.dumps([row]).encode()
    if isinstance(row, list):
        return b"".join(json.dumps(line).encode() + b"\n" for line in row)
    return json.dumps(row, indent=None if name in LINES else 2).encode() + b"\n"


def trial_files(trial: dict[str, object]) -> dict[str, bytes]:
    """Return the files of a trial, by their names in its folder."""
    named = {
        "result.json": trial["result"],
        "config.json": {"task": "merge"},
        "agent/trajectory.json": trial.get("trajectory"),
    }
    files = {name: json.dumps(one).encode() for name, one in named.items() if one is not None}
    return {**files, "verifier/test-stdout.txt": b"the solution", "artifacts/out/result.json": b"{}"}


def archive(trials: dict[str, dict[str, object]]) -> bytes:
    """Return the folder of a job as a ZIP."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in ("result.json", "config.json"):
            packed.writestr(f"job/{name}", b"{}")
        for folder, trial in trials.items():
            for name, content in trial_files(trial).items():
                packed.writestr(f"job/{folder}/{name}", content)
    return out.getvalue()


def eval_log(samples: dict[str, bytes], head: object = HEAD) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as log:
        log.writestr("header.json", json.dumps(head))
        for name, text in samples.items():
            log.writestr(f"samples/{name}.json", text)
    return out.getvalue()
