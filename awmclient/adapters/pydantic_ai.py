"""PydanticAI: `ask_expert` as a tool, a capability's hooks as the record. Deferred calls can be decided at the desk.

async with Recording(episode) as record:
    agent = Agent(chat, tools=[look_up, record.ask_expert], capabilities=[record])
    await agent.run("Order tea")

agent = Agent(chat, tools=[Tool(pay, requires_approval=True)], output_type=[str, DeferredToolRequests])
await Pauses(dash, "orders", "var/threads").run(agent, "Order tea", thread="order-7")
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from awmclient.adapters import pausing, recording
from awmclient.adapters.missing import missing
from awmclient.adapters.pausing import Pause, PauseDecision, SavedThreads
from awmclient.adapters.transcript import UnreportedCalls, as_arguments, as_json, tokens
from awmclient.client.dashboard import HttpDashboard
from awmclient.client.sync import SyncHttpDashboard
from awmclient.nouns.tools import ASK_SPEC
from awmclient.words.conversation import as_text
from awmclient.words.toolcalls import Call

try:
    from pydantic import TypeAdapter
    from pydantic_ai import (
        Agent,
        DeferredToolRequests,
        DeferredToolResults,
        RunContext,
        Tool,
        ToolApproved,
        ToolDenied,
    )
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, ToolRetryError, UsageLimitExceeded
    from pydantic_ai.messages import (
        ModelMessage,
        ModelMessagesTypeAdapter,
        ModelRequest,
        SystemPromptPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
except ImportError as error:
    raise missing("PydanticAI", "pydantic-ai", error) from error

NO_RESULT_YET = (ApprovalRequired, CallDeferred, ModelRetry, ToolRetryError)


class Recording(recording.Recording, AbstractCapability[Any]):
    """An episode as a capability. A call that the model must repeat is recorded with the message it got."""

    limits = (UsageLimitExceeded,)

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
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
        users = [_content_text(part.content) for part in _parts(requests, UserPromptPart)]
        await self.here(self.heard("\n\n".join(system), users))
        return request_context

    async def after_model_request(self, ctx: Any, *, request_context: Any, response: Any) -> Any:
        calls = [Call(one.tool_name, as_arguments(one.args or {}), one.tool_call_id) for one in response.tool_calls]
        self._calls.open(calls)
        reason = getattr(response, "finish_reason", None)
        await self.here(self.said(response.text or "", calls, tokens(response.usage), finish_reason=reason))
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


def _content_text(content: Any) -> str:
    return content if isinstance(content, str) else as_text(as_json(list(content)))


REQUESTS = TypeAdapter(DeferredToolRequests)


class Pauses(pausing.Pauses):
    """The deferred calls of runs: approvals, and calls whose result comes from outside, which a person writes.

    The output type of the agent has to hold `DeferredToolRequests`. A paused run is kept in `folder`.
    """

    client = "PydanticAI"

    def __init__(self, dash: HttpDashboard | SyncHttpDashboard, run: str, folder: str | Path, **more: Any) -> None:
        super().__init__(dash, run, **more)
        self._saved = SavedThreads(folder)

    async def run(self, agent: Agent[Any, Any], user_prompt: Any, *, thread: str, **more: Any) -> Any:
        """Run an agent until it defers no more; returns the last result. `more` is passed on to `Agent.run`.

        A thread that is paused goes on from its saved messages, and `user_prompt` is not read: a process that starts
        again calls the same.
        """
        if (saved := self._saved.load(thread)) is not None:
            kept = json.loads(saved)
            messages = ModelMessagesTypeAdapter.validate_python(kept["messages"])
            requests = REQUESTS.validate_python(kept["requests"])
            more.pop("message_history", None)
        else:
            result = await agent.run(user_prompt, **more)
            more.pop("message_history", None)
            if not isinstance(result.output, DeferredToolRequests):
                return result
            messages, requests = self._keep(thread, result)
        while True:
            pauses = [_pause_of(one, "approval") for one in requests.approvals]
            pauses += [_pause_of(one, requests.kind(one.tool_call_id)) for one in requests.calls]
            decided = await self.decide(thread, f"{self._saved.run_of(thread)}:{len(messages)}", pauses)
            edits = [made.edited for made in decided.values() if made.edited]
            result = await agent.run(
                # a model that sees its own call beside another result makes the call again
                "\n".join(edits) or None,
                message_history=messages,
                deferred_tool_results=_results(requests, decided),
                **more,
            )
            if not isinstance(result.output, DeferredToolRequests):
                break
            messages, requests = self._keep(thread, result)
            await self.taken(thread, decided)
        await self.settle(thread)
        self._saved.drop(thread)
        return result

    def _keep(self, thread: str, result: Any) -> tuple[list[ModelMessage], DeferredToolRequests]:
        messages = result.all_messages()
        kept = {
            "messages": json.loads(ModelMessagesTypeAdapter.dump_json(messages)),
            "requests": REQUESTS.dump_python(result.output, mode="json"),
        }
        self._saved.save(thread, json.dumps(kept))
        return messages, result.output


def _pause_of(call: ToolCallPart, kind: str) -> Pause:
    arguments = as_arguments(call.args or {})
    if kind == "approval":
        return Pause.of_call(call.tool_call_id, call.tool_name, arguments)
    asked = arguments.get("question") if kind == "question" else None
    words = str(asked or f"What is the result of {call.tool_name} {as_text(arguments)}?")
    return Pause(call.tool_call_id, words, {"kind": "question", "context": as_text(arguments)})


def _results(requests: DeferredToolRequests, decided: dict[str, PauseDecision]) -> DeferredToolResults:
    results = DeferredToolResults()
    for call in requests.approvals:
        made = decided[call.tool_call_id]
        override = made.arguments if made.verdict == "edit" else None
        is_denied = made.verdict == "reject"
        results.approvals[call.tool_call_id] = (
            ToolDenied(made.reason) if is_denied else ToolApproved(override_args=override)
        )
    for call in requests.calls:
        results.calls[call.tool_call_id] = decided[call.tool_call_id].answer
    return results
