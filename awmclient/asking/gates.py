"""Gates: calls of an agent that wait for an approval before they are made. Pure.

A plan's arm names tools by patterns, or every write. The calls of a turn that wait are proposed in one ask, and made in
their order. The agent proposes; the step of the call records what ran instead, and who decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from pydantic import ValidationError

from awmclient.nouns.kinds import is_approval, is_call, is_tool_use
from awmclient.nouns.sources import DECIDERS
from awmclient.nouns.typed import CALLS_MAX, REASON_MAX, TypedAsk
from awmclient.nouns.values import ASK_TOOL
from awmclient.record.observations import recordable
from awmclient.words.toolcalls import Call, is_reserved

WRITES = "writes"
"""In place of patterns: every tool that is not known to read."""
READS = (
    "get", "list", "search", "find", "read", "show", "count", "check", "lookup", "look_up", "query", "view", "fetch",
)  # fmt: skip
"""First words of a tool's name that say that it reads. Any other tool counts as a write."""
NOT_SENT = "not_sent"
"""The key in the `meta` of a call that the loop refused: its tool is not offered, or the tool's schema refuses it."""
NOT_MADE = "This call was not made."


def is_gated(name: str, patterns: Sequence[str]) -> bool:
    """Return whether calls of this tool wait for an approval.

    >>> is_gated("create_refund", ["create_*"]), is_gated("get_order", ["writes"]), is_gated("close", ["writes"])
    (True, False, True)
    """
    if name == ASK_TOOL or is_reserved(name):
        return False
    reads = any(name == word or name.startswith(f"{word}_") for word in READS)
    return any(not reads if pattern == WRITES else fnmatchcase(name, pattern) for pattern in patterns)


def reached_world(step: Mapping[str, Any]) -> bool:
    """Return whether a recorded call was made: no control tool, not refused by the loop, and not rejected at a gate."""
    is_sent = is_call(step) and not is_reserved(step["name"]) and not (step.get("meta") or {}).get(NOT_SENT)
    return is_sent and (step.get("approval") or {}).get("verdict") != "reject"


def place_in_turn(steps: Iterable[Mapping[str, Any]], turn: int) -> int:
    """Return the number of the next call of a turn, from 1: the same before and after a crash."""
    return 1 + sum(is_tool_use(step) for step in steps if step.get("turn") == turn)


def proposed(calls: Sequence[Call], first: int, patterns: Sequence[str], why: str) -> list[dict[str, Any]]:
    """Return the calls of a turn that wait, from its call number `first` on; their IDs are these numbers.

    No more than one ask can hold: the others are proposed when it is their turn.
    """
    reason = {"reason": why[:REASON_MAX]} if why.strip() else {}
    waiting: list[dict[str, Any]] = []
    for number, call in enumerate(calls, first):
        if is_gated(call.name, patterns) and not unfit(call):
            gated_call = {"id": str(number), "name": call.name, "arguments": call.arguments, **reason}
            if len(waiting) == CALLS_MAX or waiting and _problem([*waiting, gated_call]):
                break
            waiting.append(gated_call)
    return waiting


def unfit(call: Call) -> str:
    """Return why no one can be asked about a call; empty if someone can.

    An agent wrote it: that it has no name or is too large is the agent's doing, and no failure of the desk.

    >>> unfit(Call("put", {"text": "x" * 200_000}))
    'calls: the list holds too much text'
    """
    if not recordable(call.arguments):
        return "its arguments are no JSON that can be stored"
    # with the longest reason, so that a call that fits alone can be proposed alone
    return _problem([{"id": "1", "name": call.name, "arguments": call.arguments, "reason": "x" * REASON_MAX}])


def _problem(calls: list[dict[str, Any]]) -> str:
    try:
        TypedAsk.model_validate({"kind": "approval", "calls": calls})
    except ValidationError as error:
        return error.errors()[0]["msg"]
    return ""


def refused(problem: str) -> dict[str, Any]:
    """Return the mark of a call that no one can be asked about."""
    return {"by": "timeout", "verdict": "reject", "reason": f"it cannot be shown to anyone ({problem})"}


def verdicts(steps: Iterable[Mapping[str, Any]], turn: int) -> dict[str, dict[str, Any]]:
    """Return what was decided on the calls of a turn, by their numbers, as steps carry it (`schema.CallApproval`)."""
    marks: dict[str, dict[str, Any]] = {}
    for step in steps:
        if step.get("turn") == turn and is_approval(step):
            marks |= _decided(step["typed"]["calls"], step.get("advice") or {})
    return marks


def _decided(calls: Sequence[Mapping[str, Any]], seen: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return a mark for each call of an ask. Without a decision nothing is approved."""
    by, call_verdicts = seen.get("by") or "timeout", (seen.get("decision") or {}).get("calls") or []
    decided = {one["id"]: one for one in call_verdicts}
    marks = {}
    for call in calls:
        verdict = decided.get(call["id"])
        mark: dict[str, Any] = {"by": by, "verdict": verdict["verdict"] if verdict else "reject"}
        if verdict and verdict["verdict"] == "edit":
            mark["proposed"] = call.get("arguments") or {}
            mark["arguments"] = verdict["arguments"]
        if reason := (verdict or {}).get("reason") or ("" if verdict else str(seen.get("reason") or "no decision")):
            mark["reason"] = reason
        marks[call["id"]] = mark
    return marks


def refusal_of(mark: Mapping[str, Any]) -> str:
    """Return what the agent reads in place of the result of a call that was not made."""
    decider = DECIDERS.get(str(mark["by"]), DECIDERS["timeout"])
    return f"{NOT_MADE} {decider.refusal}: {mark.get('reason', 'no reason given')}"
