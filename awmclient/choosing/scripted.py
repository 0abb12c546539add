"""A policy that follows a script: for demos, for oracles, for tests. It uses the advice it gets.

Owns the script format (docs/packs.md). A script is a list of turns, each one of

    {"say": "...", "call": {"name": ..., "arguments": {...}}}
    {"say": "...", "ask": {"question": ..., "context": ...}, "listen": {"rate": "(\\\\d+)\\\\s*%"},
     "advised": [turns], "unadvised": [turns], "after": [turns]}
    {"say": "...", "act": {...}}          an action of an environment without tools
    {"say": "...", "answer": "..."}       ends the episode

After an ask: tool calls of the advice, or calls written in its words, are made, then `after`; else, if every
`listen` pattern is found, `advised` with "{{rate}}" filled in; else `unadvised`. Called by our worker for
`script:NAME` policies.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from awmclient.nouns.values import ASK_TOOL
from awmclient.policies import Turn, View
from awmclient.words import listening
from awmclient.words.toolcalls import Call, advised_calls

Script = Sequence[Mapping[str, Any]]
_FOLLOWING = "The expert says how. I do that."


def tools_called(script: Any) -> list[str]:
    """Return the names of the tools that a script calls, each once, in the order of its turns."""
    turns = script if isinstance(script, list) else []
    names: list[str] = []
    for turn in (one for one in turns if isinstance(one, Mapping)):
        call = turn.get("call")
        names += [str(call["name"])] if isinstance(call, Mapping) and "name" in call else []
        names += [name for part in ("advised", "unadvised", "after") for name in tools_called(turn.get(part))]
    return list(dict.fromkeys(names))


class ScriptedPolicy:
    """A policy that follows `script`, one turn at a time.

    `pace_s` is the pause before each turn for people who watch, varied by up to `jitter` of itself.

    >>> ScriptedPolicy([{"call": {"name": "list_items"}}, {"answer": "Two items."}])
    """

    def __init__(self, script: Script, *, pace_s: float = 0.0, jitter: float = 0.3, seed: int | str = 0) -> None:
        self._turns: deque[Mapping[str, Any]] = deque(script)
        self._asked: Mapping[str, Any] | None = None
        self._pace_s, self._jitter = pace_s, jitter
        self._chance = random.Random(seed)  # noqa: S311

    async def act(self, view: View) -> Turn:
        if self._pace_s:
            await asyncio.sleep(self._pace_s * (1 + self._jitter * (2 * self._chance.random() - 1)))
        return self._next(view)

    def resume(self, views: Sequence[View]) -> None:
        """Advance the script to its current turn, given the views before each past turn."""
        for view in views:
            self._next(view)

    def _next(self, view: View) -> Turn:
        if self._asked is not None:
            # `extendleft` reverses what it adds.
            self._turns.extendleft(reversed(self._next_after(self._asked, view)))
            self._asked = None
        if not self._turns:
            return Turn(content="The script ends here.", gave_up=True)
        return self._turn_of(self._turns.popleft())

    def _turn_of(self, turn: Mapping[str, Any]) -> Turn:
        say = str(turn.get("say", ""))
        if "answer" in turn:
            return Turn(content=say, answer=str(turn["answer"]))
        if "act" in turn:
            return Turn(content=say, action=dict(turn["act"]))
        if "ask" in turn:
            self._asked = turn
            return Turn(content=say, calls=[Call(ASK_TOOL, dict(turn["ask"]))])
        call = turn["call"]
        return Turn(content=say, calls=[Call(str(call["name"]), dict(call.get("arguments") or {}))])

    def _next_after(self, turn: Mapping[str, Any], view: View) -> list[Mapping[str, Any]]:
        advice = view.advice()
        if advice is None or advice.get("status") != "advice":
            return list(turn.get("unadvised", []))
        text = str(advice.get("advice", ""))
        calls = [{"name": call["name"], "arguments": call["arguments"]} for call in advice.get("tool_calls") or []]
        if not calls:
            # Advice that mentions `ask_expert` must not make the script ask again.
            names = {tool.name for tool in view.tools or []} - {ASK_TOOL}
            calls = [{"name": call.name, "arguments": call.arguments} for call in advised_calls(text, names)]
        if calls:
            return [{"say": _FOLLOWING, "call": call} for call in calls] + list(turn.get("after", []))
        heard = _heard(turn.get("listen") or {}, text)
        return list(turn.get("unadvised", [])) if heard is None else _filled(list(turn.get("advised", [])), heard)


def _heard(listen: Mapping[str, str], text: str) -> dict[str, str] | None:
    """Return the match of each pattern in the advice; None if one of them has none."""
    heard = {}
    for name, pattern in listen.items():
        match = listening.heard(str(pattern), text)
        if match is None:
            return None
        heard[name] = match
    return heard


def _filled(value: Any, heard: Mapping[str, str]) -> Any:
    """Replace `"{{rate}}"` by the match, as a number if it is the whole value and is one, else as text."""
    if isinstance(value, list):
        return [_filled(item, heard) for item in value]
    if isinstance(value, Mapping):
        return {key: _filled(item, heard) for key, item in value.items()}
    if not isinstance(value, str):
        return value
    for name, match in heard.items():
        if value == f"{{{{{name}}}}}":
            return _number(match)
        value = value.replace(f"{{{{{name}}}}}", match)
    return value


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
