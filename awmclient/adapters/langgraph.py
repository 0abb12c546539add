"""LangGraph: `ask_expert` as a tool, callbacks as the record. Works for every runnable of LangChain, too. The
interrupts of a graph with a checkpointer can be decided at the desk.

async with Recording(episode) as record:
    agent = create_agent(chat, tools=[look_up, record.ask_expert])
    await agent.ainvoke({"messages": [("user", "Order tea")]}, {"callbacks": [record]})

agent = create_agent(chat, tools=[pay], middleware=[HumanInTheLoopMiddleware({"pay": True})], checkpointer=saver)
await Pauses(dash, "orders").run(agent, given, {"configurable": {"thread_id": "order-7"}})
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from uuid import UUID

from awmclient.adapters import human_interrupt, pausing, recording
from awmclient.adapters.missing import missing
from awmclient.adapters.pausing import Pause, PauseDecision
from awmclient.adapters.transcript import tokens
from awmclient.nouns.ask_kinds import ASK_KINDS
from awmclient.nouns.tools import ASK_SPEC
from awmclient.words.conversation import as_text
from awmclient.words.toolcalls import Call

try:
    from langchain_core.callbacks import AsyncCallbackHandler
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
    from langchain_core.outputs import ChatGeneration, LLMResult
    from langchain_core.tools import InjectedToolCallId, StructuredTool
    from langgraph.errors import GraphBubbleUp, GraphRecursionError
    from langgraph.types import Command, Interrupt
except ImportError as error:
    raise missing("LangGraph", "langgraph", error) from error

About = ASK_SPEC.input_schema["properties"]
Question = Annotated[str, About["question"]["description"]]
Context = Annotated[str | None, About["context"]["description"]]


class Recording(recording.Recording, AsyncCallbackHandler):
    """An episode as callbacks. What a model generates inside a tool is the tool's own affair and is not recorded."""

    limits = (GraphRecursionError,)
    raise_error = True  # otherwise LangChain only logs refusals of the dashboard, and continues unrecorded
    # Awaited one after another, so that steps keep the order of the calls.
    run_inline = True

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._calls: dict[UUID, Call] = {}
        self._inside: set[UUID] = set()
        self.ask_expert = StructuredTool.from_function(
            func=self._asked_now, coroutine=self._asked, name=ASK_SPEC.name, description=ASK_SPEC.description
        )

    async def on_chain_start(
        self, serialized: Any, inputs: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **more: Any
    ) -> None:
        # Only to follow the nesting: a chain inside a tool leads to model calls that are the tool's.
        self._is_nested(run_id, parent_run_id)

    async def on_chat_model_start(
        self,
        serialized: Any,
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **more: Any,
    ) -> None:
        if self._is_nested(run_id, parent_run_id):
            return
        system = "\n\n".join(one.text for one in messages[0] if isinstance(one, SystemMessage))
        users = [one.text for one in messages[0] if isinstance(one, HumanMessage)]
        await self.here(self.heard(system, users))

    async def on_llm_end(self, response: LLMResult, *, run_id: UUID, **more: Any) -> None:
        generation = response.generations[0][0]
        if run_id in self._inside or not isinstance(generation, ChatGeneration):
            return
        message = generation.message
        if isinstance(message, AIMessage):
            calls = [Call(one["name"], dict(one["args"]), one["id"]) for one in message.tool_calls]
            # providers say it in words of their own
            ended = {**message.response_metadata, **(generation.generation_info or {})}
            reason = ended.get("finish_reason") or ended.get("stop_reason")
            await self.here(self.said(message.text, calls, tokens(message.usage_metadata), finish_reason=reason))

    async def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        inputs: dict[str, Any] | None = None,
        **more: Any,
    ) -> None:
        if not self._is_nested(run_id, parent_run_id):
            self._inside.add(run_id)
            arguments = inputs if inputs is not None else {"input": input_str}
            self._calls[run_id] = Call(str(serialized.get("name", "")), arguments, more.get("tool_call_id"))

    async def on_tool_end(self, output: Any, *, run_id: UUID, **more: Any) -> None:
        call = self._calls.pop(run_id, None)
        if call is None:
            return
        content = output.content if isinstance(output, ToolMessage) else output
        if isinstance(output, ToolMessage) and output.status == "error":
            await self.here(self.came(call, error=as_text(content)))
        else:
            await self.here(self.came(call, result=content))

    async def on_tool_error(self, error: BaseException, *, run_id: UUID, **more: Any) -> None:
        call = self._calls.pop(run_id, None)
        if call is not None and not self.left and not isinstance(error, GraphBubbleUp):  # an interrupt is no error
            trace = "".join(traceback.format_exception(error))
            await self.here(self.came(call, error=f"{type(error).__name__}: {error}", traceback=trace))

    def _is_nested(self, run: UUID, parent: UUID | None) -> bool:
        if parent in self._inside:
            self._inside.add(run)
        return parent in self._inside

    async def _asked(
        self, question: Question, tool_call_id: Annotated[str, InjectedToolCallId], context: Context = None
    ) -> str:
        return as_text(await self.here(self.ask(question, context, tool_call_id)))

    def _asked_now(
        self, question: Question, tool_call_id: Annotated[str, InjectedToolCallId], context: Context = None
    ) -> str:
        return as_text(self.now(self.ask(question, context, tool_call_id)))


ACTIONS, APPROVAL = "action_requests", "tool_approval"
"""Marks of the interrupts of LangChain's `HumanInTheLoopMiddleware`: of all calls of a turn, and of one call."""
RESUMED = "__resume__"
"""The channel in which LangGraph keeps the answers of a task that has not ended."""


class Pauses(pausing.Pauses):
    """The interrupts of a graph. What `interrupt` returns depends on the value that it was given:

    - the calls of `HumanInTheLoopMiddleware`: its decisions;
    - a `HumanInterrupt` or a list of them: a list with a `HumanResponse` for each;
    - a typed ask (`{"kind": "choice", "options": [...]}`): the decision, as in the protocol;
    - anything else is a question: the words of the answer.

    Without a decision a call is rejected, and anything else gets `{"status": "no_advice", "reason": ...}`.
    """

    client = "LangGraph"

    async def run(self, graph: Any, graph_input: Any, config: Mapping[str, Any], **more: Any) -> Any:
        """Run a graph until it pauses no more; returns what `ainvoke` returns last.

        A thread that was left in the middle goes on from its checkpoint, and `graph_input` is not read: a process that
        starts again calls the same. `more` is passed on to `ainvoke`.
        """
        thread = str(config["configurable"]["thread_id"])
        result = await self._begun(graph, graph_input, config, more)
        while waiting := (await graph.aget_state(config)).interrupts:
            decided = await self.decide(thread, "", [_pause_of(one) for one in waiting])
            answers = {one.id: _answer_to(one, decided[one.id]) for one in waiting}
            result = await graph.ainvoke(Command(resume=answers), config, **more)
            await self.taken(thread, decided)
        await self.settle(thread)
        return result

    async def _begun(self, graph: Any, graph_input: Any, config: Mapping[str, Any], more: Mapping[str, Any]) -> Any:
        state, saved = await graph.aget_state(config), await graph.checkpointer.aget_tuple(config)
        if saved is None or _has_ended(state, saved):
            return state.values if graph_input is None else await graph.ainvoke(graph_input, config, **more)
        if state.interrupts and not any(channel == RESUMED for _, channel, _ in saved.pending_writes or []):
            return state.values
        # An answer that LangGraph has stored but not acted on would answer the next interrupt, if it came again.
        return await graph.ainvoke(None, config, **more)


def _has_ended(state: Any, saved: Any) -> bool:
    """Return whether a thread has nothing left to do. A process can end between two writes, when no task is next."""
    return not (state.next or saved.pending_writes or saved.metadata.get("source") == "input")


def _pause_of(interrupt: Interrupt) -> Pause:
    value = interrupt.value
    if requests := human_interrupt.requests_of(value):
        return human_interrupt.pause_of(interrupt.id, requests)
    if not isinstance(value, Mapping):
        return Pause(interrupt.id, as_text(value))
    if ACTIONS in value:
        allowed = {one["action_name"]: one["allowed_decisions"] for one in value.get("review_configs", [])}
        calls = [_call_of(str(at), one, allowed.get(one["name"])) for at, one in enumerate(value[ACTIONS], 1)]
        words = "\n\n".join(str(one.get("description") or "") for one in value[ACTIONS])
        return Pause(interrupt.id, words, {"kind": "approval", "calls": calls})
    if value.get("type") == APPROVAL:
        taken, schema = _allowed_by(interrupt.response_schema)
        return Pause(
            interrupt.id,
            str(value.get("description") or ""),
            {"kind": "approval", "calls": [_call_of("1", value, taken, schema)]},
        )
    if value.get("kind") in ASK_KINDS:
        return Pause(interrupt.id, str(value.get("question") or value.get("message") or "The graph paused."), value)
    return Pause(interrupt.id, as_text(dict(value)))


def _call_of(
    number: str, action: Mapping[str, Any], allowed: Sequence[str] | None, schema: Any = None
) -> dict[str, Any]:
    call = {"id": number, "name": action["name"], "arguments": dict(action["args"])}
    if allowed is not None and "edit" not in allowed:
        # no edit fits, so the desk refuses one: the graph could not run it
        return {**call, "schema": {"const": call["arguments"]}}
    return {**call, **({"schema": schema} if schema else {})}


def _answer_to(interrupt: Interrupt, made: PauseDecision) -> Any:
    value = interrupt.value
    if requests := human_interrupt.requests_of(value):
        return human_interrupt.answers_to(requests, made)
    if not isinstance(value, Mapping) or not (ACTIONS in value or value.get("type") == APPROVAL):
        return made.answer
    actions = value.get(ACTIONS) or [value]
    call_verdicts = (made.decision or {}).get("calls") or [{}] * len(actions)
    decisions = [_decision_of(action, one, made) for action, one in zip(actions, call_verdicts, strict=True)]
    return {"decisions": decisions} if ACTIONS in value else decisions[0]


def _decision_of(action: Mapping[str, Any], call_verdict: Mapping[str, Any], made: PauseDecision) -> dict[str, Any]:
    match call_verdict.get("verdict"):
        case "approve":
            return {"type": "approve"}
        case "edit":
            return {"type": "edit", "edited_action": {"name": action["name"], "args": call_verdict["arguments"]}}
    return {"type": "reject", "message": str(call_verdict.get("reason") or made.reason)}


def _allowed_by(schema: Any) -> tuple[list[str] | None, Any]:
    """Return the decisions that a graph takes on a call, and the schema of edited arguments."""
    if not isinstance(schema, Mapping):
        return None, None
    names = [one for one in ("approve", "edit", "reject") if f'"{one}"' in json.dumps(schema)]
    edited = _property(schema, "edited_action", schema.get("$defs") or {})
    return names, _property(edited, "args", schema.get("$defs") or {}) if edited else None


def _property(schema: Any, name: str, definitions: Mapping[str, Any]) -> Any:
    """Return the property of this name, wherever it is, with its reference resolved."""
    for candidate in [schema, *definitions.values()]:
        subschema = (candidate.get("properties") or {}).get(name) if isinstance(candidate, Mapping) else None
        if isinstance(subschema, Mapping):
            return definitions.get(str(subschema.get("$ref", "")).removeprefix("#/$defs/"), subschema)
    return None
