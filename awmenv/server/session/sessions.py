"""One episode's world on the server: begun from a template, stepped by tool calls, sealed by its first verification,
ended for certain.

Owns the rules of an episode (what may be done when, what is compared with what) and knows nothing of openenv.
`environment` calls it and puts its answers into openenv's words; `app` reads the counts. One caller at a time per
session, kept by a lock.
"""

import asyncio
import hashlib
import itertools
import json
import logging
import resource
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from awmenv.attesting import Trail, sha256_of
from awmenv.errors import DatabaseBroken, EnvironmentFault, HostFailed, WorldDiffers
from awmenv.health import Health
from awmenv.models import BuildReport
from awmenv.packs import Mode, Pack
from awmenv.server import database, strict
from awmenv.server.session.channel import Answer
from awmenv.server.session.checkup import Checkup
from awmenv.server.session.library import Library
from awmenv.server.session.marks import (
    RECORDED,
    Mark,
    Start,
    WorldTime,
    digest_of,
)
from awmenv.server.session.scenario import Host, ScenarioHouse, Template, ToolList
from awmenv.server.session.snapshots import Snapshots
from awmenv.server.session.turns import Turns
from awmenv.server.settings import Settings
from awmenv.server.verifier import VerifierHouse, verdict
from awmenv.server.verify import judge
from awmenv.server.workplace import Workplace

log = logging.getLogger("awmenv.session")

MAX_TRAIL = 200  # calls kept for the judge
MAX_NOTED = 2000  # characters of a call's arguments, and of its result
MAX_ERROR = 20_000  # characters of an error that an agent gets
PATIENCE_S = 1.0  # a verifier that takes longer no longer keeps others out
LATE = 4  # for each place, how many concurrent runs can take longer
CHECKUPS = 8  # threads for the checks of verifiers beside them
CHECKUP_AFTER_S = 1.0
CHECKUP_WAIT_S = 2.0

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
    mark: Mark | None = None


@dataclass(frozen=True)
class Verification:
    """What one verifier said, stored and repeated on request."""

    reward_type: str
    result: dict[str, Any]
    diff: dict[str, Any] | None = None
    health: Health | None = None
    verifier_sha256: str = ""
    final_answer: str | None = None


@dataclass
class Counts:
    """What the server has seen since it started; for /stats."""

    sessions: int = 0
    resets: int = 0
    calls: int = 0
    verifications: int = 0
    faults: dict[str, int] = field(default_factory=dict)

    def fault(self, name: str) -> None:
        self.faults[name] = self.faults.get(name, 0) + 1


class World:
    """What all sessions of a server share: packs, zygotes, folders, threads for slow work, counts."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.library = Library(settings.packs, settings.cache_dir, settings.watched)
        self.workplace = Workplace(settings.run_dir, settings.uid)
        self.scenarios = ScenarioHouse(settings, self.workplace, die_with_thread=True)
        self.verifiers = VerifierHouse(settings, self.workplace, die_with_thread=True)
        slots = settings.verifier_slots
        self._verifying = Turns(slots, PATIENCE_S, each=max(1, slots // 2), late=LATE * slots)
        self.workers = ThreadPoolExecutor((1 + LATE) * slots + CHECKUPS, thread_name_prefix="verifier")
        self.checkup = Checkup(self.scenarios, self.verifiers, settings.cache_dir, workers=self.workers)
        self.snapshots = Snapshots(settings.cache_dir / "worlds" if settings.cache_dir else None)
        self.counts = Counts()
        self.sessions: set[Session] = set()
        self._stopped = False

    def start(self) -> None:
        """Start from the main thread, whose end the zygotes watch."""
        allow_descriptors(self.settings.max_sessions)
        self.scenarios.zygote.launch()
        self.verifiers.start()
        self.scenarios.zygote.start()

    def stop(self) -> None:
        """Leave nothing of this server: no process, no file. Idempotent."""
        if self._stopped:
            return
        self._stopped = True
        for session in list(self.sessions):
            session.end()
        self.workers.shutdown(wait=False, cancel_futures=True)
        self.scenarios.stop()
        self.verifiers.stop()
        self.workplace.remove()

    @property
    def tier(self) -> str:
        return self.scenarios.tier if self.scenarios.tier == self.verifiers.tier else "none"

    def partial(self) -> dict[str, BuildReport]:
        """Return the partial scenarios: known from load reports, or built since."""
        if not self.settings.partial:
            return {}
        found = {name: built for pack in self.library.packs for name, built in pack.builds.items()}
        found |= self.scenarios.reports
        return {name: built for name, built in sorted(found.items()) if not built.ok}

    async def watch(self) -> None:
        """Check all sessions until cancelled.

        End the worlds of sessions unused for the idle time, or over their disk. Their connections stay. A session in a
        call may write, and is looked at in every round, the others in every fifth. New packs are loaded.
        """
        idle = self.settings.idle_s
        for round_ in itertools.count():
            await asyncio.sleep(min(1.0, idle / 4))
            await self.scenarios.check()
            for name in await self.library.take_in():
                log.info("pack %s is loaded, %d scenarios in all", name, len(self.library.listed))
            watched = [one for one in self.sessions if round_ % 5 == 0 or one.lock.locked()]
            for session in watched:
                await asyncio.sleep(0)  # a thousand looks at the disk in a row would hold up the calls
                session.check()
                if time.monotonic() - session.used_at > idle:
                    session.expire()

    async def in_worker(self, scenario: str, function: Any, *arguments: Any) -> Any:
        """Run what a scenario's databases or verifiers may make slow, in a thread and in this scenario's turn."""
        async with self._verifying.hold(scenario):
            return await asyncio.get_running_loop().run_in_executor(self.workers, lambda: function(*arguments))


def allow_descriptors(sessions: int) -> None:
    """Raise the limit of descriptors to the hard one; each session has three: connection, channel and process."""
    needed = 3 * sessions + 200
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = needed if hard == resource.RLIM_INFINITY else hard
    if allowed < needed:
        log.warning("%d sessions need %d open files, and %d are allowed (ulimit -Hn)", sessions, needed, allowed)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


class Session:
    """One episode, created by `begin` and ended by `end`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.lock = asyncio.Lock()
        self.used_at = time.monotonic()
        self.template: Template | None = None
        self.host: Host | None = None
        self.scenario = ""
        self.task: str | None = None
        self.task_idx: int | None = None
        self.has_verifier: dict[str, bool] | None = None
        self.wants_diff = False
        self.sealed = False
        self.broken: str | None = None
        self.lost = False
        self._missed_calls = False
        self.tools = ToolList([])
        self._folder: Path | None = None
        self._initial: Path | None = None
        self._last: Path | None = None
        self._last_digest = ""
        self._has_strayed = False
        self._final: Path | None = None
        self._no_final = ""
        self._seen: database.Fingerprint = ()
        self._copies = 0
        self._trail: list[dict[str, Any]] = []
        self._verified: dict[Mode, Verification] = {}
        self._diff: dict[str, Any] | None = None
        self.id = uuid.uuid4().hex
        self.trail: Trail | None = None
        self.database_sha256 = ""
        self.time: WorldTime | None = None
        self.start: Start | None = None
        self.final_digest = ""
        world.sessions.add(self)

    @property
    def partial(self) -> BuildReport | None:
        """How the database came out, if some of its statements failed."""
        report = self.template.report if self.template is not None else None
        return report if report is not None and not report.ok else None

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
        world: Start | bool = False,
        clocks: str = RECORDED,
    ) -> None:
        """Fill this session.

        Find the scenario and task, warm its template, fork its process. With `world` the session is recorded, and
        begins as another one did that is named, with its clocks. Raises an EnvironmentFault.
        """
        library = self.world.library
        pack = library.find(scenario)
        self.scenario = pack.scenario(scenario).name
        self.task, self.task_idx = task, task_idx
        if task_idx is not None:
            texts = await library.tasks(self.scenario)
            if not 0 <= task_idx < len(texts):
                raise EnvironmentFault(f"task_idx {task_idx} out of range (0..{len(texts) - 1})")
            self.task = task if task is not None else strict.clean(texts[task_idx])
            self.has_verifier = pack.has_verifier(self.scenario, task_idx)
        self.wants_diff = diff
        self.trail = Trail() if diff and self.world.settings.attest_key else None
        begun = world if isinstance(world, Start) else None
        if world:
            self.time = WorldTime(begun.seed, begun.clocks) if begun else WorldTime(clocks=clocks)
        self.template, self.host = await self._fork(pack, begun=begun)
        self.tools = self.template.tools
        self._folder = self.world.workplace.fresh("epi-")
        self._initial = await self._take_initial()
        self.world.counts.resets += 1
        if diff:
            asyncio.get_running_loop().call_later(CHECKUP_AFTER_S, self._check_ahead)

    def _check_ahead(self) -> None:
        """Have the verifier's health ready by the time of its verdict, and out of the way of the reset."""
        if not self.sealed and self.has_verifier and self.task_idx is not None:
            self.world.checkup.ask(self.world.library.find(self.scenario), self.scenario, self.task_idx)

    async def _fork(self, pack: Pack, start: Path | None = None, begun: Start | None = None) -> tuple[Template, Host]:
        """Return a new process, over the template's database or a copy of `start`.

        A template that has exited since its last use is loaded again, once. With `begun`, use a template built at that
        time, the same bytes.
        """
        scenarios = self.world.scenarios
        for attempt in (1, 2):
            template = await scenarios.template(pack, self.scenario, begun.base_clock if begun else None)
            if begun is not None and template.digest != begun.base_digest:
                changed = "" if template.rows == begun.rows else "; the scenario's rows have changed"
                raise WorldDiffers(f"The start database is not the one of the record{changed}.")
            moment = self._moment_of_start(template, begun) if start is None else None
            try:
                return template, await scenarios.open(template, start, moment)
            except HostFailed as error:
                if attempt == 2:
                    raise
                log.warning("scenario %s: %s; loading it again", self.scenario, error)
        raise AssertionError("the second try returns or raises")

    def _moment_of_start(self, template: Template, begun: Start | None) -> dict[str, Any] | None:
        if self.time is None:
            return None
        clock = self.time.begin(begun.clock if begun else None)
        clock = begun.clock if begun else clock
        self.start = Start(template.clock, template.digest, self.time.seed, clock, template.rows, self.time.clocks)
        return self.time.sent_moment({"clock": clock, "seed": f"{self.time.seed}/start"})

    async def _take_initial(self) -> Path:
        """Return the state before the agent's first call: the template's, unless the app's start-up changed it."""
        host, template = self._needed()
        self._seen = database.fingerprint(host.database)
        if self._seen == database.fingerprint(template.snapshot):
            target = self._new_copy_path()
            # A hard link costs nothing, and outlives the template's retirement.
            target.hardlink_to(template.snapshot)
            return target
        return await self._snapshot()

    def _needed(self) -> tuple[Host, Template]:
        if self.host is None or self.template is None:
            raise HostFailed("the scenario is not running")
        return self.host, self.template

    def _new_copy_path(self) -> Path:
        if self._folder is None:
            raise HostFailed("the session has ended")
        self._copies += 1
        return self._folder / f"{self._copies}.db"

    async def _snapshot(self) -> Path:
        """Return a copy of the database as it is committed now."""
        host, _template = self._needed()
        target = self._new_copy_path()
        await self.world.scenarios.snapshot(host, target)
        return target

    async def call(
        self, name: str, arguments: dict[str, Any], known: Mark | None = None, put_back: bool = False
    ) -> CallResult:
        """Make one tool call of the agent; in a recorded session `known` makes one of the record again, at its time.

        With `put_back` the recorded database replaces the one that the call left, if it left another and a snapshot is
        kept.
        """
        async with self.lock:
            self.used_at = time.monotonic()
            if self.sealed:
                return CallResult("sealed")
            if not self.running:
                return self._refused()
            moment = self.time.moment(known.clock if known else None) if self.time is not None else None
            if name not in self.tools.names:
                return _marked(CallResult("unknown_tool"), moment)
            self.world.counts.calls += 1
            result = _marked(await self._ask(name, arguments, moment, known), moment)
            self._note(name, arguments, result)
            if put_back and known is not None:
                return await self._put_back(result, known)
            return result

    async def _put_back(self, result: CallResult, known: Mark) -> CallResult:
        mark, host = result.mark, self.host
        if mark is None or host is None:
            return result
        has_strayed = self._has_strayed or not mark.changes_what(known)
        self._has_strayed = has_strayed and (known.database == "" or mark.database != known.database)
        if not self._has_strayed or known.database == "" or mark.answer != known.answer:
            return result
        if not await asyncio.to_thread(self.world.snapshots.put_back, known.database, host.database):
            return result
        self._seen = database.fingerprint(host.database)
        before, self._last = self._last, await self._snapshot()
        self._last_digest = await database.digest_aside(self._last)
        if before is not None:
            database.remove(before)
        if self._last_digest != known.database:
            return result
        self._has_strayed = False
        log.info("scenario %s: a database is put back to its record", self.scenario)
        return replace(result, mark=replace(mark, database=known.database, put_back="database"))

    async def _ask(
        self, name: str, arguments: dict[str, Any], moment: dict[str, Any] | None, known: Mark | None
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
                log.warning("scenario %s, tool %s:\n%s", self.scenario, name, result.detail)
            return await self._observed(result, known)
        except HostFailed as error:
            if self.sealed:  # its client left in the middle of the call, and all that the session held is let go
                return CallResult("sealed")
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
        except EnvironmentFault as error:
            return self._lose(f"it ended in a call, and cannot be tried again: {error}")
        if not kills:
            return self._lose("it ended in a call that does not end a fresh one")
        self._break("the process is gone")
        return CallResult("dead", KILLS)

    async def _kills_again(self, host: Host, request: dict[str, Any]) -> bool:
        """Try the data of the reset and those now where no diffs are kept: the data before the call are not known."""
        if await self._ends_a_fresh_one(self._last or self._initial, request):
            return True
        if self.wants_diff:
            return False
        target = self._new_copy_path()
        await self.world.scenarios.snapshot(host, target)
        try:
            return await self._ends_a_fresh_one(target, request)
        finally:
            database.remove(target)

    async def _ends_a_fresh_one(self, start: Path | None, request: dict[str, Any]) -> bool:
        _template, fresh = await self._fork(self.world.library.find(self.scenario), start)
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
        self._missed_calls = self.lost
        if self.lost:
            return CallResult("lost", f"{LOST} ({self.broken})")
        return CallResult("dead", self.broken or "the scenario is not running")

    async def _observed(self, result: CallResult, known: Mark | None) -> CallResult:
        """Return whether the call wrote; what it wrote, if the session wants to know; and whether it keeps to its disk.

        What a replayed call wrote is compared as bytes, and only where those differ as rows.
        """
        host, _template = self._needed()
        if self.over_disk():
            raise HostFailed("the session used more disk than it may")
        seen = database.fingerprint(host.database)
        has_written, self._seen = seen != self._seen, seen
        if not has_written or not (self.wants_diff or self.time is not None):
            return replace(result, diff={}) if self.wants_diff else result
        before = self._last or self._initial
        after = await self._snapshot()
        digest = await database.digest_aside(after) if self.time is not None else ""
        is_known = known is not None and known.database == digest
        diff = await self._compare(before, after) if self.wants_diff and not is_known else None
        if self._last is not None:
            database.remove(self._last)
        self._last, self._last_digest = after, digest
        return replace(result, diff=diff, database=digest)

    async def _compare(self, before: Path | None, after: Path) -> dict[str, Any] | None:
        """Return the changes between two copies; None if they cannot be compared."""
        try:
            run = await self.world.in_worker(
                self.scenario, partial(self.world.verifiers.run, private=True), "diff", [str(before), str(after)]
            )
        except EnvironmentFault as error:
            log.warning("no state diff for %s: %s", self.scenario, error)
            return None
        return run.value if isinstance(run.value, dict) else None

    def _break(self, reason: str) -> CallResult:
        """End this session's process after it exceeded its limits or vanished; other sessions are not affected.

        A process that was stopped for one reason fails in the middle of its call: the first reason is kept.
        """
        if self.broken is not None:
            return CallResult("dead", self.broken)
        log.warning("scenario %s: %s", self.scenario, reason)
        self.world.counts.fault("host")
        self.broken = f"the scenario's process was {reason if self.lost else f'ended: {reason}'}"
        if self.host is not None:
            self.host.end()
        return CallResult("timeout" if reason.startswith("timed out") else "dead", reason)

    def _note(self, name: str, arguments: dict[str, Any], result: CallResult) -> None:
        """Keep the call for the judge, large arguments as the beginning of their JSON: a session holds many calls."""
        if not (self.has_verifier or {}).get("sql"):
            return
        written = json.dumps(arguments, ensure_ascii=False)
        step = {
            "tool": name,
            "arguments": arguments if len(written) <= MAX_NOTED else written[:MAX_NOTED],
            "status": result.status or result.cause,
            "result": result.text[:MAX_NOTED],
        }
        self._trail = [*self._trail[-MAX_TRAIL + 1 :], step]

    async def verify(self, mode: Mode, final_answer: str | None) -> Verification:
        """Seal the session and run one verifier; a second request for the same mode gets the stored result."""
        async with self.lock:
            self.used_at = time.monotonic()
            if mode not in self._verified:
                await self._seal()
                found = await self._run_verifier(mode, final_answer)
                self._verified[mode] = replace(found, health=await self._health(), final_answer=final_answer)
                self.world.counts.verifications += 1
            return self._verified[mode]

    async def _seal(self) -> None:
        """Take no more tool calls: the process ends, and the database remains as it was last committed."""
        if self.sealed:
            return
        self.sealed = True
        try:
            host, _template = self._needed()
            target = self._new_copy_path()
            await self.world.scenarios.final(host, target)
            self._final = target
            if self.time is not None:
                self.final_digest = await database.digest_aside(target)
            if self.trail is not None:
                self.database_sha256 = await asyncio.to_thread(_digest, target)
        except (HostFailed, DatabaseBroken) as error:
            self._no_final = str(error)
            log.warning("the final database of %s cannot be had: %s", self.scenario, error)
        if self.wants_diff and self._final is not None:
            self._diff = await self._compare(self._initial, self._final)

    async def _health(self) -> Health | None:
        """Return the check of the verifier that has just run; the outcome waits for it only briefly."""
        if not self.wants_diff or self.task_idx is None:
            return None
        asked = self.world.checkup.ask(self.world.library.find(self.scenario), self.scenario, self.task_idx)
        done, _ = await asyncio.wait({asked}, timeout=CHECKUP_WAIT_S)
        return asked.result() if done else Health(unchecked="the verifier ran before the check ended")

    async def _run_verifier(self, mode: Mode, final_answer: str | None) -> Verification:
        task_idx = self.task_idx if self.task_idx is not None else -1
        verifier = await asyncio.to_thread(
            self.world.library.find(self.scenario).verifier, self.scenario, task_idx, mode
        )
        if verifier is None or self._final is None or self._missed_calls:
            missing = "no verifier" if verifier is None else f"no final database: {self._no_final}"
            if self._missed_calls:
                missing = "the environment was lost before the agent finished"
            return Verification(
                "judge_error", {"result": "others", "execution_status": "error", "error_message": missing}
            )
        paths = str(self._initial), str(self._final)
        result = await self.world.in_worker(
            self.scenario, verdict, self.world.verifiers, verifier.code, mode, *paths, final_answer, True
        )
        if result["execution_status"] != "success":
            return Verification("judge_error", result, self._diff)
        if mode == "code":
            return Verification(result["result"], result, self._diff, verifier_sha256=sha256_of(verifier.code))
        evidence = {
            "task": self.task,
            "steps": self._trail,
            "evidence": result["raw_result"],
            "about": verifier.raw_response,
        }
        ruling, said = await judge.rule(self.world.settings.judge, evidence)
        details = {**result, **_ruled(ruling, said)}
        return Verification(ruling, details, self._diff, verifier_sha256=sha256_of(verifier.code))

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
        folder, self._folder = self._folder, None
        if not self.sealed and self._last is not None and self._last_digest:
            database.before_removing(partial(self.world.snapshots.keep, self._last, self._last_digest))
        self.sealed = True
        if host is not None:
            self.world.scenarios.close(host)
        if folder is not None:
            database.remove(folder)


def _digest(file: Path) -> str:
    with file.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def _marked(result: CallResult, moment: dict[str, Any] | None) -> CallResult:
    """Add the mark of a recorded call. A world that was lost from outside answers nothing, and has none."""
    if moment is None or result.cause == "lost":
        return result
    answer = digest_of(result.cause, result.status, result.literal or result.text)
    rows = digest_of(result.diff) if result.database and result.diff is not None else ""
    return replace(result, mark=Mark(moment["clock"], answer, result.database, rows))


def _request(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"op": "call", "tool": name, "arguments": arguments}


def _ruled(ruling: str, said: dict[str, Any]) -> dict[str, Any]:
    """Return what a ruling makes of the verifier's result: a judge that failed is an error, and never a verdict."""
    if ruling == "judge_error":
        reason = f"the judge gave no ruling: {said.get('error', 'no reason')}"
        return {"llm_judge": said, "execution_status": "error", "error_message": reason}
    return {"llm_judge": said, "result": "complete" if ruling == "complete" else "others"}


def _result(answer: Answer) -> CallResult:
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
