"""The port `Policy`, which chooses the next action, its input (`View`) and its output (`Turn`).

Owns the shapes between loop and policy. A view never contains a reward, a reward type or an outcome: the loop strips
them before. Adapters: `scripted.py` and `chat.py`; called by the loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from awmclient.nouns.kinds import is_ask, is_call
from awmclient.nouns.tools import ToolSpec
from awmclient.nouns.values import ASK_TOOL, ToolProtocol
from awmclient.words.endings import Ending, ending_of
from awmclient.words.toolcalls import Call


@dataclass(frozen=True)
class View:
    """A policy's input: the task, the tools, and the steps so far without rewards.

    `steps` are the recorded steps in order. An ask step's `advice` is the typed observation (`{"status": "advice",
    ...}` or `{"status": "no_advice", ...}`).
    """

    task: str
    steps: Sequence[Mapping[str, Any]]
    tools: Sequence[ToolSpec] | None = None
    expert: bool = False
    turn: int = 1
    turns_left: int = 0
    has_tools: bool = True
    """False in an environment that takes actions; `ask_expert` may still be among `tools`."""

    def advice(self) -> Mapping[str, Any] | None:
        """Return the observation of the latest call of `ask_expert`, or None if it was refused or never made."""
        for step in reversed(self.steps):
            if is_ask(step):
                advice = step.get("advice")
                return advice if isinstance(advice, Mapping) else None
            if is_call(step) and step.get("name") == ASK_TOOL:
                result = step.get("result")
                return result if isinstance(result, Mapping) else None
        return None


@dataclass(frozen=True)
class Turn:
    """One decision. Exactly one of: tool calls, one action of an environment without tools, an answer, giving up.

    >>> Turn(content="Let me look.", calls=[Call("list_orders", {})])
    >>> Turn(answer="Order 7 was cancelled.")
    """

    content: str = ""
    calls: Sequence[Call] = ()
    action: dict[str, Any] | None = None
    answer: str | None = None
    gave_up: bool = False
    malformed: str | None = None
    """The error of a call that cannot be parsed; the loop returns it to the policy and continues."""
    finish_reason: str | None = None
    """The server's word for why the model stopped, such as `stop` or `length`."""
    tool_protocol: ToolProtocol | None = None
    """How its calls came. Those of `text` stand in `content`, too."""
    usage: dict[str, Any] | None = None
    reasoning: Mapping[str, Any] | None = field(default=None, repr=False)
    """What the model thought before, as the fields of `schema.Reasoning`."""
    meta: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def ending(self) -> Ending | None:
        """Why this turn is neither an answer nor an act: it was cut off or filtered, or it is blank."""
        acts = self.calls or self.action is not None or self.gave_up or self.malformed is not None
        return ending_of(self.finish_reason, is_empty=not (acts or self.content.strip() or (self.answer or "").strip()))


class Policy(Protocol):
    """Chooses the next turn. May raise anything; the loop records it as a fault of the policy."""

    async def act(self, view: View) -> Turn: ...
