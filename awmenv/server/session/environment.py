"""openenv's `Environment` over our sessions: actions in, observations out, with upstream's error texts and rewards.

Owns what the two channels can do: a reset and a step (on /ws) are control and agent together, `agent_call` (on /mcp) is
the agent's alone, where a control tool gets the same error as an unknown one; and the key of a connection. The rules of
an episode are `sessions`'. `connections` makes one of these per connection, and openenv one for each question about
metadata and tasks.
"""

import hmac
import json
import time
import uuid
from typing import Any

import orjson
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_types import CallToolAction, ListToolsAction
from openenv.core.env_server.types import Action, EnvironmentMetadata, State

from awmenv.attesting import NotAttested, Trail, sent_verifier, sha256_of, signed
from awmenv.errors import AwmenvError
from awmenv.models import CONTROL_TOOLS, BuildReport
from awmenv.server.session.library import SPLIT
from awmenv.server.session.marks import REAL, RECORDED, CallMark, WorldStart
from awmenv.server.session.sessions import CallResult, Session
from awmenv.server.session.shared import World
from awmenv.server.session.verifying import VerifierResult
from awmenv.server.session.wire import WorldObservation, WorldState
from awmenv.server.strict import clean
from awmenv.version import version

REWARDS = {"complete": 1.0, "incomplete": 0.1, "format_error": -1.0}
FORMAT_ERRORS = frozenset({"tool_not_found", "invalid_args", "invalid_action"})
NOT_STARTED = "Sub-environment is not running. Call reset() first."
MAX_NAME = 200
ENDED = "Episode has ended. Call reset() to start a new episode."

# Upstream sorts errors by words in their message; AWMENV_LABELS=upstream does the same for those who compare with it.
_UPSTREAM_WORDS = (
    ("tool_not_found", ("not found", "unknown tool", "no tool")),
    (
        "invalid_args",
        ("invalid", "argument", "parameter", "required property", "validation error", "missing", "schema"),
    ),
    ("timeout", ("timeout", "timed out")),
)


class WorldEnvironment(Environment[Action, WorldObservation, State]):
    """One connection's environment. A reset gives it a fresh session; closing it ends the session."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    # openenv makes its own for questions about metadata and tasks; one thread serves them all.
    REQUIRES_SINGLE_THREAD_EXECUTOR = True

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self._key: bytes | None = None
        self._session: Session | None = None
        self._state = WorldState(episode_id=None, step_count=0)
        self._rewards = REWARDS
        self._done = False
        self._closed = False

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> WorldObservation:
        raise NotImplementedError("this environment is asynchronous; use reset_async")

    def step(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> WorldObservation:
        raise NotImplementedError("this environment is asynchronous; use step_async")

    @property
    def state(self) -> State:
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        return EnvironmentMetadata(
            name="awmenv",
            description="Generated worlds with tools, databases and verifiers, from packs in AWM-1K format",
            version=version(),
        )

    async def reset_async(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        scenario: Any = None,
        task_idx: Any = None,
        task: Any = None,
        reward_config: Any = None,
        state_diff: Any = False,
        control_key: Any = None,
        world: Any = False,
        clocks: Any = RECORDED,
        split: Any = None,
        index: Any = None,
        **_others: Any,
    ) -> WorldObservation:
        """Begin a new episode in this connection.

        With `world` it is recorded: true begins one, with recorded or real `clocks`, and what a record says of its
        start begins the same one again.
        Anything wrong is a `reset_error`; llm_* arguments of upstream's clients are ignored. A key that was given once
        is needed from then on: without it nothing happens, and the episode that runs goes on.
        """
        if not self.holds_key(control_key):
            return _reset_error("This connection was given a control key; a reset needs it", "control_key_needed")
        self._drop_session()
        self._done = False
        if scenario is None and isinstance(index, int):
            scenario, task_idx = self._chosen(split, index)
        problem = _reset_problem(scenario, task_idx, task, reward_config, control_key)
        record = _record(world)
        if problem or record is None:
            return _reset_error(problem or "Parameter 'world' must be true, false or what an earlier reset said of it")
        self._rewards = {**REWARDS, **reward_config} if reward_config else REWARDS
        if clocks not in (REAL, RECORDED):
            return _reset_error(f"Parameter 'clocks' must be {RECORDED} or {REAL}")
        session = Session(self.world)
        try:
            await session.begin(scenario, task_idx, task, diff=state_diff is True, world=record, clocks=clocks)
        except (AwmenvError, OSError) as error:
            session.end()
            self.world.counts.fault("reset")
            return _reset_error(str(error), getattr(error, "code", "reset_error"), scenario=clean(str(scenario))[:200])
        except BaseException:
            session.end()
            raise
        # The connection closed during the reset, and nothing else would end this session.
        if self._closed:
            session.end()
        if self._key is None and control_key is not None:
            self._key = control_key.encode()
        self._session = session
        self._state = WorldState(
            episode_id=str(episode_id)[:MAX_NAME] if episode_id else str(uuid.uuid4()), step_count=0
        )
        return self._reset_ok(session)

    @property
    def has_key(self) -> bool:
        return self._key is not None

    def holds_key(self, offered: Any) -> bool:
        """Return whether no key is set yet, or this is the key."""
        if self._key is None:
            return True
        # In constant time, so that the key cannot be guessed letter by letter.
        return isinstance(offered, str) and hmac.compare_digest(self._key, offered.encode("utf-8", "replace"))

    def _chosen(self, split: Any, index: int) -> tuple[str | None, int | None]:
        """Return scenario and task of a reset by the Task API's arguments."""
        try:
            return self.world.library.place(index)
        except IndexError:
            return None, None

    def _reset_ok(self, session: Session) -> WorldObservation:
        return WorldObservation(
            reward_type="reset_ok" if session.tools.names else "reset_warning",
            scenario=session.case.scenario,
            task=session.case.task,
            task_idx=session.case.task_idx,
            has_verifier=session.case.has_verifier,
            num_tools=len(session.tools.names),
            warning=None if session.tools.names else "The scenario offers no tools.",
            metadata={
                **(
                    {"tier": self.world.tier, **_version(session), **_built(session)} if session.case.wants_diff else {}
                ),
                **_start(session),
            },
        )

    async def step_async(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> WorldObservation:
        """Take one action of the control channel.

        List tools, a tool call of the agent, or verify, done, __list_scenarios__.
        """
        if isinstance(action, CallToolAction) and action.tool_name == "__list_scenarios__":
            scenarios = self.world.library.listed
            return WorldObservation(reward_type="tool_call_ok", scenarios=scenarios, total=len(scenarios))
        if self._done:
            return _ended()
        self._state.step_count += 1
        if isinstance(action, ListToolsAction):
            return self._list_tools()
        if not isinstance(action, CallToolAction):
            return self._refused("invalid_action", "", f"Unknown action type: {type(action).__name__}")
        if action.tool_name in CONTROL_TOOLS:
            return await self._control(action.tool_name, action.arguments)
        recorded = CallMark.from_wire(action.metadata["mark"]) if "mark" in action.metadata else None
        put_back = action.metadata.get("put_back") is True
        return await self._tool_call(action.tool_name, action.arguments, recorded, put_back)

    def _list_tools(self) -> WorldObservation:
        if self._session is None:
            return WorldObservation(tools=[], error=NOT_STARTED)
        self._session.used_at = time.monotonic()
        return WorldObservation(tools=self._session.tools.listed)

    async def _tool_call(
        self, name: str, arguments: dict[str, Any], recorded: CallMark | None = None, put_back: bool = False
    ) -> WorldObservation:
        if self._session is None:
            return self._refused("server_error", name, NOT_STARTED)
        result = await _made(self._session, name, arguments, recorded, put_back)
        if result.cause == "sealed":
            return _ended()
        metadata = _metadata(result, self._session.partial) if self._session.case.wants_diff else {}
        metadata |= {"mark": result.mark.wire()} if result.mark is not None else {}
        if result.cause == "ok":
            reward = self._reward("tool_call_ok")
            text = orjson.Fragment(result.literal)
            return WorldObservation(
                reward=reward, reward_type="tool_call_ok", tool_name=name, tool_result=text, metadata=metadata
            )
        error = agent_words(name, result)
        return self._refused(self._label(result, error), name, error, metadata)

    def _label(self, result: CallResult, error: str) -> str:
        if self.world.settings.labels == "upstream":
            lowered = error.lower()
            return next((label for label, words in _UPSTREAM_WORDS if any(w in lowered for w in words)), "server_error")
        if result.cause == "unknown_tool":
            return "tool_not_found"
        if result.cause == "schema" or (result.cause == "http" and result.status == 422):
            return "invalid_args"
        if result.cause == "http" and result.status < 500:
            return "tool_error"
        return "timeout" if result.cause == "timeout" else "server_error"

    def _refused(self, label: str, name: str, error: str, metadata: dict[str, Any] | None = None) -> WorldObservation:
        return WorldObservation(
            reward=self._reward(label), reward_type=label, tool_name=name or None, error=error, metadata=metadata or {}
        )

    def _reward(self, label: str) -> float:
        return float(self._rewards.get("format_error" if label in FORMAT_ERRORS else label, 0.0))

    async def _control(self, name: str, arguments: dict[str, Any]) -> WorldObservation:
        session = self._session
        if session is not None and not self.holds_key(arguments.get("control_key")):
            return await self._tool_call(name, arguments)  # no scenario has a tool of this name
        if name == "done":
            return self._end(session)
        return await self._verify(session, arguments)

    def _end(self, session: Session | None) -> WorldObservation:
        self._done = True
        if session is None:
            error = "Cannot call done: environment not initialized (reset failed or not called)"
            return WorldObservation(done=True, reward=0.0, reward_type="server_error", error=error)
        self._drop_session()
        return WorldObservation(
            done=True, reward=0.0, reward_type="episode_done", steps_taken=self._state.step_count, **_place(session)
        )

    async def _verify(self, session: Session | None, arguments: dict[str, Any]) -> WorldObservation:
        if session is None:
            error = "Cannot verify: environment not initialized (reset failed or not called)"
            return WorldObservation(reward=0.0, reward_type="server_error", error=error)
        if session.case.task_idx is None or session.case.has_verifier is None:
            return self._refused("no_verifier", "", "Cannot verify: the episode has no task with a verifier")
        if "verifier" in arguments:
            return await self._judge(session, arguments["verifier"], arguments.get("final_answer"))
        mode, answer = arguments.get("verifier_mode", "code"), arguments.get("final_answer")
        if mode not in ("code", "sql"):
            return self._refused("invalid_args", "", "Invalid verifier_mode. Must be one of: code, sql")
        if not session.case.has_verifier[mode]:
            return self._refused("no_verifier", "", f"No {mode} verifier available for this task")
        verdict = await session.verify(mode, answer if answer is None or isinstance(answer, str) else str(answer))
        metadata: dict[str, Any] = {
            name: verdict.result[name] for name in ("tier", "duration_ms") if name in verdict.result
        }
        if session.case.wants_diff and verdict.diff is not None:
            metadata["state_diff"] = verdict.diff
        if verdict.health is not None:
            metadata["health"] = verdict.health.wire()
        if session.case.wants_diff and session.partial is not None:
            metadata["partial"] = session.partial.wire()
        if session.case.final_digest:
            metadata["world"] = {"final": session.case.final_digest}
        reward = self._reward(verdict.reward_type)
        if session.trail is not None and session.moved:
            metadata["not_attested"] = session.moved
        elif session.trail is not None and verdict.verifier_sha256 and session.case.database_sha256:
            statement = _statement(session, session.trail, mode, verdict)
            metadata["attestation"] = signed(self.world.settings.attest_key, statement)
        return WorldObservation(
            reward=reward,
            reward_type=verdict.reward_type,
            verify_result=verdict.result,
            steps_taken=self._state.step_count,
            metadata=metadata,
            **_place(session),
        )

    async def _judge(self, session: Session, sent: Any, answer: Any) -> WorldObservation:
        """Run a verifier that a dashboard sent, which shares the server's key. It is code of a dataset like the pack's:
        it runs in the same sandbox, and the server vouches for nothing that it says."""
        key = self.world.settings.attest_key
        try:
            if not key:
                raise NotAttested("this server shares no key with a dashboard (AWMENV_ATTEST_KEY_FILE)")
            code = sent_verifier(key, sent)
        except (NotAttested, ValueError) as error:
            return self._refused("verifier_refused", "", f"The verifier was not run: {error}")
        verdict = await session.judge(code, answer if answer is None or isinstance(answer, str) else str(answer))
        metadata: dict[str, Any] = {"verifier_sha256": sha256_of(code)}
        metadata |= {name: verdict.result[name] for name in ("tier", "duration_ms") if name in verdict.result}
        if session.case.final_digest:
            metadata["world"] = {"final": session.case.final_digest}
        return WorldObservation(
            reward=self._reward(verdict.reward_type),
            reward_type=verdict.reward_type,
            verify_result=verdict.result,
            steps_taken=self._state.step_count,
            metadata=metadata,
            **_place(session),
        )

    def list_splits(self) -> list[dict[str, str]]:
        return [{"name": SPLIT, "type": "train"}]

    def num_tasks(self, split: str) -> int:
        return self.world.library.task_count if split == SPLIT else 0

    async def get_task(self, split: str, index: int) -> dict[str, Any]:
        if split != SPLIT:
            raise IndexError(index)
        return await self.world.library.task(index)

    def tools_for_agent(self) -> Any:
        """Return the list of tools in /mcp's form."""
        return self._session.tools.listed_for_mcp if self._session else []

    async def agent_call(self, name: Any, arguments: Any) -> dict[str, Any]:
        """Return the result of an agent's tool call as MCP has it, with `data` for openenv's client.

        Every refusal is an error for the agent. A control tool takes the path of an unknown name, so that the two are
        indistinguishable in every state of the episode.
        """
        if not isinstance(name, str):
            raise ToolRefused(unknown_tool(str(name)))
        if self._done:
            raise ToolRefused(ENDED)
        if self._session is None:
            raise ToolRefused(NOT_STARTED)
        self._state.step_count += 1
        session, fields = self._session, arguments if isinstance(arguments, dict) else {}
        result = await _made(session, name, fields)
        if result.cause == "ok":
            text = orjson.Fragment(result.literal)
            return {"content": [{"type": "text", "text": text}], "isError": False, "data": text}
        raise ToolRefused(ENDED if result.cause == "sealed" else agent_words(name, result))

    def close(self) -> None:
        """End the episode with its connection."""
        self._closed = True
        self._drop_session()

    def _drop_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.end()


async def _made(
    session: Session, name: str, arguments: dict[str, Any], recorded: CallMark | None = None, put_back: bool = False
) -> CallResult:
    """Make a call and count it; one that is cut off may have changed the world, and no record can have its result."""
    try:
        result = await session.call(name, arguments, recorded, put_back)
    except BaseException:
        session.moved = session.moved or "a call was cut off"
        raise
    if result.cause != "sealed":
        _note(session, name, arguments, result)
    return result


def _note(session: Session, name: str, arguments: dict[str, Any], result: CallResult) -> None:
    """Count a call, as its caller reads it, for the statement that the server signs after `verify`."""
    if session.trail is None:
        return
    if result.cause == "ok":
        session.trail.add(name, arguments, result=json.loads(result.literal))
    else:
        session.trail.add(name, arguments, error=agent_words(name, result))


def _statement(session: Session, trail: Trail, mode: str, verdict: VerifierResult) -> dict[str, Any]:
    """Return the server's statement: session, outcome, verifier and hash of the calls.

    Its reward is the server's own, whatever `reward_config` a loop has chosen.
    """
    return {
        "session": session.id,
        "scenario": session.case.scenario,
        "task_idx": session.case.task_idx,
        "task_sha256": sha256_of(session.case.own_task),
        "mode": mode,
        "verifier_sha256": verdict.verifier_sha256,
        "database_sha256": session.case.database_sha256,
        "trail_sha256": trail.sha256(),
        "calls": trail.calls,
        "final_answer_sha256": sha256_of(verdict.final_answer),
        "reward_type": verdict.reward_type,
        "reward": REWARDS.get(verdict.reward_type, 0.0),
    }


class ToolRefused(AwmenvError):
    """A failed tool call on /mcp; the message is for the agent."""

    code = "tool_refused"


def unknown_tool(name: str) -> str:
    return f"Unknown tool: {clean(name)[:200]}"


def agent_words(name: str, result: CallResult) -> str:
    """Return the error that the agent reads: no traceback, no path, no pid."""
    if result.cause == "unknown_tool":
        return unknown_tool(name)
    if result.cause == "schema":
        return result.text
    if result.cause == "http":
        return f"Error calling {name}. Status code: {result.status}. Response: {result.text}"
    return f"Error calling {name}. {result.text}"


def _record(world: Any) -> WorldStart | bool | None:
    """Return a reset's options for its record; None if they are invalid."""
    return world if isinstance(world, bool) else WorldStart.from_wire(world)


def _start(session: Session) -> dict[str, Any]:
    """Return the start of a recorded world, for the control side."""
    return {"world": session.start.wire()} if session.start is not None else {}


def _version(session: Session) -> dict[str, str]:
    return {"scenario_digest": session.case.held_pack().digests[session.case.scenario]}


def _built(session: Session) -> dict[str, Any]:
    """Return the build report of the database, if it differs from its rows."""
    report = session.template.report if session.template else BuildReport()
    repaired = {"repaired": report.repaired} if report.repaired else {}
    return {**repaired, **({} if report.ok else {"partial": report.wire()})}


def _metadata(result: CallResult, partial: BuildReport | None) -> dict[str, Any]:
    """Return the metadata for people.

    A client that sent state_diff is the control side, and keeps this from the agent.
    """
    detail = result.detail
    if partial is not None and result.status >= 500:
        detail = f"The scenario is partial, which may be the reason: {partial.summary}\n{detail or ''}"
    world = result.cause if result.cause in ("dead", "lost") else None
    fields = {"state_diff": result.diff, "detail": detail, "status": result.status or None, "world": world}
    return {name: value for name, value in fields.items() if value is not None}


def _place(session: Session) -> dict[str, Any]:
    return {"scenario": session.case.scenario, "task": session.case.task, "task_idx": session.case.task_idx}


def _ended() -> WorldObservation:
    return WorldObservation(done=True, reward_type="episode_already_done", error=ENDED)


def _reset_error(message: str, code: str = "reset_error", **place: Any) -> WorldObservation:
    return WorldObservation(reward_type="reset_error", error=clean(message), metadata={"code": code}, **place)


def _reset_problem(scenario: Any, task_idx: Any, task: Any, reward_config: Any, control_key: Any) -> str | None:
    """Return why these arguments cannot start an episode, for the caller."""
    if not isinstance(scenario, str) or not scenario:
        return "Parameter 'scenario' is required"
    if len(scenario) > MAX_NAME:
        return "Parameter 'scenario' is too long"
    if task_idx is not None and (not isinstance(task_idx, int) or isinstance(task_idx, bool)):
        return "Parameter 'task_idx' must be a whole number"
    if task is not None and not isinstance(task, str):
        return "Parameter 'task' must be a text"
    if control_key is not None and not (isinstance(control_key, str) and 0 < len(control_key) <= MAX_NAME):
        return f"Parameter 'control_key' must be a text of 1 to {MAX_NAME} characters"
    if reward_config and not (
        isinstance(reward_config, dict)
        and all(isinstance(v, int | float) and not isinstance(v, bool) for v in reward_config.values())
    ):
        return "Parameter 'reward_config' must map names to numbers"
    return None
