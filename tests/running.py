"""The whole product, started as a newcomer starts it (`manage.py up`), in a data folder and on ports of its own.

Called by the tests that need real processes: the API over HTTP, sockets, browsers, kill -9, backup.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from awmweb.embedded.services import kind
from tests.commands import ROOT, Commands

START_S = 240
QUIET_START_S = 5
"""How long a start takes where nothing else runs."""
UP = (sys.executable, "manage.py", "up")


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


SILENT_S = 600
"""How long a loop may be silent in a product of a test."""
AGES = """
from datetime import timedelta
from django.db.models import F
from episodes.models import Episode
Episode.every.filter(pk__in={episodes}).update(heartbeat_at=F("heartbeat_at") - timedelta(seconds={seconds}))
"""


@dataclass
class Product:
    """One running house."""

    var: Path
    url: str
    environment: dict[str, str]
    process: subprocess.Popen[str]
    code: Path = ROOT
    project: str = "demo"
    began: float = field(default_factory=time.monotonic)
    login: str = ""
    ready_at: float = 0.0
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.commands = Commands(self.environment, self.code)

    def manage(self, *arguments: str, check: bool = True, folder: Path | None = None) -> str:
        code, out, err = self.commands.run(*arguments, folder=folder)
        if check and code != 0:
            raise AssertionError(f"manage.py {' '.join(arguments)}: {out}{err}")
        return out

    def with_project(self, name: str) -> Product:
        """The same house in a project of its own, where nothing of others is to be seen."""
        self.manage("createproject", name)
        other = copy(self)
        other.project = name
        return other

    def ages(self, *episodes: str, seconds: int) -> None:
        """Date the last heartbeat of episodes back."""
        self.manage("shell", "-v", "0", "-c", AGES.format(episodes=episodes, seconds=seconds))

    def token(self, scope: str, project: str = "", behind: str = "script") -> str:
        words = ("createtoken", f"test {scope}", "--project", project or self.project, "--scope", scope)
        words += ("--behind", behind)
        return self.manage(*words).strip().splitlines()[-1]

    def own_token(self, user: str, role: str = "expert") -> str:
        """Return a token of one person, who answers with it by hand."""
        code = (
            "from people import access; from people.record import members; "
            f"member = members.ensure_member(members.ensure_project({self.project!r}), {user!r}, {role!r}); "
            "more = {'behind': 'person', 'personal': True}; "
            "print(members.issue_token(access.person(member), 'by hand', 'answer', **more)[1])"
        )
        return self.manage("shell", "-v", "0", "-c", code).strip().splitlines()[-1]

    def link(self, user: str, role: str, project: str = "") -> str:
        words = ("loginlink", user, "--role", role, "--project", project or self.project)
        return self.manage(*words).strip().splitlines()[-1]

    def http(self, token: str | None = None) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.url + "/api/v1", headers=headers, timeout=40)

    @property
    def websocket(self) -> str:
        return self.url.replace("http://", "ws://")

    def children(self) -> dict[str, int]:
        """Pid of each child by name, as the supervisor wrote it down."""
        return {name: pid for name, (pid, _) in json.loads((self.var / "children.json").read_text()).items()}

    def processes(self) -> dict[psutil.Process, str]:
        """The supervisor and everything below it, each with the part of the product it belongs to."""
        top = psutil.Process(self.process.pid)
        parts = {pid: kind(name) for name, pid in self.children().items()} | {top.pid: "supervisor"}
        tree = [top, *top.children(recursive=True)]
        found = {}
        for one in tree:
            with suppress(psutil.NoSuchProcess):  # a connection's process may end meanwhile
                found[one] = next(parts[step.pid] for step in (one, *one.parents()) if step.pid in parts)
        return found

    def kill(self, name: str) -> int:
        """kill -9 of a service, with all its processes; returns the first pid that died."""
        pids = [pid for one, pid in self.children().items() if kind(one) == name]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return pids[0]

    def healthy(self) -> bool:
        try:
            return httpx.get(self.url + "/health", timeout=2).status_code == 200
        except httpx.HTTPError:
            return False

    @property
    def patience(self) -> float:
        """How many times slower than a quiet machine this one is: what a limit in seconds is to be stretched by."""
        return max(1.0, (self.ready_at - self.began) / QUIET_START_S, os.getloadavg()[0] / (os.cpu_count() or 1))

    def logs(self) -> str:
        tails = [
            f"--- {log.name}\n{log.read_text(errors='replace')[-2000:]}"
            for log in sorted((self.var / "logs").glob("*.log"))
        ]
        return "\n".join(self.said[-20:] + tails)


def until(what: Callable[[], Any], seconds: float, every: float = 0.05) -> Any:
    """Wait for something true; what it was comes back. Fails with the last answer."""
    end, last = time.monotonic() + seconds, None
    while time.monotonic() < end:
        last = what()
        if last:
            return last
        time.sleep(every)
    raise AssertionError(f"did not happen in {seconds} s; last answer: {last!r}")


def from_template(var: Path) -> None:
    """Fill a data folder as a first start and a stop leave it, which takes a third of the time of a first start. The
    first product of a test run makes the template, and the other processes of the run wait for it."""
    shared = os.environ.get("TESTS_PRODUCT_TEMPLATE")
    if shared is None:
        return  # not under pytest
    made = Path(shared) / "var"
    with (Path(shared) / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            fresh = Path(shared) / "fresh"
            fresh.mkdir()
            with product(fresh):
                pass
            for left in ("address", "lock", "settings.json", "logs"):
                remove = shutil.rmtree if (fresh / left).is_dir() else os.unlink
                if (fresh / left).exists():
                    remove(fresh / left)
            fresh.rename(made)
    if not (made / "elsewhere").exists():  # its servers' files lie in another folder
        subprocess.run(["cp", "-a", f"{made}/.", str(var)], check=True)


@contextmanager
def product(
    var: Path | None = None, command: Sequence[str] = UP, code: Path = ROOT, world: bool = True, **settings: str
) -> Iterator[Product]:
    """Start, wait for the ready line, stop, and see that nothing is left. `code` is the folder of another version.

    Without a `world` it has no environment server, a quarter of a start: for tests that play nothing. Loops may be
    silent for ten minutes, so that a slow machine loses no episode of a test; `Product.ages` makes older ones.
    """
    own = var is None
    var = var or Path(tempfile.mkdtemp(prefix="awmweb-product-"))
    if own and command is UP and not {"DATABASE_URL", "REDIS_URL"} & set(settings):
        from_template(var)
    if var.exists():
        var.chmod(0o711)
    port, env_port = free_ports(2)
    if not world:
        command, settings = (*command, "--without", "env"), settings | {"AWMENV_URL": f"http://127.0.0.1:{env_port}"}
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("AWMWEB_", "AWMENV_", "DJANGO_"))
    }
    environment = clean | {
        "AWMWEB_VAR": str(var), "AWMWEB_PORT": str(port), "AWMENV_PORT": str(env_port), "AWMWEB_DEMO": "0",
        "AWMWEB_UNDO_S": "0", "AWMWEB_HEARTBEAT_S": str(SILENT_S), **settings,
    }  # fmt: skip
    process = subprocess.Popen(
        command,
        cwd=code, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    house = Product(var, f"http://127.0.0.1:{environment['AWMWEB_PORT']}", environment, process, code)
    try:
        _wait_ready(house)
        yield house
    finally:
        house.commands.stop()
        _stop(house)
        if own:
            elsewhere = var / "elsewhere"
            homes = [var, Path(elsewhere.read_text().strip())] if elsewhere.exists() else [var]
            for home in homes:
                shutil.rmtree(home, ignore_errors=True)


def _wait_ready(house: Product) -> None:
    """The product's words are read to the end by a thread, so that a full pipe never holds it up."""
    ready = threading.Event()
    threading.Thread(target=_read, args=(house, ready), daemon=True).start()
    if not ready.wait(START_S) or not house.login:
        raise AssertionError("awmweb did not get ready:\n" + house.logs())


def _read(house: Product, ready: threading.Event) -> None:
    assert house.process.stdout is not None
    for line in house.process.stdout:
        house.said.append(line.rstrip())
        if found := re.match(r"awmweb ready: (\S+)$", line):
            house.login, house.ready_at = found[1], time.monotonic()
            ready.set()
    ready.set()


def _stop(house: Product) -> None:
    family = psutil.Process(house.process.pid).children(recursive=True) if house.process.poll() is None else []
    house.process.send_signal(signal.SIGTERM)
    try:
        house.process.wait(timeout=90)
    except subprocess.TimeoutExpired:
        house.process.kill()
        raise AssertionError("awmweb did not stop within 90 s:\n" + house.logs()) from None
    finally:
        _, alive = psutil.wait_procs(family, timeout=20)
        for one in alive:
            one.kill()
    assert not alive, f"left running: {alive}"
