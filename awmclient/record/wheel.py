"""A person at the wheel of a live episode: what a loop records of it, and what the record says of it. Pure.

The loop reads orders from its dashboard (`ports.SteeredEpisode`) and carries them out; each of its steps says who
acted. Called by the loop and `progress.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from awmclient.nouns.kinds import is_note
from awmclient.nouns.wheel import WheelOrderView
from awmclient.policies import Turn
from awmclient.words.toolcalls import Call

WHEEL, ORDER, DROPPED = "wheel", "order", "dropped"
"""Keys in `meta`: of a note, that the wheel was taken or handed back; of a step, the order that it carries out; of a
note, calls that the agent chose and that were not made."""
TAKEN, HANDED_BACK = "taken", "handed_back"
_SHOWN, _WORDS = 5, 2000


def is_of_wheel(step: Mapping[str, Any]) -> bool:
    """Return whether a step is a loop's note about the wheel, which the loop needs to go on after a crash."""
    return is_note(step) and WHEEL in (step.get("meta") or {})


def word_of(step: Mapping[str, Any]) -> str:
    """Return what a note says of the wheel; "" for any other step."""
    return str(step["meta"][WHEEL]) if is_of_wheel(step) else ""


def order_of(step: Mapping[str, Any]) -> int:
    """Return the number of the order that a step carries out; 0 without one."""
    number = (step.get("meta") or {}).get(ORDER)
    return number if isinstance(number, int) else 0


def taken(dropped: Sequence[Call], turn: int | None, usage: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the note that a person has the wheel, with the calls that the agent decided and that are not made. With a
    `turn`, the agent had chosen it. `usage` is what the choice cost, if no other step says so."""
    lost = f" Not made: {_names(dropped)}." if dropped else ""
    return _note(f"A person has the wheel.{lost}", dropped, turn, usage, {})


def proposed(order: WheelOrderView, number: int, turn: Turn) -> dict[str, Any]:
    """Return the note of what the agent would do, as a person asked: nothing of it is made."""
    reply_text = turn.content if turn.answer is None else turn.answer
    if turn.ending is not None:
        would = {"empty": "The agent would say nothing."}.get(turn.ending, "The agent's message was stopped halfway.")
    elif turn.malformed is not None:
        would = f"The agent's turn could not be read: {turn.malformed}"
    elif turn.calls:
        would = f"The agent would call {_names(turn.calls)}."
    else:
        would = "The agent would give up." if turn.gave_up else "The agent would finish."
    words = f"{would}\n\n{reply_text[:_WORDS]}" if reply_text else would
    return _note(words, turn.calls, number, turn.usage, {ORDER: order.number})


def _names(calls: Sequence[Call]) -> str:
    more = f" and {len(calls) - _SHOWN} more" if len(calls) > _SHOWN else ""
    return ", ".join(call.name for call in calls[:_SHOWN]) + more


def _note(
    words: str, dropped: Sequence[Call], turn: int | None, usage: Mapping[str, Any] | None, more: Mapping[str, Any]
) -> dict[str, Any]:
    calls = [{"name": call.name, "arguments": call.arguments} for call in dropped]
    meta = {WHEEL: TAKEN, DROPPED: calls, **more}
    note = {"kind": "note", "content": words, "meta": meta, "turn": turn, "usage": usage}
    return {name: value for name, value in note.items() if value is not None}


def handed_back() -> dict[str, Any]:
    return {"kind": "note", "content": "The agent chooses again.", "meta": {WHEEL: HANDED_BACK}}


def step_of(order: WheelOrderView, turn: int, came: Mapping[str, Any]) -> dict[str, Any]:
    """Return the step of an order: words to the agent, or a call with what came back."""
    mark = {"turn": turn, "acted_by": order.acted_by, "meta": {**came.get("meta", {}), ORDER: order.number}}
    if order.call is None:
        return {"kind": "message", "role": "user", "content": order.words or "", **mark}
    call = {"name": order.call.name, "arguments": order.call.arguments}
    return {"kind": "tool_call", **call, **came, **mark}
