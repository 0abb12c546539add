"""Harbor: its agents ask at the desk, and each trial is recorded as an episode.

    harbor run --path tasks/fix-it --agent claude-code --plugin awmweb

Owns what a trial is given (the desk's `/mcp` with a token for its episode alone), what is recorded of it and when, and
its end. Leaves the form of its steps to `atif_steps.py`. Whatever the desk refuses, a trial goes on: without its desk,
with a warning.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from awmclient.adapters.atif_steps import AtifSteps, asked_in, asks, identity_of, main_steps, model_of, settled
from awmclient.adapters.missing import missing
from awmclient.client.bodies import failing
from awmclient.client.dashboard import HttpDashboard
from awmclient.client.episode import HttpEpisode
from awmclient.errors import Invalid, Refused, SeqGap, StepConflict, TooLarge
from awmclient.nouns.values import Fault
from awmclient.record.observations import bounded
from awmclient.words.faults import fault_of

log = logging.getLogger(__name__)
SERVER = "awmweb"
"""The name of the desk among an agent's MCP servers."""
LOOK_S, BEAT_S, RETRY_S = 0.5, 20.0, 20.0
TRAJECTORY = "trajectory.json"
TRAJECTORY_BYTES = 64 << 20
"""A larger one is not read: a sandbox writes it, and this process has the memory of all trials."""
TIMEOUTS = ("AgentTimeoutError", "TimeoutError")
CANCELLED = "CancelledError"
TASK_MAX = 20_000
SHOWN_OF_REFUSED = 10_000
REFUSED = "refused"
"""The key in the `meta` of a note in place of a step that the dashboard refused."""
CONFLICTS = 5


@dataclass(frozen=True)
class DeskOfTrials:
    """Where trials are recorded. `inside` is the dashboard's address as a sandbox reaches it."""

    url: str
    token: str
    inside: str
    run: str
    key: str
    is_live: bool = True

    def __repr__(self) -> str:
        return f"DeskOfTrials({self.url!r}, ***)"


def desk_from_environment(run: str, key: str, url: str = "", sandbox_url: str = "", live: bool = True) -> DeskOfTrials:
    """Return the desk of `AWMWEB_URL` and `AWMWEB_TOKEN`. Raises `ValueError` without them."""
    url, token = url or os.environ.get("AWMWEB_URL", ""), os.environ.get("AWMWEB_TOKEN", "")
    if not url or not token:
        raise ValueError("Set AWMWEB_URL to the dashboard and AWMWEB_TOKEN to a token of scope agent.")
    inside = sandbox_url or os.environ.get("AWMWEB_SANDBOX_URL", "") or url
    return DeskOfTrials(url, token, inside.rstrip("/"), run, key, live)


class DeskPlugin:
    """Harbor's plugin `awmweb`: puts the desk into every trial of a job. The job is a run at the dashboard.

    Options by `--plugin-kwarg`: `url`, `sandbox_url`, and `live=false` to send a trajectory at its end only.
    """

    def __init__(self, url: str = "", sandbox_url: str = "", live: bool = True) -> None:
        self._options = {"url": url, "sandbox_url": sandbox_url}
        self._is_live = live
        self._undo: Callable[[], None] | None = None

    async def on_job_start(self, job: Any) -> None:
        name, key = f"Harbor: {job.config.job_name}"[:200], f"harbor:{job.id}"
        self._undo = record_trials(desk_from_environment(name, key, live=self._is_live, **self._options))

    async def on_job_end(self, job_result: Any) -> None:
        if self._undo is not None:
            self._undo()


def record_trials(desk: DeskOfTrials) -> Callable[[], None]:
    """Give every trial that Harbor creates from now on in this process the desk; returns what undoes it."""
    try:
        from harbor.trial.trial import Trial
    except ImportError as error:
        raise missing("Harbor", "harbor", error) from error
    before = Trial.__dict__["create"]
    create = Trial.create

    async def created(config: Any, **more: Any) -> Any:
        trial = await create(config, **more)
        # a trial that only grades again runs no agent
        if getattr(config, "source_trial", None) is None:
            await RecordedTrial(trial, desk).begin()
        return trial

    Trial.create = staticmethod(created)
    return lambda: setattr(Trial, "create", before)


class RecordedTrial:
    """A trial and its episode, from its creation to its end."""

    def __init__(self, trial: Any, desk: DeskOfTrials) -> None:
        self._trial, self._desk = trial, desk
        self._dash = HttpDashboard(desk.url, desk.token, retry_s=RETRY_S)
        self._fields: dict[str, Any] = {}
        self._atif = AtifSteps()
        self._pending: list[dict[str, Any]] = []
        self._taken: Counter[str] = Counter()
        self._last = 0
        self._warned = ""
        self._seen: list[tuple[str, int, int]] = []
        self._variable = f"AWMWEB_EPISODE_{uuid.UUID(str(trial.id)).hex.upper()}_TOKEN"
        self._ended = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Open the episode, give the agent the desk, and follow the trial."""
        from harbor.trial.hooks import TrialEvent

        with self._guarded("goes on without the desk"):
            self._fields = {**self._about(), "run": await self._dash.start_run(self._desk.run, key=self._desk.key)}
            episode = await self._open()
            # from here on the episode has an end, whatever else is refused
            self._trial.add_hook(TrialEvent.END, self._end)
            with self._guarded("cannot ask", in_record=True):
                self._offer(await episode.token())
            with self._guarded("waits with its steps"):
                await self._flush()
            self._following = asyncio.create_task(self._follow())
            return
        await self._dash.close()

    @contextmanager
    def _guarded(self, what: str, in_record: bool = False) -> Iterator[None]:
        """Go on behind the block if it fails, with a warning: no error of the desk, or in what an agent wrote, ends a
        job."""
        try:
            yield
        except Exception as error:
            words = f"{what}: {type(error).__name__}: {error}"
            if words != self._warned:  # what fails at each look is said once
                log.warning("The trial %s %s", self._trial.config.trial_name, words)
            self._warned = words
            if in_record:
                self._note(f"The trial {words}"[:2000])

    def _about(self) -> dict[str, Any]:
        """Return the fields of the episode."""
        trial, about = self._trial, self._trial.agent.to_agent_info()
        model = about.model_info.name if about.model_info else None
        policy = {"kind": "harbor", "name": about.name, "version": about.version, **({"model": model} if model else {})}
        task = (trial.task.instruction or "").strip() or trial.task.name
        fields = {"task": task[:TASK_MAX], "key": f"harbor:{trial.id}", "environment": "harbor", "expert": "plain"}
        return {**fields, "scenario": trial.task.name[:200], "policy": policy}

    async def _open(self) -> HttpEpisode:
        """Return the episode as it is now. Its key makes it one, and questions of the agent take numbers, too."""
        return await self._dash.start_episode(**self._fields)

    def _offer(self, token: str) -> None:
        """Put the desk among the MCP servers of the agent. Harbor writes them into the harness's own configuration."""
        from harbor.models.task.config import MCPServerConfig

        agent, url = self._trial.agent, f"{self._desk.inside}/mcp"
        headers: dict[str, str] = {}
        if not agent.capabilities.mcp_servers:
            self._note(f"Harbor gives {agent.name()} no MCP servers, so it cannot ask.")
            return
        if agent.capabilities.mcp_http_headers:
            # Harbor takes no secret in a header but the name of a variable, and each trial has its own.
            os.environ[self._variable] = token
            headers["Authorization"] = f"Bearer ${{{self._variable}}}"
        else:
            url = f"{url}?token={token}"
        server = MCPServerConfig(name=SERVER, transport="streamable-http", url=url, headers=headers)
        # not in the trial's config, which is stored and which a resumed job compares
        agent.mcp_servers = [*agent.mcp_servers, server]

    def _note(self, words: str, **meta: Any) -> None:
        self._pending.append({"kind": "note", "content": words, **({"meta": meta} if meta else {})})

    async def _follow(self) -> None:
        """Send the trajectory as it grows, and heartbeats, until the end."""
        beat = time.monotonic()
        while not self._ended.is_set():
            began = time.monotonic()
            with self._guarded("waits with its steps"):
                if self._desk.is_live and not self._trial.task.has_steps:
                    await self._take(await asyncio.to_thread(self._growing), is_whole=False)
                    await self._flush()
            if began - beat > BEAT_S:
                beat = began
                with self._guarded("has no heartbeat"):
                    await (await self._open()).heartbeat()
            # a long trajectory takes its time to convert, which is not all spent on it
            wait = max(LOOK_S, 4 * (time.monotonic() - began))
            try:
                await asyncio.wait_for(self._ended.wait(), wait)
            except TimeoutError:
                continue

    def _growing(self) -> Mapping[str, Any] | None:
        """Return the trajectory so far, by Harbor's own converter or its file; None if nothing was written since."""
        agent, folder = self._trial.agent, self._trial.paths.agent_dir
        try:
            files = [(path, path.stat()) for path in sorted(folder.rglob("*.json*"))]
            seen = [(str(path), stat.st_mtime_ns, stat.st_size) for path, stat in files]
            if seen == self._seen:
                return None
            self._seen = seen  # whatever cannot be read now is not read again before it grows
            convert = getattr(agent, "convert_trajectory", None)
            trajectory = convert(folder) if convert is not None else None
            return trajectory.to_json_dict() if trajectory is not None else _document(folder / TRAJECTORY)
        except (OSError, ValueError, KeyError, TypeError) as error:  # a file that is being written
            log.debug("no trajectory yet: %s", error)
            return None

    async def _take(self, document: Mapping[str, Any] | None, *, is_whole: bool) -> None:
        """Take the steps of a trajectory that were not taken yet; while it grows, those that can still change wait."""
        steps = main_steps(document)
        self._atif.model = model_of(document)
        place: Counter[str] = Counter()
        fresh = []
        for step in steps if is_whole else settled(steps):
            place[identity := identity_of(step)] += 1
            if place[identity] > self._taken[identity]:
                fresh.append(step)
        asked = asked_in(await (await self._open()).steps()) if any(asks(step) for step in fresh) else set()
        for step in fresh:
            self._taken[identity_of(step)] += 1
            with self._guarded("has a step that cannot be read", in_record=True):
                self._pending += self._atif.steps_of(step, asked)

    async def _flush(self) -> None:
        """Send what is pending, by number: sent again it changes nothing. Questions take numbers in between. Of what is
        refused, less and less is sent, until the step is alone that cannot be recorded: it becomes a note."""
        count, conflicts = len(self._pending), 0
        while self._pending:
            episode = await self._open()
            part = [bounded({**step, "seq": self._last + at}) for at, step in enumerate(self._pending[:count], 1)]
            try:
                await episode.append(part)
            except (StepConflict, SeqGap):
                if (conflicts := conflicts + 1) > CONFLICTS:
                    raise
                await self._catch_up()
                continue
            except (Invalid, TooLarge) as error:
                if count == 1:
                    self._pending[0] = _refused(self._pending[0], error)
                count = max(1, count // 2)
                continue
            self._last += len(part)
            del self._pending[: len(part)]
            count, conflicts = count * 2, 0

    async def _catch_up(self) -> None:
        """Go on behind the steps that are stored. What is pending and stored already, as its response was lost, is not
        sent again."""
        episode = await self._open()
        stored = await episode.steps(self._last)
        for step in stored:
            if self._pending and _body(step) == _body(bounded(self._pending[0])):
                del self._pending[0]
        self._last = stored[-1]["seq"] if stored else episode.last_seq

    async def _end(self, event: Any) -> None:
        """Send the rest of the trajectory, and end the episode with the reward."""
        self._ended.set()
        try:
            if self._following is not None:
                await self._following
            with self._guarded("is not recorded to its end"):
                await self._record_end(event.result)
        finally:
            os.environ.pop(self._variable, None)
            await self._dash.close()

    async def _record_end(self, result: Any) -> None:
        with self._guarded("is recorded in part", in_record=True):
            await self._take_whole(result)
        outcome, error = outcome_of(result), result.exception_info
        end: dict[str, Any] = {"stop_reason": "done", "final_answer": self._atif.answer}
        if error is not None and error.exception_type in TIMEOUTS:
            end = {"stop_reason": "timeout"}
        elif error is not None:
            words = f"{error.exception_type}: {error.exception_message}"
            otherwise: Fault = "worker" if error.exception_type == CANCELLED else "environment"
            note, end = failing(fault_of(words, otherwise), words)
            self._pending.append(note)
        with self._guarded("ends without its last steps"):
            await self._flush()
        await (await self._open()).finish(**end, outcome=outcome)

    async def _take_whole(self, result: Any) -> None:
        has_any = False
        for document in self._documents(result):
            await self._take(document, is_whole=True)
            has_any = True
            self._taken.clear()
        if not has_any:
            self._note(f"The trial has no {TRAJECTORY}.")

    def _documents(self, result: Any) -> Iterator[Mapping[str, Any]]:
        paths = self._trial.paths
        folders = [paths.step_agent_dir(step.step_name) for step in result.step_results or []]
        for folder in folders or [paths.agent_dir]:
            try:
                if (document := _document(folder / TRAJECTORY)) is not None:
                    yield document
            except (OSError, ValueError, RecursionError) as error:
                self._note(f"{folder.name}/{TRAJECTORY} cannot be read: {error}"[:2000])


def _document(file: Any) -> Mapping[str, Any] | None:
    """Return the trajectory in a file that the sandbox wrote; None without one. A link leads out of the sandbox: it is
    none. Raises OSError, ValueError or RecursionError."""
    if file.is_symlink() or not file.is_file():
        return None
    if (size := file.stat().st_size) > TRAJECTORY_BYTES:
        raise ValueError(f"it has {size:,} bytes, more than {TRAJECTORY_BYTES:,}")
    document = json.loads(file.read_text(encoding="utf-8"))
    return document if isinstance(document, dict) else None


def _body(step: Mapping[str, Any]) -> dict[str, Any]:
    """Return a step as it is compared: the dashboard writes times in its own form, and numbers are given again."""
    return {name: value for name, value in step.items() if name not in ("seq", "at")}


def _refused(step: Mapping[str, Any], error: Refused) -> dict[str, Any]:
    """Return the note in place of a step that the dashboard refused. Raises if it is one already."""
    if REFUSED in (step.get("meta") or {}):
        raise error
    content = f"A step was refused ({error}): {json.dumps(step)[:SHOWN_OF_REFUSED]}"
    return {"kind": "note", "content": content, "meta": {REFUSED: error.code}}


def outcome_of(result: Any) -> dict[str, Any] | None:
    """Return a trial's reward as a reported outcome, as an import of the same trial has it: `reward`, or the first one
    by name. A reward that Harbor calls invalid is none."""
    rewards = dict(result.verifier_result.rewards or {}) if result.verifier_result is not None else {}
    if not rewards or not getattr(result, "reward_valid", True):
        return None
    name = "reward" if "reward" in rewards else min(rewards)
    details = {"details": {"rewards": rewards}} if len(rewards) > 1 else {}
    reward = float(rewards[name])
    if not math.isfinite(reward):
        return None
    return {"reward_type": "complete" if reward >= 1 else "others", "reward": reward, **details}
