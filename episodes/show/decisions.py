"""Typed asks and their decisions in words: what waits for a decision, and what was decided. Pure.

Called by the cards of steps, by the answer page and by annotations of texts that came too late. An agent and an expert
wrote the words; they are cleaned here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from awmclient.nouns.ask_kinds import ask_kind
from awmclient.nouns.sources import DECIDERS
from people.text.plain_text import clean

VERDICTS = {"approve": ("Approved", "i-yes"), "edit": ("Edited", "i-pen"), "reject": ("Rejected", "i-no")}
CONTINUED = "    │ "
"""Before each further line of a value, so that none can look like another call or argument."""
ON_TIMEOUT = {"reject": "reject", "no_advice": "no advice"}


@dataclass(frozen=True)
class ChangedValue:
    """An argument of a call, with the proposed value if a person changed it: an empty one if they added it."""

    name: str
    value: str
    before: str | None = None


@dataclass(frozen=True)
class Decided:
    """One line of a decision: a call with its verdict, an option that was chosen, or a field of a form."""

    word: str
    symbol: str = ""
    name: str = ""
    arguments: list[ChangedValue] = field(default_factory=list)
    text: str = ""

    def __str__(self) -> str:
        arguments = ", ".join(f"{one.name}: {one.value}" for one in self.arguments)
        head = f"{self.word} {self.name}({arguments})" if self.name else self.word
        return f"{head}: {self.text}" if self.text else head


@dataclass(frozen=True)
class Approval:
    """Who decided on a call before it was made, with the proposed values that were changed."""

    symbol: str
    words: str
    changed: list[ChangedValue]


def approval_of(step: Mapping[str, Any]) -> Approval | None:
    """Return the decision on a recorded call; None if it waited for none."""
    approval = step.get("approval")
    if not isinstance(approval, Mapping):
        return None
    verdict, by = str(approval.get("verdict")), str(approval.get("by"))
    word, symbol = VERDICTS.get(verdict, ("Decided", ""))
    decider = DECIDERS.get(by, DECIDERS["person"])
    if decider.is_silence:
        return Approval(symbol, "not run: no one approved it", [])
    who = f"{word.lower()} by {decider.words}"
    decided = {"verdict": verdict, "arguments": step.get("arguments")}
    line = _call_line({"arguments": approval.get("proposed") or {}}, decided) if verdict == "edit" else Decided("")
    changed = [one for one in line.arguments if one.before is not None]
    return Approval(symbol, f"{who}, not run" if verdict == "reject" else who, changed)


def value_in_words(value: Any) -> str:
    return clean(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


def proposed_lines(calls: list[dict[str, Any]]) -> list[Decided]:
    """Return the calls of an approval, before anyone has decided on them."""
    return [_call_line(call, {"arguments": call.get("arguments")}) for call in calls]


def in_plain_lines(number: int, line: Decided) -> list[str]:
    """Return a proposed call for a text without markup: its number and name, and its arguments below."""
    values = [f"    {in_one_line(one.name)}: {_continued(one.value)}" for one in line.arguments]
    return [f"{number}. {in_one_line(line.name)}", *values]


def in_one_line(text: str) -> str:
    return "⟨LF⟩".join(text.splitlines())


def _continued(text: str) -> str:
    return f"\n{CONTINUED}".join(text.splitlines())


def decided_lines(typed: Mapping[str, Any] | None, decision: Mapping[str, Any] | None) -> list[Decided]:
    """Return a decision line by line; empty without one. What it names is looked up in the ask."""
    if not typed or not decision:
        return []
    kind = ask_kind(typed)
    if kind.is_approval:
        calls = {call["id"]: call for call in typed["calls"]}
        return [_call_line(calls.get(one["id"], {}), one) for one in decision.get("calls") or []]
    if kind.is_choice:
        labels = {one["id"]: one["label"] for one in typed["options"]}
        lines = [Decided("Chosen", "i-yes", text=clean(labels.get(one, one))) for one in decision.get("chosen") or []]
        return [*lines, *([Decided("Other", text=clean(decision["other"]))] if decision.get("other") else [])]
    value = decision.get("value")
    fields = value.items() if isinstance(value, Mapping) else [("value", value)]
    return [Decided(clean(name), text=value_in_words(one)) for name, one in fields]


def _call_line(call: Mapping[str, Any], decision: Mapping[str, Any]) -> Decided:
    word, symbol = VERDICTS.get(str(decision.get("verdict")), ("Decided", ""))
    proposed, final = call.get("arguments") or {}, decision.get("arguments") or {}
    names = [*final, *(name for name in proposed if name not in final)]
    changed = [
        ChangedValue(
            clean(name),
            value_in_words(final[name]) if name in final else "left out",
            _before(proposed, final, name),
        )
        for name in names
    ]
    return Decided(word, symbol, clean(call.get("name", "")), changed, clean(decision.get("reason") or ""))


def _before(proposed: Mapping[str, Any], final: Mapping[str, Any], name: str) -> str | None:
    """Return the proposed value of an argument that a person changed; that of an added one is empty."""
    if name not in proposed:
        return ""
    # as texts, so that 1 and true differ
    same = name in final and json.dumps(proposed[name]) == json.dumps(final[name])
    return None if same else value_in_words(proposed[name])


def decision_in_words(typed: Mapping[str, Any] | None, decision: Mapping[str, Any] | None) -> list[str]:
    return [str(line) for line in decided_lines(typed, decision)]


def on_timeout_in_words(typed: Mapping[str, Any]) -> str:
    """Return what the agent gets if no one answers."""
    fallback = typed.get("on_timeout") or "no_advice"
    if isinstance(fallback, Mapping):
        value = fallback["value"]
        return value_in_words(", ".join(map(str, value)) if isinstance(value, list) else value)
    return ON_TIMEOUT[fallback]
