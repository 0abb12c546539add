"""A person at the wheel of a live episode: what a loop records of it, and what the record says of it. Pure.

The loop reads orders from its dashboard (`ports.SteeredEpisode`) and carries them out; each of its steps says who
acted. Called by `rollout.py` and `standing.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from awmclient.schema import WheelOrderView
from awmclient.toolcalls import Call

WHEEL, ORDER = "wheel", "order"
"""Keys in `meta`: of a note, that the wheel was taken or handed back; of a step, the order that it carries out."""
TAKEN, HANDED_BACK = "taken", "handed_back"
_SHOWN = 5


def is_note(step: Mapping[str, Any]) -> bool:
    """Return whether a step is a loop's note about the wheel, which the loop needs to go on after a crash."""
    return step.get("kind") == "note" and WHEEL in (step.get("meta") or {})


def word_of(step: Mapping[str, Any]) -> str:
    """Return what a note says of the wheel; "" for any other step."""
    return str(step["meta"][WHEEL]) if is_note(step) else ""


def order_of(step: Mapping[str, Any]) -> int:
    """Return the number of the order that a step carries out; 0 without one."""
    number = (step.get("meta") or {}).get(ORDER)
    return number if isinstance(number, int) else 0


def taken(dropped: Sequence[Call], turn: int | None, usage: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the note that a person has the wheel, with the calls that the agent decided and that are not made. With a
    `turn`, the agent had chosen it. `usage` is what the choice cost, if no other step says so."""
    names = ", ".join(call.name for call in dropped[:_SHOWN])
    more = f" and {len(dropped) - _SHOWN} more" if len(dropped) > _SHOWN else ""
    lost = f" Not made: {names}{more}." if dropped else ""
    meta = {WHEEL: TAKEN, "dropped": [{"name": call.name, "arguments": call.arguments} for call in dropped]}
    note = {"kind": "note", "content": f"A person has the wheel.{lost}", "meta": meta, "turn": turn, "usage": usage}
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
