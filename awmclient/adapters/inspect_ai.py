"""Inspect AI: `ask_expert` as a tool, hooks as the record. Each sample is an episode.

with SyncHttpDashboard(url, token) as dash, recorded(dash, expert="plain"):
    eval(Task(samples, solver=[use_tools(look_up(), ask_expert()), generate()]), model="openai-api/local/my-model")
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Unpack

from awmclient.adapters import recording
from awmclient.adapters.missing import missing
from awmclient.adapters.transcript import as_arguments, tokens
from awmclient.bodies import EpisodeFields
from awmclient.client import SyncHttpDashboard
from awmclient.conversation import as_text
from awmclient.errors import BoundaryFault
from awmclient.schema import ASK_SPEC, ASK_TOOL
from awmclient.toolcalls import Call

try:
    from inspect_ai.event import InfoEvent, ModelEvent, SpanBeginEvent, SpanEndEvent, ToolEvent
    from inspect_ai.hooks import BeforeModelGenerate, Hooks, SampleEnd, SampleEvent, SampleScoring, SampleStart, hooks
    from inspect_ai.log import EvalSample, transcript
    from inspect_ai.scorer import value_to_float
    from inspect_ai.tool import Tool, ToolDef
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

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._asking: list[Call] = []
        self._marks: dict[int, asyncio.Event] = {}
        self._count = itertools.count()
        self._scoring: set[str] = set()
        self.is_scored = False
        self._seen: set[str | None] = set()

    def asking(self, question: str, context: str | None) -> str | None:
        """Return the id of the call that asks this."""
        given = {"question": question} | ({"context": context} if context is not None else {})
        # A tool does not get the ID of its call, so its arguments have to find it.
        found = next((call for call in self._asking if call.arguments == given), None)
        if found is not None:
            self._asking.remove(found)
        return found.call_id if found else None

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
                await self.here(self.said(message.text, calls, tokens(event.output.usage)))
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
        given = summary.input if isinstance(summary.input, str) else summary.input[-1].text
        start = target.dash.start_episode
        # In a thread: it waits for the dashboard, and Inspect's loop must go on.
        episode = await asyncio.to_thread(start, given, **{"key": data.sample_id, **target.fields})
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
