"""smolagents: `ask_expert` as a tool, step callbacks and the agent's model as the record.

with Recording(episode) as record:
    agent = record.attach(ToolCallingAgent([look_up, record.ask_expert], chat))
    agent.run("Order tea")
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from awmclient.adapters import recording
from awmclient.adapters.missing import missing
from awmclient.adapters.transcript import as_arguments, as_json, tokens
from awmclient.nouns.tools import ASK_SPEC
from awmclient.nouns.values import ASK_TOOL
from awmclient.words.conversation import as_text
from awmclient.words.toolcalls import Call

try:
    from smolagents import ActionStep, ChatMessage, FinalAnswerStep, MultiStepAgent, Tool
    from smolagents.utils import AgentMaxStepsError
except ImportError as error:
    raise missing("smolagents", "smolagents", error) from error

A = TypeVar("A", bound=MultiStepAgent)
CODE_TOOL = "python_interpreter"


class Recording(recording.Recording):
    """An episode that agents are attached to. Requires one of `SyncHttpDashboard`, as smolagents is not async.

    A step callback runs after the step's calls, so the model's output is recorded through `agent.model`, and each
    result of a `ToolCallingAgent` through `agent.execute_tool_call`. A `CodeAgent` makes one call per step, its code.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._calls: list[Call] = []
        # smolagents makes the calls of a step in threads.
        self._lock = threading.Lock()
        self.ask_expert = _AskExpert(self)

    def attach(self, agent: A) -> A:
        """Record this agent from now on and return it."""
        agent.model = _RecordedModel(agent.model, self)
        agent.step_callbacks.register(ActionStep, self._stepped)
        agent.step_callbacks.register(FinalAnswerStep, self._answered)
        if hasattr(agent, "execute_tool_call"):
            agent.execute_tool_call = self._recorded(agent.execute_tool_call)
        return agent

    def take(self, name: str, arguments: Any) -> Call | None:
        """Return the decided call that is made now; equal calls are taken in order."""
        call_arguments = as_arguments(arguments)
        with self._lock:
            calls = [call for call in self._calls if call.name == name and call.arguments == call_arguments]
            if calls:
                self._calls.remove(calls[0])
        return calls[0] if calls else None

    def record_turn(self, message: ChatMessage) -> None:
        made = message.tool_calls or []
        self._calls = [Call(one.function.name, as_arguments(one.function.arguments), one.id) for one in made]
        self.now(self.said(_content_text(message.content), self._calls, tokens(message.token_usage)))

    def _recorded(self, execute: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
        def execute_tool_call(tool_name: str, arguments: Any) -> Any:
            call = None if tool_name == ASK_TOOL else self.take(tool_name, arguments)
            if call is None:
                return execute(tool_name, arguments)
            try:
                result = execute(tool_name, arguments)
            except Exception as error:
                self.now(self.came(call, error=str(error)))
                raise
            self.now(self.came(call, result=result))
            return result

        return execute_tool_call

    def _stepped(self, step: ActionStep) -> None:
        if isinstance(step.error, AgentMaxStepsError):
            self.stop_reason = "max_steps"
        elif step.code_action is not None:
            call = Call(CODE_TOOL, {"code": step.code_action})
            error = str(step.error) if step.error else None
            self.now(self.came(call, result=step.observations, error=error))

    def _answered(self, step: FinalAnswerStep) -> None:
        self.final_answer = as_text(as_json(step.output))


class _RecordedModel:
    """An agent's model, with a record of its input and output."""

    def __init__(self, model: Any, record: Recording) -> None:
        self._model, self._record = model, record

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def generate(self, messages: list[Any], *args: Any, **named: Any) -> ChatMessage:
        system = "\n\n".join(_said_by("system", messages))
        self._record.now(self._record.heard(system, list(_said_by("user", messages))))
        message = self._model.generate(messages, *args, **named)
        self._record.record_turn(message)
        return message

    __call__ = generate

    def generate_stream(self, *args: Any, **named: Any) -> Iterator[Any]:
        raise NotImplementedError("A recorded agent does not stream: leave out stream_outputs.")


class _AskExpert(Tool):
    name = ASK_SPEC.name
    description = ASK_SPEC.description
    inputs = {
        "question": dict(ASK_SPEC.input_schema["properties"]["question"]),
        "context": {**ASK_SPEC.input_schema["properties"]["context"], "nullable": True},
    }
    output_type = "string"

    def __init__(self, record: Recording) -> None:
        super().__init__()
        self._record = record

    def forward(self, question: str, context: str | None = None) -> str:
        arguments = {"question": question} | ({"context": context} if context is not None else {})
        call = self._record.take(ASK_TOOL, arguments)
        return as_text(self._record.now(self._record.ask(question, context, call.call_id if call else None)))


def _said_by(role: str, messages: Iterable[Any]) -> Iterator[str]:
    for raw_message in messages:
        message = raw_message if isinstance(raw_message, ChatMessage) else ChatMessage.from_dict(raw_message)
        if str(getattr(message.role, "value", message.role)) == role:
            yield _content_text(message.content)


def _content_text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if part.get("type") == "text")
    return str(content or "")
