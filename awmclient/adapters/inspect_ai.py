"""Inspect AI: `ask_expert` as a tool, hooks as the record. Each sample is an episode. An approver asks the desk.

with SyncHttpDashboard(url, token) as dash, recorded(dash, expert="plain"):
    eval(Task(samples, solver=[use_tools(look_up(), ask_expert()), generate()]), model="openai-api/local/my-model")

with SyncHttpDashboard(url, token) as dash, decided(dash, "evals"):
    eval(Task(samples, solver=[use_tools(pay()), generate()]), approval=[ApprovalPolicy(desk(), "pay*")], model=model)
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

from awmclient.adapters import recording
from awmclient.adapters.missing import missing
from awmclient.adapters.pausing import Pause, PauseDecision, Pauses
from awmclient.adapters.transcript import as_arguments, tokens
from awmclient.client.bodies import EpisodeFields
from awmclient.client.dashboard import HttpDashboard
from awmclient.client.sync import SyncHttpDashboard
from awmclient.errors import BoundaryFault
from awmclient.nouns.asks import CONTEXT_MAX
from awmclient.nouns.interrupts import PAUSE_S
from awmclient.nouns.tools import ASK_SPEC
from awmclient.nouns.values import ASK_TOOL
from awmclient.words.conversation import as_text
from awmclient.words.toolcalls import Call

try:
    from inspect_ai.approval import Approval, Approver, approver
    from inspect_ai.event import InfoEvent, ModelEvent, SpanBeginEvent, SpanEndEvent, ToolEvent
    from inspect_ai.hooks import (
        BeforeModelGenerate,
        Hooks,
        SampleAttemptStart,
        SampleEnd,
        SampleEvent,
        SampleScoring,
        SampleStart,
        TaskStart,
        hooks,
    )
    from inspect_ai.log import EvalSample, transcript
    from inspect_ai.model import ChatMessage, ChatMessageTool, ContentText
    from inspect_ai.scorer import value_to_float
    from inspect_ai.tool import Tool, ToolCall, ToolCallView, ToolDef
    from inspect_ai.util import LimitExceededError
except ImportError as error:
    raise missing("Inspect AI", "inspect_ai", error) from error

SOURCE = "awmclient"
TIMES = ("time", "working")
_CAUGHT_UP_S = 30.0


@dataclass
class _Target:
    """The dashboard and fields of new episodes while `recorded` is entered."""

    dash: SyncHttpDashboard
    limits: dict[str, Any]
    fields: EpisodeFields
    samples: dict[str, _Sample] = field(default_factory=dict)


_target: list[_Target] = []
# Each sample runs in a task of its own, so the variable is the sample's.
_sample: ContextVar[_Sample | None] = ContextVar("awmclient_sample", default=None)


@contextlib.contextmanager
def recorded(
    dash: SyncHttpDashboard, *, deadline_s: int = 300, max_asks: int = 5, **fields: Unpack[EpisodeFields]
) -> Iterator[None]:
    """Record the samples of evaluations inside the block, an episode for each.

    `fields` are those of `start_episode`. A score of the sample is the episode's *reported* outcome.
    """
    target = _Target(dash, {"deadline_s": deadline_s, "max_asks": max_asks}, fields)
    _target.append(target)
    try:
        yield
    finally:
        _target.remove(target)


def ask_expert() -> Tool:
    """Return the tool for agents of recorded samples."""
    about = ASK_SPEC.input_schema["properties"]
    parameters = {name: str(one["description"]) for name, one in about.items()}
    return ToolDef(_ask, name=ASK_SPEC.name, description=ASK_SPEC.description, parameters=parameters).as_tool()


async def _ask(question: str, context: str | None = None) -> str:
    sample = _sample.get()
    if sample is None:
        raise RuntimeError("ask_expert works in samples that are recorded: see awmclient.adapters.inspect_ai.recorded")
    await sample.catch_up()
    return as_text(await sample.here(sample.ask(question, context, sample.asking(question, context))))


class _Sample(recording.Recording):
    """A sample's episode."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._asking: list[Call] = []
        self._marks: dict[int, asyncio.Event] = {}
        self._count = itertools.count()
        self._scoring: set[str] = set()
        self.is_scored = False
        self._seen: set[str | None] = set()

    def asking(self, question: str, context: str | None) -> str | None:
        """Return the id of the call that asks this."""
        arguments = {"question": question} | ({"context": context} if context is not None else {})
        # A tool does not get the ID of its call, so its arguments have to find it.
        match = next((call for call in self._asking if call.arguments == arguments), None)
        if match is not None:
            self._asking.remove(match)
        return match.call_id if match else None

    async def catch_up(self) -> None:
        """Wait until the events before this one are recorded: hooks get them from a queue."""
        mark = next(self._count)
        passed = self._marks[mark] = asyncio.Event()
        transcript().info({"mark": mark}, source=SOURCE)
        async with asyncio.timeout(_CAUGHT_UP_S):
            await passed.wait()

    async def read(self, messages: list[Any]) -> None:
        if self.is_scored:
            return
        await self.catch_up()
        system = "\n\n".join(one.text for one in messages if one.role == "system")
        users = [one.text for one in messages if one.role == "user"]
        await self.here(self.heard(system, users))

    async def happened(self, event: Any) -> None:
        match event:
            case InfoEvent(source="awmclient"):
                self._marks.pop(event.data["mark"]).set()
            # Scorers call models and tools as well, which are not the agent's.
            case SpanBeginEvent(type="scorers" | "scorer"):
                self._scoring.add(event.id)
            case SpanEndEvent():
                self._scoring.discard(event.id)
            case ModelEvent() if not self._scoring and not event.error and self._is_new(event.uuid):
                message = event.output.message
                made = message.tool_calls or []
                calls = [Call(one.function, as_arguments(one.arguments), one.id) for one in made]
                self._asking = [call for call in calls if call.name == ASK_TOOL]
                reason = event.output.stop_reason
                await self.here(self.said(message.text, calls, tokens(event.output.usage), finish_reason=reason))
            case ToolEvent() if not self._scoring and self._is_new(event.uuid):
                call = Call(event.function, dict(event.arguments), event.id)
                wrong = event.error.message if event.error else None
                await self.here(self.came(call, result=event.result, error=wrong))

    def _is_new(self, event: str | None) -> bool:
        """Return whether an event is new. Inspect sends one again when it adds something to it."""
        is_new = event not in self._seen
        self._seen.add(event)
        return is_new

    async def ended(self, sample: EvalSample) -> None:
        self.outcome = _outcome(sample)
        self.final_answer = sample.output.completion
        if sample.limit is not None:
            self.stop_reason = "timeout" if sample.limit.type in TIMES else "max_steps"
        await self.here(self.close(BoundaryFault(sample.error.message) if sample.error else None))


def _outcome(sample: EvalSample) -> Mapping[str, Any] | None:
    """Return the first score as a reported outcome, if it is a number or a grade."""
    for name, score in (sample.scores or {}).items():
        if isinstance(score.value, str | int | float | bool):
            return {"reward_type": name, "reward": value_to_float()(score.value)}
    return None


@hooks(name="awmclient", description="Records samples at an awmweb dashboard")
class _Recorder(Hooks):
    """The hooks that Inspect calls; one instance for the whole process."""

    def enabled(self) -> bool:
        return bool(_target)

    async def on_sample_start(self, data: SampleStart) -> None:
        target, summary = _target[-1], data.summary
        task_text = summary.input if isinstance(summary.input, str) else summary.input[-1].text
        start = target.dash.start_episode
        # In a thread: it waits for the dashboard, and Inspect's loop must go on.
        episode = await asyncio.to_thread(start, task_text, **{"key": data.sample_id, **target.fields})
        sample = target.samples[data.sample_id] = _Sample(episode, **target.limits)
        _sample.set(sample)
        await sample.here(sample.open())

    async def on_before_model_generate(self, data: BeforeModelGenerate) -> None:
        sample = _sample.get()
        if sample is None:
            return
        if sample.left:
            # A limit ends a sample without making it an error.
            raise LimitExceededError("custom", value=1, limit=1, message="The episode was ended at the dashboard.")
        await sample.read(data.input)

    async def on_sample_event(self, data: SampleEvent) -> None:
        if sample := self._of(data.sample_id):
            await sample.happened(data.event)

    async def on_sample_scoring(self, data: SampleScoring) -> None:
        if sample := self._of(data.sample_id):
            sample.is_scored = True

    async def on_sample_end(self, data: SampleEnd) -> None:
        if sample := self._of(data.sample_id):
            del _target[-1].samples[data.sample_id]
            await sample.ended(data.sample)

    def _of(self, sample: str) -> _Sample | None:
        return _target[-1].samples.get(sample)


class _SamplePauses(Pauses):
    client = "Inspect"


@dataclass
class _Desk:
    """Who decides, and the tasks and samples of evaluations, while `decided` is entered."""

    pauses: Pauses
    tasks: dict[str, str] = field(default_factory=dict)
    samples: dict[str, _Calls] = field(default_factory=dict)


_desks: list[_Desk] = []
_calls: ContextVar[_Calls | None] = ContextVar("awmclient_calls", default=None)


@contextlib.contextmanager
def decided(dash: HttpDashboard | SyncHttpDashboard, run: str, *, deadline_s: int = PAUSE_S) -> Iterator[None]:
    """Let the approver `desk` of evaluations inside the block ask this dashboard. `run` collects the samples.

    A sample that an evaluation runs again (`eval_retry`, or an attempt after an error) finds the decision on a call
    that it makes again after the same words. Without a decision by the deadline a call is rejected.
    """
    made = _Desk(_SamplePauses(dash, run, deadline_s=deadline_s))
    _desks.append(made)
    try:
        yield
    finally:
        _desks.remove(made)


@approver(name="awmweb_desk")
def desk() -> Approver:
    """Return the approver that lets people at the desk approve, edit (*modify*) or reject calls."""

    async def approve(message: str, call: ToolCall, view: ToolCallView, history: list[ChatMessage]) -> Approval:
        calls = _calls.get()
        if calls is None:
            raise RuntimeError("The approver works inside awmclient.adapters.inspect_ai.decided")
        made = await calls.decide(message, call, history)
        if made.verdict == "edit":
            edited = replace(call, arguments=made.arguments)
            return Approval(decision="modify", modified=edited, explanation=made.edited)
        if made.verdict == "approve":
            return Approval(decision="approve")
        return Approval(decision="reject", explanation=made.reason)

    return approve


class _Calls:
    """The calls of one attempt of a sample, and the decisions on them.

    A call is named by the words before it, because a model gives it another ID when the sample runs again; equal ones
    are counted.
    """

    def __init__(self, pauses: Pauses, thread: str) -> None:
        self._pauses, self._thread = pauses, thread
        self._count: Counter[str] = Counter()
        self._schemas: dict[str, Any] = {}
        self._waiting: dict[str, dict[str, PauseDecision]] = {}
        self._ran: dict[str, PauseDecision] = {}
        self._edited: dict[str, str] = {}

    async def decide(self, message: str, call: ToolCall, history: list[ChatMessage]) -> PauseDecision:
        name = _digest([*map(_message_parts, history), call.function, call.arguments])
        self._count[name] += 1
        pause = Pause.of_call(
            f"{name}:{self._count[name]}", call.function, call.arguments, schema=self._schemas.get(call.function)
        )
        if message.strip():
            pause = replace(pause, typed={**pause.typed, "context": message.strip()[:CONTEXT_MAX]})
        made = (await self._pauses.decide(self._thread, name, [pause]))[pause.id]
        # models that give equal calls one ID make them one after the other
        self._waiting.setdefault(call.id, {})[pause.id] = made
        if made.edited:
            self._edited[call.id] = made.edited
        return made

    def before_model(self, data: BeforeModelGenerate) -> None:
        """Note the tools' schemas, and say what was edited beside its result: the call stays as the model wrote it."""
        self._schemas |= {one.name: one.parameters.model_dump(exclude_none=True) for one in data.tools}
        for place, message in enumerate(data.input):
            words = self._edited.get(message.tool_call_id or "") if isinstance(message, ChatMessageTool) else None
            if words and not message.text.startswith(words):  # a retry sees it again
                is_text = isinstance(message.content, str)
                content = f"{words}\n\n{message.content}" if is_text else [ContentText(text=words), *message.content]
                data.input[place] = message.model_copy(update={"content": content})

    async def returned(self, call_id: str) -> None:
        self._ran |= self._waiting.pop(call_id, {})
        await self.confirm()

    async def confirm(self) -> None:
        """Confirm the decisions on calls that were made. What an unavailable dashboard missed is sent with the next."""
        ran = dict(self._ran)
        await self._pauses.taken(self._thread, ran)
        self._ran = {name: made for name, made in self._ran.items() if name not in ran}


def _message_parts(message: ChatMessage) -> list[Any]:
    """Return a message without IDs."""
    made = getattr(message, "tool_calls", None) or []
    return [message.role, message.text, [[call.function, call.arguments] for call in made]]


def _digest(parts: list[Any]) -> str:
    return hashlib.sha256(json.dumps(parts, default=str, sort_keys=True).encode()).hexdigest()[:32]


@hooks(name="awmclient_desk", description="Confirms decisions of the desk after their calls")
class _Confirmer(Hooks):
    def enabled(self) -> bool:
        return bool(_desks)

    async def on_task_start(self, data: TaskStart) -> None:
        # the ID of the task, which a retry keeps: a new evaluation asks again
        _desks[-1].tasks[data.eval_id] = f"{data.spec.task} {data.spec.task_id}"

    async def on_sample_attempt_start(self, data: SampleAttemptStart) -> None:
        open_desk = _desks[-1]
        thread = f"{open_desk.tasks[data.eval_id]}, sample {data.summary.id}, epoch {data.summary.epoch}"
        calls = open_desk.samples[data.sample_id] = _Calls(open_desk.pauses, thread)
        _calls.set(calls)

    async def on_before_model_generate(self, data: BeforeModelGenerate) -> None:
        if calls := _calls.get():
            calls.before_model(data)

    async def on_sample_event(self, data: SampleEvent) -> None:
        event, calls = data.event, _desks[-1].samples.get(data.sample_id)
        if calls is not None and isinstance(event, ToolEvent) and not event.pending:
            await calls.returned(event.id)

    async def on_sample_end(self, data: SampleEnd) -> None:
        if calls := _desks[-1].samples.pop(data.sample_id, None):
            await calls.confirm()
