"""The card of a step: a step dict in, the values of its card out. Pure, without Django.

Owns the wording of results and the cutting of long values. Leaves the lines of a state change to `state_lines.py`, the
cleaning of hostile text to `people.text.plain_text`, escaping and markup to the template `episodes/step/_step.html`,
which is used live, in replay and beside an ask. Called by `templatetags/marks.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from awmclient.nouns.ask_kinds import ask_kind
from awmclient.nouns.fields import CAME, has_come, is_copied
from awmclient.nouns.kinds import is_call
from awmclient.nouns.sources import SOURCES, source_of
from awmclient.schema import ASKS_BACK
from awmclient.words.arguments import UNKNOWN
from awmclient.words.endings import Ending, ending_of
from awmenv.offers import OF_ENVIRONMENT
from episodes.show.decisions import Approval, Decided, approval_of, decided_lines
from episodes.show.json_layout import is_json, laid_out, shape_of
from episodes.show.json_paths import ROOT, under
from episodes.show.legend import why_no_answer
from episodes.show.state_lines import LONG_VALUE, DiffLine, diff_lines
from episodes.show.values import (
    LONG_RESULT,
    FullCounts,
    ResultTable,
    json_pieces,
    number,
    pieces_of,
    table_of,
    words_of,
)
from episodes.stored.strip import StepMark, is_cancelled, is_refused_ask, mark_of, outcome_words
from people.text.in_words import bytes_in_words, model_in_words
from people.text.plain_text import clean

DIFF_LINES = 8
SOURCES_SHOWN = 12
_ID = re.compile(r"[A-Za-z0-9]{1,40}")

STOPPED: dict[Ending, str] = {"cut_off": "cut off at a limit", "filtered": "stopped by a content filter"}


@dataclass(frozen=True)
class Argument:
    name: str
    value: str
    css: str
    size: str = ""
    full: str = ""
    path: str = ""


@dataclass(frozen=True)
class ShownResult:
    """The result of a call, as one line while closed and as a table or text while open. `pieces` are (css class, text)
    pairs of JSON."""

    words: str
    meta: str = ""
    failed: bool = False
    open: bool = False
    table: ResultTable | None = None
    pieces: list[tuple[str, str]] = field(default_factory=list)
    cut: bool = False
    size: str = ""
    path: str = ""


@dataclass(frozen=True)
class FileLink:
    """A file of an ask or of its answer, as the step names it."""

    pk: str
    name: str
    size: int


@dataclass(frozen=True)
class AskCard:
    question: str
    context: str
    status: str
    author: str
    said: str
    text: str
    calls: list[str]
    human: bool
    initials: str
    ask_id: str
    no_advice: str
    files: list[FileLink]
    sent_files: list[FileLink]
    kind: str
    decided: list[Decided]
    asked: str
    """The name and options of the model that answered."""


@dataclass(frozen=True)
class BriefingCard:
    """A briefing. `text` is empty if it is `apart`: it can reveal outcomes, and the server sends it only to readers who
    can see these. `sources` are IDs of episodes, `more` the number of further ones."""

    author: str
    said: str
    sight: str
    text: str
    human: bool
    initials: str
    apart: bool
    sources: list[str]
    more: int


@dataclass(frozen=True)
class VerificationCard:
    label: str
    reward: str
    pieces: list[tuple[str, str]]
    by_environment: bool = False


@dataclass(frozen=True)
class StepCard:
    seq: int
    mark: StepMark
    kind: str
    at: datetime | None
    said: str = ""
    speaker: str = ""
    by_person: bool = False
    """Whether a person at the wheel acted, in place of the agent."""
    copied: bool = False
    """Whether it is history, copied from an earlier episode."""
    call: str = ""
    arguments: list[Argument] = field(default_factory=list)
    result: ShownResult | None = None
    diff: list[DiffLine] = field(default_factory=list)
    diff_more: list[DiffLine] = field(default_factory=list)
    ask: AskCard | None = None
    briefing: BriefingCard | None = None
    verification: VerificationCard | None = None
    waits: bool = False
    cut_from: str = ""
    traceback: str = ""
    thought: str = ""
    """What a model thought before this message."""
    approval: Approval | None = None
    unknown: str = ""
    """Arguments that the tool's schema does not have."""
    stopped: str = ""
    """Why a server stopped this message before its end, in words."""

    @property
    def whole_said(self) -> str:
        """The text of a message as far as a page shows it."""
        return self.said[:LONG_RESULT]

    @property
    def is_empty(self) -> bool:
        """Whether this is a turn of the agent without content: the step counts, and its row is hidden."""
        return (
            self.kind == "message"
            and not self.speaker
            and not self.said.strip()
            and not self.thought
            and not self.stopped
        )

    @property
    def name(self) -> str:
        """The name of the step in the scrubber."""
        return self.call or {"ask": "ask_expert", "verification": "verifier"}.get(self.kind, self.speaker or self.kind)


def card_of(step: Mapping[str, Any]) -> StepCard:
    """Return the card of one step."""
    kind = str(step["kind"])
    whole = _cut_before(step)
    size = bytes_in_words(whole) if whole else ""
    card = StepCard(
        seq=int(step["seq"]),
        mark=mark_of(dict(step)),
        kind=kind,
        at=moment(step.get("at")),
        cut_from=size,
        by_person=bool(step.get("acted_by")),
        copied=is_copied(step),
    )
    if kind in ("tool_call", "action"):
        return replace(card, **_action_parts(step))
    if kind == "ask":
        return replace(card, ask=_ask_card(step), waits=not step.get("advice") and not is_cancelled(step))
    if kind == "briefing":
        briefing = _briefing_card(step)
        return replace(card, briefing=briefing, cut_from="" if briefing.apart else size)
    if kind == "verification":
        return replace(card, verification=_verification_card(step))
    speaker = str(step.get("role") or kind)
    thought = reasoning.get("text") if isinstance(reasoning := step.get("reasoning"), Mapping) else ""
    text, speaker = clean(step.get("content", "")), "" if speaker == "assistant" else speaker
    stopped = _stopped(str(step.get("finish_reason") or ""))
    return replace(card, said=text, thought=clean(thought or ""), speaker=speaker, stopped=stopped)


def _stopped(finish_reason: str) -> str:
    """Return why a server stopped a message before its end; empty if it did not."""
    ending = ending_of(finish_reason, is_empty=False)
    return f"{STOPPED[ending]} (finish_reason {clean(finish_reason)})" if ending else ""


def moment(value: object) -> datetime | None:
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str):
        return None
    try:
        return datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return None


def _action_parts(step: Mapping[str, Any]) -> dict[str, Any]:
    tool = is_call(step)
    field_name = "arguments" if tool else "action"
    fields = step.get(field_name) or {}
    lines = list(diff_lines(step.get("state_diff"), f"{ROOT}.state_diff"))
    return {
        "call": clean(step.get("name") or "") if tool else "action",
        "arguments": [argument_of(name, value, under(f"{ROOT}.{field_name}", name)) for name, value in fields.items()],
        "result": result_of(step),
        # one line more is shown, rather than a control that hides a single line
        "diff": lines[:DIFF_LINES] if len(lines) > DIFF_LINES + 1 else lines,
        "diff_more": lines[DIFF_LINES:] if len(lines) > DIFF_LINES + 1 else [],
        "traceback": _traceback(step),
        "unknown": _unknown(step),
        "approval": approval_of(step),
    }


def _unknown(step: Mapping[str, Any]) -> str:
    names = (step.get("meta") or {}).get(UNKNOWN)
    return clean(", ".join(map(str, names))[:LONG_VALUE]) if isinstance(names, list) else ""


def _traceback(step: Mapping[str, Any]) -> str:
    meta = step.get("meta")
    # the end of a traceback names the error
    return clean(str(meta.get("traceback") or "")[-LONG_RESULT:]) if isinstance(meta, Mapping) else ""


def argument_of(name: str, value: object, path: str = "") -> Argument:
    """Return an argument as the card shows it; `path` is its place in the step."""
    text = clean(json.dumps(value, ensure_ascii=False, default=str))
    css = "js" if isinstance(value, str) else "jn"
    if len(text) <= LONG_VALUE:
        return Argument(clean(name), text, css, path=path)
    return Argument(clean(name), text[:LONG_VALUE] + "…", css, size_in_words(text), text, path)


def _cut_before(step: Mapping[str, Any]) -> int:
    """Return the original size of a large step that is present only in its cut form; 0 for a complete one."""
    cut = step.get("cut")
    return int(cut.get("size") or 0) if isinstance(cut, Mapping) else 0


def _is_cut(step: Mapping[str, Any], name: str) -> bool:
    cut = step.get("cut")
    return isinstance(cut, Mapping) and name in (cut.get("fields") or ())


def size_in_words(text: str) -> str:
    return bytes_in_words(len(text.encode("utf-8", "replace")))


def result_of(step: Mapping[str, Any]) -> ShownResult | None:
    """Return result or error as text, with size, time and reward. Absent while the call is running."""
    if step.get("error") is not None:
        return _failure(step)
    name = CAME[step["kind"]]
    if not has_come(step):
        return ShownResult("too large to show here" if _is_cut(step, name) else "no result", _meta(step, ""))
    raw = step[name]
    text = raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False, default=str)
    value = shape_of(text) if isinstance(raw, str) else raw
    full = FullCounts(step, name)
    table = table_of(value, full)
    in_json = not isinstance(value, str) or is_json(text)
    whole_text = laid_out(text, LONG_RESULT) if in_json else text
    shown, cut = whole_text[:LONG_RESULT], len(whole_text) > LONG_RESULT
    pieces = [] if table else list(json_pieces(shown)) if in_json else [("", clean(shown))]
    size = size_in_words(text)
    if whole := _cut_before(step):
        size = f"{size} of {bytes_in_words(whole)}"
    path, words, meta = f"{ROOT}.{name}", words_of(value, full), _meta(step, size)
    return ShownResult(words, meta, table=table, pieces=pieces, cut=cut, size=size, path=path)


def _failure(step: Mapping[str, Any]) -> ShownResult:
    text = clean(step["error"])
    if is_refused_ask(step):
        # how the arm is, and no fault: in a baseline every question ends so
        return ShownResult(f"No expert in this episode. The agent got: {text}", _meta(step, ""))
    first, _, rest = text.strip().partition("\n")
    long = len(first) > LONG_VALUE
    words = first[:LONG_VALUE] + "…" if long else first
    body = text if long else rest.strip()
    pieces = [("", body[:LONG_RESULT])] if body else []
    is_rest = bool(body) and not long
    path = f"{ROOT}.error"
    return ShownResult(words or "the call failed", _meta(step, ""), failed=True, open=is_rest, pieces=pieces, path=path)


def _meta(step: Mapping[str, Any], size: str) -> str:
    """Return size, time and reward; a reward of zero is not shown."""
    meta = step.get("meta") or {}
    duration = meta.get("duration_ms") if isinstance(meta, Mapping) else None
    parts = [f"reward {number(step['reward'])}" if step.get("reward") else "", size]
    # a loop reports this number: a huge one would fill the line
    if isinstance(duration, int | float) and abs(duration) < 1e12:
        parts.append(f"{duration:.0f} ms" if duration < 1000 else f"{duration / 1000:.1f} s")
    return ", ".join(part for part in parts if part)


def initials(name: str) -> str:
    parts = re.split(r"[\s._@-]+", name.strip())
    return "".join(part[0] for part in parts if part)[:2].upper() or "?"


def _ask_card(step: Mapping[str, Any]) -> AskCard:
    advice = step.get("advice") or {}
    source, author = source_of(advice), clean(advice.get("author") or "")
    fallback = not source.is_answer
    by_script = source.is_human and (step.get("meta") or {}).get("answered_by") == "script"
    sight = "sees verifier" if advice.get("privilege") == "sees_verifier" else "blind"
    decided = advice.get("decided") or []
    approvers = [clean(one.get("by") or "") for one in decided if one.get("verdict") != "reject"]
    if len(approvers) == len(decided) > 1:
        author = " and ".join(approvers)
    return AskCard(
        question=clean(step.get("question", "")),
        context=clean(step.get("context") or ""),
        status=mark_of(dict(step)).code,
        author=author or ("Someone" if source.is_human else "A model"),
        said=f"{_how(advice, by_script)}, {sight}",
        text="" if fallback else clean(advice.get("text", "")),
        calls=[call_in_words(call) for call in advice.get("tool_calls") or []],
        human=source.is_human and not by_script,
        initials=initials(author or "?"),
        ask_id=str(step.get("ask") or ""),
        no_advice=_no_advice(step, advice, approvers) if fallback else "",
        files=_file_links(step.get("files")),
        sent_files=_file_links(advice.get("files")),
        kind=ask_kind(step.get("typed")).word,
        decided=decided_lines(step.get("typed"), advice.get("decision")),
        asked=model_in_words(advice.get("model") or "", advice.get("options")),
    )


def _no_advice(step: Mapping[str, Any], advice: Mapping[str, Any], approvers: Sequence[str]) -> str:
    """Return why no one answered, and who of several people had approved."""
    of = ((step.get("typed") or {}).get("quorum") or {}).get("of")
    sent = "The agent gets its default." if advice.get("decision") else "No advice was sent."
    so_far = f" {len(approvers)} of {of} approved{': ' + ', '.join(approvers) if approvers else ''}." if of else ""
    return f"{why_no_answer(str(advice.get('reason') or 'deadline'))}{so_far} {sent}"


def _file_links(files: Sequence[Mapping[str, Any]] | None) -> list[FileLink]:
    # IDs become links, so only what can be one stays
    linkable = [one for one in files or [] if _ID.fullmatch(str(one.get("id", "")))]
    return [FileLink(str(one["id"]), clean(one.get("name", "")), int(one.get("size") or 0)) for one in linkable]


def _briefing_card(step: Mapping[str, Any]) -> BriefingCard:
    human, author = SOURCES[step.get("source", "human")].is_human, clean(step.get("author") or "")
    apart = step.get("privilege") == "sees_verifier"
    # sources become links, so only what can be an ID stays
    sources = [one for one in step.get("sources") or [] if _ID.fullmatch(str(one))]
    return BriefingCard(
        author=author or ("Someone" if human else "A model"),
        said="briefed the agent" if human else "briefed the agent (model)",
        sight="sees verifier" if apart else "blind",
        text="" if apart else clean(step.get("text", "")),
        human=human,
        initials=initials(author or "?"),
        apart=apart,
        sources=sources[:SOURCES_SHOWN],
        more=max(0, len(sources) - SOURCES_SHOWN),
    )


def _how(advice: Mapping[str, Any], by_script: bool) -> str:
    if advice.get("reason") == ASKS_BACK:
        return "asked back (script)" if by_script else "asked back"
    if by_script:
        return "answered (script)"
    if source_of(advice).is_model and advice.get("reason") == "prepared":
        return "draft, sent because no expert answered"
    return source_of(advice).did


def call_in_words(call: Mapping[str, Any]) -> str:
    arguments = call.get("arguments") or {}
    return clean(f"{call.get('name', '')}({json.dumps(arguments, ensure_ascii=False, default=str)[1:-1]})")


def _verification_card(step: Mapping[str, Any]) -> VerificationCard:
    details = step.get("details") or {}
    return VerificationCard(
        label=clean(outcome_words(str(step.get("reward_type", "")))),
        reward=number(step.get("reward")),
        pieces=pieces_of(details) if details else [],
        by_environment=details.get("mode") == OF_ENVIRONMENT if isinstance(details, Mapping) else False,
    )
