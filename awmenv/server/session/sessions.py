"""One episode's world on the server: begun from a template, stepped by tool calls, sealed by its first verification,
ended for certain.

Owns the rules of an episode (what may be done when, what is compared with what) and knows nothing of openenv. Leaves
the files to `copies`, the verifiers to `verifying`, what sessions share to `shared`. `environment` calls it and puts
its answers into openenv's words. One caller at a time per session, kept by a lock.
"""

import asyncio
import hashlib
import logging
import time
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from awmenv.attesting import Trail
from awmenv.errors import AwmenvError, DatabaseBroken, HostFailed, WorldDiffers
from awmenv.kept import owner_of
from awmenv.models import BuildReport
from awmenv.packs import Mode, Pack
from awmenv.server import database, strict
from awmenv.server.session.channel import ProcessAnswer
from awmenv.server.session.copies import Copies
from awmenv.server.session.hosts import Host, Template, ToolList
from awmenv.server.session.marks import (
    RECORDED,
    CallMark,
    WorldStart,
    WorldTime,
    digest_of,
)
from awmenv.server.session.shared import World
from awmenv.server.session.verifying import Case, VerifierResult

log = logging.getLogger("awmenv.session")

MAX_ERROR = 20_000  # characters of an error that an agent gets
CHECKUP_AFTER_S = 1.0

Cause = Literal["ok", "unknown_tool", "schema", "http", "timeout", "dead", "lost", "sealed"]

KILLS = "This call ends the application's process; it did so again in a fresh one. No further call is possible."
LOST = "The environment lost the application's process, and not by this call. No further call is possible."


@dataclass(frozen=True)
class CallResult:
    """The result of one tool call, by cause; `detail` is for people and never for the agent.

    `dead`: the world ended by an action in it. `lost`: it ended from outside, which is no fault of the agent. `literal`
    is the text of a good result as JSON, for frames. `database` is the digest of the database, if a recorded call
    wrote; `mark` is for the control channel.
    """

    cause: Cause
    text: str = ""
    status: int = 0
    detail: str | None = None
    diff: dict[str, Any] | None = None
    literal: bytes = b""
    database: str = ""
    mark: CallMark | None = None


class Session:
    """One episode, created by `begin` and ended by `end`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.lock = asyncio.Lock()
        self.used_at = time.monotonic()
        self.template: Template | None = None
        self.host: Host | None = None
        self.case = Case(world)
        self.copies = Copies(world)
        self.sealed = False
        self.broken: str | None = None
        self.lost = False
        self.tools = ToolList([])
        self._has_strayed = False
        self.id = uuid.uuid4().hex
        self.trail: Trail | None = None
        self.moved = ""
        """How something other than the counted calls moved this world: then nothing is signed."""
        self.time: WorldTime | None = None
        self.start: WorldStart | None = None
        world.sessions.add(self)

    @property
    def partial(self) -> BuildReport | None:
        """How the database came out, if some of its statements failed."""
        report = self.template.report if self.template is not None else None
        return report if report is not None and not report.ok else None

    @property
    def owner(self) -> str:
        """Whose snapshots these are."""
        return owner_of(self.case.scenario, self.start.wire()) if self.start else ""

    @property
    def running(self) -> bool:
        return self.host is not None and self.broken is None

    async def begin(
        self,
        scenario: str,
        task_idx: int | None,
        task: str | None,
        *,
        diff: bool,
        world: WorldStart | bool = False,
        clocks: str = RECORDED,
    ) -> None:
        """Fill this session.

        Find the scenario and task, warm its template, fork its process. With `world` the session is recorded, and
        begins as another one did that is named, with its clocks. Raises an EnvironmentFault.
        """
        pack = self.case.pack = await self.world.library.find_new(scenario)
        self.case.scenario = pack.scenario(scenario).name
        self.case.task, self.case.task_idx, self.case.wants_diff = task, task_idx, diff
        if task_idx is not None:
            texts = await asyncio.to_thread(pack.tasks, self.case.scenario)
            if not 0 <= task_idx < len(texts):
                raise AwmenvError(f"task_idx {task_idx} out of range (0..{len(texts) - 1})")
            self.case.own_task = texts[task_idx]
            self.case.task = task if task is not None else strict.clean(texts[task_idx])
            self.case.has_verifier = pack.has_verifier(self.case.scenario, task_idx)
        self.trail = Trail() if diff and self.world.settings.attest_key else None
        begun = world if isinstance(world, WorldStart) else None
        if begun is not None:
            self.moved = "the world began from a record"
        if world:
            self.time = WorldTime(begun.seed, begun.clocks) if begun else WorldTime(clocks=clocks)
        self.template, self.host = await self._fork(pack, begun=begun)
        self.tools = self.template.tools
        await self.copies.begin(*self._needed())
        self.world.counts.resets += 1
        if diff:
            asyncio.get_running_loop().call_later(CHECKUP_AFTER_S, self._check_ahead)

    def _check_ahead(self) -> None:
        """Have the verifier's health ready by the time of its verdict, and out of the way of the reset."""
        if not self.sealed and self.case.has_verifier:
            self.case.check_up()

    async def _fork(
        self, pack: Pack, start: Path | None = None, begun: WorldStart | None = None
    ) -> tuple[Template, Host]:
        """Return a new process, over the template's database or a copy of `start`.

        A template that has exited since its last use is loaded again, once. With `begun`, use a template built at that
        time, the same bytes.
        """
        scenarios = self.world.scenarios
        for attempt in (1, 2):
            template = await scenarios.template(pack, self.case.scenario, begun.base_clock if begun else None)
            if begun is not None and template.digest != begun.base_digest:
                changed = "" if template.rows == begun.rows else "; the scenario's rows have changed"
                raise WorldDiffers(f"The start database is not the one of the record{changed}.")
            moment = self._moment_of_start(template, begun) if start is None else None
            try:
                return template, await scenarios.open(template, start, moment)
            except HostFailed as error:
                if attempt == 2:
                    raise
                log.warning("scenario %s: %s; loading it again", self.case.scenario, error)
        raise AssertionError("the second try returns or raises")

    def _moment_of_start(self, template: Template, begun: WorldStart | None) -> dict[str, Any] | None:
        if self.time is None:
            return None
        clock = self.time.begin(begun.clock if begun else None)
        clock = begun.clock if begun else clock
        self.start = WorldStart(template.clock, template.digest, self.time.seed, clock, template.rows, self.time.clocks)
        return self.time.sent_moment({"clock": clock, "seed": f"{self.time.seed}/start"})

    def _needed(self) -> tuple[Host, Template]:
        if self.host is None or self.template is None:
            raise HostFailed("the scenario is not running")
        return self.host, self.template

    async def call(
        self, name: str, arguments: dict[str, Any], recorded: CallMark | None = None, put_back: bool = False
    ) -> CallResult:
        """Make one tool call of the agent; in a recorded session `recorded` makes one of the record again, at its time.

        With `put_back` the recorded database replaces the one that the call left, if it left another and a snapshot is
        kept.
        """
        async with self.lock:
            self.used_at = time.monotonic()
            if self.sealed:
                return CallResult("sealed")
            if recorded is not None or put_back:
                self.moved = self.moved or "a call of a record was made again"
            if not self.running:
                return self._refused()
            moment = self.time.moment(recorded.clock if recorded else None) if self.time is not None else None
            if name not in self.tools.names:
                return _marked(CallResult("unknown_tool"), moment)
            self.world.counts.calls += 1
            result = _marked(await self._ask(name, arguments, moment, recorded), moment)
            self.case.note(name, arguments, result.status or result.cause, result.text)
            if put_back and recorded is not None:
                return await self._put_back(result, recorded)
            return result

    async def _put_back(self, result: CallResult, recorded: CallMark) -> CallResult:
        mark, host = result.mark, self.host
        if mark is None or host is None:
            return result
        has_strayed = self._has_strayed or not mark.changes_what(recorded)
        self._has_strayed = has_strayed and (recorded.database == "" or mark.database != recorded.database)
        if not self._has_strayed or recorded.database == "" or mark.answer != recorded.answer:
            return result
        if not await asyncio.to_thread(self.world.snapshots.put_back, self.owner, recorded.database, host.database):
            return result
        self.copies.has_changed(host)
        after = await self.copies.take(host)
        self.copies.keep(after, digest := await database.digest_aside(after))
        if digest != recorded.database:
            return result
        self._has_strayed = False
        log.info("scenario %s: a database is put back to its record", self.case.scenario)
        return replace(result, mark=replace(mark, database=recorded.database, put_back="database"))

    async def _ask(
        self, name: str, arguments: dict[str, Any], moment: dict[str, Any] | None, recorded: CallMark | None
    ) -> CallResult:
        host, _template = self._needed()
        if host.channel.other_side_closed:
            return self._lose("it ended between two calls")
        request = _request(name, arguments) | (self.time.sent_moment(moment) if self.time and moment else {})
        try:
            answer = await host.ask(request, self.world.settings.call_timeout_s)
            result = _result(answer)
            if result.detail:
                self.world.counts.fault("scenario_error")
                log.warning("scenario %s, tool %s:\n%s", self.case.scenario, name, result.detail)
            return await self._observed(result, recorded)
        except HostFailed as error:
            if self.sealed:  # its client left in the middle of the call, and all that the session held is let go
                return CallResult("sealed")
            # By the process itself, not by a limit of the server.
            if host.channel.other_side_closed and self.broken is None:
                return await self._explain_death(host, request)
            return self._break(str(error))
        except DatabaseBroken as error:
            return self._break(str(error))

    async def _explain_death(self, host: Host, request: dict[str, Any]) -> CallResult:
        """Explain a process that ended in the middle of a call: make the call in a fresh process, over the data as they
        were before it. If that ends, too, the call does it and that is the world's answer; else the world was lost."""
        try:
            await host.end_and_wait()
            kills = await self._kills_again(host, request)
        except AwmenvError as error:
            return self._lose(f"it ended in a call, and cannot be tried again: {error}")
        if not kills:
            return self._lose("it ended in a call that does not end a fresh one")
        self._break("the process is gone")
        return CallResult("dead", KILLS)

    async def _kills_again(self, host: Host, request: dict[str, Any]) -> bool:
        """Try the data of the reset and those now where no diffs are kept: the data before the call are not known."""
        if await self._ends_a_fresh_one(self.copies.newest, request):
            return True
        if self.case.wants_diff:
            return False
        target = await self.copies.take(host)
        try:
            return await self._ends_a_fresh_one(target, request)
        finally:
            database.remove(target)

    async def _ends_a_fresh_one(self, start: Path | None, request: dict[str, Any]) -> bool:
        _template, fresh = await self._fork(self.case.held_pack(), start)
        try:
            await fresh.ask(request, self.world.settings.call_timeout_s)
        except HostFailed:
            return fresh.channel.other_side_closed
        finally:
            self.world.scenarios.close(fresh)
        return False

    def _lose(self, reason: str) -> CallResult:
        """Record that the world ended from outside: a fault of the environment, whatever the agent did."""
        if self.broken is None:
            self.lost = True
            self.world.counts.fault("world_lost")
            self._break(f"lost: {reason}")
        return self._refused()

    def _refused(self) -> CallResult:
        """Return what a call hears once the world has ended."""
        self.case.missed_calls = self.lost
        if self.lost:
            return CallResult("lost", f"{LOST} ({self.broken})")
        return CallResult("dead", self.broken or "the scenario is not running")

    async def _observed(self, result: CallResult, recorded: CallMark | None) -> CallResult:
        """Return whether the call wrote; what it wrote, if the session wants to know; and whether it keeps to its disk.

        What a replayed call wrote is compared as bytes, and only where those differ as rows.
        """
        host, _template = self._needed()
        if self.over_disk():
            raise HostFailed("the session used more disk than it may")
        has_written = self.copies.has_changed(host)
        if not has_written or not (self.case.wants_diff or self.time is not None):
            return replace(result, diff={}) if self.case.wants_diff else result
        before, after = self.copies.newest, await self.copies.take(host)
        digest = await database.digest_aside(after) if self.time is not None else ""
        is_known = recorded is not None and recorded.database == digest
        diff = await self.case.compare(before, after) if self.case.wants_diff and not is_known else None
        self.copies.keep(after, digest)
        return replace(result, diff=diff, database=digest)

    def _break(self, reason: str) -> CallResult:
        """End this session's process after it exceeded its limits or vanished; other sessions are not affected.

        A process that was stopped for one reason fails in the middle of its call: the first reason is kept.
        """
        if self.broken is not None:
            return CallResult("dead", self.broken)
        log.warning("scenario %s: %s", self.case.scenario, reason)
        self.world.counts.fault("host")
        self.broken = f"the scenario's process was {reason if self.lost else f'ended: {reason}'}"
        if self.host is not None:
            self.host.end()
        return CallResult("timeout" if reason.startswith("timed out") else "dead", reason)

    async def verify(self, mode: Mode, final_answer: str | None) -> VerifierResult:
        """Seal the session and run one verifier; a second request for the same mode gets the stored result."""
        async with self.lock:
            self.used_at = time.monotonic()
            await self._seal()
            return await self.case.verify(mode, final_answer)

    async def judge(self, code: str, final_answer: str | None) -> VerifierResult:
        """Seal the session and run a verifier that its dashboard sent."""
        async with self.lock:
            self.used_at = time.monotonic()
            await self._seal()
            return await self.case.judge(code, final_answer)

    async def _seal(self) -> None:
        """Take no more tool calls: the process ends, and the database remains as it was last committed."""
        if self.sealed:
            return
        self.sealed = True
        case = self.case
        case.initial = self.copies.initial
        try:
            host, _template = self._needed()
            target = self.copies.new_path()
            await self.world.scenarios.final(host, target)
            case.final = target
            if self.time is not None:
                case.final_digest = await database.digest_aside(target)
            if self.trail is not None:
                case.database_sha256 = await asyncio.to_thread(_digest, target)
        except (HostFailed, DatabaseBroken) as error:
            case.no_final = str(error)
            log.warning("the final database of %s cannot be had: %s", case.scenario, error)
        if case.wants_diff and case.final is not None:
            case.diff = await case.compare(case.initial, case.final)

    def over_disk(self) -> bool:
        host = self.host
        return host is not None and host.disk_use() > self.world.settings.session_disk_mb << 20

    def check(self) -> None:
        """Look at what the server watches between calls too."""
        if self.running and not self.sealed and self.over_disk():
            self._break("the session used more disk than it may")

    def expire(self) -> None:
        """End the process at the idle limit; the next call gets the reason."""
        if self.running and not self.lock.locked() and not self.sealed:
            self._break(f"unused for more than {self.world.settings.idle_s:g} s")
            self.lost = True

    def end(self) -> None:
        """Release everything this session has. Idempotent; from any thread."""
        self.world.sessions.discard(self)
        host, self.host = self.host, None
        # Only an episode without an outcome can continue from it.
        if not self.sealed:
            self.copies.keep_snapshot(self.owner)
        self.sealed = True
        if host is not None:
            self.world.scenarios.close(host)
        self.copies.remove()


def _digest(file: Path) -> str:
    with file.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def _marked(result: CallResult, moment: dict[str, Any] | None) -> CallResult:
    """Add the mark of a recorded call. A world that was lost from outside answers nothing, and has none."""
    if moment is None or result.cause == "lost":
        return result
    answer = digest_of(result.cause, result.status, result.literal or result.text)
    rows = digest_of(result.diff) if result.database and result.diff is not None else ""
    return replace(result, mark=CallMark(moment["clock"], answer, result.database, rows))


def _request(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"op": "call", "tool": name, "arguments": arguments}


def _result(answer: ProcessAnswer) -> CallResult:
    """Return the child's answer, taken as data: only known forms, only texts, bounded."""
    status = answer.head.get("status")
    if status == "ok":
        return CallResult("ok", answer.text, 200, literal=answer.literal)
    text = answer.text if len(answer.text) <= MAX_ERROR else f"{answer.text[:MAX_ERROR]}…"
    if status == "invalid":
        return CallResult("schema", text)
    code = answer.head.get("code")
    detail = answer.head.get("detail")
    return CallResult(
        "http",
        text,
        code if type(code) is int and 100 <= code < 600 else 500,
        detail if isinstance(detail, str) else None,
    )
