"""The calls of a trajectory that have no result so far, and which of them a result answers. Pure.

Each look-up is quick however many calls are open, because their number comes from the file.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

Step = dict[str, Any]


class _Call:
    """A call, and whether a result has answered it."""

    __slots__ = ("call_id", "is_open", "step", "turn")

    def __init__(self, call_id: str, step: Step, turn: int) -> None:
        self.call_id, self.step, self.turn, self.is_open = call_id, step, turn, True


class OpenCalls:
    """Calls in the order in which they were made.

    Some tools use the same IDs again in each turn, so that calls of the latest turn come before earlier ones.
    """

    def __init__(self) -> None:
        self._count = 0
        self._by_id: dict[str, list[deque[_Call]]] = {}
        self._by_step: dict[int, _Call] = {}
        self._turn = self._open_in_turn = 0
        self._latest: deque[_Call] = deque()
        self._by_name: defaultdict[str, deque[_Call]] = defaultdict(deque)

    def __len__(self) -> int:
        return self._count

    def add(self, call_id: str, step: Step, turn: int) -> None:
        """Add a call with its ID in the file, or "" for none."""
        # Only the latest turn is searched by name or order; calls of earlier turns are found by their IDs.
        if turn != self._turn:
            self._turn, self._latest, self._by_name, self._open_in_turn = turn, deque(), defaultdict(deque), 0
        call = self._by_step[id(step)] = _Call(call_id, step, turn)
        self._count += 1
        self._open_in_turn += 1
        self._latest.append(call)
        self._by_name[step["name"]].append(call)
        if call_id:
            turns = self._by_id.setdefault(call_id, [])
            if not turns or turns[-1][0].turn != turn:
                turns.append(deque())
            turns[-1].append(call)

    def take(self, call_id: str, name: str, turn: int) -> Step | None:
        """Return the step of the first call that a result answers, which is no longer open then.

        The result's ID decides; without one its name, among the calls of this turn. Without both only the order is
        known: it counts if this turn has one open call, or if its first one has no ID either.
        """
        if call_id:
            open_call = self._of_id(call_id)
        elif turn != self._turn:
            open_call = None
        elif name:
            open_call = self._of_name(name)
        else:
            open_call = _first_open(self._latest)
            # Its calls have IDs and several are open, so a result without one could belong to any of them.
            if open_call is not None and open_call.call_id and self._open_in_turn > 1:
                open_call = None
        return self._closed(open_call).step if open_call is not None else None

    def close(self, step: Step) -> bool:
        """Note that a call is answered; return whether it was open."""
        call = self._by_step.get(id(step))
        if call is None or not call.is_open:
            return False
        self._closed(call)
        return True

    def _closed(self, call: _Call) -> _Call:
        call.is_open = False
        self._count -= 1
        if call.turn == self._turn:
            self._open_in_turn -= 1
        return call

    def _of_id(self, call_id: str) -> _Call | None:
        turns = self._by_id.get(call_id)
        while turns:
            if (call := _first_open(turns[-1])) is not None:
                return call
            turns.pop()
        return None

    def _of_name(self, name: str) -> _Call | None:
        return _first_open(self._by_name[name]) if name in self._by_name else None


def _first_open(calls: deque[_Call]) -> _Call | None:
    """Return the first open call. Answered ones before it are dropped, so that all look-ups together pass each once."""
    while calls and not calls[0].is_open:
        calls.popleft()
    return calls[0] if calls else None
