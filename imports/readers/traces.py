"""A trace as a trajectory: spans -> steps. Pure.

Owns what a span becomes: a model's span is the messages that are new in it and its answer, a tool's span is a call with
its result, anything else is a note. Spans come in the order of their start. Leaves reading spans to `otlp.py` and
reading messages to `said.py`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import ValidationError

from awmclient.schema import Trajectory
from awmclient.words.conversation import as_text
from awmclient.words.faults import fault_of
from imports.readers import otlp
from imports.readers.found import TrajectoryDraft, checked_tools, tools_of
from imports.readers.messages import arguments_of
from imports.readers.open_calls import Step
from imports.readers.otlp import Span
from imports.readers.said import CHOICE, DETAILS, EVENTS, MessageReader, SpanMessage, with_pictures
from imports.readers.trace_calls import NO_WORDS, TraceCalls

NOTE_CHARACTERS = 4_000
"""The most of a span's attributes that its note has."""
OPERATION, KIND, TRACELOOP = "gen_ai.operation.name", "openinference.span.kind", "traceloop.span.kind"
KINDS = {
    "model": ({"chat", "text_completion", "generate_content"}, {"LLM"}, set[str]()),
    "tool": ({"execute_tool"}, {"TOOL"}, {"tool"}),
    "agent": ({"invoke_agent", "create_agent", "invoke_workflow"}, {"AGENT"}, {"agent", "workflow"}),
}
NAMES = {
    "model": ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name"),
    "agent": ("gen_ai.agent.name", "agent.name", "graph.node.id", "traceloop.entity.name"),
    "tool": ("gen_ai.tool.name", "tool.name", "traceloop.entity.name"),
    "call": ("gen_ai.tool.call.id", "tool_call.id", "tool.id"),
    "session": ("gen_ai.conversation.id", "session.id"),
    "arguments": ("gen_ai.tool.call.arguments", "input.value", "traceloop.entity.input", "tool.parameters"),
    "result": ("gen_ai.tool.call.result", "output.value", "traceloop.entity.output"),
    "given": ("input.value", "traceloop.entity.input"),
    "answer": ("output.value", "traceloop.entity.output"),
}
"""Where the conventions keep a value, the most exact first."""
USAGE = {
    "prompt_tokens": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"),
    "completion_tokens": (
        *("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
        "llm.token_count.completion",
    ),
}
RAW = frozenset({"input.value", "output.value", "input.mime_type", "output.mime_type"})
"""A model's whole request and answer once more, with all of the history."""
EXCEPTION = "exception"
LATE = "late"
SECOND = 10**9


def knows_otlp(row: Mapping[str, Any]) -> bool:
    return otlp.is_request(row)


def gather_otlp(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield one row for each trace of a file, whatever requests its spans came in."""
    traces: dict[str, dict[str, Span]] = {}
    left_out: Counter[str] = Counter()
    for row in rows:
        parsed = otlp.of_json(row)
        left_out += parsed.left_out
        for span in parsed.kept:
            traces.setdefault(span.trace, {}).setdefault(span.id, span)
    for trace, spans in traces.items():
        row = {"spans": [one.as_json() for one in spans.values()], "left_out": dict(left_out)}
        left_out.clear()
        yield f"trace {trace}", row


def read_otlp(row: Mapping[str, Any], draft: TrajectoryDraft) -> Trajectory:
    for why, count in row["left_out"].items():
        draft.lose(f"spans {why}", count)
    return read_trace([Span(**one) for one in row["spans"]], draft)


def read_trace(spans: Sequence[Span], draft: TrajectoryDraft) -> Trajectory:
    """Return all spans of a trace as one trajectory."""
    reading = _Trace(spans, draft)
    reading.read()
    return reading.trajectory()


def late_steps(spans: Sequence[Span], last_seq: int, draft: TrajectoryDraft) -> list[dict[str, Any]]:
    """Return the steps of spans that arrived when their trace had been stored, numbered from `last_seq` on.

    A note names them. Of a model's span only the answer is new: what it was given came from the rest of the trace.
    """
    ordered = _in_order(spans)
    names = ", ".join(one.name[:100] for one in ordered[:20]) + (", …" if len(ordered) > 20 else "")
    count = "1 span" if len(ordered) == 1 else f"{len(ordered):,} spans"
    draft.add("note", content=f"{count} arrived after the trace was stored: {names}", meta={"otlp": {LATE: len(spans)}})
    # above every turn that a step can have by now
    draft.turn = last_seq
    _Trace(ordered, draft, is_late=True).read()
    return [{"seq": number, **step} for number, step in enumerate(draft.steps, last_seq + 1)]


def _in_order(spans: Iterable[Span]) -> list[Span]:
    # a span that starts with its parent comes after it
    return sorted(spans, key=lambda span: (span.start, -span.end, span.id))


class _Trace:
    """The spans of one trace on their way into a draft."""

    def __init__(self, spans: Sequence[Span], draft: TrajectoryDraft, *, is_late: bool = False) -> None:
        self._draft, self._is_late = draft, is_late
        self._spans = _in_order(spans)
        self._by_id = {one.id: one for one in self._spans}
        self._kinds = {one.id: _kind_of(one) for one in self._spans}
        self._said: Counter[str] = Counter()
        self._calls = TraceCalls(draft)
        self._answers: dict[str, Step] = {}
        """The messages of models, by what is the same in a repeated one."""
        self._silent: dict[int, tuple[Step, Span | None]] = {}
        """The steps of answers that their spans do not have, by turn, with the agent."""
        self._before: dict[int, Step] = {}
        """Messages that were read after their calls, by the steps of the first calls."""
        self._agents: dict[str, Span | None] = {}
        """The agents above spans, by the IDs of the spans."""
        self._tools: dict[str, Any] = {}
        self._model = ""
        roots = [one for one in self._spans if one.parent not in self._by_id]
        agents = [one for one in self._spans if self._kinds[one.id] == "agent"]
        self._root = roots[0] if roots else self._spans[0]
        self._agent = None if is_late else next(iter(agents), None)
        if "model" not in self._kinds.values():
            # some record the conversation at the agent alone
            self._kinds.update({one.id: "model" for one in agents if _has_messages(one)})

    def read(self) -> None:
        for span in self._spans:
            kind = self._kinds[span.id]
            if kind == "model":
                self._add_model(span)
            elif kind == "tool":
                self._add_tool(span)
            elif span is not self._agent:
                self._add_note(span, kind)
        self._put_in_order()
        self._draft.lose("answers of models that their spans do not have", len(self._silent))
        self._calls.settle()

    def _put_in_order(self) -> None:
        if self._before:
            moved = {id(one) for one in self._before.values()}
            rest = [one for one in self._draft.steps if id(one) not in moved]
            self._draft.steps = [step for one in rest for step in (self._before.get(id(one)), one) if step is not None]

    def trajectory(self) -> Trajectory:
        draft, root = self._draft, self._root
        first, last = min(one.start for one in self._spans), max(one.end for one in self._spans)
        prompt = _first_of(root, "given") or _first_of(self._agent, "given")
        answer = draft.last_answer()
        if answer is None and (reply := _first_of(self._agent or root, "answer")) is not None:
            answer = as_text(reply)
        words = _error_of(root) if root.failed else ""
        names = {
            "model": draft.line(self._model or None, "model"),
            "name": draft.line(_first_of(self._agent, "agent") or root.resource.get(otlp.SERVICE), "agent"),
        }
        return draft.trajectory(
            episode=root.trace,
            environment="otlp",
            task=draft.task(draft.first_user_text() or (as_text(prompt) if prompt is not None else root.name)),
            tools=self._offered(),
            policy={name: value for name, value in names.items() if value},
            state="failed" if root.failed else "finished",
            fault=fault_of(words) if root.failed else None,
            stop_reason="error" if root.failed else "done" if answer is not None else None,
            final_answer=answer,
            started_at=_moment(first),
            ended_at=_moment(last),
        )

    def _offered(self) -> list[dict[str, Any]]:
        """Return the tools, or none if an episode cannot have them: that must not cost the steps."""
        tools = tools_of(list(self._tools.values()), self._draft)
        try:
            checked_tools(tools)
        except ValidationError:
            self._draft.lose("tools that an episode cannot have", len(tools))
            return []
        return tools

    def _add_model(self, span: Span) -> None:
        draft = self._draft
        reader = MessageReader(span.attributes, span.events, draft)
        self._model = self._model or str(_first(reader.attributes, NAMES["model"]) or "")
        for tool in reader.tools():
            inner = tool.get("function")
            name = (inner if isinstance(inner, Mapping) else tool).get("name")
            self._tools.setdefault(str(name), dict(tool))
        inputs, outputs = reader.input(), reader.output()
        if not self._is_late:
            for message, is_known in list(self._history(inputs)):
                if is_known:
                    self._complete(message)
                else:
                    self._hear(message, span)
        draft.turn += 1
        first = len(draft.steps)
        for message in outputs:
            self._said[message.key] += 1
            self._answer(message, _moment(span.end))
        words = _error_of(span) if span.failed else ""
        if not outputs and not words:
            step = draft.add("message", role="assistant", content="", turn=draft.turn, at=_moment(span.end))
            self._silent[draft.turn] = step, self._agent_above(span)
        if words:
            draft.add("note", content=f"The model's call failed: {words}", turn=draft.turn, at=_moment(span.end))
        step = draft.steps[first]
        usage = {name: value for name, at in USAGE.items() if (value := _first(reader.attributes, at)) is not None}
        if usage:
            step["usage"] = usage
        dropped = RAW & span.attributes.keys() if inputs or outputs else frozenset[str]()
        draft.lose("a model's request and answer once more (its messages are kept)", int(bool(dropped)))
        self._keep_rest(step, span, reader.known | dropped | {one for at in USAGE.values() for one in at})

    def _history(self, inputs: Sequence[SpanMessage]) -> Iterator[tuple[SpanMessage, bool]]:
        """Yield the messages with whether an earlier span had them: each model's span has the whole history again."""
        counts: Counter[str] = Counter()
        for message in inputs:
            counts[message.key] += 1
            is_known = counts[message.key] <= self._said[message.key]
            if not is_known and not self._calls.is_said(message.calls):
                self._said[message.key] += 1
                yield message, False
            else:
                yield message, True

    def _complete(self, copy: SpanMessage) -> None:
        """Take from a repeated message what its first span did not have: arguments of calls, and reasoning."""
        for call in copy.calls:
            self._calls.complete(call)
        if copy.thought is None:
            return
        first, message = self._calls.message_of(copy.calls[0]) if copy.calls else (None, self._answers.get(copy.key))
        if message is not None:
            message.setdefault("reasoning", copy.thought)
        elif first is not None:
            message = self._draft.add(
                "message", role="assistant", content="", reasoning=copy.thought, turn=first["turn"], at=first.get("at")
            )
            self._before[id(first)] = message
            self._calls.belong(first, message)

    def _hear(self, message: SpanMessage, span: Span) -> None:
        """Add a message that a model was given."""
        at = _moment(span.start)
        if message.role == "assistant":
            self._hear_answer(message, span, at)
        elif message.text or message.pictures or message.others:
            role = message.role if message.role in ("system", "user") else "user"
            step = self._draft.add("message", role=role, content=message.text, at=at)
            _keep_others(step, message)
        for call_id, came in message.results:
            self._calls.read(call_id, came, at)

    def _hear_answer(self, answer: SpanMessage, span: Span, at: str | None) -> None:
        """Add an answer that its own span does not have: in the place of the empty one, if that is the last of its
        agent."""
        draft = self._draft
        silent, agent = self._silent.get(draft.turn, (None, None))
        ran = [self._calls.ran(call) for call in answer.calls]
        if silent is not None and agent is self._agent_above(span):
            del self._silent[draft.turn]
            silent["content"] = answer.text
            if answer.thought is not None:
                silent["reasoning"] = answer.thought
            _keep_others(silent, answer)
            self._add_calls(answer, silent, ran, at)
        else:
            draft.turn += 1
            self._answer(answer, at, ran)

    def _answer(self, answer: SpanMessage, at: str | None, ran: Sequence[Step | None] = ()) -> None:
        """Add a model's message and its calls. `ran` has the steps that tools' spans have made of them."""
        draft, message = self._draft, None
        if answer.text or answer.thought or answer.pictures or answer.others or not answer.calls:
            message = draft.add(
                "message", role="assistant", content=answer.text, reasoning=answer.thought, turn=draft.turn, at=at
            )
            _keep_others(message, answer)
            if (first := next((one for one in ran if one is not None), None)) is not None:
                self._before[id(first)] = message
        self._add_calls(answer, message, ran or [None] * len(answer.calls), at)

    def _add_calls(self, answer: SpanMessage, message: Step | None, ran: Sequence[Step | None], at: str | None) -> None:
        if message is not None:
            self._answers[answer.key] = message
        for call, step in zip(answer.calls, ran, strict=True):
            self._calls.add(call, step, message, at)

    def _add_tool(self, span: Span) -> None:
        draft, raw = self._draft, _first_of(span, "arguments")
        arguments = arguments_of(raw, draft) if raw is not None else None
        name, call_id = str(_first_of(span, "tool") or span.name), str(_first_of(span, "call") or "")
        step = self._calls.run(call_id, name, arguments)
        step["at"] = _moment(span.end)
        came = with_pictures(draft, _first_of(span, "result"))
        self._calls.end(step, came, _words_of(span) if span.failed else None)
        names = {one for what in ("tool", "call", "arguments", "result") for one in NAMES[what]}
        self._keep_rest(step, span, names & span.attributes.keys())

    def _add_note(self, span: Span, kind: str) -> None:
        """Keep a span that is no step: its name, how long it took, and its attributes up to a bound."""
        draft = self._draft
        took = (span.end - span.start) / SECOND
        what = f"Agent {_agent_name(span) or span.name}" if kind == "agent" else f"Span {span.name}"
        failed = f", failed: {_error_of(span)}" if span.failed else ""
        beside = {**span.attributes, **({"events": span.events} if span.events else {})}
        text = json.dumps(beside, ensure_ascii=False) if beside else ""
        draft.lose("spans that are no step (kept as notes)", int(kind != "agent"))
        draft.lose(f"characters of notes after {NOTE_CHARACTERS:,}", max(0, len(text) - NOTE_CHARACTERS))
        words = f"{what} ({took:.3f} s{failed})"
        content = f"{words}\n{text[:NOTE_CHARACTERS]}" if text else words
        draft.add("note", content=content, at=_moment(span.start), meta={"otlp": self._place(span)})

    def _keep_rest(self, step: dict[str, Any], span: Span, names: set[str] | frozenset[str]) -> None:
        """Keep what no field of the record has: attributes and events beside those that were read."""
        rest = {name: value for name, value in span.attributes.items() if name not in names}
        read = {*EVENTS, CHOICE, *DETAILS}
        events = [one for one in span.events if one["name"] not in read]
        beside = {
            **self._place(span),
            **({"attributes": rest} if rest else {}),
            **({"events": events} if events else {}),
        }
        step.setdefault("meta", {})["otlp"] = beside

    def _place(self, span: Span) -> dict[str, Any]:
        """Return where a span is in its trace: its ID, its parent's, and the agent that it works for."""
        above = self._agent_above(span)
        agent = _agent_name(above) if above is not None and above is not self._agent else None
        place = {"span": span.id, "parent": span.parent, "agent": agent}
        return {name: value for name, value in place.items() if value}

    def _agent_above(self, span: Span) -> Span | None:
        """Return the nearest agent's span above a span. Each span is passed once, however deep the trace is."""
        passed, above = [span.id], self._by_id.get(span.parent)
        seen = {span.id}
        while above is not None and self._kinds[above.id] != "agent":
            if above.id in self._agents:
                above = self._agents[above.id]
                break
            if above.id in seen:  # spans that are each other's parents
                above = None
                break
            seen.add(above.id)
            passed.append(above.id)
            above = self._by_id.get(above.parent)
        self._agents.update(dict.fromkeys(passed, above))
        return above


def _keep_others(step: dict[str, Any], message: SpanMessage) -> None:
    if message.pictures:
        step["pictures"] = message.pictures
    if message.others:
        step.setdefault("meta", {})["parts"] = message.others


def _kind_of(span: Span) -> str:
    attributes = span.attributes
    labels = attributes.get(OPERATION), attributes.get(KIND), attributes.get(TRACELOOP)
    for kind, words in KINDS.items():
        if any(isinstance(one, str) and one in known for one, known in zip(labels, words, strict=True)):
            return kind
    # OpenLLMetry names no operation
    is_model = labels == (None, None, None) and any(name in attributes for name in NAMES["model"][:2])
    return "model" if is_model else "other"


def _has_messages(span: Span) -> bool:
    return any(name in span.attributes for name in ("gen_ai.input.messages", "gen_ai.output.messages"))


def _first_of(span: Span | None, what: str) -> Any:
    return _first(span.attributes, NAMES[what]) if span is not None else None


def _agent_name(span: Span) -> str:
    """Return the name of an agent, cut: every step of its spans has it."""
    return str(_first_of(span, "agent") or "")[: otlp.NAME_MAX]


def _first(attributes: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((attributes[name] for name in names if attributes.get(name) not in (None, "")), None)


def _error_of(span: Span) -> str:
    return _words_of(span) or NO_WORDS


def _words_of(span: Span) -> str:
    """Return the words of a failed span: of its exception, of its status, or the type of its error; "" without any."""
    for event in span.events:
        if event["name"] == EXCEPTION:
            attributes = event["attributes"]
            words = [str(attributes[one]) for one in ("exception.type", "exception.message") if attributes.get(one)]
            if words:
                return ": ".join(words)
    return span.message or str(span.attributes.get("error.type") or "")


def _moment(nanoseconds: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=nanoseconds // 1000)).isoformat()


def session_of(spans: Iterable[Span]) -> str:
    """Return the conversation or session that a trace says it belongs to, or ""."""
    return next((str(found) for one in spans if (found := _first_of(one, "session")) is not None), "")
