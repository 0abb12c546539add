"""Sessions of coding agents, one file each: Claude Code and Codex. Pure.

Lines come in the order of the file. Owns which lines are steps, which are notes and which only repeat others.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from awmclient.schema import Trajectory
from awmclient.words.conversation import as_text
from awmclient.words.thinking import PART_TYPES, read_reasoning
from imports.readers.found import TrajectoryDraft, UnreadableRow
from imports.readers.messages import Content, add_call, arguments_of, content_of, fail, settle

CLAUDE_MARKS = ("sessionId", "leafUuid", "snapshot")
CLAUDE_FIELDS = frozenset(
    {
        *("parentUuid", "logicalParentUuid", "isSidechain", "userType", "cwd", "sessionId", "version", "gitBranch"),
        *("type", "message", "uuid", "timestamp", "requestId", "toolUseResult", "isMeta", "isCompactSummary", "slug"),
        *("sourceToolAssistantUUID", "isVisibleInTranscriptOnly", "entrypoint", "promptId", "agentId"),
    }
)
CLAUDE_OWN_WORDS = {
    "isMeta": "is_meta",
    "isCompactSummary": "is_compact_summary",
    "isVisibleInTranscriptOnly": "is_visible_in_transcript_only",
}
"""Marks of a user's line that the program wrote itself, and their names in the `meta` of its step."""
MESSAGE_FIELDS = frozenset(
    {"id", "type", "role", "model", "content", "usage", "stop_reason", "stop_sequence", "stop_details"}
)
CODEX_TYPES = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
REPEATING = frozenset(
    {"user_message", "agent_message", "agent_reasoning", "agent_reasoning_raw_content", "token_count", "task_started"}
    | {"task_complete", "turn_started", "turn_complete", "item_completed", "thread_name_updated"}
)
"""Events of Codex that say once more what an item says, or how far a turn is."""
CODEX_CALLS = {"function_call": "arguments", "custom_tool_call": "input", "local_shell_call": "action"}
CODEX_OWN_WORDS = ("<", "# AGENTS.md instructions", "Another language model started to solve this problem")
"""How a user's item begins that the program wrote itself: contexts in tags, instructions of a folder, the summary of
a compacted history."""
CODEX_RESULTS = ("function_call_output", "custom_tool_call_output")


def gather_session(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the one row of a file: all its lines."""
    if lines := list(rows):
        yield "session", {"lines": lines}


def knows_claude(row: Mapping[str, Any]) -> bool:
    return isinstance(row.get("type"), str) and any(one in row for one in CLAUDE_MARKS)


def read_claude(row: Mapping[str, Any], draft: TrajectoryDraft) -> Trajectory:
    """Read a session of Claude Code.

    A message of the model spans several lines with one ID, which make one turn. Lines of subagents in the same file are
    counted, because their calls are not those of this agent.
    """
    return _Claude(draft).read(row["lines"])


class _AgentSession(ABC):
    """A session so far."""

    AGENT: ClassVar[str]

    def __init__(self, draft: TrajectoryDraft) -> None:
        self._draft = draft
        self.session = self._model = self._version = ""
        self.typed = ""
        """What a person typed first."""

    @abstractmethod
    def add(self, line: Mapping[str, Any]) -> None: ...

    def flush(self) -> None:
        """Add what still waits when the lines have ended."""
        return  # nothing waits, unless a kind of session says so

    def read(self, lines: Iterable[Mapping[str, Any]]) -> Trajectory:
        draft = self._draft
        for line in lines:
            self.add(line)
        self.flush()
        settle(draft)
        answer = draft.last_answer()
        draft.lose("task that a person typed (the first message is taken)", int(not self.typed))
        named = {"name": self.AGENT, "version": self._version, "model": self._model}
        return draft.trajectory(
            episode=draft.line(self.session, "session id"),
            environment=self.AGENT,
            task=draft.task(self.typed or draft.first_user_text()),
            policy={name: value for name, value in named.items() if value},
            stop_reason=None if answer is None else "done",
            final_answer=answer,
        )


class _Claude(_AgentSession):
    """A session of Claude Code so far."""

    AGENT = "claude-code"

    def __init__(self, draft: TrajectoryDraft) -> None:
        super().__init__(draft)
        self._message = ""
        """The ID of the model's message that the last line was a part of."""
        self._used: dict[str, Any] | None = None
        """The first step of that message, which has what all of it used."""

    def add(self, line: Mapping[str, Any]) -> None:
        draft, kind = self._draft, line.get("type")
        self.session = self.session or _string(line.get("sessionId"))
        self._version = self._version or _string(line.get("version"))
        message = line.get("message")
        if line.get("isSidechain") is True and not line.get("agentId"):
            draft.lose("lines of subagents in the same file")
        elif kind == "user" and isinstance(message, Mapping):
            self._user(line, message)
            draft.lose_fields(line, CLAUDE_FIELDS, "lines")
        elif kind == "assistant" and isinstance(message, Mapping):
            self._assistant(line, message)
            draft.lose_fields(line, CLAUDE_FIELDS, "lines")
        elif kind == "system" and (content := _string(line.get("content"))):
            draft.add("note", content=content, at=draft.moment(line.get("timestamp")))
        else:
            draft.lose(f"lines of type {_string(kind)[:40] or 'unknown'}")

    def _user(self, line: Mapping[str, Any], message: Mapping[str, Any]) -> None:
        draft, at = self._draft, self._draft.moment(line.get("timestamp"))
        content = message.get("content")
        parts = content if isinstance(content, list) else [content]
        results: list[Mapping[str, Any]] = []
        rest: list[Any] = []
        for part in parts:
            if isinstance(part, Mapping) and part.get("type") == "tool_result":
                results.append(part)
            else:
                rest.append(part)
        for part in results:
            self._result(part, line.get("toolUseResult") if len(results) == 1 else None, at)
        draft.lose("results of tools as objects", int(len(results) > 1 and bool(line.get("toolUseResult"))))
        words = content_of(rest if isinstance(content, list) else content, draft)
        if words or not results:
            # results alone end no message: calls of one message can run before it is complete
            self._message = ""
            own = {name: True for mark, name in CLAUDE_OWN_WORDS.items() if line.get(mark) is True}
            draft.add("message", role="user", **words.fields, at=at, meta=own or None)
            if not own and not words.text.startswith("<"):
                self.typed = self.typed or words.text

    def _result(self, part: Mapping[str, Any], beside: Any, at: str | None) -> None:
        draft = self._draft
        content = content_of(part.get("content"), draft)
        step = draft.unanswered.take(_string(part.get("tool_use_id")), "", draft.turn)
        if step is None:
            draft.add("message", role="tool", **content.fields, at=at)
            draft.lose("results without a call (kept as messages)")
            return
        if part.get("is_error") is True:
            fail(draft, step, content)
        else:
            step["result"] = content.result
        if at:
            step["at"] = at
        # beside a picture it has the picture once more
        if isinstance(beside, Mapping) and not content.pictures:
            # more than the model read: both ends of an edit, the two streams of a command
            step.setdefault("meta", {})["tool_use_result"] = dict(beside)

    def _assistant(self, line: Mapping[str, Any], message: Mapping[str, Any]) -> None:
        draft, at = self._draft, self._draft.moment(line.get("timestamp"))
        name = _string(message.get("id"))
        if not name or name != self._message:
            draft.turn += 1
            self._used = None
        self._message = name
        model = _string(message.get("model"))
        if model and model != "<synthetic>":
            self._model = self._model or model
        content = message.get("content")
        text, thought = read_reasoning(message)
        first = len(draft.steps)
        usage = message.get("usage")
        # what a turn used is on its message, which can be empty
        if text or thought or (self._used is None and isinstance(usage, Mapping)):
            draft.add("message", role="assistant", content=text, reasoning=thought, turn=draft.turn, at=at)
        for part in content if isinstance(content, list) else []:
            kind = part.get("type") if isinstance(part, Mapping) else None
            if kind == "tool_use":
                add_call(
                    draft, {"id": part.get("id"), "function_name": part.get("name"), "arguments": part.get("input")}
                )
                if at:
                    draft.steps[-1]["at"] = at
            elif kind not in ("text", *PART_TYPES):
                draft.lose(f"parts of messages of type {_string(kind)[:40] or 'unknown'}")
        if self._used is None and len(draft.steps) > first:
            self._used = draft.steps[first]
        # each line of a message repeats what was used so far, so the last one counts
        if isinstance(usage, Mapping) and self._used is not None:
            self._used["usage"] = _usage(usage, "cache_read_input_tokens", "cache_creation_input_tokens")
        draft.lose_fields(message, MESSAGE_FIELDS, "messages")


def _usage(usage: Mapping[str, Any], *more: str) -> dict[str, Any]:
    """Return tokens by the names that the record's usage has; parts of the input are counted in it."""
    counts = [usage.get(name) for name in ("input_tokens", *more)]
    counted = [one for one in counts if isinstance(one, int)]
    return {"prompt_tokens": sum(counted), "completion_tokens": usage.get("output_tokens"), "reported": dict(usage)}


def knows_codex(row: Mapping[str, Any]) -> bool:
    is_wrapped = _string(row.get("type")) in CODEX_TYPES and isinstance(row.get("payload"), Mapping)
    # until September 2025 the first line was the session's own, and items had no wrapper
    return is_wrapped or ("instructions" in row and "id" in row and "timestamp" in row and "type" not in row)


def read_codex(row: Mapping[str, Any], draft: TrajectoryDraft) -> Trajectory:
    """Read a session of Codex. Its items are steps, and its events repeat them but for a few, which are notes."""
    return _Codex(draft).read(row["lines"])


class _Codex(_AgentSession):
    """A session of Codex so far. What was thought waits for the message or the call that it came before."""

    AGENT = "codex"

    def __init__(self, draft: TrajectoryDraft) -> None:
        super().__init__(draft)
        self._thoughts: list[dict[str, Any]] = []
        self._at: str | None = None
        self._is_answering = False
        self._is_told = False
        """Whether an event has said what a person typed, without what the program put around it."""

    def add(self, line: Mapping[str, Any]) -> None:
        draft, kind = self._draft, line.get("type")
        payload = line.get("payload")
        self._at = draft.moment(line.get("timestamp")) or self._at
        if not isinstance(payload, Mapping):
            if kind is None and "id" in line:
                self._head(line)
            else:
                self._item(line)
        elif kind == "session_meta":
            self._head(payload)
        elif kind == "turn_context":
            self._model = self._model or _string(payload.get("model"))
        elif kind == "response_item":
            self._item(payload)
        elif kind == "event_msg":
            self._event(payload)
        elif kind == "compacted":
            draft.add("note", content=f"The history was compacted: {_string(payload.get('message'))}", at=self._at)
            draft.lose_fields(payload, {"message"}, "compacted histories")
        else:
            draft.lose(f"lines of type {_string(kind)[:40] or 'unknown'}")

    def _head(self, about: Mapping[str, Any]) -> None:
        self.session = self.session or _string(about.get("id"))
        self._version = self._version or _string(about.get("cli_version"))
        if instructions := about.get("instructions") or about.get("base_instructions"):
            text = instructions.get("text") if isinstance(instructions, Mapping) else instructions
            self._draft.add("message", role="system", content=as_text(text), at=self._at)

    def _event(self, payload: Mapping[str, Any]) -> None:
        kind = _string(payload.get("type"))
        if kind == "user_message":
            if not self._is_told and (words := _string(payload.get("message"))):
                self.typed, self._is_told = words, True
        elif kind not in REPEATING:
            words = json.dumps({name: one for name, one in payload.items() if name != "type"})
            self._draft.add("note", content=f"{kind}: {words[:4000]}", at=self._at)
            self._draft.lose(f"events {kind[:40]} (kept as notes)")

    def _item(self, item: Mapping[str, Any]) -> None:
        draft, kind = self._draft, _string(item.get("type"))
        if kind == "reasoning":
            self._begin_turn()
            self._thoughts.append(dict(item))
        elif kind == "message":
            self._message(item)
        elif kind in CODEX_CALLS:
            self._call(kind, item)
        elif kind in CODEX_RESULTS:
            self._result(item)
        elif kind == "web_search_call":
            self._begin_turn()
            self._say("")
            step = draft.add("tool_call", name="web_search", turn=draft.turn, at=self._at)
            step["arguments"] = arguments_of(item.get("action"), draft)
        else:
            draft.lose(f"items of type {kind[:40] or 'unknown'}")

    def _message(self, item: Mapping[str, Any]) -> None:
        draft, role = self._draft, item.get("role")
        content = content_of(item.get("content"), draft)
        if role == "assistant":
            self._begin_turn()
            self._say(content.text)
            draft.lose("pictures of the model", len(content.pictures))
            return
        self.flush()
        self._is_answering = False
        draft.add("message", role="user" if role == "user" else "system", **content.fields, at=self._at)
        # a file without events has no other word of a person
        if role == "user" and not content.text.startswith(CODEX_OWN_WORDS):
            self.typed = self.typed or content.text

    def _call(self, kind: str, item: Mapping[str, Any]) -> None:
        draft = self._draft
        self._begin_turn()
        self._say("")
        arguments = item.get(CODEX_CALLS[kind])
        if kind == "custom_tool_call" and isinstance(arguments, str):
            arguments = {"input": arguments}
        name = item.get("name") or kind.removesuffix("_call")
        add_call(draft, {"id": item.get("call_id") or item.get("id"), "function_name": name, "arguments": arguments})
        if self._at:
            draft.steps[-1]["at"] = self._at

    def _result(self, item: Mapping[str, Any]) -> None:
        draft, output = self._draft, item.get("output")
        self._is_answering = False
        step = draft.unanswered.take(_string(item.get("call_id")), "", draft.turn)
        content = _output(output, draft)
        if step is None:
            draft.add("message", role="tool", **content.fields, at=self._at)
            draft.lose("results without a call (kept as messages)")
            return
        if isinstance(output, Mapping) and output.get("success") is False:
            fail(draft, step, content)
        else:
            step["result"] = content.result
        if self._at:
            step["at"] = self._at

    def _begin_turn(self) -> None:
        """Begin a turn, unless the model has been answering since the last one."""
        if not self._is_answering:
            self._draft.turn += 1
            self._is_answering = True

    def _say(self, text: str) -> None:
        """Add what was said, with what was thought before; nothing if both are empty."""
        thoughts, self._thoughts = self._thoughts, []
        words = "\n\n".join(said for one in thoughts if (said := _thought(one)))
        if not text and not words:
            self._draft.lose("reasoning that is encrypted", len(thoughts))
            return
        thought = {"text": words, "form": "field"} if words else None
        self._draft.add(
            "message", role="assistant", content=text, reasoning=thought, turn=self._draft.turn, at=self._at
        )

    def flush(self) -> None:
        """Add what was thought and never followed by a message or a call."""
        if self._thoughts:
            self._say("")


def _thought(item: Mapping[str, Any]) -> str:
    """Return the words of a reasoning item: the whole of it if it is there, else its summary."""
    for name in ("content", "summary"):
        parts = item.get(name)
        texts = (
            [_string(one.get("text")) for one in parts if isinstance(one, Mapping)] if isinstance(parts, list) else []
        )
        if any(texts):
            return "\n\n".join(texts)
    return ""


def _output(output: Any, draft: TrajectoryDraft) -> Content:
    if isinstance(output, Mapping):
        output = output.get("content", output.get("output"))
    if isinstance(output, str) or output is None:
        return Content(output or "")
    try:
        return content_of(output, draft)
    except UnreadableRow:
        return Content(as_text(output))


def _string(raw: Any) -> str:
    return raw if isinstance(raw, str) else ""
