"""One call of a hook: JSON of the tool on stdin, its own JSON on stdout, or nothing.

Owns the wait for an answer and the rule that every doubt prints nothing and exits with 0, after which the tool asks in
the terminal. An exit with 2 would block some tools, so there is none.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import IO, TYPE_CHECKING, Any, NoReturn

from awmclient.hooks.desk import DeskAway, HookSettings, folder
from awmclient.hooks.local import Terminal
from awmclient.hooks.session import HookedSession
from awmclient.hooks.shown import CONTEXT_MAX, QUESTION_MAX, context_of
from awmclient.hooks.tools import TOOLS, ClaudeCode, Event, PromptDecision, decision_of, question_of, wants

if TYPE_CHECKING:
    from awmclient.hooks.calls import DeskCalls

POLL_S = 5
"""How long a poll waits: after each one the terminal is looked at."""
AWAY_S = 15.0
"""How long an unreachable desk is waited for, once an ask is open."""
LOG_MAX = 200_000
ENDING = (signal.SIGTERM, signal.SIGUSR1)
"""Signals of the tool: it is stopped, or the prompt was answered in the terminal."""


class AnsweredElsewhere(SystemExit):
    """The prompt that a hook waits for was answered in the terminal."""


def main(name: str) -> NoReturn:
    """Handle the event that a tool has sent to this process."""
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGUSR1, _answered)
    run(name, sys.stdin.buffer, sys.stdout)
    # the tool waits for the end of this process, and all is written: without what Python does at its end it is sooner
    os._exit(0)


def run(name: str, stdin: IO[bytes], stdout: IO[str]) -> int:
    """Handle one event of a tool. Always returns 0."""
    try:
        tool = TOOLS[name]
        reply = handle(tool, tool.read(json.load(stdin)), HookSettings.load())
        if reply is not None:
            stdout.write(json.dumps(reply))
            stdout.flush()
    except Exception:
        # Whatever failed, the tool goes on by itself; why is in a file, as tools show a hook's stderr as an error.
        _log_failure()
    return 0


def handle(tool: ClaudeCode, event: Event, settings: HookSettings) -> dict[str, Any] | None:
    """Record an event. Return what the tool gets of a decision; None for none."""
    if event.kind == "other":
        return None
    from awmclient.hooks.calls import DeskCalls

    desk = DeskCalls(settings)
    if event.kind == "permission":
        decision = _ask(tool, event, desk, settings.deadline_s.get(tool.name, tool.deadline_s))
        return tool.reply(event, decision) if decision else None
    with HookedSession(tool, event, desk) as session:
        _record(session, event)
    return None


def _record(session: HookedSession, event: Event) -> None:
    if event.kind == "call":
        session.called()
    if event.kind in ("prompt", "answer"):
        # a call that was decided before and not made yet is never made
        session.state.pop("decided", None)
    if event.kind == "prompt":
        session.add({"kind": "message", "role": "user", "content": event.text})
    elif event.kind == "answer" and event.text:
        session.state["answer"] = event.text[:100_000]
        session.add({"kind": "message", "role": "assistant", "content": event.text})
    if session.is_pausing and event.kind != "end":
        return
    if event.kind in ("prompt", "end"):
        session.withdraw_all()
    session.flush()
    if event.kind == "end":
        session.finish()


def _ask(tool: ClaudeCode, event: Event, desk: DeskCalls, deadline_s: int) -> PromptDecision | None:
    """Ask at the desk, and wait for a decision. It is final once this read it: its receipt goes with the next event."""
    terminal = Terminal(event)
    fields = {
        "question": question_of(tool, event)[:QUESTION_MAX],
        "context": context_of(event.name, event.arguments, event.cwd, event.mode, tool.folder)[:CONTEXT_MAX],
        "deadline_s": deadline_s,
        "on_timeout": "no_advice",
        **wants(tool, event),
    }
    # A signal between the desk's answer and its note would leave an ask that no one waits for.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        with HookedSession(tool, event, desk) as session:
            ask = session.open_ask(fields)
        return _decided(tool, event, desk, ask, time.monotonic() + deadline_s, terminal)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def _decided(
    tool: ClaudeCode, event: Event, desk: DeskCalls, ask: str, until: float, terminal: Terminal
) -> PromptDecision | None:
    """Wait for the decision on an ask that is open. From here on signals count, and withdraw it."""
    decision, view, heard = None, None, ""
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        view = _wait(desk, ask, until, terminal)
        decision = decision_of(event, view) if view else None
    except DeskAway:
        heard = "unreachable"
        raise
    except SystemExit as error:
        view, heard = None, "" if isinstance(error, AnsweredElsewhere) else "stopped"
        raise
    finally:
        with HookedSession(tool, event, desk) as session:
            if ask in session.state.get("asks", {}):
                if view is not None:
                    session.decided(ask, decision, is_answered=view["status"] == "answered")
                else:
                    session.withdraw([ask], heard)
            elif decision:
                # The terminal was first: a call of the session has withdrawn the ask.
                decision = None
    return decision


def _wait(desk: DeskCalls, ask: str, until: float, terminal: Terminal) -> dict[str, Any] | None:
    """Return the closed ask; None if the terminal was first. Raises `DeskAway`."""
    away_since = None
    while not terminal.has_answered():
        left = max(1, min(POLL_S, int(until - time.monotonic()) + 1))
        try:
            view = desk.call("GET", f"/asks/{ask}?wait={left}", wait_s=left + 10.0)
            if view["status"] != "open":
                return view
            away_since = None
        except DeskAway:
            away_since = away_since or time.monotonic()
            if time.monotonic() - away_since > AWAY_S:
                raise
            time.sleep(0.5)
    return None


def _stop(number: int, frame: object) -> NoReturn:
    """End as a program does, so that the ask is withdrawn."""
    sys.exit(0)


def _answered(number: int, frame: object) -> NoReturn:
    """End because the terminal was first, so that the ask is withdrawn with this reason."""
    raise AnsweredElsewhere(0)


def _private(file: str, flags: int) -> int:
    return os.open(file, flags, 0o600)


def _log_failure() -> None:
    """Write the exception that is being handled to the hook's log."""
    import traceback

    file = folder("XDG_STATE_HOME", ".local/state") / "hook.log"
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        keeps = os.path.exists(file) and os.path.getsize(file) < LOG_MAX
        with open(file, "a" if keeps else "w", encoding="utf-8", opener=_private) as opened:
            opened.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {traceback.format_exc()}\n")
    except OSError as error:
        sys.stderr.write(f"awmclient hook: {error}\n")
