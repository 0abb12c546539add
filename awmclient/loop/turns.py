"""Turn by turn: the policy decides, its calls are made, and a limit or an answer ends it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from awmclient.asking import gates
from awmclient.asking.rules import is_decision
from awmclient.errors import BoundaryFault, ModelFault
from awmclient.loop.calls import act, make_call
from awmclient.loop.choice import choose
from awmclient.loop.live import LiveRollout, LoopEnd
from awmclient.loop.steering import obey
from awmclient.policies import Turn
from awmclient.record.progress import ENDS
from awmclient.words.endings import FILTERED_TWICE, REPLIES, UNANSWERED, UNREAD, Ending
from awmclient.words.prompts import NUDGE, OFFERED, STALLED
from awmclient.words.toolcalls import Call, id_of

MALFORMED_IN_A_ROW = 3


async def play_turns(loop: LiveRollout) -> LoopEnd:
    try:
        while True:
            progress = loop.progress
            if progress.end is None:
                await obey(loop, progress.pending, progress.turn if progress.pending else None)
            # A resumed turn first makes its remaining calls; the limits on turns are checked between turns.
            if not progress.pending:
                await _nudge(loop)
                if progress.end is not None:
                    raise LoopEnd(*progress.end)
                if progress.malformed >= MALFORMED_IN_A_ROW:
                    raise LoopEnd("gave_up")
                if progress.spent >= loop.limits.max_steps:
                    raise LoopEnd("max_steps")
                loop.check_time()
            # A copy, because each call that is recorded leaves `pending`.
            decided = list(progress.pending)
            number = progress.turn if decided else progress.turn + 1
            with loop.span("turn", turn=number):
                await _turn(loop, decided, number)
    except LoopEnd as end:
        return end


async def _turn(loop: LiveRollout, decided: Sequence[Call], number: int) -> None:
    calls = decided or await _decide(loop, number)
    for place, call in enumerate(calls):
        if await obey(loop, calls[place:], number):
            break
        await make_call(loop, call, number)
        if loop.progress.end is not None:
            break


async def _decide(loop: LiveRollout, number: int) -> Sequence[Call]:
    """Let the policy choose the next turn and record it; return its calls."""
    try:
        turn = await choose(loop, number)
    except BoundaryFault:
        # A world that is not the recorded one is the reason to name.
        await loop.restored()
        raise
    await loop.restored()
    if turn is None or await obey(loop, turn.calls, number, turn.usage):
        return ()
    if turn.ending is not None:
        await _refuse(loop, turn, turn.ending, number)
        return ()
    if turn.malformed is not None:
        await _scold(loop, turn, turn.malformed, number, {UNREAD: True})
    elif turn.answer is not None or turn.gave_up:
        how = "gave_up" if turn.gave_up else "done"
        ends = {ENDS: {"stop_reason": how, "final_answer": turn.answer}}
        await loop.record(*_message_steps(loop, turn, number, ends=ends))
    elif turn.action is not None:
        await loop.record(*_message_steps(loop, turn, number))
        await act(loop, turn.action, number)
    elif not turn.calls:
        await _scold(loop, turn, REPLIES["empty"], number)
    elif steps := _message_steps(loop, turn, number):
        await loop.record(*steps)
    return turn.calls if turn.malformed is None else ()


def _message_steps(
    loop: LiveRollout, turn: Turn, number: int, ends: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Return this turn's message with the calls that it is about to make.

    It carries the turn's usage even without content.
    """
    content = "\n\n".join(part for part in (turn.content, turn.answer) if part)
    notes = {**(turn.meta or {}), **(ends or {})}
    extra: dict[str, Any] = {"reasoning": turn.reasoning, "usage": turn.usage, "meta": notes}
    extra |= {"finish_reason": turn.finish_reason, "tool_protocol": turn.tool_protocol}
    if turn.malformed is None and turn.calls:
        extra["calls"] = [{"name": call.name, "arguments": call.arguments, **id_of(call)} for call in turn.calls]
    extra = {name: value for name, value in extra.items() if value}
    # The step of a single call says all that its message would. Of several calls the message is needed: after a
    # crash it names those that are still to be made. So is that of a call that waits for an approval.
    waits = any(gates.is_gated(call.name, loop.limits.approve) for call in turn.calls)
    is_plain = not extra or (list(extra) == ["calls"] and len(turn.calls) == 1 and not waits)
    if not content and not ends and is_plain:
        return []
    return [{"kind": "message", "role": "assistant", "content": content, "turn": number, **extra}]


async def _scold(loop: LiveRollout, turn: Turn, words: str, number: int, meta: Mapping[str, Any] | None = None) -> None:
    """Report an unreadable turn to the agent, which can try again a few times."""
    nudge = {"kind": "nudge", "content": words, "turn": number, **({"meta": meta} if meta else {})}
    await loop.record(*_message_steps(loop, turn, number), nudge)


async def _refuse(loop: LiveRollout, turn: Turn, ending: Ending, number: int) -> None:
    """Take a turn that was cut off, filtered or left blank for no answer. The loop replies once, and the second in
    a row ends the episode. A filter is the endpoint's, so that end says nothing of the agent."""
    turn = replace(turn, calls=(), action=None, tool_protocol=None)
    if not loop.progress.unanswered:
        await _scold(loop, turn, REPLIES[ending], number, {UNANSWERED: ending})
    elif ending == "filtered":
        await loop.record(*_message_steps(loop, turn, number))
        raise ModelFault(FILTERED_TWICE)
    else:
        ends = {ENDS: {"stop_reason": ending, "final_answer": None}}
        await loop.record(*_message_steps(loop, turn, number, ends=ends))


async def _nudge(loop: LiveRollout) -> None:
    """Remind an agent that repeats itself or makes errors that it can ask."""
    progress, limits = loop.progress, loop.limits
    if not loop.has_expert or not is_decision(progress, limits.max_asks):
        return
    if (rule := limits.ask) is not None:
        if rule.reminds and rule.offers(loop.steps, progress):
            await loop.record({"kind": "nudge", "content": OFFERED, "turn": progress.turn})
        return
    failing = 0 < limits.nudge_after <= progress.errors
    if failing or 0 < limits.stall_after <= progress.stalled:
        await loop.record({"kind": "nudge", "content": NUDGE if failing else STALLED, "turn": progress.turn})
