"""Small files of every format that is imported, as their makers write them: one task, two calls, one answer."""

from __future__ import annotations

import io
import json
import zipfile

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
ROWS = {
    **{"raw": RECORD, "sft": SFT, "openai": OPENAI, "inspect": INSPECT, "awm": AWM, "atif": ATIF, "openenv": OPENENV},
    **{"tau_bench": TAU, "swe_agent": SWE},
}
LINES = ("raw", "sft", "openai", "openenv")
"""Formats whose makers write JSON Lines."""


def text_of(name: str) -> bytes:
    row = ROWS[name]
    if name == "tau_bench":
        return json.dumps([row]).encode()
    return json.dumps(row, indent=None if name in LINES else 2).encode() + b"\n"


def eval_log(samples: dict[str, bytes], head: object = HEAD) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as log:
        log.writestr("header.json", json.dumps(head))
        for name, text in samples.items():
            log.writestr(f"samples/{name}.json", text)
    return out.getvalue()
