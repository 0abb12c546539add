"""PydanticAI: `ask_expert` as a tool, a capability's hooks as the record.

async with Recording(episode) as record:
    agent = Agent(chat, tools=[look_up, record.ask_expert], capabilities=[record])
    await agent.run("Order tea")
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from typing import Any

from awmclient.adapters import recording
from awmclient.adapters.missing import missing
from awmclient.adapters.transcript import UnreportedCalls, as_arguments, as_json, tokens
from awmclient.conversation import as_text
from awmclient.schema import ASK_SPEC
from awmclient.toolcalls import Call

try:
    from pydantic_ai import RunContext, Tool
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, ToolRetryError, UsageLimitExceeded
    from pydantic_ai.messages import ModelMessage, ModelRequest, SystemPromptPart, ToolReturnPart, UserPromptPart
except ImportError as error:
    raise missing("PydanticAI", "pydantic-ai", error) from error

NO_RESULT_YET = (ApprovalRequired, CallDeferred, ModelRetry, ToolRetryError)


class Recording(recording.Recording, AbstractCapability[Any]):
    """An episode as a capability. A call that the model must repeat is recorded with the message it got."""

    limits = (UsageLimitExceeded,)

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._calls = UnreportedCalls()
        self.ask_expert: Tool[Any] = Tool.from_schema(
            self._asked, ASK_SPEC.name, ASK_SPEC.description, dict(ASK_SPEC.input_schema), takes_ctx=True
        )

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
        requests = [one for one in request_context.messages if isinstance(one, ModelRequest)]
        # Calls without a hook, such as those that the model must repeat, are found in the next request.
        for part in _parts(requests, ToolReturnPart):
            if call := self._calls.take(part.tool_call_id, part.tool_name):
                failed = part.outcome != "success"
                words = part.model_response_str(wrap_if_error=False)
                await self.here(self.came(call, **({"error": words} if failed else {"result": part.content})))
        system = [str(part.content) for part in _parts(requests, SystemPromptPart)]
        system += [requests[-1].instructions] if requests and requests[-1].instructions else []
        users = [_text(part.content) for part in _parts(requests, UserPromptPart)]
        await self.here(self.heard("\n\n".join(system), users))
        return request_context

    async def after_model_request(self, ctx: Any, *, request_context: Any, response: Any) -> Any:
        calls = [Call(one.tool_name, as_arguments(one.args or {}), one.tool_call_id) for one in response.tool_calls]
        self._calls.open(calls)
        await self.here(self.said(response.text or "", calls, tokens(response.usage)))
        return response

    async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        try:
            result = await handler(args)
        # The call has not ended: the model repeats it, or someone approves it first.
        except NO_RESULT_YET:
            raise
        except Exception as error:
            if not self.left and (made := self._calls.take(call.tool_call_id, call.tool_name)):
                trace = "".join(traceback.format_exception(error))
                await self.here(self.came(made, error=f"{type(error).__name__}: {error}", traceback=trace))
            raise
        if made := self._calls.take(call.tool_call_id, call.tool_name):
            await self.here(self.came(made, result=getattr(result, "return_value", result)))
        return result

    async def after_run(self, ctx: Any, *, result: Any) -> Any:
        self.final_answer = as_text(as_json(result.output))
        return result

    async def _asked(self, ctx: RunContext[Any], question: Any = None, context: Any = None) -> dict[str, Any]:
        return await self.here(self.ask(question, context, ctx.tool_call_id))


def _parts(messages: Iterable[ModelMessage], kind: type) -> list[Any]:
    return [part for message in messages for part in message.parts if isinstance(part, kind)]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else as_text(as_json(list(content)))
