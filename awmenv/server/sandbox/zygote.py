"""The process that forks dataset code: exec'ed with an empty environment, single-threaded, never runs such code itself.

Owns forking, time limits, reaping and reporting; the work of a child is `runner`'s (verifiers) or `host`'s (scenarios).
It is started by `launching`, obeys datagrams on one control socket, and ends with everything it forked when that socket
closes.
"""

import contextlib
import importlib
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from awmenv.server.sandbox import confine, enclosure, sharing, syscalls
from awmenv.server.sandbox.preloading import VERIFIER_MODULES, preload

MAX_REQUEST = 1 << 16
SWEEP_MS = 1000
GENERATIONS = 64
"""Of strays, in one sweep: each falls to us when the one before it has ended. A fork bomb must not keep us here."""


@dataclass
class ForkedChild:
    """One forked child: its handle, its deadline, and the socket of its requester."""

    pid: int
    pidfd: int
    leash: socket.socket
    deadline: float | None
    uid: int | None
    timed_out: bool = False


class Zygote:
    """The loop: fork on request, kill at the deadline or when the requester closes its end, report every exit."""

    def __init__(self, control: socket.socket, work: Callable[[dict[str, Any], list[int]], None]) -> None:
        self.control = control
        self.work = work
        self.children: dict[int, ForkedChild] = {}
        self.by_leash: dict[int, ForkedChild] = {}
        self.own_children = _open_own_children()
        self.poll = select.poll()
        self.poll.register(control, select.POLLIN)

    def run(self) -> None:
        while True:
            ready = [fd for fd, _event in self.poll.poll(self._patience())]
            for fd in ready:
                if fd in self.children:
                    self._bury(self.children[fd])
                elif fd in self.by_leash:
                    self._kill(self.by_leash[fd])
            # New work last: its descriptors may get numbers that this round has just closed.
            if self.control.fileno() in ready and not self._obey():
                return
            self._enforce()

    def _patience(self) -> int | None:
        if not self.children:
            return SWEEP_MS // 4 if _has_children() else None
        deadlines = [child.deadline for child in self.children.values() if child.deadline is not None]
        wait = min([*deadlines, time.monotonic() + SWEEP_MS / 1000]) - time.monotonic()
        # Rounded up: a wait that ends a moment early would only be repeated.
        return max(0, int(wait * 1000) + 1)

    def _obey(self) -> bool:
        try:
            body, fds, _flags, _address = socket.recv_fds(self.control, MAX_REQUEST, 8)
        except InterruptedError:
            return True
        if not body:
            return False
        request = json.loads(body)
        leash = socket.socket(fileno=fds[0])
        if "widen" in request:
            _widen(request["widen"], request["uid"], request["processes"])
            with leash, contextlib.suppress(OSError):  # the requester may have closed its end
                leash.send(b"!")
            return True
        self._fork(request, leash, fds[1:])
        for fd in fds[1:]:
            os.close(fd)
        return True

    def _fork(self, request: dict[str, Any], leash: socket.socket, fds: list[int]) -> None:
        pid = os.fork()
        if pid == 0:
            try:
                self.work(request, fds)
            finally:
                # `work` never returns: 97 is a child that failed before it could report.
                os._exit(97)
        if request.get("announce"):
            leash.send(json.dumps({"pid": pid}).encode())
        limit_s = request.get("wall")
        deadline = time.monotonic() + limit_s if limit_s is not None else None
        # A descriptor of a process becomes readable at its end, so one poll waits for children and requests.
        child = ForkedChild(pid, os.pidfd_open(pid), leash, deadline, request.get("uid"))
        self.children[child.pidfd] = child
        self.by_leash[leash.fileno()] = child
        self.poll.register(child.pidfd, select.POLLIN)
        self.poll.register(leash.fileno(), select.POLLRDHUP)

    def _kill(self, child: ForkedChild) -> None:
        """Kill a child whose requester closed its end or whose deadline passed.

        The pid is still its own: it is not reaped yet.
        """
        os.kill(child.pid, signal.SIGKILL)
        if child.leash.fileno() in self.by_leash:
            del self.by_leash[child.leash.fileno()]
            self.poll.unregister(child.leash.fileno())

    def _bury(self, child: ForkedChild) -> None:
        _pid, status, usage = os.wait4(child.pid, 0)
        self.poll.unregister(child.pidfd)
        os.close(child.pidfd)
        del self.children[child.pidfd]
        if self.by_leash.pop(child.leash.fileno(), None):
            self.poll.unregister(child.leash.fileno())
        report = {
            "exit": os.waitstatus_to_exitcode(status),
            "timed_out": child.timed_out,
            "cpu_ms": round((usage.ru_utime + usage.ru_stime) * 1000, 1),
            "rss_kb": usage.ru_maxrss,
        }
        try:
            child.leash.send(json.dumps(report).encode())
        except OSError:
            report.clear()  # no one waits for it any more
        child.leash.close()
        if child.uid is not None:
            _kill_all_of(child.uid)

    def _enforce(self) -> None:
        now = time.monotonic()
        for child in list(self.children.values()):
            if child.deadline is not None and child.deadline <= now and not child.timed_out:
                child.timed_out = True
                os.kill(child.pid, signal.SIGKILL)
        self._kill_strays()

    def _kill_strays(self) -> None:
        """Kill orphans, which are reparented to us as subreaper: an unknown child was forked by dataset code."""
        own_pids = {child.pid for child in self.children.values()}
        for _generation in range(GENERATIONS):
            strays = [pid for pid in _read_pids(self.own_children) if pid not in own_pids]
            for pid in strays:
                os.kill(pid, signal.SIGKILL)
            for pid in strays:
                os.waitpid(pid, 0)
            if not strays:
                return


def _open_own_children() -> int | None:
    """Return the kernel's list of our children, opened while /proc is visible; None if the kernel has none."""
    try:
        return os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _has_children() -> bool:
    """Return whether any process is our child, zombies included.

    Deeper descendants exist only if one does.
    """
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _read_pids(file: int | None) -> list[int]:
    """Read such a list from its start, in all of its parts."""
    text = b""
    while file is not None and (part := os.pread(file, 1 << 16, len(text))):
        text += part
    return [int(pid) for pid in text.split()]


def _kill_all_of(uid: int) -> None:
    """Kill, as root, all processes of a template's own uid."""
    _as_user(uid, lambda: os.kill(-1, signal.SIGKILL))


def _widen(pid: int, uid: int | None, processes: int) -> None:
    """Let a loaded template fork its sessions. Runs as its own user, which needs no capability."""

    def widen() -> None:
        _soft, hard = resource.prlimit(pid, resource.RLIMIT_NPROC)
        resource.prlimit(pid, resource.RLIMIT_NPROC, (min(processes, hard), hard))

    if uid is None:
        with contextlib.suppress(OSError):  # it has ended, and its requester gets that report
            widen()
    else:
        _as_user(uid, widen)


def _as_user(uid: int, action: Callable[[], None]) -> None:
    """Run one function as another user, in a temporary child."""
    pid = os.fork()
    if pid == 0:
        try:
            confine.become(uid)
            action()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def _end_group(*_: object) -> None:
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    """Serve. argv[1]: JSON with kind, fd, folder, uid, tier, parent. Sends the results of the probe first."""
    config = json.loads(sys.argv[1])
    control = socket.socket(fileno=config["fd"])
    os.environ.pop("PYTHONHASHSEED", None)  # it has done its work, and no scenario needs to see it
    os.chdir("/")
    signal.signal(signal.SIGTERM, _end_group)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    folder, uid = config["folder"], config["uid"] if os.geteuid() == 0 else None
    probes = confine.probe(folder, uid)
    tier = confine.reached(probes, config["declared"])
    work, shown = _verifier_work(tier) if config["kind"] == "verifier" else _scenario_work(tier, folder)
    zygote = Zygote(control, work)
    # From here on only what is imported already and what the forks may read can be found.
    probes["no_looking"] = enclosure.enclose(folder, [os.path.dirname(folder), *shown])
    if config["kind"] == "verifier" and uid is not None:
        confine.become(uid)
    if sys.platform == "linux":
        confine.prctl(confine.PR_SET_CHILD_SUBREAPER, 1)
        if config["parent"]:
            confine.prctl(confine.PR_SET_PDEATHSIG, signal.SIGTERM)
    if syscalls.supported():
        for profile in syscalls.ALLOWED:
            syscalls.program(profile)  # assembled once, for all forks
    sharing.fill_gaps()
    control.send(json.dumps({"tier": tier, "probes": probes, "pid": os.getpid()}).encode())
    zygote.run()
    _end_group()


Work = Callable[[dict[str, Any], list[int]], None]


def _verifier_work(tier: str) -> tuple[Work, list[str]]:
    """Return the work of a request, and the files that it can read."""
    preload(VERIFIER_MODULES)
    runner = importlib.import_module("awmenv.server.verify.runner")
    parent = os.getpid()
    return lambda request, fds: runner.run(fds[0], tier, parent), [confine.ZONES]


def _scenario_work(tier: str, folder: str) -> tuple[Work, list[str]]:
    host = importlib.import_module("awmenv.server.world.host")
    host.preload_libraries()
    importlib.import_module("awmenv.server.world.rehearsal").play(folder)
    parent = os.getpid()
    return lambda request, fds: host.run(request, fds, tier, parent), [path for path, _ in confine.library_rules()]
