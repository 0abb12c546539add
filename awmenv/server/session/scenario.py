"""The server's pool of scenario processes: warm templates, one per scenario, and the sessions forked from them.

Owns their life: single-flight loading, reuse, ageing and eviction. The number of templates is bounded. Leaves one
process and its end to `hosts`. Called by `sessions`, on the server's event loop. The processes themselves are `host`,
behind `zygote`; they are untrusted, so pids come from the kernel and every read has a bound and a timeout.
"""

import asyncio
import contextlib
import hashlib
import itertools
import json
import logging
import os
import secrets
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from awmenv import schemas
from awmenv.errors import DatabaseBroken, HostFailed, SandboxMissing
from awmenv.models import BuildReport
from awmenv.packs import Pack
from awmenv.server import database, strict
from awmenv.server.sandbox import confine, framing
from awmenv.server.sandbox.launching import ZygoteClient
from awmenv.server.session import loading
from awmenv.server.session.census import Census
from awmenv.server.session.channel import ProcessChannel
from awmenv.server.session.hosts import CONCURRENT_STARTS, Host, Template, ToolList
from awmenv.server.session.recovery import Recovery
from awmenv.server.session.turns import CoreTurns
from awmenv.server.settings import Settings
from awmenv.server.workplace import UIDS, Workplace

log = logging.getLogger("awmenv.scenario")

HELLO = strict.Bounds(size=1 << 16, values=20)
BUILD_MEMORY = 512 << 20
HELLO_TIMEOUT_S = 10.0
SPARE_PROCESSES, STEP = 9, 16  # beside a template's sessions: itself, sessions that are ending, recoveries
MOST_OFFENCES = 5
CONCURRENT_CALLS, PATIENCE_S = 32, 1.0
OF_ONE_SCENARIO = 0.75  # of these places; the others stay free for other scenarios
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


class ScenarioPool:
    """All templates of one server, and their zygote."""

    def __init__(self, settings: Settings, workplace: Workplace, *, die_with_thread: bool = False) -> None:
        self.settings = settings
        self.workplace = workplace
        folder = workplace.fresh("scenarios-")
        self.zygote = ZygoteClient(
            "scenario", str(folder), workplace.uid, settings.declared_tier, die_with_thread=die_with_thread
        )
        self.templates: dict[tuple[str, str], Template] = {}
        self.reports: dict[str, BuildReport] = {}  # by scenario, how its database came out when it was last built
        self._homes: dict[Path, Template] = {}
        # Kept as long as a caller holds or awaits one: a record can name any start, so there is no end of keys.
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._slots: set[int] = set()
        self._starting = CoreTurns(CONCURRENT_STARTS, PATIENCE_S, each=int(OF_ONE_SCENARIO * CONCURRENT_STARTS))
        self._turns = CoreTurns(CONCURRENT_CALLS, PATIENCE_S, each=int(OF_ONE_SCENARIO * CONCURRENT_CALLS))
        self._order = itertools.cycle(range(1, UIDS))
        self._as_root = os.geteuid() == 0

    @property
    def tier(self) -> str:
        return self.zygote.tier

    def stop(self) -> None:
        for template in list(self.templates.values()):
            self._discard(template)
        self.zygote.stop()

    async def template(self, pack: Pack, scenario: str, clock: int | None = None) -> Template:
        """Return the warm template of a scenario. The first caller loads it, the others wait for it.

        With a `clock`, the one whose rows were built at that time.
        """
        version = pack.digests[scenario]
        key = (version, scenario)
        current = self.templates.get(key)
        if clock is not None and not (current is not None and current.clock == clock and self._usable(current)):
            key = (version, f"{scenario}@{clock}")
        # Named, because the dictionary refers to it weakly.
        fresh = asyncio.Lock()
        async with self._locks.setdefault(key, fresh):
            template = self.templates.get(key)
            if template is not None and not self._usable(template):
                self._retire(template)
                template = None
            if template is None:
                template = await self._load(pack, scenario, key, clock=clock)
                self.templates[key] = template
                self._make_room(template)
            template.used_at = time.monotonic()
            return template

    def _usable(self, template: Template) -> bool:
        fresh = time.monotonic() - template.made_at < self.settings.template_hours * 3600
        return fresh and not template.retired and _connected(template.leash)

    def _make_room(self, keep: Template) -> None:
        idle = sorted((t for t in self.templates.values() if t.live == 0 and t is not keep), key=lambda t: t.used_at)
        for template in idle[: max(0, len(self.templates) - self.settings.warm_scenarios)]:
            self._retire(template)

    def _retire(self, template: Template) -> None:
        """Accept no new sessions for a template; it ends with its last one."""
        if self.templates.get(template.key) is template:
            del self.templates[template.key]
        template.retired = True
        if template.live == 0:
            self._discard(template)

    async def check(self) -> None:
        """Check the disk and processes of loaded apps, long after the load.

        A scenario above its disk limit ends, and so does one that leaves processes repeatedly.
        """
        for template in list(self._homes.values()):
            folder = template.home / "template"
            if template.leash.fileno() < 0:
                continue  # it was ended already, and is removed with its last session
            if folder.exists() and database.disk_use(folder) > self.settings.session_disk_mb << 20:
                self._end_scenario(template, "used more disk than it may")
                continue
            starting_s = HELLO_TIMEOUT_S + 2 if template.opening else 0.0
            strays = await asyncio.to_thread(template.census.look, frozenset(template.sessions), starting_s)
            if strays:
                log.warning("scenario %s left %d processes of its own, which are ended", template.key[1], strays)
            if template.census.offences > MOST_OFFENCES:
                self._end_scenario(template, "leaves processes of its own again and again")
            elif not template.retired:
                with contextlib.suppress(HostFailed):  # a new zygote knows nothing of this template, which has ended
                    await self._allow_processes(template)

    def _end_scenario(self, template: Template, why: str) -> None:
        log.warning("scenario %s %s", template.key[1], why)
        template.leash.close()  # the zygote ends the template, and as root all of its user
        database.remove(template.home / "template")
        self._retire(template)

    def _discard(self, template: Template) -> None:
        self._homes.pop(template.home, None)
        template.leash.close()
        template.control.close()
        database.remove(template.snapshot)
        database.remove(template.home)
        self._slots.discard(template.slot)

    async def build_database(self, pack: Pack, scenario: str) -> tuple[Path, BuildReport]:
        """Return a new file with the database built from its rows in the same sandbox; no app is run.

        The caller removes it. Raises DatabaseBroken if the rows do not build one.
        """
        template = await self._load(pack, scenario, (pack.digests[scenario], scenario), with_app=False)
        kept = template.snapshot.with_name(f"{template.home.name}-build_database.db")
        template.snapshot.rename(kept)
        self._discard(template)
        return kept, template.report

    async def _load(
        self, pack: Pack, scenario: str, key: tuple[str, str], *, with_app: bool = True, clock: int | None = None
    ) -> Template:
        self._require_tier()
        slot = self._next_slot()
        uid = self.workplace.uid + slot if self._as_root else None
        home = self.workplace.fresh("scn-")
        (home / "template").mkdir(mode=0o700)
        if uid is not None:
            os.chown(home / "template", uid, uid)
        control, far_control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        leash, far_leash = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        channel, far_channel = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        leash.setblocking(False)
        snapshot = self.workplace.path / f"{home.name}.db"
        template = Template(key, home, slot, control, leash, snapshot, time.monotonic())
        template.clock = time.time_ns() // 1_000_000 if clock is None else clock
        try:
            with far_leash, far_control, far_channel:
                fds = [far_leash.fileno(), far_control.fileno(), far_channel.fileno()]
                request = {"home": str(home), "uid": uid, "limits": self._limits(with_app), "announce": True}
                await asyncio.to_thread(self.zygote.request, request, fds)
            template.census = Census(await loading.hear_pid(leash))
            with channel:
                loaded = await loading.hear_load(channel, await self._to_load(template, pack, scenario, with_app))
            row = await asyncio.to_thread(pack.row, "scenario", scenario) or {}
            template.tools = ToolList(schemas.listed(loaded.tools, self.settings.schemas, row.get("schemas")))
            template.report = loaded.report
            self.reports[scenario] = loaded.report
            if with_app:
                await self._allow_processes(template)
            await self._copy_committed(template, template.loaded if with_app else template.built, template.snapshot)
            template.loaded.unlink(missing_ok=True)
            template.digest = await database.digest_aside(template.snapshot)
        except BaseException:
            self._discard(template)
            raise
        self._homes[home] = template  # while it loaded, its disk was watched there: who ends a template also says why
        return template

    async def _to_load(self, template: Template, pack: Pack, scenario: str, with_app: bool) -> loading.LoadRequest:
        statements = await asyncio.to_thread(pack.statements, scenario)
        code = await asyncio.to_thread(pack.app_code, scenario) if with_app else None
        template.rows = hashlib.sha256(json.dumps([statements, code]).encode()).hexdigest()[:32]
        return loading.LoadRequest(
            scenario,
            template.home,
            template.leash,
            statements,
            code,
            self.settings.partial,
            self.settings.load_timeout_s,
            self.settings.session_disk_mb << 20,
            template.clock,
        )

    def _next_slot(self) -> int:
        """Return a user number that was not in use recently: the end of its last template may still be under way."""
        slot = next(number for number in self._order if number not in self._slots)
        self._slots.add(slot)
        return slot

    def _require_tier(self) -> None:
        self.zygote.start()
        if confine.TIERS.index(self.tier) < confine.TIERS.index(self.settings.min_tier):
            raise SandboxMissing(
                f"sandbox_missing: sandbox level '{self.tier}' is below AWMENV_MIN_TIER '{self.settings.min_tier}'"
            )

    def _process_limits(self) -> tuple[int, int]:
        """Return how many processes a template can fork: nearly none during the import, then one per session.

        Counted per user: as root the template has a user of its own, otherwise the operator's processes count too.
        """
        base = 0 if self._as_root else _tasks_of(os.getuid()) + 32
        return base + 4, base + self.settings.max_sessions + 64

    async def _allow_processes(self, template: Template) -> None:
        """Keep a template's process limit close to its number of sessions, as root: all templates share one limit then.

        As an ordinary user the limit is over all processes of this user, so it is set once.
        """
        async with template.widening:
            limit = SPARE_PROCESSES + (template.live // STEP + 1) * STEP if self._as_root else self._process_limits()[1]
            # Within a step: each change costs a request to the zygote.
            is_enough = template.allowed - STEP <= limit <= template.allowed if self._as_root else template.allowed > 0
            if is_enough:
                return
            uid = self.workplace.uid + template.slot if self._as_root else None
            near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            near.setblocking(False)
            with near:
                with far:
                    request = {"widen": template.census.template, "uid": uid, "processes": limit}
                    await asyncio.to_thread(self.zygote.request, request, [far.fileno()])
                done = asyncio.get_running_loop().sock_recv(near, 1)
                with contextlib.suppress(TimeoutError, OSError):  # the next fork then fails with its own error
                    await asyncio.wait_for(done, HELLO_TIMEOUT_S)
            template.allowed = limit

    def _limits(self, with_app: bool) -> dict[str, Any]:
        """Return a template's limits; lower if only the rows of its database are run."""
        cpu_s, memory = self.settings.session_cpu_s, self.settings.session_memory_mb << 20
        return {
            "cpu_s": cpu_s if with_app else min(cpu_s, int(self.settings.load_timeout_s) + 1),
            "memory": memory if with_app else min(memory, BUILD_MEMORY),
            "file_size": self.settings.session_disk_mb << 20,
            "files": 256,
            "processes": self._process_limits(),
        }

    async def open(
        self, template: Template, start: Path | None = None, moment: Mapping[str, Any] | None = None
    ) -> Host:
        """Return a fresh session: a folder, a copy of the database, and a fork of the template.

        The copy is of the template's database or of `start`. `moment` is the clock and the seed of its start-up, if the
        session is recorded.
        """
        template.live += 1
        folder = template.home / f"s-{secrets.token_hex(8)}"
        try:
            # A scenario whose sessions never send their hello delays only its own.
            async with template.starting, self._starting.hold(template.key):
                if template.retired:
                    raise HostFailed("the scenario's template has ended")
                await self._allow_processes(template)
                template.opening += 1
                try:
                    return await self._open(template, folder, start or template.snapshot, moment or {})
                finally:
                    template.opening -= 1
        except BaseException:
            self.release(template, folder)
            raise

    async def _open(self, template: Template, folder: Path, start: Path, moment: Mapping[str, Any]) -> Host:
        folder.mkdir(mode=0o700)
        await database.copy_aside(start, folder / database.FILE, 0o600)
        if self._as_root:
            uid = self.workplace.uid + template.slot
            os.chown(folder / database.FILE, uid, uid)
            os.chown(folder, uid, uid)
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        near.setblocking(False)
        near.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        try:
            with far:
                socket.send_fds(
                    template.control, [json.dumps({"folder": str(folder), **moment}).encode()], [far.fileno()]
                )
            hello, pid = await _hear_hello(near)
            if "failed" in hello:
                raise framing.BadFrame(str(hello["failed"])[-500:])
            # Off again, or credentials would come with every read.
            near.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 0)
            host = Host(template, folder, await ProcessChannel.over(near), pid, self._turns)
            template.sessions.add(pid)
        except (OSError, TimeoutError, framing.BadFrame) as error:
            near.close()
            self._retire(template)
            raise HostFailed(f"the scenario's session did not start: {error or type(error).__name__}") from error
        if hello.get("error"):
            log.warning("start-up of %s: %s", template.key[1], hello["error"])
        return host

    async def snapshot(self, host: Host, target: Path) -> None:
        """Copy the committed database of a running session. Raises DatabaseBroken."""
        await self._copy_committed(host.template, host.database, target)

    async def final(self, host: Host, target: Path) -> None:
        """End a session's process, and copy its last committed database. Raises DatabaseBroken."""
        await host.end_and_wait()
        if database.has_sidecars(host.database):
            await self._recovery(host.template).in_place(host.folder)
        elif host.left_uncommitted:
            raise DatabaseBroken("the app ended inside a transaction, and keeps no journal that could undo it")
        await database.copy_aside(host.database, target)

    async def _copy_committed(self, template: Template, source: Path, target: Path) -> None:
        if not database.has_sidecars(source):
            await database.copy_aside(source, target)
            return
        folder = template.home / f"c-{secrets.token_hex(8)}"
        folder.mkdir(mode=0o700)
        try:
            recovery = self._recovery(template)
            if recovery.uid is not None:
                os.chown(folder, recovery.uid, recovery.uid)
            await asyncio.to_thread(database.copy, await recovery.of_copies(source, folder), target)
        finally:
            database.remove(folder)

    def _recovery(self, template: Template) -> Recovery:
        uid = self.workplace.uid + template.slot if self._as_root else None
        return Recovery(self.zygote, uid, self.settings.session_disk_mb << 20)

    def close(self, host: Host) -> None:
        """End a session's process and remove its folder. Callable from any thread."""
        host.end()
        host.forget()
        host.template.sessions.discard(host.pid)
        self.release(host.template, host.folder)

    def release(self, template: Template, folder: Path) -> None:
        database.remove(folder)
        template.live -= 1
        if template.retired and template.live == 0:
            self._discard(template)


async def _hear_hello(near: socket.socket) -> tuple[dict[str, Any], int]:
    """Return the first frame, and the sender's pid from the kernel: an untrusted process may claim any other."""
    loop = asyncio.get_running_loop()
    readable = loop.create_future()
    loop.add_reader(near.fileno(), lambda: None if readable.done() else readable.set_result(None))
    try:
        await asyncio.wait_for(readable, HELLO_TIMEOUT_S)
    finally:
        loop.remove_reader(near.fileno())
    body, ancillary, _flags, _address = near.recvmsg(1 << 16, socket.CMSG_SPACE(_CREDENTIALS.size))
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
            return _dict(strict.read(framing.only_body(body), HELLO)), _CREDENTIALS.unpack(data[: _CREDENTIALS.size])[0]
    raise framing.BadFrame("no credentials")


def _tasks_of(uid: int) -> int:
    """Return processes and threads of a user, as RLIMIT_NPROC counts them."""
    count = 0
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if folder.stat().st_uid == uid:
                    count += sum(1 for _task in (folder / "task").iterdir())
    return count


def _connected(leash: socket.socket) -> bool:
    """Return whether the template is running: the zygote closes its end once it has ended."""
    try:
        leash.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _dict(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise framing.BadFrame("not an object")
    return value
