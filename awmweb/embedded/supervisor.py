"""The process that starts everything, restarts it and stops it: `python -m awmweb.embedded.supervisor OPTIONS`.

Owns the children and the terminal: progress lines, then the ready line, then only exits and restarts. Leaves to
`postgres` and `valkey` how a server starts, to `services` which services exist, to `manage.py prepare` everything that
needs Django. Called by `manage.py up`, which replaces itself with this process.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TextIO

from awmweb.embedded import forking, known_settings, postgres, services, space, valkey
from awmweb.embedded.forking import ForkServer
from awmweb.embedded.gate import StartGate
from awmweb.embedded.paths import (
    EmbeddedError,
    Paths,
    Secrets,
    data_paths,
    ensure_folders,
    postgres_programs,
    replace_file,
)
from awmweb.embedded.processes import ChildProcess, Spec, end_leftovers, last_lines, pids_of, rotate
from awmweb.embedded.servers import locked

BACK_OFF = (0.5, 30.0)  # first and longest pause before a restart
STABLE_S = 60.0  # a run of this length resets the pause
STOPPED_S = 20.0  # a process that a signal has stopped (SIGSTOP) is ended after this time, and restarted
LOOK_S = 5.0  # between two looks at logs, disks and stopped processes
# Who ends when, and how long each stage may take: together under the twenty seconds that a stop may take. Rollouts end
# before their environments, or they would blame the environment for what we did; the database is last, so that every
# commit under way is kept.
STAGES: list[tuple[Callable[[str], bool], float]] = [
    (lambda name: name not in {"env", valkey.NAME, postgres.NAME}, 4.0),
    (lambda name: name == "env", 4.0),
    (lambda name: name == valkey.NAME, 2.0),
    (lambda name: name == postgres.NAME, 6.0),
]
QUIT_SECONDS = 2.0  # for a database that did not end in time
DEATHS_BEFORE_READY = 3
READY_SECONDS = 120.0


class StopRequested(BaseException):
    """A signal to stop. Like KeyboardInterrupt it passes through every `except Exception`."""


@dataclass
class Kept:
    """A child that must run, and its exits so far."""

    name: str
    log: Path
    launch: Callable[[], ChildProcess]
    child: ChildProcess | None = None
    deaths: int = 0
    due: float = 0.0
    stopped_at: float | None = None
    """Since when a signal has stopped it."""

    def pause(self) -> float:
        """Return the seconds before the next start: doubling, and reset after a long run."""
        return min(BACK_OFF[1], BACK_OFF[0] * 2.0 ** (self.deaths - 1))


@dataclass(frozen=True)
class Preparation:
    """The process that migrates and fills the database, and the lines it prints."""

    child: ChildProcess
    lines: TextIO


class Supervisor:
    """All processes on one data folder."""

    def __init__(self, options: services.Options) -> None:
        self.options = options
        self.here = data_paths(Path(options.var))
        self.began = time.monotonic()
        self.kept: list[Kept] = []
        self.forks: ForkServer | None = None
        self.gates = {"prepare": StartGate(), "web": StartGate(readers=options.web_processes)}
        self.listener = services.listener(options)
        self.unwritten: dict[Path, str] = {}
        """Files of this process that are not written yet, with their content. A full disk is waited for."""
        self.is_full = self.cannot_write = False
        self.stopping = False
        self.ready = False
        self.wake, self.waker = os.pipe()

    def run(self) -> None:
        """Start everything, restart what fails until a signal, stop everything."""
        self._listen()
        try:
            services.check_ports(self.options)
            passwords = self._folders()
            with self._forking():
                if self.forks:  # which loads the product meanwhile
                    self._servers(passwords)
                with self._preparing() as process:
                    self._services("web", gate=self.gates["web"])
                    if not self.forks:
                        self._servers(passwords)
                    login = self._prepare(process)
                self._wait_healthy("web", self.options.local_url)
                if "env" not in self.options.without:
                    self._wait_healthy("env", self.options.env_url)
                self._services("worker", "rollouts", "beat")  # last, because the others need both cores until then
            self.ready = True
            address = self.options.public_url or self.options.local_url
            # Before the ready line, on which scripts and other commands wait.
            self._leave(self.here.address, address)
            self._leave(self.here.var / known_settings.FILE, known_settings.text(os.environ))
            self._print(f"awmweb ready: {address}{login}")
            while True:
                self._tend(LOOK_S)
        except StopRequested:
            self._say("stopping")
        finally:
            self.stopping = True
            self._stop()
        self._say("stopped")

    def _folders(self) -> Secrets:
        postgres.check_version(self.here)
        passwords = ensure_folders(self.here)
        for name in end_leftovers(self.here.children, keep=lambda name: name == postgres.NAME):
            self._say(f"stopped leftover process {name}")
        return passwords

    def _servers(self, passwords: Secrets) -> None:
        if not self.options.external_database:
            if not self.here.database.exists():
                self._say(f"creating the database in {self.here.database}")
            self._keep(postgres.NAME, lambda: postgres.start(self.here, passwords))
            version = postgres.versions(postgres_programs(self.here, postgres.MAJOR))
            self._say(f"database: PostgreSQL {version}, commits are durable")
        if not self.options.external_queue:
            self._keep(valkey.NAME, lambda: valkey.start(self.here, passwords))
            self._say("queue: Valkey, append-only")

    def _services(self, *names: str, gate: StartGate | None = None) -> None:
        for name, spec in services.specs(self.options).items():
            if services.kind(name) in names:
                self._keep(name, partial(ChildProcess.start, spec), self._started(spec, gate))

    def _started(self, spec: Spec, gate: StartGate | None) -> ChildProcess:
        """Start a service for the first time: as a fork if it can be one."""
        forked = self.forks.start(spec, gate) if self.forks and services.shares(spec.name) else None
        return forked or ChildProcess.start(spec, gate)

    @contextmanager
    def _forking(self) -> Iterator[None]:
        """Have a process import the product, from which the services of this start are forked."""
        if self.options.preload and forking.is_possible():
            base, log = Path(self.options.base), self.here.logs / "forking.log"
            self.forks = ForkServer(self.options.preload, base, services.environment("forking", self.options), log)
        try:
            yield
        finally:
            if self.forks:
                self.forks.close()
                self.forks = None

    @contextmanager
    def _preparing(self) -> Iterator[Preparation]:
        """Load what migrates and fills the database, in a process of its own, while the database starts."""
        inner, outer = os.pipe()
        environment = services.environment("prepare", self.options)
        command = [sys.executable, "manage.py", "prepare"]
        spec = Spec("prepare", command, self.here.logs / "prepare.log", Path(self.options.base), environment)
        gate = self.gates["prepare"]
        with open(inner, encoding="utf-8") as lines:
            child = self.forks.start(spec, gate, outer) if self.forks else None
            child = child or ChildProcess.start(spec, gate, output=outer)
            os.close(outer)
            try:
                yield Preparation(child, lines)
            except BaseException:
                child.kill_group()
                raise
            finally:
                child.process.wait()

    def _prepare(self, preparation: Preparation) -> str:
        """Have the database migrated and filled, and return the owner's login path.

        Lines of the process go to the terminal, but those that start with @ are for us: `@migrated` lets the services
        start while the packs are still loading, `@login PATH` is the last word.
        """
        login = ""
        self.gates["prepare"].open()
        for line in preparation.lines:
            if line.startswith("@login "):
                login = line.removeprefix("@login ").strip()
            elif line.startswith("@migrated"):
                self.gates["web"].open()
                self._services("env")
            elif line.strip():
                self._say(line.rstrip())
        if preparation.child.process.wait() or not login:
            raise EmbeddedError("The database could not be prepared. See the log lines above.")
        return login

    def _wait_healthy(self, name: str, url: str) -> None:
        end = time.monotonic() + READY_SECONDS
        while not services.healthy(url):
            self._tend(0.05)
            if time.monotonic() > end:
                raise EmbeddedError(f"No answer from {name} within {READY_SECONDS:.0f} s. See {self.here.logs}.")
        self._say(f"{name}: ready on {url}")

    def _keep(self, name: str, launch: Callable[[], ChildProcess], child: ChildProcess | None = None) -> None:
        """Keep a child running: the one that has been started, or one that `launch` starts now and after each exit."""
        kept = Kept(name, self.here.logs / f"{services.kind(name)}.log", launch)
        self.kept.append(kept)
        kept.child = child or launch()
        self._note_pids()

    def _tend(self, seconds: float) -> None:
        """Wait for an exit, a due restart or the timeout, and handle it."""
        now = time.monotonic()
        dues = [kept.due - now for kept in self.kept if not kept.child]
        select.select([self.wake], [], [], max(0.0, min([seconds, *dues])))
        self._drain()
        forking.reap_orphans({kept.child.process.pid for kept in self.kept if kept.child})
        for kept in self.kept:
            if kept.child and not kept.child.running:
                self._note_death(kept)
            self._end_stopped(kept)
            if not kept.child and time.monotonic() >= kept.due:
                self._restart(kept)
            rotate(kept.log)
        self._watch_space()
        self._write()

    def _end_stopped(self, kept: Kept) -> None:
        """Kill a process that someone has stopped: it holds work and serves none."""
        if not kept.child or not kept.child.is_stopped:
            kept.stopped_at = None
        elif kept.stopped_at is None:
            kept.stopped_at = time.monotonic()
        elif time.monotonic() - kept.stopped_at > STOPPED_S:
            kept.stopped_at = None
            self._say(f"{kept.name} was stopped by a signal for {STOPPED_S:.0f} s")
            kept.child.send(signal.SIGKILL)

    def _watch_space(self) -> None:
        """Report once that a disk is full, and restart everything immediately when it has space again."""
        folder = space.full_among(self.here.var, self.here.home)
        if folder and not self.is_full:
            self._say(f"{space.in_words(folder)}. Free some space: awmweb continues by itself")
        if self.is_full and not folder:
            self._say(f"the disk has space again: {space.sizes(self.here.home)[0] / 1e6:.0f} MB free")
            for kept in self.kept:
                kept.deaths, kept.due = 0, 0.0
        self.is_full = folder is not None

    def _note_death(self, kept: Kept) -> None:
        child = kept.child
        assert child
        # Processes that it started can still have its port.
        child.kill_group()
        lived = time.monotonic() - child.started
        kept.child = None
        self._count_death(kept, lived, f"exited with {_cause(child.process.returncode)}")

    def _count_death(self, kept: Kept, lived: float, what: str) -> None:
        kept.deaths = 1 if lived >= STABLE_S else kept.deaths + 1
        kept.due = time.monotonic() + kept.pause()
        self._watch_space()
        if self.is_full and kept.deaths > 1:
            return  # what it is waiting for has been said
        self._say(f"{kept.name} {what}; restarting in {kept.pause():.1f} s")
        if kept.deaths % DEATHS_BEFORE_READY == 0:
            for line in last_lines(kept.log):
                self._say(f"  {kept.name}: {line}")
            self._say(f"{kept.name} keeps failing; full log: {kept.log}")
            if not self.ready:
                raise EmbeddedError(f"Startup failed: {kept.name} keeps exiting. See the log lines above.")

    def _restart(self, kept: Kept) -> None:
        try:
            kept.child = kept.launch()
        except (EmbeddedError, OSError, subprocess.SubprocessError) as error:
            self._count_death(kept, 0.0, f"did not start: {error}")
            return
        self._note_pids()
        self._say(f"{kept.name} restarted")

    def _stop(self) -> None:
        if self.listener:
            self.listener.close()  # the port closes with the last web process
        # Children that wait at a gate end when it closes.
        for gate in self.gates.values():
            gate.close()
        for is_due, patience in STAGES:
            children = [kept.child for kept in self.kept if kept.child and is_due(kept.name)]
            for child in children:
                child.send(child.spec.stop_signal)
            self._wait_ended(children, patience)
            for child in children:
                if child.running and child.spec.name == postgres.NAME:
                    # SIGQUIT skips the final checkpoint; PostgreSQL replays its WAL at the next start
                    child.send(signal.SIGQUIT)
                    self._wait_ended([child], QUIT_SECONDS)
                child.stop(0)
        self.here.children.unlink(missing_ok=True)

    def _wait_ended(self, children: list[ChildProcess], patience: float) -> None:
        end = time.monotonic() + patience
        while any(child.running for child in children) and time.monotonic() < end:
            select.select([self.wake], [], [], 0.1)
            self._drain()

    def _note_pids(self) -> None:
        self._leave(self.here.children, pids_of([kept.child for kept in self.kept if kept.child]))

    def _leave(self, file: Path, content: str) -> None:
        """Write a file of this process, now or as soon as it can be written."""
        self.unwritten[file] = content
        self._write()

    def _write(self) -> None:
        for file in list(self.unwritten):
            try:
                replace_file(file, self.unwritten[file])
            except OSError as error:
                self._watch_space()
                if not self.cannot_write and not self.is_full:
                    self._say(f"{file} cannot be written ({error.strerror}); trying again every {LOOK_S:.0f} s")
                self.cannot_write = True
                return
            del self.unwritten[file]
        self.cannot_write = False

    def _listen(self) -> None:
        for end in (self.wake, self.waker):
            os.set_blocking(end, False)
        # A signal writes a byte, so that `select` wakes even if it comes just before the sleep.
        signal.set_wakeup_fd(self.waker, warn_on_full_buffer=False)
        # Without a handler SIGCHLD is ignored, and no byte is written for it.
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        # Once: a second Ctrl-C must not interrupt the stop.
        if not self.stopping:
            self.stopping = True
            raise StopRequested

    def _drain(self) -> None:
        try:
            os.read(self.wake, 4096)
        except BlockingIOError:
            return

    def _say(self, text: str) -> None:
        self._print(f"[{time.monotonic() - self.began:6.1f} s] {text}")

    def _print(self, line: str) -> None:
        try:
            print(line, flush=True)
        except OSError:
            return  # the terminal is closed, or the disk of its file is full; the children continue


def wait_for_space(here: Paths, pause_s: float = LOOK_S) -> None:
    """Wait until a product that was started before has space to start. A first start says what failed."""
    is_told = False
    while here.credentials.exists() and (folder := space.full_among(here.var, here.home)):
        if not is_told:
            print(f"{space.in_words(folder)}. awmweb starts when {space.SCARCE / 1e6:.0f} MB are free", flush=True)
            is_told = True
        time.sleep(pause_s)


def _cause(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"code {code}"


def main() -> int:
    """Run the product; the options are one JSON object."""
    options = services.Options(**json.loads(sys.argv[1]))
    here = data_paths(Path(options.var))
    try:
        wait_for_space(here)
        supervisor = Supervisor(options)
        with locked(here):
            supervisor.run()
    except EmbeddedError as error:
        print(f"\nawmweb did not start: {error}", file=sys.stderr, flush=True)
        return 1
    except OSError as error:
        if error.errno not in space.FULL:
            raise
        print(f"\nawmweb did not start. {space.in_words(here.var)}.", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
