"""What each coding agent sends to a hook and takes from it, and where its settings are. Pure.

`TOOLS` is the only list: a new coding agent is a class here and its entry there. A tool's answer follows its own
documentation; without a decision every tool gets nothing, and asks in the terminal.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from awmclient.hooks.shown import PLACE, placed, schema_of

Kind = Literal["prompt", "permission", "call", "answer", "end", "other"]
DECIDERS = ("person", "standing")
"""Who can answer a prompt. A decision of a model leaves it to the terminal."""
PROGRAMS = ("script", "model")
"""Users of tokens whose answers, also those given ahead, leave it to the terminal, too."""
REJECTED = "A person rejected this call."
DEADLINE_S, BLOCKING_DEADLINE_S = 1800, 120
"""How long a prompt waits at the desk, beside a dialog of the tool, and where the tool waits for the hook first."""


class Event(NamedTuple):
    """One event of a session, in the same words for all tools."""

    kind: Kind
    session: str
    arguments: dict[str, Any]
    cwd: str = ""
    name: str = ""
    result: Any = None
    error: str = ""
    call_id: str = ""
    text: str = ""
    mode: str = ""
    transcript: str = ""


class PromptDecision(NamedTuple):
    """What was decided at the desk: approve, edit or reject; `arguments` are those of an edit."""

    verdict: str
    by: str
    arguments: dict[str, Any]
    reason: str = ""


class ClaudeCode:
    """Claude Code: `PermissionRequest` runs beside its own dialog, and the first answer counts."""

    name: ClassVar[str] = "claude-code"
    label: ClassVar[str] = "Claude Code"
    deadline_s: ClassVar[int] = DEADLINE_S
    can_edit: ClassVar[bool] = True
    folder: ClassVar[str] = "Folder"
    """How the context names the folder of a session."""
    events: ClassVar[dict[str, Kind]] = {
        "UserPromptSubmit": "prompt",
        "PermissionRequest": "permission",
        "PostToolUse": "call",
        "PostToolUseFailure": "call",
        "Stop": "answer",
        "SessionEnd": "end",
    }
    matched: ClassVar[tuple[str, ...]] = ("PermissionRequest", "PostToolUse", "PostToolUseFailure")
    """Events whose settings name tools."""
    note: ClassVar[str] = ""
    """What its user has to do or know, printed by `hook install`."""

    def settings(self) -> Path:
        return Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude") / "settings.json"

    def read(self, sent: Mapping[str, Any]) -> Event:
        """Return the event in what a hook gets on stdin."""
        arguments = sent.get("tool_input")
        response = sent.get("tool_response")
        return Event(
            kind=self.events.get(str(sent.get("hook_event_name")), "other"),
            session=str(sent["session_id"]),
            cwd=str(sent.get("cwd") or ""),
            name=str(sent.get("tool_name") or ""),
            arguments=arguments if isinstance(arguments, dict) else {"input": arguments},
            result=response,
            error=str(sent.get("error") or ""),
            call_id=str(sent.get("tool_use_id") or ""),
            text=str(sent.get("prompt") or sent.get("last_assistant_message") or ""),
            mode=str(sent.get("permission_mode") or ""),
            transcript=str(sent.get("transcript_path") or ""),
        )

    def reply(self, event: Event, decision: PromptDecision) -> dict[str, Any]:
        """Return what the hook prints of a decision."""
        verdict: dict[str, Any] = {"behavior": "allow"}
        if decision.verdict == "reject":
            verdict = {"behavior": "deny", "message": decision.reason or REJECTED}
        elif decision.verdict == "edit":
            verdict["updatedInput"] = decision.arguments
        return {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": verdict}}


class Codex(ClaudeCode):
    """Codex: `PermissionRequest` runs before its own prompt, which waits for it. It takes no edited call."""

    name = "codex"
    label = "Codex"
    deadline_s = BLOCKING_DEADLINE_S
    can_edit = False
    folder = "Folder of the session (a call can name another)"
    events: ClassVar[dict[str, Kind]] = {
        "UserPromptSubmit": "prompt",
        "PermissionRequest": "permission",
        "PostToolUse": "call",
        "Stop": "answer",
        "SessionEnd": "end",
    }
    matched = ("PermissionRequest", "PostToolUse")
    note = "Codex runs a new hook only after you have trusted it: start codex, and review it with /hooks."

    def settings(self) -> Path:
        return Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex") / "hooks.json"


class OpenCode(ClaudeCode):
    """OpenCode: the plugin of `opencode.py` runs the hook beside its own dialog, and the first answer counts."""

    name = "opencode"
    label = "OpenCode"
    can_edit = False

    def settings(self) -> Path:
        home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
        return Path(os.environ.get("OPENCODE_CONFIG_DIR") or Path(home) / "opencode") / "plugins" / "awmclient.js"

    def reply(self, event: Event, decision: PromptDecision) -> dict[str, Any]:
        """Return what the plugin sends as the reply to a prompt. Never `always`: standing answers are the desk's."""
        if decision.verdict == "reject":
            return {"reply": "reject", "message": decision.reason or REJECTED}
        return {"reply": "once"}


TOOLS: dict[str, ClaudeCode] = {tool.name: tool for tool in (ClaudeCode(), Codex(), OpenCode())}
UNABLE = {
    "gemini": "Gemini CLI has no hook that answers its prompt: BeforeTool can deny a call and not approve one, and"
    " Notification only observes. A hook that fails would leave the call to a policy that allows it."
}
"""Coding agents that no hook can answer for, and why."""

QUESTIONS = "AskUserQuestion"


def wants(tool: ClaudeCode, event: Event) -> dict[str, Any]:
    """Return the typed ask of a prompt: an approval, or of an agent's questions a choice or a form."""
    questions = _questions_of(event)
    if tool.can_edit and len(questions) == 1:
        options = [
            {"id": str(number), "label": label[:200], "description": text[:2000]}
            for number, (label, text) in enumerate(_options_of(questions[0]), 1)
        ]
        return {"kind": "choice", "options": options, "many": bool(questions[0].get("multiSelect")), "other": True}
    if tool.can_edit and questions:
        fields = {str(number): _field_of(one) for number, one in enumerate(questions, 1)}
        schema = {"type": "object", "properties": fields, "required": [*fields], "additionalProperties": False}
        return {"kind": "form", "response_schema": schema}
    arguments = placed(event.arguments, event.cwd)
    call = {
        "id": "1",
        "name": event.name[:200] or "tool",
        "arguments": arguments,
        "schema": schema_of(arguments, tool.can_edit),
    }
    if reason := str(event.arguments.get("description") or event.arguments.get("justification") or "").strip():
        call["reason"] = reason[:2000]
    return {"kind": "approval", "calls": [call]}


def question_of(tool: ClaudeCode, event: Event) -> str:
    """Return the headline of an ask."""
    questions = _questions_of(event)
    if tool.can_edit and questions:
        return "\n".join(str(one["question"]) for one in questions)
    what = "run this command" if "command" in event.arguments else f"call {event.name or 'a tool'}"
    return f"May {tool.label} {what}?"


def decision_of(event: Event, view: Mapping[str, Any]) -> PromptDecision | None:
    """Return the decision of a closed ask; None for everything that is not clearly one."""
    advice = view.get("advice")
    if view.get("status") != "answered" or not isinstance(advice, Mapping) or advice.get("by") not in DECIDERS:
        return None
    if advice.get("behind") in PROGRAMS:
        return None
    typed = advice.get("decision")
    if not isinstance(typed, Mapping):
        return None
    by, words = str(advice["by"]), str(advice.get("text") or "")
    calls = typed.get("calls")
    if isinstance(calls, list):
        call = calls[0] if len(calls) == 1 and isinstance(calls[0], Mapping) else {}
        if call.get("verdict") not in ("approve", "edit", "reject"):
            return None
        arguments = {name: value for name, value in (call.get("arguments") or {}).items() if name != PLACE}
        return PromptDecision(call["verdict"], by, arguments, str(call.get("reason") or words))
    answers = _answers_of(_questions_of(event), typed)
    return PromptDecision("edit", by, {**event.arguments, "answers": answers}) if answers else None


def _questions_of(event: Event) -> list[dict[str, Any]]:
    asked = event.arguments.get("questions") if event.name == QUESTIONS else None
    return [one for one in asked if isinstance(one, dict) and "question" in one] if isinstance(asked, list) else []


def _options_of(question: Mapping[str, Any]) -> list[tuple[str, str]]:
    options = [one for one in question.get("options") or [] if isinstance(one, dict)]
    return [(str(one.get("label")), str(one.get("description") or "")) for one in options]


def _field_of(question: Mapping[str, Any]) -> dict[str, Any]:
    options = _options_of(question)
    choice = {"enum": [label for label, _ in options]} if options else {"type": "string"}
    words = {"title": str(question["question"]), "description": "; ".join(f"{one}: {text}" for one, text in options)}
    return {"type": "array", "items": choice, **words} if question.get("multiSelect") else {**choice, **words}


def _answers_of(questions: list[dict[str, Any]], typed: Mapping[str, Any]) -> dict[str, str]:
    """Return what the agent reads for each question, as its tool has it: the labels, with commas between."""
    if "value" in typed:
        values = typed["value"] if isinstance(typed["value"], dict) else {}
        chosen = [values.get(str(number)) for number, _ in enumerate(questions, 1)]
    else:
        labels = (
            {str(number): label for number, (label, _) in enumerate(_options_of(questions[0]), 1)} if questions else {}
        )
        picked = [labels[part] for part in typed.get("chosen") or [] if part in labels]
        chosen = [[*picked, *([typed["other"]] if typed.get("other") else [])]]
    words = [", ".join(map(str, part)) if isinstance(part, list) else str(part or "") for part in chosen]
    return {str(one["question"]): text for one, text in zip(questions, words, strict=True)} if all(words) else {}
