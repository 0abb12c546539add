"""The messages of a scenario's process while it loads: the build report of its database, then the tools of its app.

Owns receiving them within bounds (time, disk, frames) and reading them as data: the process is untrusted from its first
row of SQL on. Called by `scenario`, on the server's loop.
"""

import asyncio
import json
import logging
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from awmenv.errors import DatabaseBroken, HostFailed
from awmenv.models import RESERVED_TOOLS, BuildReport
from awmenv.server import database, strict
from awmenv.server.sandbox import framing

log = logging.getLogger("awmenv.loading")

LOADED = strict.Bounds(size=256 << 10, values=10_000, depth=100)  # a list of tools above all
PID_TIMEOUT_S = 10.0
LOOK_S = 0.1


@dataclass(frozen=True)
class LoadRequest:
    """One load: its request, its folder and its limits.

    Without code no app is loaded. With `partial` a database with failed statements is accepted. `clock` is the time for
    the rows and the app, in milliseconds.
    """

    scenario: str
    home: Path
    leash: socket.socket
    statements: list[tuple[str, str]]
    code: str | None
    partial: bool
    timeout_s: float
    disk: int
    clock: int


@dataclass
class Loaded:
    """The result of a load."""

    report: BuildReport = field(default_factory=BuildReport)
    tools: list[dict[str, Any]] = field(default_factory=list)


async def hear_load(channel: socket.socket, load: LoadRequest) -> Loaded:
    """Send the rows and receive their result.

    Raises DatabaseBroken if the database is not whole, otherwise HostFailed.
    """
    channel.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=channel, limit=1 << 20)
    loaded, built = Loaded(), False
    try:
        async with asyncio.timeout(load.timeout_s):
            asked = {"statements": load.statements, "code": load.code, "partial": load.partial, "clock": load.clock}
            writer.write(framing.encode(asked))
            await writer.drain()
            loaded.report = await _hear_build(reader, load)
            built = True
            if load.code is not None:
                loaded.tools = _tools_of(await _hear(reader, load), load.scenario)
        return loaded
    except TimeoutError as error:
        raise _failed(built, f"did not load within {load.timeout_s:g} s", "was not built in that time") from error
    except (framing.BadFrame, ConnectionError) as error:
        how = f"{error}{await _exit_of(load.leash)}"
        raise _failed(built, f"ended while loading: {how}", f"could not be built: {how}") from error
    finally:
        writer.close()


def _failed(built: bool, app: str, rows: str) -> HostFailed | DatabaseBroken:
    """Return the error of a failed load. Before the database exists no app has run, so the rows are the cause."""
    return HostFailed(f"the scenario's process {app}") if built else DatabaseBroken(f"the database {rows}")


async def _hear_build(reader: asyncio.StreamReader, load: LoadRequest) -> BuildReport:
    try:
        report = BuildReport.from_wire(await _hear(reader, load))
    except HostFailed as error:
        raise DatabaseBroken(str(error)) from error
    if report is None:
        raise framing.BadFrame("no report")
    if not report.is_playable(load.partial):
        raise DatabaseBroken(f"the database could not be built: {report.summary}", report)
    return report


async def _hear(reader: asyncio.StreamReader, load: LoadRequest) -> dict[str, Any]:
    """Receive one frame of a loading process, while it stays below its disk limit."""
    frame = asyncio.ensure_future(framing.read_body(reader, LOADED.size))
    try:
        while not (await asyncio.wait({frame}, timeout=LOOK_S))[0]:
            if database.disk_use(load.home) + database.disk_use(load.home / "template") > load.disk:
                raise HostFailed("the scenario used more disk than it may while it was loading")
        answer = strict.read(frame.result(), LOADED)
    finally:
        frame.cancel()
    if type(answer) is not dict:
        raise framing.BadFrame("not an object")
    return answer


def _tools_of(answer: dict[str, Any], scenario: str) -> list[dict[str, Any]]:
    if "error" in answer:
        log.warning("scenario %s does not load: %s\n%s", scenario, answer["error"], answer.get("detail", ""))
        raise HostFailed(f"the scenario's app does not load: {answer['error']}")
    return _checked_tools(answer.get("tools"))


def _checked_tools(items: Any) -> list[dict[str, Any]]:
    """Return the valid tools: the right shape, no name twice, no reserved name."""
    if not isinstance(items, list):
        raise HostFailed("the scenario's app gave no list of tools")
    tools: dict[str, dict[str, Any]] = {}
    for item in items:
        good = (
            isinstance(item, dict) and isinstance(item.get("name"), str) and isinstance(item.get("input_schema"), dict)
        )
        if not good or item["name"] in tools:
            raise HostFailed("the scenario's app gave a broken list of tools")
        if item["name"].strip().casefold() in RESERVED_TOOLS:
            raise HostFailed(f"reserved tool name: {item['name']}")
        tools[item["name"]] = {
            "name": item["name"][:200],
            "description": str(item.get("description") or "")[:20_000],
            "input_schema": item["input_schema"],
        }
    return list(tools.values())


async def hear_pid(leash: socket.socket) -> int:
    """Return the pid that the zygote forked for us."""
    body = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(leash, 4096), PID_TIMEOUT_S)
    try:
        return int(json.loads(body)["pid"])
    except (ValueError, KeyError, TypeError) as error:
        raise HostFailed("the scenario zygote did not answer") from error


async def _exit_of(leash: socket.socket) -> str:
    """Return how the process ended, as the zygote reports it, for the operator."""
    try:
        report = json.loads(await asyncio.wait_for(asyncio.get_running_loop().sock_recv(leash, 4096), 1))
    except (TimeoutError, ValueError, OSError):
        return ""
    return f" (exit {report.get('exit')})"
