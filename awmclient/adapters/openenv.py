"""OpenEnv's harness: an expert for any resource session, and sessions of an environment server of awmweb.

with SyncHttpDashboard(url, token) as dash:
    sessions = with_expert(AwmSessions("http://127.0.0.1:8100", scenario="helpdesk_1"), dash)
    session = sessions.create(task="helpdesk_1/0")
    rollout = listening(MCPHarnessAdapter()).run_white_box(model_step, session)
    reward = session.verify(rollout.messages).env_reward
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack, overload

from awmclient.adapters import recording
from awmclient.adapters.missing import missing
from awmclient.adapters.openenv_worlds import AwmSession, AwmSessions, heard, last_words, refused
from awmclient.choosing.captures import CAPTURE, CapturedTurn, CaptureMarks, turn_of, turns_of
from awmclient.client.bodies import EpisodeFields
from awmclient.client.sync import SyncHttpDashboard
from awmclient.errors import MalformedCall
from awmclient.nouns.tools import ASK_SPEC
from awmclient.nouns.values import ASK_TOOL
from awmclient.words.conversation import as_text
from awmclient.words.thinking import read_reasoning
from awmclient.words.toolcalls import Call, is_reserved, native_calls, unknown_tool

try:
    from openenv.core.env_server.mcp_types import Tool
    from openenv.core.harness import (
        HarnessAdapter,
        HarnessRolloutResult,
        HarnessRunLimits,
        Message,
        ModelStep,
        ModelStepResult,
        ResourceSession,
        ResourceSessionFactory,
        ToolResult,
        VerifyResult,
    )
except ImportError as error:
    raise missing("OpenEnv", "openenv", error) from error

log = logging.getLogger(__name__)
__all__ = ["AwmSession", "AwmSessions", "listening", "with_expert"]
Trace = Callable[[], Any]
COMPLETE_AT = 1.0
"""The reward from which an outcome is *complete* if the session does not name its type."""


@overload
def with_expert(
    session: ResourceSession,
    dashboard: SyncHttpDashboard,
    *,
    deadline_s: int = 300,
    max_asks: int = 5,
    trace: Trace | None = None,
    **fields: Unpack[EpisodeFields],
) -> ExpertSession: ...


@overload
def with_expert(
    session: ResourceSessionFactory[Any],
    dashboard: SyncHttpDashboard,
    *,
    deadline_s: int = 300,
    max_asks: int = 5,
    trace: Trace | None = None,
    **fields: Unpack[EpisodeFields],
) -> ExpertSessions: ...


def with_expert(
    session: Any,
    dashboard: SyncHttpDashboard,
    *,
    deadline_s: int = 300,
    max_asks: int = 5,
    trace: Trace | None = None,
    **fields: Unpack[EpisodeFields],
) -> Any:
    """Return the session with `ask_expert` among its tools, recorded as an episode; of a factory, one of such sessions.

    `verify` finishes the episode with the environment's own reward. `trace` returns the captured model calls so far (a
    `TrainingTrace`, `TraceEntry`s or `CapturedTurn`s) of an agent that owns its loop; by default the session's own.
    `fields` are those of `start_episode`.
    """
    limits: dict[str, Any] = {"deadline_s": deadline_s, "max_asks": max_asks, "trace": trace}
    if isinstance(session, ResourceSessionFactory):
        return ExpertSessions(session, dashboard, limits, fields)
    kind = _kind_of(session)
    return kind(session, dashboard, fields, **limits)


class ExpertSession(ResourceSession):
    """A resource session that is recorded, with an expert to ask. Whatever else it can, the session inside does."""

    def __init__(
        self,
        session: ResourceSession,
        dashboard: SyncHttpDashboard,
        fields: Mapping[str, Any],
        *,
        deadline_s: int = 300,
        max_asks: int = 5,
        trace: Trace | None = None,
    ) -> None:
        self.session = session
        self._trace, self._marks, self._untraced = trace or _trace_of(session), CaptureMarks(), ""
        self._calls: list[Call] = []
        self._lock = threading.Lock()
        self._said, self._over = 0, False
        self._error: Exception | None = None
        self._found: VerifyResult | None = None
        self._messages, shown = (
            list(session.initial_messages()),
            [tool for tool in session.list_tools() if not is_reserved(tool.name)],
        )
        # an environment's own tool of a reserved name would replace ours, or be a control tool
        self._tools = shown
        system, users = heard(self._messages)
        about: dict[str, Any] = {"environment": "openenv", "expert": "plain", **_about(session), **fields}
        about["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema} for tool in shown
        ]
        episode = dashboard.start_episode(users[0] if users else "(the session has no task)", **about)
        self.episode = episode
        self._record = recording.Recording(episode, deadline_s=deadline_s, max_asks=max_asks)
        self._record.now(self._record.open())
        self._record.now(self._record.heard(system, users))

    def __getattr__(self, name: str) -> Any:
        if name == "session":  # not set yet
            raise AttributeError(name)
        return getattr(self.session, name)

    def initial_messages(self) -> list[Message]:
        return [dict(one) for one in self._messages]

    def list_tools(self) -> list[Tool]:
        asks = Tool(name=ASK_SPEC.name, description=ASK_SPEC.description, input_schema=ASK_SPEC.input_schema)
        return [*self._tools, asks]

    def call_tool(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        self._catch_up()
        call = self._taken(name, arguments)
        if name == ASK_TOOL:
            asked = self._record.ask(arguments.get("question"), arguments.get("context"), call.call_id)
            return ToolResult(data=as_text(self._record.now(asked)))
        if is_reserved(name):
            self._record.now(self._record.came(call, error=unknown_tool(name)))
            return refused(unknown_tool(name))
        try:
            result = self.session.call_tool(name, arguments)
        except Exception as error:
            self._error = error
            self._record.now(self._record.came(call, error=_words_of(error)))
            raise
        fields: dict[str, Any] = {"result": result.data} if result.error is None else {"error": result.error}
        signals: dict[str, Any] = {"done": True} if result.done else {}
        if isinstance(self.session, AwmSession):
            signals = self.session.signals
        self._record.now(self._record.came(call, **fields, signals=signals))
        return result

    def recorded(self, model_step: ModelStep) -> ModelStep:
        """Return the model step with a record of what the model reads and says, and of its token IDs."""

        def step(messages: list[Message], tools: list[Tool], sampling: dict[str, Any]) -> ModelStepResult:
            self._record.now(self._record.heard(*heard(messages)))
            try:
                model_reply = model_step(messages, tools, sampling)
            except Exception as error:
                self._error = error
                raise
            self._note(model_reply)
            return model_reply

        return step

    def _note(self, model_reply: ModelStepResult) -> None:
        calls = [Call(one.name, dict(one.args), one.id) for one in model_reply.response.tool_calls]
        self._said += 1
        ids = {"prompt_token_ids": model_reply.prompt_ids, "completion_token_ids": model_reply.completion_ids}
        meta = None
        if any(ids.values()):
            meta = turn_of({**ids, "per_token_logps": model_reply.logprobs}, self._said).meta
        self._say(model_reply.response.content or "", calls, meta=meta)

    def _say(self, content: str, calls: Sequence[Call], **more: Any) -> None:
        with self._lock:
            self._calls = list(calls)
        self._record.now(self._record.said(content, calls, **more))

    def _taken(self, name: str, arguments: Mapping[str, Any]) -> Call:
        """Return the decided call that is made now: the session gets no ID of it."""
        with self._lock:
            alike = [call for call in self._calls if call.name == name]
            same = [call for call in alike if call.arguments == arguments] or alike
            if not same:
                return Call(name, dict(arguments))
            self._calls.remove(same[0])
        return Call(name, dict(arguments), same[0].call_id)

    def _catch_up(self) -> dict[str, Any]:
        """Record the captured turns that are new; return what the capture says otherwise about earlier ones."""
        if self._trace is None:
            return {}
        try:
            turns = _as_turns(self._trace())
        except Exception as error:  # the traces of others raise anything; the last try is at the end
            self._untraced = _words_of(error)
            log.info("the trace of episode %s cannot be read yet: %s", self.episode.id, self._untraced)
            return {}
        self._untraced = ""
        for turn in self._marks.fresh(turns):
            if turn.is_agent:
                self._record.now(self._record.heard(*heard(turn.request.get("messages") or ())))
                self._said += 1
                content, reasoning = read_reasoning(turn.message)
                self._say(content, _decided(turn.message), meta=turn.meta, reasoning=reasoning)
        return self._marks.changed(turns)

    def verify(self, transcript: list[Message], final_state: Any | None = None) -> VerifyResult:
        if self._found is not None:
            return self._found
        self._close_trace()
        answer = last_words(transcript)
        if not self._said and answer is not None:
            # without `listening`, the last words are in the transcript alone
            self._say(answer, ())
        try:
            self._found = self.session.verify(transcript, final_state)
        except Exception as error:
            self._end(error)
            raise
        is_done = final_state.get("done") if isinstance(final_state, Mapping) else None
        self._record.stop_reason = (
            "done" if is_done is not False or self._found.done and answer is not None else "max_steps"
        )
        self._record.final_answer, self._record.outcome = answer, _outcome(self._found)
        self._end()
        return self._found

    def _close_trace(self) -> None:
        changed = self._catch_up()
        if self._untraced:
            words = f"The token trace cannot be trained on: {self._untraced}"
            meta = {CAPTURE: {"trainable": False, "reason": self._untraced}}
            self._record.now(self._record.noted(words, meta))
        elif changed:
            meta = {CAPTURE: {"changed": changed}}
            self._record.now(self._record.noted("The capture changed what it says about earlier turns.", meta))

    def _end(self, error: BaseException | None = None) -> None:
        if not self._over:
            self._over = True
            self._record.now(self._record.close(error))

    def close(self) -> None:
        try:
            self._end(self._error or RuntimeError("The harness closed the session without verifying it."))
        finally:
            self.session.close()


class _LoopOwner(ExpertSession):
    """A session whose agent owns its loop. The methods are here, as a protocol is checked by a class's own."""

    def wait_for_completion(self, timeout_s: float | None = None) -> int:
        return int(self.session.wait_for_completion(timeout_s))  # type: ignore[attr-defined]


class _LoopOwningExpert(_LoopOwner):
    def fetch_proxy_trace(self) -> list[Any]:
        return list(self.session.fetch_proxy_trace())  # type: ignore[attr-defined]


class _TrainableExpert(_LoopOwner):
    def fetch_training_trace(self) -> Any:
        return self.session.fetch_training_trace()  # type: ignore[attr-defined]


class _WholeExpert(_LoopOwningExpert, _TrainableExpert):
    pass


def _kind_of(session: Any) -> type[ExpertSession]:
    has_entries, has_trace = hasattr(session, "fetch_proxy_trace"), hasattr(session, "fetch_training_trace")
    if not hasattr(session, "wait_for_completion") or not (has_entries or has_trace):
        return ExpertSession
    return _WholeExpert if has_entries and has_trace else _LoopOwningExpert if has_entries else _TrainableExpert


def _about(session: ResourceSession) -> dict[str, Any]:
    return session.about if isinstance(session, AwmSession) else {}


def _trace_of(session: Any) -> Trace | None:
    return getattr(session, "fetch_training_trace", None) or getattr(session, "fetch_proxy_trace", None)


def _as_turns(trace: Any) -> list[CapturedTurn]:
    is_ours = isinstance(trace, list) and all(isinstance(one, CapturedTurn) for one in trace)
    return trace if is_ours else turns_of(trace)


def _decided(message: Mapping[str, Any]) -> list[Call]:
    try:
        return native_calls(message.get("tool_calls") or [])
    except MalformedCall:  # the agent's own harness reports it to the model
        return []


def _words_of(error: BaseException) -> str:
    # `str` of a KeyError quotes its text
    return str(error.args[0]) if isinstance(error, KeyError) and error.args else f"{error}" or type(error).__name__


def _outcome(verdict: VerifyResult) -> dict[str, Any] | None:
    """Return the environment's own reward as a reported outcome, with the server's signed statement if there is one."""
    if verdict.env_reward is None:
        return None
    reward, kind = float(verdict.env_reward), verdict.metrics.get("reward_type")
    if not isinstance(kind, str) or not kind:
        kind = "complete" if reward >= COMPLETE_AT else "incomplete" if reward > 0 else "others"
    statement = verdict.artifacts.get("attestation")
    return {
        "reward_type": kind,
        "reward": reward,
        **({"attestation": statement} if isinstance(statement, dict) else {}),
    }


class ExpertSessions(ResourceSessionFactory[ExpertSession]):
    """A factory of sessions with an expert."""

    def __init__(
        self,
        sessions: ResourceSessionFactory[Any],
        dashboard: SyncHttpDashboard,
        limits: Mapping[str, Any],
        fields: EpisodeFields,
    ) -> None:
        self.sessions, self._dashboard, self._limits, self._fields = sessions, dashboard, limits, fields

    def create(self, task: Any, seed: int | None = None, episode_id: str | None = None) -> ExpertSession:
        session = self.sessions.create(task, seed, episode_id)
        try:
            return _kind_of(session)(session, self._dashboard, self._fields, **self._limits)
        except BaseException:
            session.close()
            raise


class _Listening(HarnessAdapter):
    def __init__(self, adapter: HarnessAdapter) -> None:
        self._adapter = adapter

    def run_white_box(
        self, model_step: ModelStep, session: ResourceSession, limits: HarnessRunLimits | None = None
    ) -> HarnessRolloutResult:
        heard = session.recorded(model_step) if isinstance(session, ExpertSession) else model_step
        return self._adapter.run_white_box(heard, session, limits)

    def run_black_box(self, session: ResourceSession, limits: HarnessRunLimits | None = None) -> HarnessRolloutResult:
        return self._adapter.run_black_box(session, limits)


def listening(adapter: HarnessAdapter) -> HarnessAdapter:
    """Return the harness adapter with a record of the model's words and token IDs, for sessions of `with_expert`."""
    return _Listening(adapter)
