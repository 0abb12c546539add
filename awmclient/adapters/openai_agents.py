"""The OpenAI Agents SDK: `ask_expert` as a function tool, the run's hooks as the record. Calls of tools with
`needs_approval` can be decided at the desk.

async with HttpDashboard(url, token) as dash:
    episode = await dash.start_episode("Order tea", expert="plain")
    async with Recording(episode) as record:
        agent = Agent("clerk", tools=[look_up, record.ask_expert])
        await Runner.run(agent, "Order tea", hooks=record, run_config=record.run_config)

await Pauses(dash, "orders", "var/threads").run(agent, "Order tea", thread="order-7")
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from awmclient.adapters import pausing, recording
from awmclient.adapters.missing import missing
from awmclient.adapters.pausing import Pause, SavedThreads
from awmclient.adapters.transcript import UnreportedCalls, as_arguments, tokens
from awmclient.client.dashboard import HttpDashboard
from awmclient.client.sync import SyncHttpDashboard
from awmclient.nouns.tools import ASK_SPEC
from awmclient.words.conversation import as_text
from awmclient.words.toolcalls import Call

try:
    from agents import (
        Agent,
        FunctionTool,
        ItemHelpers,
        MaxTurnsExceeded,
        ModelResponse,
        RunConfig,
        RunHooks,
        Runner,
        RunResult,
        RunState,
        Tool,
        ToolApprovalItem,
        ToolErrorFormatterArgs,
    )
    from agents.tool_context import ToolContext
except ImportError as error:
    raise missing("The OpenAI Agents SDK", "openai-agents", error) from error


class Recording(recording.Recording, RunHooks[Any]):
    """An episode as the hooks of a run.

    `run_config` makes the run say which tools failed, if their failures are left to the SDK; what a failure function of
    your own returns is recorded as a result.
    """

    limits = (MaxTurnsExceeded,)

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._calls = UnreportedCalls()
        self.ask_expert = FunctionTool(
            name=ASK_SPEC.name,
            description=ASK_SPEC.description,
            params_json_schema=dict(ASK_SPEC.input_schema),
            on_invoke_tool=self._asked,
            # A strict schema requires every property, and `context` is optional.
            strict_json_schema=False,
        )
        self.run_config = RunConfig(tool_error_formatter=self._failed)

    async def on_llm_start(
        self, context: Any, agent: Agent[Any], system_prompt: str | None, input_items: list[Any]
    ) -> None:
        await self.here(self.heard(system_prompt, list(_users(input_items))))

    async def on_llm_end(self, context: Any, agent: Agent[Any], response: ModelResponse) -> None:
        words = [text for item in response.output if (text := ItemHelpers.extract_text(item))]
        made = [item for item in response.output if item.type == "function_call"]
        calls = [Call(one.name, as_arguments(one.arguments), one.call_id) for one in made]
        self._calls.open(calls)
        await self.here(self.said("\n\n".join(words), calls, tokens(response.usage)))

    async def on_tool_end(self, context: Any, agent: Agent[Any], tool: Tool, result: object) -> None:
        call = self._calls.take(getattr(context, "tool_call_id", ""), tool.name)
        if call is not None:
            await self.here(self.came(call, result=result))

    async def on_handoff(self, context: Any, from_agent: Agent[Any], to_agent: Agent[Any]) -> None:
        # A handoff is a call of a tool that the agent itself does not have.
        tools = {tool.name for tool in from_agent.tools}
        call = self._calls.first_of_others(tools)
        if call is not None:
            await self.here(self.came(call, result={"assistant": to_agent.name}))

    async def _failed(self, failed: ToolErrorFormatterArgs[Any]) -> None:
        """Record an error with the text that the model reads; the SDK's own text is unchanged."""
        call = self._calls.take(failed.call_id, failed.tool_name)
        if call is not None:
            trace = "".join(traceback.format_exception(failed.error)) if failed.error else ""
            await self.here(self.came(call, error=failed.default_message, traceback=trace))

    async def _asked(self, context: ToolContext[Any], arguments: str) -> str:
        fields = as_arguments(arguments)
        asking = self.ask(fields.get("question"), fields.get("context"), context.tool_call_id)
        return as_text(await self.here(asking))


def _users(items: Iterable[Any]) -> Iterable[str]:
    for item in items:
        if isinstance(item, Mapping) and item.get("role") == "user":
            content = item.get("content")
            yield content if isinstance(content, str) else as_text(content)


class Pauses(pausing.Pauses):
    """The approvals of runs. A paused run is kept in `folder` as the SDK serializes it.

    The SDK runs a call as the model made it, so the desk refuses edits; a rejection can say what to call instead.
    """

    client = "OpenAI Agents"

    def __init__(self, dash: HttpDashboard | SyncHttpDashboard, run: str, folder: str | Path, **more: Any) -> None:
        super().__init__(dash, run, **more)
        self._saved = SavedThreads(folder)

    async def run(
        self, agent: Agent[Any], run_input: Any, *, thread: str, context: Any = None, **more: Any
    ) -> RunResult:
        """Run an agent until it pauses no more. `more` is passed on to `Runner.run`.

        A thread that is paused goes on from its saved state, and `run_input` is not read: a process that starts again
        calls the same.
        """
        saved = self._saved.load(thread)
        if saved is None:
            result = await Runner.run(agent, run_input, context=context, **more)
            if not result.interruptions:
                return result
            state = self._keep(thread, result)
        else:
            # Given to the state, not to the run: a run with a context of its own has no approvals.
            state = await RunState.from_string(agent, saved, context_override=context)
        while True:
            waiting = state.get_interruptions()
            if not waiting:
                raise ValueError(f"The saved run of {thread} has no pause for the agent {agent.name}; was it renamed?")
            run = f"{self._saved.run_of(thread)}:{state.to_json()['current_turn']}"
            decided = await self.decide(thread, run, [_pause_of(one) for one in waiting])
            for interruption in waiting:
                made = decided[_name_of(interruption)]
                if made.verdict == "approve":
                    state.approve(interruption)
                else:
                    state.reject(interruption, rejection_message=made.reason)
            result = await Runner.run(agent, state, **more)
            if not result.interruptions:
                break
            state = self._keep(thread, result)
            await self.taken(thread, decided)
        await self.settle(thread)
        self._saved.drop(thread)
        return result

    def _keep(self, thread: str, result: RunResult) -> RunState[Any, Any]:
        state = result.to_state()
        self._saved.save(thread, state.to_string())
        return state


def _pause_of(item: ToolApprovalItem) -> Pause:
    arguments = as_arguments(_part(item, "arguments") or {})
    return Pause.of_call(_name_of(item), item.tool_name or "tool", arguments, can_edit=False)


def _name_of(item: ToolApprovalItem) -> str:
    return str(_part(item, "call_id") or _part(item, "id"))


def _part(item: ToolApprovalItem, name: str) -> Any:
    raw = item.raw_item
    return raw.get(name) if isinstance(raw, Mapping) else getattr(raw, name, None)
