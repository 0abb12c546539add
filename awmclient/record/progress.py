"""The loop's state of its episode, folded from the recorded steps: counters, open calls, clocks.

Pure. The live loop adds each step as it records it; a loop that continues after a crash adds the stored ones and has
the same state. Called by the loop.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from awmclient.nouns.kinds import is_approval, is_ask
from awmclient.nouns.values import ASK_TOOL, StopReason
from awmclient.record import wheel
from awmclient.record.observations import plain
from awmclient.words.conversation import as_text
from awmclient.words.endings import UNANSWERED
from awmclient.words.toolcalls import Call

ENDS = "ends"
"""The key in the last message's `meta` of the agent's end: a stop reason and the final answer."""


@dataclass
class LoopProgress:
    """The state of an episode after the added steps.

    `turn` is the last recorded turn, `spent` how many turns count against the limit: all but those that only asked.
    `errors` counts failed calls in a row, `malformed` unreadable turns in a row, `unanswered` those among them, to the
    last one, that were cut off or blank, `stalled` turns of calls in a row
    without anything new. `pending` are the calls of the last turn that are not recorded yet. `end` is how the agent
    ended, if it did. What a person does at the wheel has a turn number, and counts as no call or error of the agent.
    """

    turn: int = 0
    spent: int = 0
    asks: int = 0
    malformed: int = 0
    unanswered: int = 0
    errors: int = 0
    pending: list[Call] = field(default_factory=list)
    end: tuple[StopReason, str | None] | None = None
    driven: bool = False
    """Whether a person has the wheel, as far as the loop has noted it."""
    acted: int = 0
    """The last order of a person at the wheel that was carried out."""
    _stalled_before: int = 0
    _brought: set[bytes] = field(default_factory=set)
    _paid: bool = False
    _called: bool = False
    _asked: bool = False
    _is_new: bool = False
    _reminded: bool = False

    @classmethod
    def after(cls, steps: Iterable[Mapping[str, Any]]) -> LoopProgress:
        """Return the fold of these steps, as the loop has them or as a dashboard stored them."""
        progress = cls()
        for step in steps:
            progress.add(step)
        return progress

    @property
    def stalled(self) -> int:
        if not self._called or self._reminded:
            return self._stalled_before
        return 0 if self._asked or self._is_new else self._stalled_before + 1

    @property
    def may_be_reminded(self) -> bool:
        """Whether the last turn made all of its calls, at least one, and no reminder followed it."""
        return self._called and not self._reminded and not self.pending

    def add(self, step: Mapping[str, Any]) -> None:
        """Add one step; steps outside of a turn (the task, notes, verifications) change nothing."""
        self.driven = wheel.word_of(step) == wheel.TAKEN if wheel.is_of_wheel(step) else self.driven
        self.acted = max(self.acted, wheel.order_of(step))
        if wheel.is_of_wheel(step):
            # what the agent had decided is not made
            self.pending = []
        turn = step.get("turn")
        if turn is None:
            return
        if turn > self.turn:
            self._begin(turn)
        if step.get("acted_by") is not None:
            self._acted(step)
            return
        match step["kind"]:
            case "message":
                self._said(step)
            # After calls it is a reminder; without one, the answer to a turn that could not be parsed.
            case "nudge" if self._called:
                self.errors = self._stalled_before = 0
                self._reminded = True
            case "nudge":  # the turn could not be read
                self._pay()
                self.malformed += 1
                is_unanswered = UNANSWERED in (step.get("meta") or {})
                self.unanswered = self.unanswered + 1 if is_unanswered else 0
            case "ask" if is_approval(step):
                # Of calls that are still to be made. Records before 0.3.0 have no message of a single one.
                self.pending = self.pending or [
                    Call(call["name"], call.get("arguments") or {}) for call in step["typed"]["calls"]
                ]
            case "ask":
                self.asks += 1
                self._asked = True
                self._made()
            case "tool_call":
                self._pay()
                self._made()
                self._notice(step)
            case "action":
                self._pay()
                self.malformed = self.unanswered = 0
        if step.get("done") is True:
            # The environment has ended: the other calls of the turn are not made.
            self.end, self.pending = ("done", None), []

    def _acted(self, step: Mapping[str, Any]) -> None:
        """Add a step of a person: after it the agent is where it has not been."""
        self.errors = self.malformed = self.unanswered = self._stalled_before = 0
        if step.get("done") is True:
            self.end = ("done", None)

    def _begin(self, turn: int) -> None:
        # Read first, since it depends on the flags of the turn that ends.
        self._stalled_before = self.stalled
        self.turn, self.pending = turn, []
        self._paid = self._called = self._asked = self._is_new = self._reminded = False

    def _said(self, step: Mapping[str, Any]) -> None:
        self.pending = [
            Call(call["name"], call.get("arguments") or {}, call.get("call_id")) for call in step.get("calls") or ()
        ]
        ended = (step.get("meta") or {}).get(ENDS)
        if ended is not None:
            self.end = cast(StopReason, ended["stop_reason"]), ended.get("final_answer")

    def _pay(self) -> None:
        self.spent += 0 if self._paid else 1
        self._paid = True

    def _made(self) -> None:
        self.malformed = self.unanswered = 0
        self._called = True
        # The first, because a loop makes the calls of a turn in order.
        del self.pending[:1]

    def _notice(self, step: Mapping[str, Any]) -> None:
        """Count errors in a row, and check whether the call returned anything new. A refused question counts as
        neither."""
        if step["name"] == ASK_TOOL:
            return
        if step.get("error") is not None:
            self.errors += 1
            return
        self.errors = 0
        # With name and arguments: the same result of another call is new.
        said = as_text(plain([step["name"], step.get("arguments") or {}, step.get("result")]))
        digest = hashlib.sha256(said.encode("utf-8", "surrogatepass")).digest()
        self._is_new = self._is_new or bool(step.get("state_diff")) or digest not in self._brought
        self._brought.add(digest)


def active_s(steps: Iterable[Mapping[str, Any]]) -> float:
    """Return the seconds between stored steps, without the waits after a question or for a person at the wheel."""
    total, before = 0.0, None
    was_ask = is_driven = False
    for step in steps:
        if step.get("at") is None:
            continue
        at = datetime.fromisoformat(step["at"])
        if before is not None and not was_ask and not is_driven:
            total += max(0.0, (at - before).total_seconds())
        before, was_ask = at, is_ask(step)
        is_driven = wheel.word_of(step) == wheel.TAKEN if wheel.is_of_wheel(step) else is_driven
    return total
