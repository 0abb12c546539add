"""Recovers a session's database to the last commit, and changes nothing else: SQLite does it, in a sandboxed child.

A database and its journal or log are one unit: a copy of the database alone may have uncommitted changes, or lack
committed ones. Called by `scenario`, which names the files and their owner.
"""

import asyncio
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from awmenv.errors import DatabaseBroken
from awmenv.server import database, strict
from awmenv.server.sandbox import framing
from awmenv.server.sandbox.launching import ZygoteClient

TIMEOUT_S = 10.0
ANSWER = strict.Bounds(size=4096, values=20)
MEMORY = 512 << 20


@dataclass(frozen=True)
class Recovery:
    """One recovery: the zygote, the user, and the largest size of the file."""

    zygote: ZygoteClient
    uid: int | None
    file_size: int

    async def in_place(self, folder: Path) -> None:
        """Recover the files in place. No other process may use them. Raises DatabaseBroken."""
        leash, far_leash = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        channel, far_channel = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        limits = {"cpu_s": int(TIMEOUT_S), "memory": MEMORY, "file_size": self.file_size, "files": 64}
        request = {"recover": str(folder), "run_as": self.uid, "limits": limits, "wall": TIMEOUT_S}
        with leash, channel:
            with far_leash, far_channel:
                fds = [far_leash.fileno(), far_channel.fileno()]
                await asyncio.to_thread(self.zygote.request, request, fds)
            answer = await _answer(channel)
        if "error" in answer or database.has_sidecars(folder / database.FILE):
            raise DatabaseBroken(f"the database cannot be recovered: {answer.get('error', 'its journal stays')}")

    async def of_copies(self, source: Path, folder: Path) -> Path:
        """Copy a database with its journal or log into an empty folder, and recover it there."""
        await asyncio.to_thread(self._copy, source, folder)
        if database.has_sidecars(folder / database.FILE):
            await self.in_place(folder)
        return folder / database.FILE

    def _copy(self, source: Path, folder: Path) -> None:
        # Not `-shm`: SQLite builds it from the log.
        for suffix in ("", "-journal", "-wal"):
            if suffix and not os.path.lexists(f"{source}{suffix}"):
                continue
            target = folder / f"{database.FILE}{suffix}"
            database.copy(Path(f"{source}{suffix}"), target, 0o600)
            if self.uid is not None:
                os.chown(target, self.uid, self.uid)


async def _answer(channel: socket.socket) -> dict[str, Any]:
    channel.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=channel)
    try:
        body = await asyncio.wait_for(framing.read_body(reader, ANSWER.size), TIMEOUT_S + 1)
        answer = strict.read(body, ANSWER)
    except (framing.BadFrame, TimeoutError) as error:
        raise DatabaseBroken(f"the database cannot be recovered: {error or 'not in time'}") from error
    finally:
        writer.close()
    return answer if type(answer) is dict else {"error": "nonsense"}
