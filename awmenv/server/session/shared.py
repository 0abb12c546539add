"""What all sessions of a server share: packs, zygotes, folders, threads for slow work, counts; and the watch over them.

`app` starts and stops it and reads the counts. Leaves one episode to `sessions`.
"""

import asyncio
import itertools
import logging
import resource
import time
from bisect import bisect_left
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

from awmenv.kept import FOLDER
from awmenv.models import BuildReport
from awmenv.server.session.checkup import Checkup
from awmenv.server.session.library import Library
from awmenv.server.session.scenario import ScenarioPool
from awmenv.server.session.snapshots import Snapshots
from awmenv.server.session.turns import CoreTurns
from awmenv.server.settings import Settings
from awmenv.server.verifier import VerifierPool
from awmenv.server.workplace import Workplace

log = logging.getLogger("awmenv.session")

PATIENCE_S = 1.0  # a verifier that takes longer no longer keeps others out
LATE = 4  # for each place, how many concurrent runs can take longer
CHECKUPS = 8  # threads for the checks of verifiers beside them


VERIFY_BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 60.0)
"""Seconds below which the runs of verifiers are counted."""


@dataclass
class ServerCounts:
    """What the server has seen since it started; for /stats."""

    sessions: int = 0
    resets: int = 0
    calls: int = 0
    verifications: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    verify_s: float = 0.0
    verify_counts: list[int] = field(default_factory=lambda: [0] * (len(VERIFY_BOUNDS) + 1))

    def verified(self, seconds: float) -> None:
        self.verifications += 1
        self.verify_s += seconds
        self.verify_counts[bisect_left(VERIFY_BOUNDS, seconds)] += 1

    def fault(self, name: str) -> None:
        self.faults[name] = self.faults.get(name, 0) + 1


class Ended(Protocol):
    """A session, to its server: watched, and ended when its time has come."""

    lock: asyncio.Lock
    used_at: float

    def check(self) -> None: ...
    def expire(self) -> None: ...
    def end(self) -> None: ...


class World:
    """What all sessions of a server share: packs, zygotes, folders, threads for slow work, counts."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.library = Library(settings.packs, settings.cache_dir, settings.watched)
        self.workplace = Workplace(settings.run_dir, settings.uid)
        self.scenarios = ScenarioPool(settings, self.workplace, die_with_thread=True)
        self.verifiers = VerifierPool(settings, self.workplace, die_with_thread=True)
        slots = settings.verifier_slots
        self._verifying = CoreTurns(slots, PATIENCE_S, each=max(1, slots // 2), late=LATE * slots)
        self.workers = ThreadPoolExecutor((1 + LATE) * slots + CHECKUPS, thread_name_prefix="verifier")
        self.checkup = Checkup(self.scenarios, self.verifiers, settings.cache_dir, workers=self.workers)
        self.snapshots = Snapshots(settings.cache_dir / FOLDER if settings.cache_dir else None)
        self.counts = ServerCounts()
        self.sessions: set[Ended] = set()
        self._stopped = False

    def start(self) -> None:
        """Start from the main thread, whose end the zygotes watch."""
        allow_descriptors(self.settings.max_sessions)
        # Both zygotes load their libraries at the same time.
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
        # Without a wait: a verifier that hangs ends with its zygote, below.
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
        reports = {name: built for pack in self.library.packs for name, built in pack.builds.items()}
        reports |= self.scenarios.reports
        return {name: built for name, built in sorted(reports.items()) if not built.ok}

    async def watch(self) -> None:
        """Check all sessions until cancelled.

        End the worlds of sessions unused for the idle time, or over their disk. Their connections stay. A session in a
        call may write, and is looked at in every round, the others in every fifth. New packs are loaded.
        """
        idle = self.settings.idle_s
        for round_ in itertools.count():
            await asyncio.sleep(min(1.0, idle / 4))
            await self.scenarios.check()
            await self.library.take_in()
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
