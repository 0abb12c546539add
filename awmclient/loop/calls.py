"""What one call of a turn does: it runs, waits for an approval, or asks the experts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from awmclient.asking import gates
from awmclient.asking.rules import NOT_NOW
from awmclient.client.bodies import NO_QUESTIONS_LEFT, context_text, question_problem
from awmclient.errors import EnvironmentFault, ExpertFault
from awmclient.loop.live import LiveRollout, boundary, naming
from awmclient.loop.ports import ActionEnvironment, ToolEnvironment
from awmclient.nouns.kinds import is_message, is_nudge
from awmclient.nouns.values import ASK_TOOL
from awmclient.record.observations import as_object, observed, result_of, signals_of
from awmclient.record.progress import LoopProgress
from awmclient.words.arguments import UNKNOWN, unknown_arguments
from awmclient.words.toolcalls import Call, id_of, is_reserved, unknown_tool


async def make_call(loop: LiveRollout, call: Call, number: int) -> None:
    """Make one call of a turn and record its result."""
    await loop.restored()
    place = {"turn": number, **id_of(call)}
    if call.name == ASK_TOOL and loop.has_expert:
        await _ask(loop, call, place)
        return
    arguments = call.arguments
    step = {"kind": "tool_call", "name": call.name, "arguments": arguments, **place}
    # Never sent, so that no agent reaches a control tool, or one that it is not offered; the error is that of an
    # unknown one.
    if is_reserved(call.name) or call.name in loop.withheld:
        refused = {"error": unknown_tool(call.name), "reward_type": "tool_not_found", "meta": {gates.NOT_SENT: True}}
        await loop.record({**step, **refused})
        return
    unknown = unknown_arguments(loop.tools, call)
    if unknown and unknown.refused:
        refused = {"error": unknown.words, "reward_type": "invalid_args", "meta": {gates.NOT_SENT: True}}
        await loop.record({**step, **refused})
        return
    if gates.is_gated(call.name, loop.limits.approve):
        mark = dict(await _approval(loop, call, number))
        arguments = mark.pop("arguments", arguments)
        step |= {"arguments": arguments, "approval": mark}
        if mark["verdict"] == "reject":
            await loop.record({**step, "error": gates.refusal_of(mark)})
            return
    loop.check_time()
    with boundary(EnvironmentFault):
        assert isinstance(loop.environment, ToolEnvironment)
        observation = await loop.environment.call_tool(call.name, arguments)
        with naming(f"turn {number}, {call.name}"):
            came = result_of(observation)
    note = {"meta": {**came.get("meta", {}), UNKNOWN: unknown.names}} if unknown else {}
    await loop.record({**step, **came, **note})


async def _approval(loop: LiveRollout, call: Call, number: int) -> Mapping[str, Any]:
    """Return what was decided on a call; asks for all calls of its turn that wait, unless this was done before."""
    if problem := gates.unfit(call):
        return gates.refused(problem)
    place = gates.place_in_turn(loop.steps, number)
    marks = gates.verdicts(loop.steps, number)
    if str(place) not in marks:
        # of several calls the turn's message has named those to come
        upcoming = loop.progress.pending or [call]
        why = next((step["content"] for step in reversed(loop.steps) if is_message(step)), "")
        reason = why if loop.steps and loop.steps[-1].get("turn") == number else ""
        await _propose(loop, gates.proposed(upcoming, place, loop.limits.approve, reason), number)
        marks = gates.verdicts(loop.steps, number)
    return marks[str(place)]


async def _propose(loop: LiveRollout, calls: list[dict[str, Any]], number: int) -> None:
    """Ask for an approval of calls. The environment's session stays open, and this rollout's clock is paused."""
    assert loop.episode is not None
    names = ", ".join(dict.fromkeys(call["name"] for call in calls))[:500]
    question = f"May the agent make {'this call' if len(calls) == 1 else f'these {len(calls)} calls'}: {names}?"
    typed: dict[str, Any] = {"kind": "approval", "calls": calls, "on_timeout": "reject"}
    start, seen = loop.clock(), {}
    try:
        with boundary(ExpertFault):
            advice = await loop.episode.ask(question, deadline_s=loop.limits.ask_deadline_s, turn=number, **typed)
        seen = advice.observation()
    finally:
        loop.waited += loop.clock() - start
    loop.add({"kind": "ask", "question": question, "typed": typed, "advice": seen, "turn": number})


async def act(loop: LiveRollout, action: dict[str, Any], number: int) -> None:
    loop.check_time()
    with boundary(EnvironmentFault):
        observation = await cast(ActionEnvironment, loop.environment).step(action)
        seen = as_object(observed(observation))
        with naming(f"turn {number}"):
            signals = signals_of(observation)
    await loop.record({"kind": "action", "action": action, "observation": seen, "turn": number, **signals})


async def _ask(loop: LiveRollout, call: Call, place: dict[str, Any]) -> None:
    """Ask the experts. The environment's session stays open, and this rollout's clock is paused."""
    assert loop.episode is not None
    question, context = call.arguments.get("question"), call.arguments.get("context")
    refused = {"kind": "tool_call", "name": call.name, "arguments": call.arguments, **place}
    if problem := question_problem(question):
        await loop.record({**refused, "error": problem})
        return
    if loop.progress.asks >= loop.limits.max_asks:
        await loop.record({**refused, "result": NO_QUESTIONS_LEFT})
        return
    if not _is_offered(loop, place["turn"]):
        await loop.record({**refused, "result": NOT_NOW})
        return
    question, words = str(question), context_text(context)
    start = loop.clock()
    with boundary(ExpertFault):
        advice = await loop.episode.ask(question, context=words, deadline_s=loop.limits.ask_deadline_s, **place)
    # `timeout_s` does not count waits for people.
    loop.waited += loop.clock() - start
    asked = {"question": question} | ({"context": words} if words is not None else {})
    # Not appended: the dashboard wrote this step when it opened the ask.
    loop.add({"kind": "ask", **asked, "advice": advice.observation(), **place})


def _is_offered(loop: LiveRollout, number: int) -> bool:
    """Return what the rule decided before this turn, read from the record: the same after a crash."""
    if (rule := loop.limits.ask) is None:
        return True
    before = [step for step in loop.steps if (step.get("turn") or 0) < number]
    if before and is_nudge(before[-1]) and LoopProgress.after(before[:-1]).may_be_reminded:
        return True  # its reminder
    return rule.offers(before, LoopProgress.after(before))
