"""Recorded steps as the messages that the agent reads: the only place that turns a record into a conversation.

Pure. The live loop (`chat.py`), every export, importers and resumed episodes build messages here, so that training data
is byte for byte what was read. A conversation follows from steps alone, as the loop has them or as the dashboard stored
them.

Messages are OpenAI chat messages with one difference: the arguments of a call are an object. `for_openai` makes the
JSON text of them that the protocol requires.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from awmclient.errors import MalformedCall
from awmclient.nouns.asks import Advice
from awmclient.nouns.fields import CAME, has_come, is_copied
from awmclient.nouns.kinds import is_approval, is_ask, is_briefing
from awmclient.nouns.pictures import picture_words, taken_out
from awmclient.nouns.tools import ASK_SPEC, ToolSpec
from awmclient.nouns.values import ASK_TOOL
from awmclient.words.endings import is_stopped
from awmclient.words.textcalls import CALL_MARK, text_calls, words_beside
from awmclient.words.thinking import ReasoningField, ReasoningMode, first_sent, reasoning_of, with_reasoning

Part = Literal["prompt", "assistant", "result", "advice", "briefing", "nudge"]
# Without escapes, as models read and write other scripts.
_WRITER = json.JSONEncoder(ensure_ascii=False)
BRIEFED = "Before you begin, an expert advises on this task:"
"""The line above a briefing's text. Models read it and training data contains it."""
EDITED = "A person changed the arguments before this call was made. It ran with:"
"""The line above the result of an edited call. Models read it and training data contains it."""
HIDDEN = frozenset({"reward", "reward_type", "state_diff", "done", "usage", "meta", "calls", "acted_by"})
"""Fields of a step that no agent sees."""
ABOUT_BRIEFING = frozenset({"source", "author", "privilege", "sources"})
"""Fields of a briefing that no agent sees: the source of its text."""


@dataclass(slots=True)
class PromptMessage:
    """One message and the steps that it is made of.

    `part` is the kind of its content: `prompt` (system and task), `assistant`, `result` of a call, `advice` (of an ask,
    or its absence), `briefing` (advice from before the start), `nudge` (the loop's reminder). `seqs` are the numbers of
    the steps, 0 without one. `calls` are the steps of an assistant message's tool calls, in their order. `refused` is
    true if the assistant's message is no answer: the loop could not parse it, its server stopped it, or it is blank.
    `reasoning` is what the assistant thought before this message (`schema.Reasoning`); `message` is without it.
    `copied` is true if it came from an earlier episode, as history. `pictures` are the parts of its pictures, in whose
    place the message has words.
    """

    message: dict[str, Any]
    part: Part
    seqs: list[int] = field(default_factory=list)
    calls: list[Mapping[str, Any]] = field(default_factory=list)
    refused: bool = False
    turn: int | None = None
    reasoning: Mapping[str, Any] | None = None
    copied: bool = False
    pictures: Sequence[Mapping[str, Any]] = ()


def conversation(steps: Iterable[Mapping[str, Any]]) -> list[PromptMessage]:
    """Return the messages of these steps: the calls of one turn in one assistant message, each followed by its result.
    A call without a result has no message of one: the agent read none. The result null is read as `null`.

    Takes steps as the loop has them or as they are stored; the author of an advice and its privilege are left out
    either way. Notes and verifications are left out. A call without an ID of its own is `call_N`, N counting the calls
    from 1. An ID that an earlier call has gets a number, because providers refuse a conversation with one ID twice.
    """
    turns = _Telling()
    for step in steps:
        turns.add(as_seen(step), step)
    for message in turns.said:
        is_blank = message.part == "assistant" and not message.calls and not message.message["content"].strip()
        message.refused = message.refused or is_blank
    return turns.said


def messages(
    steps: Iterable[Mapping[str, Any]], reasoning: ReasoningMode = "none", reasoning_field: ReasoningField = ""
) -> list[dict[str, Any]]:
    """Return the messages alone, ready for an OpenAI endpoint, with as much reasoning as the endpoint wants back.

    >>> messages([{"kind": "message", "role": "user", "content": "Close ticket 7"}])
    [{'role': 'user', 'content': 'Close ticket 7'}]
    """
    return [for_openai(message) for message in as_sent(conversation(steps), reasoning, reasoning_field)]


def as_sent(
    turns: Sequence[PromptMessage], reasoning: ReasoningMode, reasoning_field: ReasoningField = ""
) -> list[dict[str, Any]]:
    """Return the messages as an endpoint with these settings got them."""
    since = first_sent([one.message for one in turns], reasoning)
    return [
        with_reasoning(turn.message, readable(turn.reasoning), reasoning_field)
        if turn.reasoning is not None and place >= since
        else turn.message
        for place, turn in enumerate(turns)
    ]


def for_openai(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message with the arguments of its calls as JSON text."""
    if "tool_calls" not in message:
        return dict(message)
    calls = [
        {**call, "function": {**call["function"], "arguments": as_text(call["function"]["arguments"])}}
        for call in message["tool_calls"]
    ]
    return {**message, "tool_calls": calls}


def offered(tools: Sequence[ToolSpec], *, expert: bool) -> list[dict[str, Any]]:
    """Return the tools as the agent gets them; with an expert, `ask_expert` is the last."""
    return [_offer(tool) for tool in (*tools, *([ASK_SPEC] if expert else []))]


def _offer(tool: ToolSpec) -> dict[str, Any]:
    schema = tool.input_schema or {"type": "object", "properties": {}}
    function = {"name": tool.name, "description": tool.description, "parameters": schema}
    return {"type": "function", "function": readable(function)}


def as_seen(step: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the agent sees of a step: no rewards, of an ask only its observation, of a briefing its text."""
    seen = {name: value for name, value in step.items() if name not in HIDDEN}
    if is_ask(seen):
        seen["advice"] = _observation(seen.get("advice"))
    elif is_briefing(seen):
        return {name: value for name, value in seen.items() if name not in ABOUT_BRIEFING}
    return seen


def _observation(advice: Any) -> Any:
    """Return what the agent sees of an advice, stored or already seen; an ask that closed without one was cancelled."""
    if not isinstance(advice, Mapping):
        return {"status": "no_advice", "reason": "cancelled"}
    return Advice.read(advice).observation() if "source" in advice else advice


def as_text(value: Any) -> str:
    """Return a result as the agent reads it: texts unchanged, everything else as JSON."""
    return value if isinstance(value, str) else _WRITER.encode(value)


def readable(value: Any) -> Any:
    """Return the value with lone surrogates and U+0000 as question marks.

    Models cannot get either: the first is not UTF-8, the second ends a text for many readers.
    """
    if isinstance(value, str):
        # Most texts are ASCII, and need no copy.
        if value.isascii() and "\x00" not in value:
            return value
        return value.encode("utf-8", "replace").decode().replace("\x00", "?")
    if isinstance(value, Mapping):
        return {readable(name): readable(inner) for name, inner in value.items()}
    return [readable(inner) for inner in value] if isinstance(value, list | tuple) else value


OWN_ID = "call{:05d}"
"""The ID of a call whose policy gave it none: nine letters and digits, as templates of Mistral demand."""


class _Telling:
    """The conversation so far."""

    def __init__(self) -> None:
        self.said: list[PromptMessage] = []
        self._asked: PromptMessage | None = None
        """The last assistant message, while only results of its calls follow."""
        self._calls = 0
        self._ids: dict[str, int] = {}

    def add(self, step: Mapping[str, Any], raw_step: Mapping[str, Any]) -> None:
        kind, seq, turn = step.get("kind"), step.get("seq") or 0, step.get("turn")
        if kind == "message":
            part: Part = "assistant" if step["role"] == "assistant" else "prompt"
            in_words = part == "assistant" and is_called_in_words(raw_step)
            content = words_beside(step["content"]) if in_words else step["content"]
            message = self._say(step["role"], _with_pictures(content, step), part, seq, turn)
            message.reasoning = reasoning_of(raw_step) if part == "assistant" else None
            message.copied, message.pictures = is_copied(raw_step), step.get("pictures") or ()
            message.refused = part == "assistant" and is_stopped(raw_step.get("finish_reason"))
        elif is_approval(raw_step):
            return  # of the loop's gate: the agent made the calls, not the question
        elif kind in ("tool_call", "ask"):
            self._call(step, raw_step, seq, turn)
        elif kind == "action":
            self._say("assistant", as_text(step["action"]), "assistant", seq, turn).calls.append(raw_step)
            if has_come(step):
                text, pictures = _outcome(step)
                self._say("user", text, "result", seq, turn).pictures = pictures
        elif kind == "briefing":
            self._say("user", f"{BRIEFED}\n\n{step['text']}", "briefing", seq, turn)
        elif kind == "nudge":
            before = self.said[-1] if self.said else None
            if before is not None and before.part == "assistant" and before.turn == turn:
                before.refused = True
            self._say("user", step["content"], "nudge", seq, turn)

    def _say(self, role: str, content: str, part: Part, seq: int, turn: Any) -> PromptMessage:
        message = PromptMessage({"role": role, "content": readable(content)}, part, [seq], turn=turn)
        self.said.append(message)
        if part not in ("result", "advice"):
            self._asked = message if part == "assistant" else None
        return message

    def _call(self, step: Mapping[str, Any], raw_step: Mapping[str, Any], seq: int, turn: Any) -> None:
        part: Part = "advice"
        content: str | None
        pictures: Sequence[Mapping[str, Any]] = ()
        self._calls += 1
        call_id = self._unused(readable(str(step.get("call_id") or OWN_ID.format(self._calls))))
        if is_ask(step):
            name, arguments, content = ASK_TOOL, _question(step), as_text(step["advice"])
        else:
            name, arguments = str(step["name"]), step.get("arguments") or {}
            part = part if name == ASK_TOOL else "result"
            content, pictures = _outcome(step) if has_come(step) else (None, ())
            if (wrote := (raw_step.get("approval") or {}).get("proposed")) is not None:
                # what the agent wrote, and above the result what ran instead
                ran = f"{EDITED} {as_text(readable(arguments))}"
                content, arguments = ran if content is None else f"{ran}\n\n{content}", wrote
        speaker = self._speaker(turn)
        function = {"name": readable(name), "arguments": readable(arguments)}
        speaker.message.setdefault("tool_calls", []).append({"id": call_id, "type": "function", "function": function})
        speaker.calls.append(raw_step)
        speaker.copied = speaker.copied or is_copied(raw_step)
        speaker.seqs.append(seq)
        if content is not None:
            result = self._say("tool", content, part, seq, turn)
            result.message["tool_call_id"], result.pictures = call_id, pictures

    def _unused(self, call_id: str) -> str:
        """Return the ID, or with a number if a call has it. Depends on earlier steps only: what was read stays."""
        unused = call_id
        while unused in self._ids:
            # The count of an ID goes on: many equal ones take no quadratic time.
            self._ids[call_id] += 1
            unused = f"{call_id}_{self._ids[call_id]}"
        self._ids[unused] = 1
        return unused

    def _speaker(self, turn: Any) -> PromptMessage:
        """Return the assistant message of this turn, or a new one if the turn has none yet."""
        # results of the turn can come in between; any other message ends it
        if self._asked is not None and turn is not None and self._asked.turn == turn:
            return self._asked
        fresh = self._asked = PromptMessage({"role": "assistant", "content": ""}, "assistant", turn=turn)
        self.said.append(fresh)
        return fresh


def is_called_in_words(step: Mapping[str, Any]) -> bool:
    """Return whether the calls of a message are in its content, too: its message in the conversation has them once."""
    protocol, calls = step.get("tool_protocol"), step.get("calls")
    if protocol is not None or not calls or CALL_MARK not in step["content"]:
        return protocol == "text"
    try:
        in_content = text_calls(step["content"])
    except MalformedCall:
        return False
    # a record from before there was a protocol
    return [(call.name, call.arguments) for call in in_content] == [(call["name"], call["arguments"]) for call in calls]


def _question(step: Mapping[str, Any]) -> dict[str, Any]:
    asked = {key: step[key] for key in ("question", "context") if step.get(key) is not None}
    return {**asked, "question": _with_pictures(asked["question"], step)} if "question" in asked else asked


def _with_pictures(words: str, step: Mapping[str, Any]) -> str:
    """Return the words of a message or question with a line for each of its pictures, of which a text has only that."""
    shown = [picture_words(part) for part in step.get("pictures") or ()]
    return "\n".join([words, *shown] if words else shown) if shown else words


def _outcome(step: Mapping[str, Any]) -> tuple[str, Sequence[Mapping[str, Any]]]:
    """Return what the agent read of a call or an action, with words in the place of pictures, and these."""
    error = step.get("error")
    if error is not None:
        return f"Error: {error}", ()
    came, pictures = step[CAME[step["kind"]]], list[dict[str, Any]]()
    text = as_text(came)
    if '"blob"' not in text:  # most results: they are not looked through
        return text, ()
    worded = taken_out(came, pictures)
    return as_text(worded) if pictures else text, pictures
