"""The conversation of an episode as training lines: which messages are in a row, and which of them carry loss.

Pure. Owns the advice modes. A line carries loss if the agent wrote it and the loop could read it; prompts, results,
advice, briefings and nudges never do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from awmclient.conversation import PromptMessage, as_text, offered
from awmclient.prompts import ASK
from awmclient.schema import ASK_TOOL
from exports.recipe import AdviceMode
from exports.record import Record

_NAMES_EXPERT = re.compile(rf"\bexperts?\b|{ASK_TOOL}", re.IGNORECASE)
_HARD_TOKEN = re.compile(r"[\w@./:+-]*\d[\w@./:+-]*|\w+(?:[_@]\w+)+")
_PROSE_WORDS = 5


@dataclass(slots=True)
class TrainingLine:
    """One message of a row, whether the agent is trained on it, and its origin. Treat it as immutable; a frozen class
    would double the cost of making one."""

    message: dict[str, Any]
    loss: int
    said: PromptMessage


@dataclass(frozen=True, slots=True)
class Shaped:
    """The lines of one episode with the tools that it was offered, or the reason why there are none."""

    lines: tuple[TrainingLine, ...] = ()
    tools: tuple[dict[str, Any], ...] = ()
    reason: str = ""

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [line.message for line in self.lines]


def shape(record: Record, mode: AdviceMode, *, keep_ungrounded: bool = False, reports: bool = False) -> Shaped:
    """Return the lines of an episode under an advice mode.

    keep: everything as it was read. keep_masked: the same, but turns that ask carry no loss. drop: only episodes
    without a question or a briefing, as if no expert had been offered. distil: briefings, questions and answers are
    removed, so that the corrected action is learned without advice; only if no trained text depends on the advice. With
    `reports`, an episode without a turn of the agent has its prompt.

    """
    said = record.said
    if not reports and not any(one.part == "assistant" for one in said):
        return Shaped(reason="no_conversation")
    if mode in ("keep", "keep_masked"):
        masked = mode == "keep_masked"
        lines = [TrainingLine(one.message, _loss(one, masked=masked), one) for one in said]
        return Shaped(tuple(lines), tuple(offered(record.specs, expert=record.expert != "off")))
    asked, briefed = any(_asks(one) for one in said), any(one.part == "briefing" for one in said)
    if mode == "drop" and (asked or briefed):
        return Shaped(reason="asked" if asked else "briefed")
    lines = _without_expert(said)
    trained = [line for line in lines if line.loss]
    if any(
        _NAMES_EXPERT.search(line.message["content"]) for line in lines if line.said.part in ("prompt", "assistant")
    ):
        return Shaped(reason="mentions_expert")
    if (asked or briefed) and not keep_ungrounded and not _is_grounded(record, lines):
        return Shaped(reason="ungrounded")
    return (
        Shaped(tuple(lines), tuple(offered(record.specs, expert=False))) if trained else Shaped(reason="no_turn_left")
    )


def _loss(said: PromptMessage, *, masked: bool = False) -> int:
    return int(said.part == "assistant" and not said.refused and not (masked and _asks(said)))


def _asks(said: PromptMessage) -> bool:
    return any(_is_ask(call) for call in said.calls)


def _is_ask(step: Mapping[str, Any]) -> bool:
    return step.get("kind") == "ask" or step.get("name") == ASK_TOOL


def _without_expert(said: Sequence[PromptMessage]) -> list[TrainingLine]:
    """Return the lines without briefings, questions, answers, nudges to ask and the prompt's text about the expert.

    Failed calls before an answer carry no loss, because the advice corrected them.

    """
    answered = [place for place, one in enumerate(said) if one.part == "advice" and '"no_advice"' not in _head(one)]
    last = answered[-1] if answered else -1
    lines = []
    for place, one in enumerate(said):
        if one.part in ("advice", "briefing") or (one.part == "nudge" and ASK_TOOL in one.message["content"]):
            continue
        message = one.message
        if one.part == "prompt" and ASK in message["content"]:
            message = {**message, "content": message["content"].replace(ASK, "").strip()}
        if _asks(one):
            kept = _other_calls(message)
            if kept is None:
                continue
            message = kept
        failed = place < last and _fails(one)
        lines.append(TrainingLine(message, 0 if failed else _loss(one), one))
    return lines


def _head(said: PromptMessage) -> str:
    return str(said.message["content"])[:200]


def _other_calls(message: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the message with only its environment calls; None if it only asked."""
    calls = [call for call in message["tool_calls"] if call["function"]["name"] != ASK_TOOL]
    return {**message, "tool_calls": calls} if calls else None


def _fails(one: PromptMessage) -> bool:
    """Return whether a call of this turn returned an error."""
    return any(call.get("error") is not None for call in one.calls)


def _is_grounded(record: Record, lines: Sequence[TrainingLine]) -> bool:
    """Return whether the agent could know every argument of the trained calls without the advice: from the task, the
    tool's schema, or earlier results.

    All results are one text, of which each line knows the part before it: separate texts would grow with the square of
    a long episode.

    """
    schemas = {spec.name: as_text(spec.input_schema).casefold() for spec in record.specs}
    parts = [record.task.casefold()]
    known, asked = len(parts[0]), []
    for line in lines:
        asked += [(call["function"], known) for call in line.message.get("tool_calls", ()) if line.loss]
        if line.said.part != "assistant":
            parts.append(line.message["content"].casefold())
            known += 1 + len(parts[-1])
    heard = "\n".join(parts)
    return all(
        _is_known(value, _Corpus(heard, end, schemas.get(function["name"], "")))
        for function, end in asked
        for value in _leaves(function["arguments"])
    )


@dataclass(frozen=True, slots=True)
class _Corpus:
    """Everything an agent could know when it made a call, in lower case: the part of `heard` before `end`, and the
    tool's schema."""

    heard: str
    end: int
    schema: str

    def holds(self, text: str) -> bool:
        return self.heard.find(text, 0, self.end) >= 0 or text in self.schema

    def names(self, token: str) -> bool:
        """Return whether a token is in the corpus as a whole, not inside a longer number or name."""
        return _contains_token(token, self.heard, self.end) or _contains_token(token, self.schema, len(self.schema))


def _leaves(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield value


def _is_known(value: Any, corpus: _Corpus) -> bool:
    """Return whether a number or name is in the corpus; for prose, whether each number and identifier in it is."""
    if value is None or isinstance(value, bool):
        return True
    if not isinstance(value, str):
        return corpus.names(json.dumps(value))
    text = value.strip().casefold()
    if not text or corpus.holds(text):
        return True
    if len(text.split()) < _PROSE_WORDS:
        return False
    return all(corpus.names(token.strip(".,:;-+/").casefold()) for token in _HARD_TOKEN.findall(text))


def _contains_token(token: str, text: str, end: int) -> bool:
    alone = re.compile(rf"(?<![\w.]){re.escape(token)}(?!\w|\.\d)")
    at = text.find(token, 0, end)  # str.find first: searching with the look-behind pattern is 100 times slower
    while at >= 0 and not alone.match(text, at, end):
        at = text.find(token, at + 1, end)
    return at >= 0
