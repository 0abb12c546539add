"""One hostile client of an environment server, for as long as its standard input is open: `neighbor.py KIND PORT`.

Owns the repeated act of each kind, and the pack for it. Prints `up` once it is running, and at the end the number of
its acts and their processor time. Run by `bench/environment.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.worlds.player import Player, call_frame, frame, text_frame  # noqa: E402
from tests.awmenv.hostile_packs import RUN_CODE, pack  # noqa: E402

KIB = 1024
SPIN = "def verify_task_completion(a, b, c=None):\n    while True: pass\n"
EVIL = """
from typing import Annotated
from pydantic import Field

@app.get("/evil", operation_id="evil")
async def evil(text: Annotated[str, Field(json_schema_extra={"pattern": "^(a+)+$"})] = "a",
               numbers: Annotated[str, Field(json_schema_extra={"uniqueItems": True, "type": "array"})] = "a") -> int:
    return 1
"""
TOOLS = """
from typing import Annotated
from pydantic import Field

QUOTES = '"' * 500
MORE = ", ".join(f"a{n}: int = 1" for n in range(9))
for number in range(150):
    exec(f'''
@app.get("/t{number}", operation_id="tool_{number}")
async def tool_{number}(a: Annotated[int, Field(description=QUOTES)] = 1, {MORE}) -> int:
    return 1
''')
"""
ANSWER = "def verify_task_completion(a, b):\n    return {}\n"
FORGE = """
import os, socket
body = b"[" + b"[]," * (4 << 20) + b"[]]"
for fd in range(3, 30):
    try:
        socket.socket(fileno=os.dup(fd)).sendall(len(body).to_bytes(4, "big") + body)
    except OSError:
        pass
"""
FILL = """
import sqlite3
c = sqlite3.connect("world.db")
c.execute("PRAGMA synchronous=OFF")
c.execute("CREATE TABLE IF NOT EXISTS big (x)")
if not c.execute("SELECT count(*) FROM big").fetchone()[0]:
    c.executemany("INSERT INTO big VALUES (?)", [(b"x" * (1 << 20),)] * 110)
c.execute("INSERT INTO t DEFAULT VALUES")
c.commit()
c.close()
"""
FILES = "for n in range(250):\n    open(f'f{n}', 'wb').close()\n"


def write_pack(folder: Path) -> Path:
    """Write scenarios that let their caller run anything, with verifiers that never end."""
    pack(folder, RUN_CODE + EVIL, "hostile_1")
    pack(folder, RUN_CODE + TOOLS, "hostile_tools")
    row = {"scenario": "hostile_1", "task_idx": 0, "task": "", "verification": {"code": SPIN, "raw_response": ""}}
    (folder / "gen_verifier.pure_code.jsonl").write_text(json.dumps(row) + "\n")
    return folder


class Neighbor:
    """Common parts of all kinds: the port, and the number of completed acts."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.acts = 0

    async def repeat(self, act: Callable[[], Awaitable[Any]]) -> None:
        while True:
            await act()
            self.acts += 1

    async def reset(self, scenario: str = "hostile_1", **more: Any) -> Player:
        player = await Player.connect(self.port)
        answer = await player.ask(frame("reset", scenario=scenario, task_idx=0, **more))
        if b'"reset_ok"' not in answer:
            raise SystemExit(f"a reset failed: {answer[:300]!r}")
        return player

    async def run(self, player: Player, code: str) -> bytes:
        return await player.ask(call_frame({"name": "run_code", "arguments": {"code": code + ANSWER}}))

    async def most_values(self) -> None:
        """Send frames as large and as full as the server reads."""
        player = await self.reset()
        arguments = "{" + ",".join(f'"{n:020}":[]' for n in range(2_400)) + "}"
        made = text_frame('{"type":"step","data":{"tool_name":"add_row","arguments":' + arguments + "}}")
        await self.repeat(lambda: player.ask(made))

    async def longest_text(self) -> None:
        player = await self.reset()
        made = call_frame({"name": "add_row", "arguments": {"text": '"' * 120 * KIB}})
        await self.repeat(lambda: player.ask(made))

    async def too_large(self) -> None:
        """Send 15 MB on the agent's socket, which ends each time, and just under what ends it."""
        sizes = (15 << 20, 1_000_000)
        frames = [text_frame('{"a":[' + "[]," * (size // 3) + "[]]}") for size in sizes]

        async def act() -> None:
            player = await Player.connect(self.port, "/mcp")
            with contextlib.suppress(ConnectionError):
                for made in reversed(frames):
                    await player.ask(made)
            player.transport.abort()

        await self.repeat(act)

    async def deep(self) -> None:
        player = await self.reset()
        made = [text_frame("[" * count + "]" * count) for count in (120 * KIB, 4_000)]

        async def act() -> None:
            for one in made:
                await player.ask(one)

        await self.repeat(act)

    async def small_frames(self) -> None:
        """Send pings, empty messages and state messages as fast as they are read."""
        players = [await self.reset() for _ in range(3)]
        pings = b"\x89\x80\0\0\0\0"
        floods = [pings * 40_000, text_frame("{}") * 30_000, text_frame('{"type":"state"}') * 10_000]

        async def flood(player: Player, data: bytes) -> None:
            await self.repeat(lambda: player.pour(data))

        await asyncio.gather(*(flood(player, data) for player, data in zip(players, floods, strict=True)))

    async def giant_answer(self) -> None:
        """Request the longest response that an app can return, in the form that takes longest to write."""
        player = await self.reset()
        code = "def verify_task_completion(a, b):\n    return {'x': chr(34) * (200 << 10)}\n"
        made = call_frame({"name": "run_code", "arguments": {"code": code}})
        await self.repeat(lambda: player.ask(made))

    async def forged_answer(self) -> None:
        """Write 12 MB of empty lists past the app, with a new session each time."""

        async def act() -> None:
            player = await self.reset()
            await self.run(player, FORGE)
            player.transport.abort()

        await self.repeat(act)

    async def giant_database(self) -> None:
        """Have 110 MB copied and compared after each write, by requesting the difference."""
        player = await self.reset(state_diff=True)
        await self.repeat(lambda: self.run(player, FILL))

    async def many_files(self) -> None:
        player = await self.reset()
        await self.repeat(lambda: self.run(player, FILES))

    async def abusive_arguments(self) -> None:
        """Send a pattern that never ends in the argument checker; the session is replaced each second."""

        async def act() -> None:
            player = await self.reset()
            with contextlib.suppress(TimeoutError):
                arguments = {"text": "a" * 40 + "!", "numbers": [[n] for n in range(2_000)]}
                await asyncio.wait_for(player.ask(call_frame({"name": "evil", "arguments": arguments})), 1)
            player.transport.abort()

        await self.repeat(act)

    async def longest_tool_list(self) -> None:
        player = await self.reset("hostile_tools")
        agents = frame("mcp", jsonrpc="2.0", id=1, method="tools/list")

        async def act() -> None:
            await player.ask(frame("step", type="list_tools"))
            await player.ask(agents)

        await self.repeat(act)

    async def hanging_verifiers(self) -> None:
        """Run eight verifiers together that never return."""

        async def client() -> None:
            while True:
                player = await self.reset()
                await player.ask(call_frame({"name": "verify", "arguments": {}}))
                self.acts += 1
                player.transport.abort()

        await asyncio.gather(*(client() for _ in range(8)))

    async def pipelined_requests(self) -> None:
        request = b"GET /schema HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"

        async def act() -> None:
            _reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            with contextlib.suppress(ConnectionError):
                writer.write(request * 2_000)
                await writer.drain()
                await asyncio.sleep(0.01)
            writer.transport.abort()

        await self.repeat(act)

    async def many_requests(self) -> None:
        """Send one request after the other on twenty connections, each as soon as the one before is answered."""

        async def client() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            while True:
                writer.write(b"GET /schema HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]))
                self.acts += 1

        await asyncio.gather(*(client() for _ in range(20)))


KINDS = (
    "most_values", "longest_text", "too_large", "deep", "small_frames", "giant_answer", "forged_answer",
    "giant_database", "many_files", "abusive_arguments", "longest_tool_list", "hanging_verifiers", "pipelined_requests",
    "many_requests",
)  # fmt: skip


async def work(kind: str, port: int) -> None:
    neighbor = Neighbor(port)
    at_work = asyncio.ensure_future(getattr(neighbor, kind)())
    started = time.monotonic()
    while neighbor.acts == 0 and not at_work.done() and time.monotonic() - started < 20:
        await asyncio.sleep(0.05)
    print("up", flush=True)
    asked_to_end = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    await asyncio.wait({at_work, asked_to_end}, return_when=asyncio.FIRST_COMPLETED)
    if at_work.done():
        at_work.result()
    at_work.cancel()
    print(json.dumps({"acts": neighbor.acts, "cpu_s": time.process_time()}), flush=True)


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], int(sys.argv[2])))
