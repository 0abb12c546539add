"""The conversation of an episode as training lines: which messages are in a row, and which of them carry loss.

Pure. Owns the advice modes. A line carries loss if the agent wrote it and the loop could read it; prompts, results,
advice, briefings and nudges never do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import re2

from awmclient.nouns.kinds import is_ask
from awmclient.schema import ASK_TOOL
from awmclient.words.conversation import BRIEFED, PromptMessage, as_text, offered, readable
from awmclient.words.prompts import ASK
from awmclient.words.thinking import with_reasoning
from exports.recipe import AdviceMode, ReasoningChoice
from exports.record import Record
from exports.rules import wording
from exports.rules.reactions import without_reaction

_NAMES_EXPERT = re.compile(rf"\bexperts?\b|{ASK_TOOL}", re.IGNORECASE)
_RUN, _NAME = re.compile(r"[\w@./:+-]+"), re.compile(r"[\w@]+")
# fewer words are a name or an ID, which has to be known whole
_PROSE_WORDS = 5
WORK_MAX, COST, TOKEN_MAX = 50_000_000, 20_000, 200
"""Bytes that are searched for the values of one episode, what a search costs beside them, and the longest token."""


@dataclass(slots=True)
class TrainingLine:
    """One message of a row, whether the agent is trained on it, and its origin. Treat it as immutable; a frozen class
    would double the cost of making one."""

    message: dict[str, Any]
    loss: int
    said: PromptMessage
    reasoning_loss: int = 0
    """Whether the agent is trained on its reasoning, too."""

    @property
    def acted_by(self) -> str:
        """The opaque ID of the person who acted here in place of the agent; "" for the agent itself."""
        return next((str(call["acted_by"]) for call in self.said.calls if call.get("acted_by")), "")


REASONING = "reasoning_content"
"""The field of a message with its reasoning, as templates of trainers read it."""


@dataclass(frozen=True, slots=True)
class Shaped:
    """The lines of one episode with the tools that it was offered, or the reason why there are none."""

    lines: tuple[TrainingLine, ...] = ()
    tools: tuple[dict[str, Any], ...] = ()
    reason: str = ""

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [line.message for line in self.lines]


def shape(
    record: Record,
    mode: AdviceMode,
    *,
    keep_ungrounded: bool = False,
    reports: bool = False,
    reasoning: ReasoningChoice = "drop",
) -> Shaped:
    """Return the lines of an episode under an advice mode, with the reasoning of its turns if it is kept.

    keep: everything as it was read. keep_masked: the same, but turns that ask carry no loss. drop: only episodes
    without a question or a briefing, as if no expert had been offered. distil: briefings, questions and answers are
    removed, so that the corrected action is learned without advice; only if no trained text depends on the advice.
    What the agent says about advice goes with it (`reactions.py`).
    What a model thought after an answer is full of it, so this mode keeps no reasoning. With `reports`, an episode
    without a turn of the agent has its prompt.

    """
    turns = record.said
    if not reports and not any(one.part == "assistant" for one in turns):
        return Shaped(reason="no_conversation")
    if mode in ("keep", "keep_masked"):
        masked = mode == "keep_masked"
        lines = [TrainingLine(one.message, _loss(one, masked=masked), one) for one in turns]
        if not reports and all(one.copied for one in turns if one.part == "assistant"):
            return Shaped(reason="no_turn_left")
        return Shaped(_with_reasoning(lines, reasoning), tuple(offered(record.specs, expert=record.expert != "off")))
    asked, briefed = any(_asks(one) for one in turns), any(one.part == "briefing" for one in turns)
    if any(_is_overruled(one) for one in turns):
        return Shaped(reason="asked")  # what a person changed is in the results, and later turns follow from it
    if mode == "drop" and (asked or briefed):
        return Shaped(reason="asked" if asked else "briefed")
    lines = list(_with_reasoning(_without_expert(turns), "drop" if mode == "distil" else reasoning))
    texts_read = [line.message for line in lines if line.said.part in ("prompt", "assistant")]
    if any(_NAMES_EXPERT.search(text) for one in texts_read for text in (one["content"], one.get(REASONING, ""))):
        return Shaped(reason="mentions_expert")
    is_checked = (asked or briefed) and not keep_ungrounded
    if is_checked and (_repeats_advice(record, lines) or not _is_grounded(record, lines)):
        return Shaped(reason="ungrounded")
    if asked or briefed:
        # after the checks: a text that repeats advice counts against its call, too
        lines = list(_without_reactions(turns, lines))
    if not any(line.loss for line in lines) and not reports:
        return Shaped(reason="no_turn_left")
    return Shaped(tuple(lines), tuple(offered(record.specs, expert=False)))


def after_branch(record: Record, shaped: Shaped) -> Shaped:
    """Return the lines of a branch without loss on what it has in common with its parent, and on the step with which it
    began: that one is a person's, or was recorded."""
    first = record.branch_seq
    if first is None or shaped.reason:
        return shaped
    lines = tuple(
        replace(line, loss=0, reasoning_loss=0) if min(line.said.seqs, default=0) <= first else line
        for line in shaped.lines
    )
    return replace(shaped, lines=lines) if any(line.loss for line in lines) else Shaped(reason="no_turn_left")


def _with_reasoning(lines: Iterable[TrainingLine], choice: ReasoningChoice) -> tuple[TrainingLine, ...]:
    if choice == "drop":
        return tuple(lines)
    return tuple(
        TrainingLine(
            with_reasoning(line.message, readable(line.said.reasoning), REASONING),
            line.loss,
            line.said,
            line.loss if choice == "keep" else 0,
        )
        if line.said.reasoning is not None
        else line
        for line in lines
    )


def _loss(turn: PromptMessage, *, masked: bool = False) -> int:
    unlearned = turn.refused or turn.copied or _is_overruled(turn) or (masked and _asks(turn))
    return int(turn.part == "assistant" and not unlearned)


def _asks(turn: PromptMessage) -> bool:
    return any(_is_ask(call) for call in turn.calls)


def _is_ask(step: Mapping[str, Any]) -> bool:
    return is_ask(step) or step.get("name") == ASK_TOOL


def _without_expert(turns: Sequence[PromptMessage]) -> list[TrainingLine]:
    """Return the lines without briefings, questions, answers, nudges to ask and the prompt's text about the expert.

    Failed calls before an answer carry no loss, because the advice corrected them.

    """
    # the status is at the start of an answer, which can be long
    answered = [place for place, one in enumerate(turns) if one.part == "advice" and '"no_advice"' not in _head(one)]
    last = answered[-1] if answered else -1
    lines = []
    for place, turn in enumerate(turns):
        if turn.part in ("advice", "briefing") or (turn.part == "nudge" and ASK_TOOL in turn.message["content"]):
            continue
        message = turn.message
        if turn.part == "prompt" and ASK in message["content"]:
            message = {**message, "content": message["content"].replace(ASK, "").strip()}
        if _asks(turn):
            kept = _other_calls(message)
            if kept is None:
                continue
            message = kept
        failed = place < last and _fails(turn)
        lines.append(TrainingLine(message, 0 if failed else _loss(turn), turn))
    return lines


def _without_reactions(turns: Sequence[PromptMessage], lines: Iterable[TrainingLine]) -> Iterator[TrainingLine]:
    """Yield the lines without what the agent says about advice that is cut. A message of which nothing is left goes."""
    start, about = _places_of_reactions(turns)
    talks = sum(one.part == "prompt" and one.message["role"] == "user" for one in turns) > 1
    places = {id(one): place for place, one in enumerate(turns)}
    for line in lines:
        turn, message = line.said, line.message
        place = places[id(turn)]
        # the text of an action is the action
        is_text = turn.part == "assistant" and not (turn.calls and "tool_calls" not in turn.message)
        if is_text and (place >= start or place in about) and message["content"]:
            acts = "tool_calls" in message
            text = without_reaction(message["content"], follows=place in about, acts=acts, talks=talks)
            if not text and not acts:
                continue
            line = replace(line, message={**message, "content": text})
        yield line


def _places_of_reactions(turns: Sequence[PromptMessage]) -> tuple[int, set[int]]:
    """Return where the first advice or briefing is, and the turns that ask with the first ones after each."""
    start, about, is_next = len(turns), set(), False
    for place, turn in enumerate(turns):
        if turn.part in ("advice", "briefing"):
            start = min(start, place)
        is_next = is_next or turn.part == "advice"
        if turn.part == "assistant" and (is_next or _asks(turn)):
            about.add(place)
            is_next = False
    return start, about


def _head(turn: PromptMessage) -> str:
    return str(turn.message["content"])[:200]


def _other_calls(message: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the message with only its environment calls; None if it only asked."""
    calls = [call for call in message["tool_calls"] if call["function"]["name"] != ASK_TOOL]
    return {**message, "tool_calls": calls} if calls else None


def _is_overruled(turn: PromptMessage) -> bool:
    """Return whether a person edited or rejected a call of this turn before it was made."""
    return any((call.get("approval") or {}).get("verdict") in ("edit", "reject") for call in turn.calls)


def _fails(turn: PromptMessage) -> bool:
    """Return whether a call of this turn returned an error."""
    return any(call.get("error") is not None for call in turn.calls)


def _repeats_advice(record: Record, lines: Sequence[TrainingLine]) -> bool:
    """Return whether anything learned (text, final answer, name or argument of a call) has a word that the agent knew
    from advice or a briefing alone: not from the task, the tools, a result, or from what it had said itself before.
    """
    # by identity, because equal messages occur at several places
    learned = {id(line.said): line.message for line in lines if line.loss}
    open_words = wording.words_of([record.task, record.tools])
    advised: set[str] = set()
    for turn in record.said:
        if turn.part in ("advice", "briefing"):
            advised |= wording.words_of(_advised(turn)) - open_words
            continue
        own = turn.part == "assistant"
        words = wording.words_of([turn.message["content"], *map(_call_texts, turn.message.get("tool_calls", ()))])
        if not own:
            advised -= words
        elif advised and (kept := learned.get(id(turn))) is not None and not advised.isdisjoint(_learned_words(kept)):
            return True
        open_words |= words - advised
    return False


def _learned_words(message: Mapping[str, Any]) -> set[str]:
    return wording.words_of([message["content"], *map(_call_texts, message.get("tool_calls", ()))])


def _call_texts(call: Mapping[str, Any]) -> list[Any]:
    return [call["function"]["name"], call["function"]["arguments"]]


def _advised(turn: PromptMessage) -> Any:
    """Return what an expert said in this message, without the words that every answer and briefing has."""
    content = str(turn.message["content"])
    if turn.part == "briefing":
        return content.removeprefix(BRIEFED)
    try:
        advice = json.loads(content)
    except (ValueError, RecursionError):
        return content
    if not isinstance(advice, Mapping):
        return advice
    if advice.get("status") == "no_advice":
        return ""
    calls = advice.get("tool_calls")
    named = [[one.get("name"), one.get("arguments")] for one in calls if isinstance(one, Mapping)] if calls else []
    rest = {name: one for name, one in advice.items() if name not in ("status", "advice", "tool_calls")}
    return [advice.get("advice"), *named, *rest.values()]


def _is_grounded(record: Record, lines: Sequence[TrainingLine]) -> bool:
    """Return whether the agent could know every argument of the trained calls without the advice: from the task, the
    tool's schema, or earlier results.

    All results are one text, of which each line knows the part before it: separate texts would grow with the square of
    a long episode. An episode with too many different values for its length is not checked to its end, and counts as
    not grounded.

    """
    schemas = {spec.name: _Heard([as_text(spec.input_schema)]) for spec in record.specs}
    heard, asked = _Heard([record.task]), []
    for line in lines:
        # the size so far marks what was known before the call
        asked += [(call["function"], heard.size) for call in line.message.get("tool_calls", ()) if line.loss]
        # the agent's own words prove nothing
        if line.said.part != "assistant":
            heard.add(line.message["content"])
    nothing, budget = _Heard([]), _Budget()
    for function, end in asked:
        schema = schemas.get(function["name"], nothing)
        for value in _leaves(function["arguments"]):
            if not _is_known(value, _Corpus(heard, end, schema, budget)) or budget.left < 0:
                return False
    return True


@dataclass(slots=True)
class _Budget:
    left: int = WORK_MAX


class _Heard:
    """A text that grows, in lower case, and where each text that was looked for ends in it for the first time."""

    def __init__(self, parts: Iterable[str]) -> None:
        self._parts: list[bytes] = []
        self._data: bytes | None = None
        self._ends: dict[tuple[str, bool], int] = {}
        self.size = 0
        for part in parts:
            self.add(part)

    def add(self, part: str) -> None:
        # the line break keeps a match from reaching into the next part
        self._parts.append(part.casefold().encode("utf-8", "surrogatepass") + b"\n")
        self.size += len(self._parts[-1])

    def end_of(self, text: str, budget: _Budget, *, alone: bool) -> int:
        """Return the end of the first occurrence, or a place that no text reaches. `alone`: as a whole token."""
        if self._data is None:
            # all parts are there before the first search
            self._data = b"".join(self._parts)
        if (text, alone) not in self._ends:
            budget.left -= len(self._data) + COST
            end = _alone(text, self._data) if alone else _plain(text, self._data)
            self._ends[text, alone] = self.size + 1 if end is None else end
        return self._ends[text, alone]


def _plain(text: str, data: bytes) -> int | None:
    needle = text.encode("utf-8", "surrogatepass")
    at = data.find(needle)
    return None if at < 0 else at + len(needle)


def _alone(token: str, data: bytes) -> int | None:
    """Return the end of a token that is not inside a longer number or name."""
    if len(token) > TOKEN_MAX:
        return _plain(token, data)
    pattern = re2.escape(token.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")
    # a dot ends a sentence, unless a digit follows
    match = re2.search(rf"(?:^|[^\pL\pN_.])({pattern})(?:[^\pL\pN_.]|\.\D)", data)
    return None if match is None else int(match.end(1))


@dataclass(frozen=True, slots=True)
class _Corpus:
    """Everything an agent could know when it made a call: the part of `heard` before `end`, and the tool's schema."""

    heard: _Heard
    end: int
    schema: _Heard
    budget: _Budget

    def holds(self, text: str, *, alone: bool = False) -> bool:
        if self.budget.left < 0:
            return False
        if self.heard.end_of(text, self.budget, alone=alone) <= self.end:
            return True
        return self.schema.end_of(text, self.budget, alone=alone) <= self.schema.size


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
    # an agent can guess these
    if value is None or isinstance(value, bool):
        return True
    if not isinstance(value, str):
        return corpus.holds(json.dumps(value).casefold(), alone=True)
    text = value.strip().casefold()
    if not text or corpus.holds(text):
        return True
    if len(text.split()) < _PROSE_WORDS:
        return False
    # without the punctuation of a sentence
    tokens = (token.strip(".,:;-+/") for token in _hard_tokens(text))
    return all(corpus.holds(token, alone=True) for token in tokens if token)


def _hard_tokens(text: str) -> Iterator[str]:
    """Yield what a reader cannot guess: runs with a digit, and names of several parts."""
    for run in _RUN.findall(text):
        if any(char.isdecimal() for char in run):
            yield run
            continue
        for name in _NAME.findall(run):
            if "@" in name.strip("@") or "_" in name[1:-1]:
                yield name
