"""What an agent of a framework writes and does, as steps in the order in which the agent decided them.

Pure. A framework makes the calls of a turn concurrently and reports their results in any order. A result waits here
until those of the calls before it have arrived. Called by `recording.py`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_jsonable_python

from awmclient.nouns.values import ASK_TOOL
from awmclient.record.observations import TRACEBACK, bounded, plain
from awmclient.words.endings import is_stopped, reason_of
from awmclient.words.toolcalls import Call, id_of

Step = dict[str, Any]


class Transcript:
    """The steps of one episode. Every method returns the steps to record now, without numbers."""

    def __init__(self) -> None:
        self.turn, self.asks = 0, 0
        self.last_words: str | None = None
        self._system: str | None = None
        self._users = 0
        self._due: list[_Due] = []

    def heard(self, system: str | None, users: Sequence[str]) -> list[Step]:
        """Add a model's input: changed instructions, and new messages of users."""
        fresh: list[tuple[str, str]] = []
        if system and system != self._system:
            self._system = system
            fresh.append(("system", system))
        # Frameworks send the whole conversation each time; only the new part is recorded.
        fresh += [("user", words) for words in users[self._users :]]
        self._users = max(self._users, len(users))
        return [bounded({"kind": "message", "role": role, "content": words}) for role, words in fresh]

    def said(
        self,
        content: str,
        calls: Sequence[Call] = (),
        usage: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
        reasoning: Mapping[str, Any] | None = None,
        finish_reason: Any = None,
    ) -> list[Step]:
        """Start a turn with the model's message and the calls that it decided. `finish_reason` is the server's word
        for why the model stopped; a turn that was cut off has a message for it in any case."""
        # Results that still wait belong to the turn before.
        steps = self.rest()
        self.turn += 1
        # A call without an ID cannot be matched, so its result is recorded as it arrives.
        self._due = [_Due(call) for call in calls if call.call_id]
        if not calls:
            self.last_words = content
        beside = {"usage": usage, "meta": meta, "reasoning": reasoning}
        extra: Step = {name: dict(value) for name, value in beside.items() if value}
        if calls:
            extra["calls"] = [{"name": call.name, "arguments": call.arguments, **id_of(call)} for call in calls]
        reason = reason_of(finish_reason)
        ended = {"finish_reason": reason} if reason else {}
        extra |= ended if is_stopped(reason) else {}
        # As in the loop: the step of a single call says all that a message would.
        if content or extra.keys() - {"calls"} or len(calls) > 1:
            message = {"kind": "message", "role": "assistant", "content": content, "turn": self.turn, **extra, **ended}
            steps.append(bounded(message))
        return steps

    def came(
        self,
        call: Call,
        *,
        result: Any = None,
        error: str | None = None,
        traceback: str = "",
        signals: Mapping[str, Any] | None = None,
    ) -> list[Step]:
        """Add the result of a call; calls of the expert were recorded as they were made."""
        if call.name == ASK_TOOL:
            return self._ready()
        step: Step = {"kind": "tool_call", "name": call.name, "arguments": call.arguments, **self.place(call)}
        step |= {"result": as_json(result)} if error is None else {"error": error}
        step |= signals or {}
        if traceback:
            step["meta"] = {"traceback": traceback[-TRACEBACK:]}
        place = self._place_of(call)
        if place is None:
            return [bounded(step)]
        place.step = bounded(step)
        return self._ready()

    def asks_now(self, call: Call) -> list[Step]:
        """Add a question that is being asked: it has its place already, and no result of it follows."""
        place = self._place_of(call)
        if place is not None:
            self._due.remove(place)
        return self._ready()

    def place(self, call: Call) -> Step:
        return {**({"turn": self.turn} if self.turn else {}), **id_of(call)}

    def rest(self) -> list[Step]:
        """Return the results that wait for calls without a result."""
        left = [one.step for one in self._due if one.step is not None]
        self._due = []
        return left

    def _ready(self) -> list[Step]:
        ready = []
        while self._due and (step := self._due[0].step) is not None:
            ready.append(step)
            del self._due[0]
        return ready

    def _place_of(self, call: Call) -> _Due | None:
        """Return the place that waits for this call's result. Some models give two calls of a turn the same ID."""
        waiting = [one for one in self._due if one.step is None]
        place = taken([one.call for one in waiting], call.call_id, call.name, call.arguments)
        return None if place is None else waiting[place]


@dataclass(eq=False)
class _Due:
    """The place of a call in its turn, and its step once its result has arrived."""

    call: Call
    step: Step | None = None


class UnreportedCalls:
    """The calls of a turn that a framework has still to report, for adapters that get only the ID of a call."""

    def __init__(self) -> None:
        self._calls: list[Call] = []

    def open(self, calls: Sequence[Call]) -> None:
        """Start a turn: calls of earlier turns are no longer waited for."""
        self._calls = list(calls)

    def take(self, call_id: Any, name: str = "") -> Call | None:
        """Return the first open call of this ID, those of this name before others."""
        place = taken(self._calls, call_id, name)
        return None if place is None else self._calls.pop(place)

    def first_of_others(self, names: Collection[str]) -> Call | None:
        """Return the first open call of a name that is none of these."""
        place = next((place for place, one in enumerate(self._calls) if one.name not in names), None)
        return None if place is None else self._calls.pop(place)


def taken(calls: Sequence[Call], call_id: Any, name: str, arguments: Any = None) -> int | None:
    """Return the place of the first call of this ID, best with this name and these arguments, too."""
    places = [place for place, one in enumerate(calls) if call_id and one.call_id == call_id]
    return min(places, key=lambda at: (calls[at].name != name, calls[at].arguments != arguments), default=None)


def as_arguments(value: Any) -> dict[str, Any]:
    """Return the arguments of a call from an object or its JSON text. Any other text is the only argument."""
    if isinstance(value, str):
        try:
            value = json.loads(value or "{}")
        except (ValueError, RecursionError):
            return {"text": value}
    return {str(name): one for name, one in value.items()} if isinstance(value, Mapping) else {"value": value}


def tokens(used: Any) -> dict[str, int] | None:
    """Return the usage of a turn, given as an object or a mapping with `input_tokens` and `output_tokens`."""
    usage = used if isinstance(used, Mapping) else vars(used) if used is not None else {}
    counts = {"prompt_tokens": usage.get("input_tokens") or 0, "completion_tokens": usage.get("output_tokens") or 0}
    return counts if any(counts.values()) else None


def as_json(value: Any) -> Any:
    """Return a tool's result as JSON: models and data classes as objects, other objects as text."""
    try:
        return to_jsonable_python(value, serialize_unknown=True)
    except ValueError:  # a cycle, or bytes that are not text
        return plain(value)
