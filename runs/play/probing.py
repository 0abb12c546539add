"""Writes: probes, cheap attempts that show whether a task passes without work.

Three attempts, each in an environment of its own: `empty` does nothing and gives no answer, `echo_task` answers with
the task's own text, `read_only` calls read tools only and answers with all their results. Called by the command
`probe`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from channels.db import database_sync_to_async

from awmenv.client import EnvironmentClient
from awmenv.errors import AwmenvError, ServerUnreachable
from awmenv.health import Health
from awmenv.models import Observation, Tool
from awmenv.packs import Pack
from episodes.stored.packs import packs
from people.text.plain_text import clean
from runs.errors import NoServer
from runs.launch import launching
from runs.models import Probe
from runs.plan import choosing
from runs.play import environment
from runs.taskset import probes

State = Probe.State
TRIES = 2
CALLS = 20
ANSWER = 4000
READS = ("list", "get", "search", "find", "show", "read", "view", "count", "lookup", "describe", "fetch", "check")
SAMPLES = {"integer": 1, "number": 1, "boolean": False}
"""The value of a required argument of a read, by type. A tool that needs a text is left out: no text fits by chance."""


@dataclass(frozen=True)
class ProbedTask:
    """A task of a pack, and its verifier's digest."""

    scenario: str
    task_idx: int
    text: str
    verifier: str
    version: str


class _Changed(Exception):
    """An error: a call that was expected to only read has changed rows."""

    def __init__(self, tool: str) -> None:
        super().__init__(tool)
        self.tool = tool


def tasks(scenario: str = "") -> list[ProbedTask]:
    """Return the tasks of loaded packs, or those of one scenario. Raises `UnknownTask`."""
    chosen = [launching.pack_with(scenario)] if scenario else packs()
    return [
        task
        for pack in chosen
        for name in ([scenario] if scenario else sorted(pack.scenarios))
        for task in _of(pack, name)
    ]


def _of(pack: Pack, scenario: str) -> list[ProbedTask]:
    texts = pack.tasks(scenario)
    version = pack.digests[scenario]
    return [
        ProbedTask(scenario, idx, text, probes.digest(pack, scenario, idx), version) for idx, text in enumerate(texts)
    ]


async def probed(chosen: Sequence[ProbedTask]) -> AsyncIterator[Probe]:
    """Probe each task, store and yield the result. Raises `NoServer`."""
    server = (await database_sync_to_async(environment.status)()).version[:60]
    for task in chosen:
        row = await _probe(task, server)
        await row.asave()
        yield row


async def _probe(task: ProbedTask, server: str) -> Probe:
    about = {"verifier": task.verifier, "scenario_digest": task.version, "server": server}
    row = Probe(scenario=task.scenario, task_idx=task.task_idx, **about)
    if not task.verifier:
        return _with_state(row, State.UNVERIFIABLE, "The pack holds no code verifier for it.")
    fault = ""
    for _try in range(TRIES):  # an environment can fail by chance, which must not exclude a task
        row.attempts = {}
        try:
            for name, attempt in ATTEMPTS.items():
                observation, calls = await attempt(task)
                health = Health.from_wire(observation.metadata.get("health"))
                if health is not None and not health.unchecked:  # the server's check can finish after the first attempt
                    row.health = health.wire()
                verdict = observation.verify_result or {}
                # a verifier that does not run says nothing about any attempt, so one is enough
                if verdict.get("execution_status") != "success":
                    return _with_state(row, State.UNVERIFIABLE, str(verdict.get("error_message") or observation.error))
                row.attempts[name] = {"outcome": observation.reward_type, "calls": calls}
        except ServerUnreachable as away:
            raise NoServer(str(away)) from away
        except AwmenvError as failed:
            fault = str(failed)
        else:
            passed = {name for name, one in row.attempts.items() if one["outcome"] == "complete"}
            state = State.TRIVIAL if "empty" in passed else State.ANSWER_ONLY if passed else State.CLEAN
            return _with_state(row, state, f"Complete by {', '.join(sorted(passed))}." if passed else "")
    row.attempts = {}
    return _with_state(row, State.ERROR, fault)


def _with_state(row: Probe, state: State, reason: str) -> Probe:
    row.state, row.reason = state, clean(reason[:2000])
    return row


async def _empty(task: ProbedTask) -> tuple[Observation, int]:
    return await _answered(task, ""), 0


async def _echo(task: ProbedTask) -> tuple[Observation, int]:
    return await _answered(task, task.text), 0


async def _answered(task: ProbedTask, answer: str) -> Observation:
    async with EnvironmentClient(choosing.with_room()) as client:
        await client.reset(scenario=task.scenario, task_idx=task.task_idx, state_diff=True)
        return await client.verify(answer)


async def _read_only(task: ProbedTask) -> tuple[Observation, int]:
    """Make the read-only attempt."""
    async with _read_of(task.scenario, task.task_idx) as (client, read):
        return await client.verify("\n".join(read)[:ANSWER]), len(read)


async def read_results(scenario: str) -> list[str]:
    """Return what the read tools of a scenario say in its first world."""
    async with _read_of(scenario, 0) as (_, read):
        return read


@asynccontextmanager
async def _read_of(scenario: str, task_idx: int) -> AsyncIterator[tuple[EnvironmentClient, list[str]]]:
    """Open a session in which only the reads were made; start over without a tool that turns out to write, so that the
    database is unmodified."""
    writes: set[str] = set()
    for _session in range(CALLS):
        async with EnvironmentClient(choosing.with_room()) as client:
            await client.reset(scenario=scenario, task_idx=task_idx, state_diff=True)
            try:
                read = await _all_read(client, writes)
            except _Changed as changed:
                writes.add(changed.tool)
                continue
            yield client, read
            return
    raise AwmenvError(f"{CALLS} tools with the names of reads change rows.")


async def _all_read(client: EnvironmentClient, without: set[str]) -> list[str]:
    """Return the results of the tools that seem to read, each called once. Raises `_Changed`."""
    chosen = [tool for tool in await client.list_tools() if tool.name.startswith(READS) and tool.name not in without]
    replies: list[str] = []
    for tool in chosen:
        arguments = _arguments(tool)
        if arguments is None or len(replies) == CALLS:
            continue
        observation = await client.call_tool(tool.name, arguments)
        # a name that begins like a read and a call that writes: this session no longer counts
        if observation.state_diff:
            raise _Changed(tool.name)
        replies.append(
            json.dumps(
                observation.tool_result if observation.ok else observation.error, ensure_ascii=False, default=str
            )
        )
    return replies


def _arguments(tool: Tool) -> dict[str, Any] | None:
    """Return arguments for a tool's required fields, or None if one needs a text or has no description."""
    required, fields = tool.input_schema.get("required"), tool.input_schema.get("properties")
    names = required if isinstance(required, list) else []
    described = fields if isinstance(fields, dict) else {}
    kinds = {
        name: one.get("type") if isinstance(one := described.get(name), dict) else None
        for name in names
        if isinstance(name, str)
    }
    if any(not isinstance(kind, str) or kind not in SAMPLES for kind in kinds.values()):
        return None
    return {name: SAMPLES[str(kind)] for name, kind in kinds.items()}


ATTEMPTS: dict[str, Callable[[ProbedTask], Awaitable[tuple[Observation, int]]]] = {
    "empty": _empty,
    "echo_task": _echo,
    "read_only": _read_only,
}
