"""LangGraph's `HumanInterrupt` as a pause, and the decision on it as its `HumanResponse`s. Pure; needs no LangGraph.

A graph gives `interrupt` a list of `{"action_request": {"action", "args"}, "config", "description"}` and gets a list of
`{"type": "accept" | "edit" | "response" | "ignore", "args"}` in the same order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from awmclient.adapters.pausing import Pause, PauseDecision

REQUEST, CONFIG = "action_request", "config"


def requests_of(value: Any) -> list[Mapping[str, Any]]:
    """Return the requests of an interrupt's value, which can be a single one; empty if it is something else."""
    rows = value if isinstance(value, list) else [value]
    return rows if rows and all(map(_is_request, rows)) else []


def pause_of(pause_id: str, requests: list[Mapping[str, Any]]) -> Pause:
    """Return the approval of the calls, or a question if a call can be neither accepted nor edited.

    >>> request = {"action_request": {"action": "pay", "args": {"item": "tea"}}, "config": {"allow_accept": True}}
    >>> pause_of("1", [request]).typed["calls"][0]["name"]
    'pay'
    """
    words = "\n\n".join(str(request.get("description") or "") for request in requests).strip()
    if is_question(requests):
        calls = [
            f"{request[REQUEST]['action']} {json.dumps(request[REQUEST]['args'], default=str)}" for request in requests
        ]
        return Pause(pause_id, "\n\n".join([words, *calls]).strip())
    calls_to_decide = [_call_of(str(place), request) for place, request in enumerate(requests, 1)]
    return Pause(pause_id, words, {"kind": "approval", "calls": calls_to_decide})


def is_question(requests: list[Mapping[str, Any]]) -> bool:
    """Return whether some call can only be responded to or ignored."""
    return any(not (_allows(request, "accept") or _allows(request, "edit")) for request in requests)


def answers_to(requests: list[Mapping[str, Any]], made: PauseDecision) -> list[dict[str, Any]]:
    """Return a `HumanResponse` for each request. Without a decision none is accepted."""
    if is_question(requests):
        words = made.answer if isinstance(made.answer, str) else None
        return [_response(request, words, made.reason) for request in requests]
    verdicts = (made.decision or {}).get("calls") or [{}] * len(requests)
    return [_answer_to(request, verdict, made) for request, verdict in zip(requests, verdicts, strict=True)]


def _is_request(row: Any) -> bool:
    request = row.get(REQUEST) if isinstance(row, Mapping) else None
    if not isinstance(request, Mapping) or not isinstance(row.get(CONFIG) or {}, Mapping):
        return False
    return isinstance(request.get("action"), str) and isinstance(request.get("args"), Mapping)


def _allows(request: Mapping[str, Any], what: str) -> bool:
    return (request.get(CONFIG) or {}).get(f"allow_{what}") is True


def _call_of(number: str, request: Mapping[str, Any]) -> dict[str, Any]:
    call = {"id": number, "name": request[REQUEST]["action"], "arguments": dict(request[REQUEST]["args"])}
    # no edit fits, so the desk refuses one: the graph could not take it
    return call if _allows(request, "edit") else {**call, "schema": {"const": call["arguments"]}}


def _answer_to(request: Mapping[str, Any], verdict: Mapping[str, Any], made: PauseDecision) -> dict[str, Any]:
    action = {"action": request[REQUEST]["action"], "args": dict(request[REQUEST]["args"])}
    match verdict.get("verdict"):
        case "approve" if _allows(request, "accept"):
            return {"type": "accept", "args": None}
        case "approve":
            return {"type": "edit", "args": action}
        case "edit":
            return {"type": "edit", "args": {**action, "args": verdict["arguments"]}}
        case "reject":
            return _response(request, str(verdict.get("reason") or made.reason), made.reason)
    return _response(request, None, made.reason)


def _response(request: Mapping[str, Any], words: str | None, reason: str) -> dict[str, Any]:
    """Return the words for the agent; without words, or where it takes none, that the request is ignored."""
    takes_none = _allows(request, "ignore") and not _allows(request, "respond")
    if takes_none or (words is None and _allows(request, "ignore")):
        return {"type": "ignore", "args": None}
    return {"type": "response", "args": reason if words is None else words}
