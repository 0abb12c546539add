"""A warm template of a scenario, and the host of one session that was forked from it, as the server holds them.

Owns a host's calls and its certain end. Leaves when they are made and put away to `scenario`.
"""

import asyncio
import logging
import os
import signal
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from awmenv.errors import HostFailed
from awmenv.models import BuildReport
from awmenv.server import database
from awmenv.server.session.census import Census
from awmenv.server.session.channel import ProcessAnswer, ProcessChannel
from awmenv.server.session.turns import CoreTurns

log = logging.getLogger("awmenv.scenario")

END_TIMEOUT_S = 5.0
CONCURRENT_STARTS = 8  # with more, the last ones would wait past the timeout


@dataclass
class Template:
    """A loaded scenario, ready to be forked."""

    key: tuple[str, str]
    home: Path
    slot: int
    control: socket.socket
    leash: socket.socket
    snapshot: Path
    made_at: float
    clock: int = 0  # the time of its rows and its app, in milliseconds
    digest: str = ""  # of its database
    rows: str = ""  # of its statements and its app
    tools: "ToolList" = field(default_factory=lambda: ToolList([]))
    report: BuildReport = field(default_factory=BuildReport)
    census: Census = field(default_factory=lambda: Census(0))
    starting: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(CONCURRENT_STARTS))
    widening: asyncio.Lock = field(default_factory=asyncio.Lock)
    sessions: set[int] = field(default_factory=set)  # by process
    opening: int = 0
    allowed: int = 0  # processes of its user
    live: int = 0
    retired: bool = False
    used_at: float = 0.0

    @property
    def built(self) -> Path:
        return self.home / "template" / database.FILE

    @property
    def loaded(self) -> Path:
        return self.home / "template" / database.LOADED


class ToolList:
    """A scenario's tools by name, and the JSON of the list in each channel's form.

    Made once, because it can be large, and agents request it again and again.
    """

    def __init__(self, tools: list[dict[str, Any]]) -> None:
        self.names = frozenset(tool["name"] for tool in tools)
        made = [{name: orjson.Fragment(orjson.dumps(part)) for name, part in tool.items()} for tool in tools]
        self.listed = orjson.Fragment(orjson.dumps(made))
        # Both spellings: MCP's own, and the one openenv's older client reads.
        both = [{**tool, "inputSchema": tool["input_schema"]} for tool in made]
        self.listed_for_mcp = orjson.Fragment(orjson.dumps(both))


class Host:
    """One session's process: its channel, its folder, and the means to end it."""

    def __init__(self, template: Template, folder: Path, channel: ProcessChannel, pid: int, turns: CoreTurns) -> None:
        self.template = template
        self.folder = folder
        self.database = folder / database.FILE
        self.channel = channel
        self.loop = asyncio.get_running_loop()
        self._pidfd = os.pidfd_open(pid)
        self.pid = pid
        self._turns = turns
        self._ended = False
        self._quiet = database.FileVersion.of(self.database)
        self._left_open = False

    async def ask(self, message: dict[str, Any], timeout_s: float) -> ProcessAnswer:
        """Send one request and return its response.

        Raises HostFailed for anything else, or a late response; the caller then ends this host.
        """
        async with self._turns.hold(self.template.key):
            if self._ended:
                raise HostFailed("the scenario's process has ended")
            answer = await self.channel.ask(message, timeout_s, lambda: waited_for_a_core(self.pid))
            self._quiet = database.FileVersion.of(self.database)
            return answer

    def disk_use(self) -> int:
        """Return the bytes that this session uses, in named and unnamed files."""
        return database.disk_use(self.folder) + database.held_open(self.pid)

    def end(self) -> None:
        """Kill the process and close the channel. Idempotent, from any thread."""
        if self._ended:
            return
        self._ended = True
        self._left_open = database.is_being_changed(self.database)  # its locks end with it
        try:
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        except ProcessLookupError:
            log.debug("the host had ended by itself")
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.channel.close)

    async def end_and_wait(self) -> None:
        """End the process, and wait until nothing of it runs or has a lock."""
        self.end()
        pidfd = os.dup(self._pidfd)  # `forget` may close the original meanwhile
        ended = self.loop.create_future()
        self.loop.add_reader(pidfd, lambda: None if ended.done() else ended.set_result(None))
        try:
            await asyncio.wait_for(ended, END_TIMEOUT_S)
        except TimeoutError as error:
            raise HostFailed("the scenario's process does not end") from error
        finally:
            self.loop.remove_reader(pidfd)
            os.close(pidfd)

    @property
    def left_uncommitted(self) -> bool:
        """True if the process ended during a write, which matters if no journal can undo it."""
        return self._left_open or self._quiet.was_left_for(database.FileVersion.of(self.database))

    def forget(self) -> None:
        """Release the handles of an ended process. Idempotent."""
        pidfd, self._pidfd = self._pidfd, -1
        if pidfd >= 0:
            os.close(pidfd)


def waited_for_a_core(pid: int) -> float:
    """Return the seconds that a process was ready but had no core; 0 if the kernel does not report it."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
