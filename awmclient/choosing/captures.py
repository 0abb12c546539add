"""Token traces of openenv's capture: the engine's own token IDs, for the `meta` of the turns that sampled them.

Reads a `TrainingTrace`, a list of `TraceEntry`, or a capture server. Owns which turn is trainable, and why one is not.
Nothing is tokenized again. Called by the adapter of openenv and by loops whose model is behind a capture server.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

import httpx

from awmclient.policies import Policy, Turn, View

CAPTURE = "capture"
"""The key in a step's `meta` of what the capture says about turns: of this one, and of earlier ones that changed."""
_OF_TURN = re.compile(r"\bturn (\d+):")
_TOKEN = "token_id:"  # noqa: S105  a prefix of engines that return ids as texts
_WORDS = 500
LEFT_OUT = "the capture has left the turn out"


@dataclass(frozen=True)
class CapturedTurn:
    """One model call as the capture recorded it. `reason` says why it is not trainable; empty if it is."""

    node: str
    prompt_ids: list[int] = field(default_factory=list)
    completion_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    """Of the completion: 1 for a token that can be learned."""
    reason: str = ""
    request: Mapping[str, Any] = field(default_factory=dict)
    message: Mapping[str, Any] = field(default_factory=dict)
    is_agent: bool = True
    """False for a call that was made again, and for one that is no turn of the agent, such as that of a title."""

    @property
    def meta(self) -> dict[str, Any]:
        """Return the fields of a step's `meta`."""
        fields: dict[str, Any] = {}
        for name in ("prompt_ids", "completion_ids", "logprobs"):
            if value := getattr(self, name):
                fields[name] = list(value)
        if not all(self.mask):
            fields["completion_mask"] = list(self.mask)
        return {**fields, CAPTURE: mark(self.node, self.reason)}


def mark(node: str, reason: str) -> dict[str, Any]:
    """Return what the `meta` of a turn says about it."""
    return {"node": node, "trainable": not reason, **({"reason": reason} if reason else {})}


def turns_of(trace: Any) -> list[CapturedTurn]:
    """Return the turns of a `TrainingTrace` or of a list of `TraceEntry`."""
    entries = trace.to_trace_entries() if hasattr(trace, "to_trace_entries") else trace
    return [turn_of(entry, number) for number, entry in enumerate(entries, 1)]


def turn_of(entry: Mapping[str, Any], number: int = 1) -> CapturedTurn:
    """Return the turn of one `TraceEntry`; one without a node of its own is named by its number."""
    about = entry.get("metadata") or {}
    prompt, sampled = list(entry.get("prompt_token_ids") or ()), _sampled(entry)
    chances, mask = list(entry.get("per_token_logps") or ()), entry.get("loss_mask")
    # the mask covers the prompt, too
    own = list(mask[len(prompt) :]) if mask is not None else [1] * len(sampled)
    choices = (entry.get("response") or {}).get("choices") or [{}]
    turn = CapturedTurn(
        str(about.get("node_id") or f"call-{number}"),
        *(prompt, sampled, chances, own),
        request=entry.get("request") or {},
        message=choices[0].get("message") or {},
    )
    return replace(turn, reason=_problem(turn, mask))


def _sampled(entry: Mapping[str, Any]) -> list[int]:
    if ids := entry.get("completion_token_ids"):
        return list(ids)
    texts = [str(one) for one in entry.get("completion_tokens") or ()]
    named = [one.removeprefix(_TOKEN) for one in texts if one.startswith(_TOKEN)]
    return [int(one) for one in named] if len(named) == len(texts) and all(map(str.isdecimal, named)) else []


def _problem(turn: CapturedTurn, mask: Sequence[int] | None) -> str:
    """Return why no model can be trained on these tokens."""
    if not turn.prompt_ids or not turn.completion_ids:
        return "the engine returned no token IDs"
    if any(type(one) is not int or one < 0 for one in (*turn.prompt_ids, *turn.completion_ids)):
        return "a token ID is no whole number of 0 or more"
    if len(turn.logprobs) != len(turn.completion_ids):
        return f"{len(turn.logprobs)} log-probabilities for {len(turn.completion_ids)} tokens"
    if not all(isinstance(one, int | float) and math.isfinite(one) and one <= 0 for one in turn.logprobs):
        return "a log-probability is no number of 0 or less"
    if mask is not None and len(mask) != len(turn.prompt_ids) + len(turn.completion_ids):
        return "the loss mask has another length than its tokens"
    return "" if any(turn.mask) else "the capture masks the whole turn"


class CaptureMarks:
    """What was recorded of a capture so far."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def fresh(self, turns: Sequence[CapturedTurn]) -> list[CapturedTurn]:
        """Return the turns that were not here before, and note them."""
        new = [turn for turn in turns if turn.node not in self._reasons]
        self._reasons |= {turn.node: turn.reason for turn in new}
        return new

    def changed(self, turns: Sequence[CapturedTurn]) -> dict[str, dict[str, Any]]:
        """Return the marks of earlier turns about which the capture says something else now, by node."""
        now = {turn.node: turn.reason for turn in turns}
        reasons = {node: now.get(node, LEFT_OUT) for node in self._reasons}
        marks = {node: mark(node, reason) for node, reason in reasons.items() if reason != self._reasons[node]}
        self._reasons |= reasons
        return marks


class CaptureSession:
    """One session of a capture server; its ID is the API key of the agent whose calls it records.

    session = CaptureSession.start("http://127.0.0.1:8765")
    policy = CapturedPolicy(ChatPolicy(session.base_url, model="small", api_key=session.id), session.turns)
    """

    def __init__(self, url: str, session: str, *, admin_key: str = "", timeout_s: float = 60.0) -> None:
        self.url, self.id = url.rstrip("/"), session
        self._headers, self._timeout_s = _keyed(admin_key), timeout_s

    def __repr__(self) -> str:
        return f"CaptureSession({self.url!r})"

    @classmethod
    def start(cls, url: str, *, admin_key: str = "", **body: Any) -> CaptureSession:
        """Start a session; `body` can name an engine (`llm_url`, `model`) and what else `POST /sessions` takes."""
        answer = httpx.post(f"{url.rstrip('/')}/sessions", json=body, headers=_keyed(admin_key), timeout=60)
        return cls(url, str(answer.raise_for_status().json()["session_id"]), admin_key=admin_key)

    @property
    def base_url(self) -> str:
        """The address of the agent's model."""
        return f"{self.url}/v1"

    def turns(self) -> list[CapturedTurn]:
        """Return the calls so far in their order, also those that are not trainable. Raises httpx's errors."""
        place = f"{self.url}/sessions/{quote(self.id, safe='')}"
        with httpx.Client(headers=self._headers, timeout=self._timeout_s) as http:
            options = {"include_messages": "true", "include_discarded": "true"}
            document = http.get(f"{place}/rollout", params=options).raise_for_status().json()
            answer = http.get(f"{place}/trace_entries")
            # 409: a capture without tokens has no entries
            entries = [] if answer.status_code == httpx.codes.CONFLICT else answer.raise_for_status().json()["entries"]
        return _of_server(document, entries)


def _keyed(admin_key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {admin_key}"} if admin_key else {}


def _of_server(document: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> list[CapturedTurn]:
    """Return every call of a capture's document, with tokens where an entry has them."""
    by_node = {turn.node: turn for turn in turns_of(entries)}
    whole, of_turns = _findings(document)
    captured = []
    for turn in document["turns"]:
        node = str(turn["node_id"])
        request = {"messages": turn.get("request_messages") or [], "tools": turn.get("request_tools")}
        bare = CapturedTurn(node, request=request, message=turn.get("response_message") or {})
        captured_turn = by_node.get(node, bare)
        beside = _no_turn(turn, document)
        why = whole or of_turns.get(int(turn["index"]), "") or beside or captured_turn.reason
        if not why and node not in by_node:
            why = LEFT_OUT
        captured.append(replace(captured_turn, reason=why[:_WORDS], is_agent=not beside))
    return captured


def _findings(document: Mapping[str, Any]) -> tuple[str, dict[int, str]]:
    """Return the finding that spoils the whole capture, and those that spoil one turn, by its number."""
    if document.get("rollout_type", "train") != "train":
        return f"the endpoint returned no token IDs (capture level {document.get('capture_level')})", {}
    whole, of_turns = "", dict[int, str]()
    for finding in map(str, document.get("validation") or ()):
        if "[FATAL]" not in finding:
            continue
        words = finding.removeprefix("[FATAL]").strip()
        if turn := _OF_TURN.search(finding):
            of_turns.setdefault(int(turn[1]), words)
        else:
            whole = whole or words
    return whole, of_turns


def _no_turn(turn: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """Return why a call is no turn of the agent; empty if it is one."""
    if turn.get("discarded"):
        return "a call that was made again"
    roles = {str(row["role"]) for row in document.get("sequences") or () if turn["node_id"] in row["node_ids"]}
    return "no turn of the agent" if roles and "agent" not in roles else ""


class CapturedPolicy:
    """A policy whose model is behind a capture server: each turn gets the token IDs that were sampled for it.

    `turns` returns the captured calls so far, as `CaptureSession.turns` does.
    """

    def __init__(self, policy: Policy, turns: Callable[[], Sequence[CapturedTurn]]) -> None:
        self._policy, self._turns, self._marks = policy, turns, CaptureMarks()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    async def act(self, view: View) -> Turn:
        turn = await self._policy.act(view)
        captured = await asyncio.to_thread(self._turns)
        fresh, meta = self._marks.fresh(captured), dict(turn.meta or {})
        if fresh:
            # the last one is this turn; those before it were tries of it
            meta |= fresh[-1].meta
        if changed := self._marks.changed(captured):
            meta[CAPTURE] = {**meta.get(CAPTURE, {}), "changed": changed}
        return replace(turn, meta=meta or None)
