"""The calls of a trace: what a model's message, the tool's own span and a later history each say of one. Pure.

A span can lack what another has: a tool's span its result, a model's message the arguments, a history both. Each is
taken from whichever has it. Time is linear: a result is written once, however many messages name it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from awmclient.words.conversation import as_text
from imports.readers.found import EMPTY, TrajectoryDraft
from imports.readers.messages import settle
from imports.readers.open_calls import OpenCalls, Step
from imports.readers.said import SpanCall

NO_WORDS = "error"


class TraceCalls:
    """The steps of calls, and what is still missing of each."""

    def __init__(self, draft: TrajectoryDraft) -> None:
        self._draft = draft
        self._by_id: dict[str, Step] = {}
        self._without_span, self._unnamed = OpenCalls(), OpenCalls()
        """Calls of models without a tool's span so far; calls that only a tool's span without an ID has."""
        self._messages: dict[int, Step | None] = {}
        """The messages of calls, by the steps of the calls. Calls that no message has are not in it."""
        self._bare, self._wordless = set[int](), set[int]()
        """Steps of calls whose arguments, and steps whose error, no span has said."""
        self._texts: dict[int, str] = {}

    def is_said(self, calls: Sequence[SpanCall]) -> bool:
        """Tell whether a model's message had all of these calls."""
        steps = [self._by_id.get(call.id) for call in calls]
        return bool(steps) and all(step is not None and id(step) in self._messages for step in steps)

    def message_of(self, call: SpanCall) -> tuple[Step | None, Step | None]:
        """Return the step of a call, and that of its message. A message of calls alone has none."""
        step = self._by_id.get(call.id)
        return step, self._messages.get(id(step))

    def ran(self, call: SpanCall) -> Step | None:
        """Return the step of a tool's span that is this call's, and that no model's message has had a call for."""
        step = self._by_id.get(call.id)
        if step is not None:
            return step if id(step) not in self._messages else None
        return self._unnamed.take("", call.name, self._draft.turn)

    def add(self, call: SpanCall, ran: Step | None, message: Step | None, at: str | None) -> Step:
        """Add the call of a model's message, or join it to the step that its tool's span made."""
        draft, step = self._draft, ran
        if step is None:
            step = draft.add(
                "tool_call", name=call.name, turn=draft.turn, call_id=draft.line(call.id, "ids of calls"), at=at
            )
            step["arguments"] = call.arguments
            draft.unanswered.add(call.id, step, draft.turn)
            self._without_span.add(call.id, step, draft.turn)
            if not call.has_arguments:
                self._bare.add(id(step))
        else:
            self._join(step, call)
        self.belong(step, message)
        if call.id:
            self._by_id[call.id] = step
        return step

    def belong(self, step: Step, message: Step | None) -> None:
        self._messages[id(step)] = message

    def _join(self, step: Step, call: SpanCall) -> None:
        draft = self._draft
        step["turn"] = draft.turn
        if call.id and "call_id" not in step:
            step["call_id"] = draft.line(call.id, "ids of calls")
            if draft.unanswered.close(step):
                draft.unanswered.add(call.id, step, draft.turn)
        if call.has_arguments:
            if id(step) not in self._bare and call.arguments != step["arguments"]:
                step.setdefault("meta", {})["arguments_of_span"] = step["arguments"]
            self._bare.discard(id(step))
            step["arguments"] = call.arguments

    def complete(self, call: SpanCall) -> None:
        """Take the arguments from a repeated message, if nothing has said them."""
        step = self._by_id.get(call.id)
        if step is not None and call.has_arguments and id(step) in self._bare:
            self._bare.discard(id(step))
            step["arguments"] = call.arguments

    def run(self, call_id: str, name: str, arguments: dict[str, Any] | None) -> Step:
        """Return the step of the call that a tool's span ran: that of a model's message, or a new one."""
        draft = self._draft
        step = self._without_span.take(call_id, name, draft.turn)
        if step is None:
            step = draft.add("tool_call", name=name, call_id=draft.line(call_id, "ids of calls"))
            step["arguments"] = arguments or {}
            draft.unanswered.add(call_id, step, draft.turn)
            if arguments is None:
                self._bare.add(id(step))
            if call_id:
                self._by_id[call_id] = step
            else:
                self._unnamed.add("", step, draft.turn)
        elif arguments is not None and id(step) in self._bare:
            self._bare.discard(id(step))
            step["arguments"] = arguments
        elif arguments is not None and arguments != step["arguments"]:
            step.setdefault("meta", {})["arguments_of_span"] = arguments
        return step

    def end(self, step: Step, result: Any, error: str | None) -> None:
        """Take the result of a tool's span, or the words of its error. Without either the call stays open: what the
        model reads of it will do, as it does for an error without words."""
        if error is None and result is None:
            return
        read = step.pop("result", None)
        self._texts.pop(id(step), None)
        if error is None:
            step["result"] = result
        else:
            step["error"] = error or read or NO_WORDS
            if result not in (*EMPTY, step["error"]):
                step.setdefault("meta", {})["result_beside_error"] = result
        if read is not None and self._text_of(step) != as_text(read).strip():
            step.setdefault("meta", {})["result_as_read"] = read
        if error == "" and read is None:
            self._wordless.add(id(step))
        else:
            self._draft.unanswered.close(step)

    def read(self, call_id: str, came: Any, at: str | None) -> None:
        """Keep what a model read of a call: its result or error, unless the tool's own span has said it."""
        draft, text = self._draft, as_text(came)
        step = draft.unanswered.take(call_id, "", draft.turn)
        if step is not None and id(step) in self._wordless:
            self._wordless.discard(id(step))
            step["error"] = text or NO_WORDS
        elif step is not None:
            step["result"] = came
        elif (call_step := self._by_id.get(call_id)) is not None:
            if self._text_of(call_step) != text.strip():
                call_step.setdefault("meta", {})["result_as_read"] = came
        else:
            draft.add("message", role="tool", content=text, at=at)
            draft.lose("results without a call (kept as messages)")

    def _text_of(self, step: Step) -> str:
        """Return a result as a model reads it. Written once: thousands of messages can name one call."""
        if id(step) not in self._texts:
            self._texts[id(step)] = as_text(step.get("error", step.get("result"))).strip()
        return self._texts[id(step)]

    def settle(self) -> None:
        """Count the calls that no span has ended."""
        draft = self._draft
        for step in draft.steps:
            if id(step) in self._wordless:
                draft.unanswered.close(step)
        settle(draft)
