"""The step strip of an episode: step dicts in, marks out. Pure, without Django.

Owns the mark of a step: its stored letter, glyph, color class and label. Leaves drawing to `templatetags/marks.py`.
Called by `recording.py` (an episode stores one letter per step, so that lists of hundreds of episodes read no steps)
and by the step card.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from awmclient.nouns.sources import source_of
from awmclient.nouns.values import ASK_TOOL, StopReason
from awmclient.words.toolcalls import unknown_tool


@dataclass(frozen=True)
class StepMark:
    """The look of a step: `code` is the stored letter, `symbol` the glyph, `css` the color, `word` the label."""

    code: str
    symbol: str
    css: str
    word: str
    plural: str
    quiet: bool = False


MARKS = {
    mark.code: mark
    for mark in (
        StepMark("t", "k-think", "idle", "thought", "thoughts", quiet=True),
        StepMark("b", "k-brief", "fillask", "briefing", "briefings"),
        StepMark("r", "k-read", "", "read", "reads"),
        StepMark("u", "k-unknown", "", "call of unknown effect", "calls of unknown effect"),
        StepMark("w", "k-write", "", "write", "writes"),
        StepMark("e", "k-error", "bad", "error", "errors"),
        StepMark("q", "k-unasked", "idle", "ask without an expert", "asks without an expert"),
        StepMark("o", "a-open", "fillask", "open ask", "open asks"),
        StepMark("l", "a-leased", "fillask", "claimed ask", "claimed asks"),
        StepMark("a", "a-answered", "fillask", "answered ask", "answered asks"),
        StepMark("f", "a-fell", "idle", "ask that fell back", "asks that fell back"),
        StepMark("d", "a-declined", "idle", "declined ask", "declined asks"),
        StepMark("c", "a-cancelled", "idle", "cancelled ask", "cancelled asks"),
        StepMark("v", "v-hex", "ver", "verification", "verifications"),
        StepMark("C", "v-complete", "good", "verified complete", "verified complete"),
        StepMark("X", "v-others", "bad", "verified not complete", "verified not complete"),
        StepMark("J", "v-judge", "ver", "judge error", "judge errors"),
        StepMark("n", "k-now", "run pulse", "step in progress", "steps in progress"),
    )
}
_SHOWN = frozenset(code for code, mark in MARKS.items() if not mark.quiet)
BRIEFED = "b"
ACTIONS = tuple(code for code in MARKS if code in _SHOWN - {BRIEFED} and not MARKS[code].symbol.startswith("v-"))
"""Letters of the steps that count against an agent's budget."""
ASKS = tuple(code for code in MARKS if MARKS[code].symbol.startswith("a-"))
ADVICE_REASONS = {"declined": "d", "cancelled": "c", "episode_ended": "c"}


@dataclass(frozen=True)
class OutcomeKind:
    """A reward type with a look of its own: its label, what the page of its episode says, and its mark."""

    words: str
    finding: str
    mark: StepMark


OUTCOMES = {
    "complete": OutcomeKind("Complete", "The task is complete", MARKS["C"]),
    "others": OutcomeKind("Not complete", "The task is not complete", MARKS["X"]),
    "judge_error": OutcomeKind("Judge error", "Unknown outcome: the verifier or its judge failed", MARKS["J"]),
}
"""By wire name, in the order of lists. Which count is said by `awmclient.schema.NOT_COUNTED`."""
STOPS: dict[StopReason, str] = {
    "done": "agent finished",
    "max_steps": "step limit",
    "gave_up": "agent gave up",
    "timeout": "time limit",
    "error": "error",
    "cut_off": "answer cut off",
    "empty": "empty answer",
}
"""Why a loop ended, in words."""


def code_of(step: Mapping[str, Any]) -> str:
    """Return the stored letter of one step."""
    kind = step.get("kind")
    if kind in ("tool_call", "action"):
        return _code_of_action(step)
    if kind == "ask":
        return "c" if is_cancelled(step) else _code_of_ask(step.get("advice"))
    if kind == "briefing":
        return BRIEFED
    if kind == "verification":
        return outcome_letter(str(step.get("reward_type")))
    return "t"


def is_cancelled(step: Mapping[str, Any]) -> bool:
    """Return whether this ask closed without an answer: it was withdrawn, or its episode ended first."""
    meta = step.get("meta")
    return not step.get("advice") and isinstance(meta, Mapping) and meta.get("closed") == "cancelled"


def outcome_words(reward_type: str) -> str:
    """Return the label of an outcome; a type without one keeps its wire name."""
    return OUTCOMES[reward_type].words if reward_type in OUTCOMES else reward_type


def outcome_letter(reward_type: str) -> str:
    """Return the hexagon of an outcome; a reward type without a shape of its own gets the hollow one."""
    return OUTCOMES[reward_type].mark.code if reward_type in OUTCOMES else "v"


def _code_of_action(step: Mapping[str, Any]) -> str:
    if is_refused_ask(step):
        return "q"  # how the arm is, and no fault; older rows have the letter of an error
    if step.get("error") is not None:
        return "e"
    diff = step.get("state_diff")
    if not isinstance(diff, Mapping):
        return "u"  # no one reported what it did
    return "w" if changes_of(diff) else "r"


def _code_of_ask(advice: Mapping[str, Any] | None) -> str:
    if not advice:
        return "o"
    if source_of(advice).is_answer:
        return "a"
    return ADVICE_REASONS.get(str(advice.get("reason")), "f")


def changes_of(diff: object) -> int:
    """Return the number of rows in a state diff."""
    if not isinstance(diff, Mapping):
        return 0
    values = [value for table in diff.values() if isinstance(table, Mapping) for value in table.values()]
    # the numbers are `more`: rows that the diff left out
    beyond = sum(value for value in values if isinstance(value, int) and value > 0)
    return beyond + sum(len(value) for value in values if isinstance(value, list))


def codes_of(steps: Iterable[Mapping[str, Any]]) -> str:
    """Return one letter per step, in order."""
    return "".join(code_of(step) for step in steps)


def is_refused_ask(step: Mapping[str, Any]) -> bool:
    """Return whether an agent called `ask_expert` in an episode without an expert, where no agent has that tool."""
    return step.get("name") == ASK_TOOL and step.get("error") == unknown_tool(ASK_TOOL)


def last_call(codes: str) -> int:
    """Return the number of the last write of an episode, or without one of its last call; 0 if it made none."""
    return codes.rfind("w") + 1 or max(codes.rfind(code) for code in "ruqe") + 1


def mark_of(step: Mapping[str, Any]) -> StepMark:
    return MARKS[code_of(step)]


def marks_of(codes: str) -> list[StepMark]:
    """Return the marks of stored letters; a letter from a newer version is drawn as a thought, so that the page
    works."""
    return [MARKS.get(code, MARKS["t"]) for code in codes]


def actions_in(codes: str) -> int:
    """Return the number of steps that count against an agent's budget: actions, not thoughts."""
    return sum(codes.count(code) for code in ACTIONS)


def asks_in(codes: str) -> int:
    return sum(codes.count(code) for code in ASKS)


def shown(codes: str, room: int) -> tuple[list[StepMark], int]:
    """Return the marks of a strip of `room` places, and the number of earlier ones it leaves out.

    Thoughts are left out unless an episode has nothing else: the strip shows actions.

    """
    actions = sum(codes.count(code) for code in _SHOWN)
    kept = codes if not actions else "".join(code for code in codes if code in _SHOWN)
    return marks_of(kept[max(0, len(kept) - room) :]), max(0, len(kept) - room)


def in_words(codes: str) -> str:
    """Return the text of a strip for screen readers."""
    if not codes:
        return "no steps yet"
    counts = Counter(codes)
    marks = {code: MARKS.get(code, MARKS["t"]) for code in counts}
    parts = [f"{n:,} {marks[code].word if n == 1 else marks[code].plural}" for code, n in counts.items()]
    return f"{len(codes):,} {'step' if len(codes) == 1 else 'steps'}: {', '.join(parts)}"


def picture_book() -> dict[str, list[Any]]:
    """Return the marks by letter for pages that draw strips from frames."""
    return {
        code: [mark.symbol, mark.css, mark.word, mark.plural, mark.quiet, code not in ACTIONS and not mark.quiet]
        for code, mark in MARKS.items()
    }
