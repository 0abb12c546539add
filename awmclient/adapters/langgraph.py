"""LangGraph: `ask_expert` as a tool, callbacks as the record. Works for every runnable of LangChain, too.

async with Recording(episode) as record:
    agent = create_agent(chat, tools=[look_up, record.ask_expert])
    await agent.ainvoke({"messages": [("user", "Order tea")]}, {"callbacks": [record]})
"""

from __future__ import annotations

import traceback
from typing import Annotated, Any
from uuid import UUID

from awmclient.adapters import recording
from awmclient.adapters.missing import missing
from awmclient.adapters.transcript import tokens
from awmclient.conversation import as_text
from awmclient.schema import ASK_SPEC
from awmclient.toolcalls import Call

try:
    from langchain_core.callbacks import AsyncCallbackHandler
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
    from langchain_core.outputs import ChatGeneration, LLMResult
    from langchain_core.tools import InjectedToolCallId, StructuredTool
    from langgraph.errors import GraphBubbleUp, GraphRecursionError
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

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
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
            await self.here(self.said(message.text, calls, tokens(message.usage_metadata)))

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
            given = inputs if inputs is not None else {"input": input_str}
            self._calls[run_id] = Call(str(serialized.get("name", "")), given, more.get("tool_call_id"))

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
