"""OpenEnv's harness: an expert for any resource session, and sessions of an environment server of awmweb.

with SyncHttpDashboard(url, token) as dash:
    sessions = with_expert(AwmSessions("http://127.0.0.1:8100", scenario="helpdesk_1"), dash)
    session = sessions.create(task="helpdesk_1/0")
    rollout = listening(MCPHarnessAdapter()).run_white_box(model_step, session)
    reward = session.verify(rollout.messages).env_reward
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Unpack, overload

import httpx

from awmclient.adapters import recording
from awmclient.adapters.missing import missing
from awmclient.choosing.captures import CAPTURE, CapturedTurn, CaptureMarks, turn_of, turns_of
from awmclient.client.bodies import EpisodeFields
from awmclient.client.sync import SyncHttpDashboard
from awmclient.errors import MalformedCall
from awmclient.nouns.tools import ASK_SPEC
from awmclient.nouns.values import ASK_TOOL
from awmclient.record.observations import TRACEBACK, signals_of
from awmclient.words.conversation import as_text
from awmclient.words.thinking import read_reasoning
from awmclient.words.toolcalls import Call, is_reserved, native_calls, unknown_tool

try:
    from openenv.core.env_server.mcp_types import Tool
    from openenv.core.generic_client import GenericEnvClient
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
Trace = Callable[[], Any]
COMPLETE_AT = 1.0
"""The reward from which an outcome is *complete* if the session does not name its type."""
NO_VERIFIER, JUDGE_ERROR = "no_verifier", "judge_error"


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
        system, users = _heard(self._messages)
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
            return _refused(unknown_tool(name))
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
            self._record.now(self._record.heard(*_heard(messages)))
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
                self._record.now(self._record.heard(*_heard(turn.request.get("messages") or ())))
                self._said += 1
                content, reasoning = read_reasoning(turn.message)
                self._say(content, _decided(turn.message), meta=turn.meta, reasoning=reasoning)
        return self._marks.changed(turns)

    def verify(self, transcript: list[Message], final_state: Any | None = None) -> VerifyResult:
        if self._found is not None:
            return self._found
        self._close_trace()
        answer = _last_words(transcript)
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


def _heard(messages: Sequence[Mapping[str, Any]]) -> tuple[str, list[str]]:
    """Return the system prompt and what users said."""
    pairs = [(str(one.get("role")), _content_text(one.get("content"))) for one in messages]
    return "\n\n".join(text for role, text in pairs if role == "system"), [
        text for role, text in pairs if role == "user"
    ]


def _content_text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return str(content or "")


def _decided(message: Mapping[str, Any]) -> list[Call]:
    try:
        return native_calls(message.get("tool_calls") or [])
    except MalformedCall:  # the agent's own harness reports it to the model
        return []


def _last_words(transcript: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the agent's answer: its last message, if it makes no call."""
    replies = [one for one in transcript if one.get("role") == "assistant"]
    return _content_text(replies[-1].get("content")) if replies and not replies[-1].get("tool_calls") else None


def _words_of(error: BaseException) -> str:
    # `str` of a KeyError quotes its text
    return str(error.args[0]) if isinstance(error, KeyError) and error.args else f"{error}" or type(error).__name__


def _refused(words: str) -> ToolResult:
    # harnesses show the model the data alone
    return ToolResult(data=f"Error: {words}", error=words)


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


class AwmSession(ResourceSession):
    """One task on an environment server of awmweb: the agent's tools, and the verifier for `verify`.

    Control tools are out of reach: the server knows them only with a key that no one else has.
    """

    def __init__(
        self,
        url: str,
        scenario: str,
        task_idx: int,
        *,
        seed: int | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 300.0,
    ) -> None:
        self._client = GenericEnvClient(url, headers=dict(headers or {}), message_timeout_s=timeout_s).sync()
        self._key = secrets.token_hex(16)
        self._found: VerifyResult | None = None
        self.signals: dict[str, Any] = {}
        """What the server said beside the last result, for the record only: rewards, and which rows changed."""
        try:
            self._begin(scenario, task_idx, seed)
        except BaseException:
            self._client.close()
            raise

    def _begin(self, scenario: str, task_idx: int, seed: int | None) -> None:
        chosen = {"scenario": scenario, "task_idx": task_idx, **({"seed": seed} if seed is not None else {})}
        seen = self._client.reset(**chosen, control_key=self._key, state_diff=True).observation
        if seen.get("reward_type") == "reset_error" or not seen.get("task"):
            raise ValueError(f"{scenario}/{task_idx}: {seen.get('error') or 'there is no such task'}")
        self.task = str(seen["task"])
        version = (seen.get("metadata") or {}).get("scenario_digest")
        self.about = {**chosen, "environment": "awm", **({"scenario_digest": version} if version else {})}
        listed = self._client.step({"type": "list_tools"}).observation.get("tools") or []
        self._tools = [
            Tool(
                name=tool["name"],
                description=tool.get("description") or "",
                input_schema=tool.get("input_schema") or {},
            )
            for tool in listed
            if not is_reserved(tool["name"])
        ]

    def initial_messages(self) -> list[Message]:
        return [{"role": "user", "content": self.task}]

    def list_tools(self) -> list[Tool]:
        return list(self._tools)

    def call_tool(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        # refused here in any spelling, and by the server without the key
        if is_reserved(name):
            self.signals = {"reward_type": "tool_not_found"}
            return _refused(unknown_tool(name))
        seen = self._called(name, arguments)
        if seen.error is not None:
            return _refused(seen.error)
        return ToolResult(data=as_text(seen.tool_result), done=seen.done)

    def _called(self, name: str, arguments: Mapping[str, Any]) -> SimpleNamespace:
        request = {"type": "call_tool", "tool_name": name, "arguments": dict(arguments)}
        result = self._client.step(request)
        seen, about = result.observation, result.observation.get("metadata") or {}
        error = seen.get("error")
        observation = SimpleNamespace(
            reward=result.reward,
            done=bool(result.done),
            reward_type=seen.get("reward_type"),
            error=str(error) if error is not None else None,
            tool_result=seen.get("tool_result"),
            state_diff=about.get("state_diff"),
            whole=seen,
        )
        trace = str(about.get("detail") or "")[-TRACEBACK:]
        kind = {"reward_type": observation.reward_type} if observation.reward_type else {}
        self.signals = {**kind, **signals_of(observation), **({"meta": {"traceback": trace}} if trace else {})}
        return observation

    def verify(self, transcript: list[Message], final_state: Any | None = None) -> VerifyResult:
        """Run the task's verifier, once. `env_reward` is None if there is none, or if it failed."""
        if self._found is None:
            arguments = {"control_key": self._key, "final_answer": _last_words(transcript) or ""}
            seen = self._called("verify", arguments)
            if seen.reward_type == NO_VERIFIER:
                seen = self._called("verify", {**arguments, "verifier_mode": "sql"})
            is_judged = seen.reward is not None and seen.reward_type not in (NO_VERIFIER, JUDGE_ERROR)
            statement = (seen.whole.get("metadata") or {}).get("attestation")
            self._found = VerifyResult(
                env_reward=float(seen.reward) if is_judged else None,
                done=True,
                metrics={"reward_type": seen.reward_type},
                artifacts={
                    "verify_result": seen.whole.get("verify_result"),
                    **({"attestation": statement} if statement else {}),
                },
            )
        return self._found

    def close(self) -> None:
        self._client.close()


class AwmSessions(ResourceSessionFactory[AwmSession]):
    """Sessions of an environment server of awmweb, one a task.

    A task is `"helpdesk_1/0"`, a mapping with `scenario` and `task_idx`, or a prompt with the task's text. Without one,
    sessions take the tasks in their order, by the number at the end of `episode_id` if there is one.
    """

    def __init__(
        self,
        url: str,
        *,
        scenario: str = "",
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 300.0,
    ) -> None:
        self.url, self._scenario = url.rstrip("/"), scenario
        self._headers, self._timeout_s = dict(headers or {}), timeout_s
        self._listed: list[dict[str, Any]] | None = None
        self._next = 0
        self._lock = threading.Lock()

    def tasks(self) -> list[dict[str, Any]]:
        """Return the tasks of the server, or of the scenario: `scenario`, `task_idx`, `task`."""
        with self._lock:
            if self._listed is None:
                self._listed = list(self._fetched())
            return list(self._listed)

    def _fetched(self) -> Iterator[dict[str, Any]]:
        place = f"{self.url}/awmenv/tasks"
        answer = httpx.post(place, json={"split": "all"}, headers=self._headers, timeout=self._timeout_s)
        for task in answer.raise_for_status().json()["tasks"]:
            if not self._scenario or task["scenario"] == self._scenario:
                yield {name: task.get(name) for name in ("scenario", "task_idx", "task")}

    def create(self, task: Any = None, seed: int | None = None, episode_id: str | None = None) -> AwmSession:
        scenario, task_idx = self._chosen(task, episode_id)
        return AwmSession(self.url, scenario, task_idx, seed=seed, headers=self._headers, timeout_s=self._timeout_s)

    def _chosen(self, task: Any, episode_id: str | None) -> tuple[str, int]:
        if isinstance(task, Mapping):
            return str(task.get("scenario") or self._scenario), int(task["task_idx"])
        if isinstance(task, list):  # a prompt of messages
            task = _heard(task)[1][-1]
        listed = self.tasks()
        if task is None:
            if not listed:
                raise ValueError(f"{self.url} has no task{' of ' + self._scenario if self._scenario else ''}.")
            row = listed[self._place(episode_id) % len(listed)]
            return str(row["scenario"]), int(row["task_idx"])
        named = {f"{one['scenario']}/{one['task_idx']}": one for one in listed}
        chosen_task = named.get(str(task)) or next((one for one in listed if one["task"] == task), None)
        if chosen_task is None:
            raise ValueError(f"{self.url} has no task {str(task)[:200]!r}.")
        return str(chosen_task["scenario"]), int(chosen_task["task_idx"])

    def _place(self, episode_id: str | None) -> int:
        """Return the number of an episode: a collection that goes on takes the tasks it would have taken."""
        number = (episode_id or "").rpartition("-")[2]
        if number.isdecimal():
            return int(number)
        with self._lock:
            self._next += 1
            return self._next - 1
