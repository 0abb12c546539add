"""Starts a zygote, reads the tier that its probe reached, and sends it work; restarts one that has exited.

Owns the near end of the control socket. Called by `verifier` (any thread, any process) and `scenario` (the server's
loop).
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from awmenv.errors import HostFailed

_ROOT = str(Path(__file__).resolve().parents[3])
_BOOT = "import sys; sys.path.insert(0, {root!r}); from awmenv.server.sandbox.zygote import main; main()"
START_TIMEOUT_S = 30.0


class ZygoteClient:
    """The near side of one zygote process. `request` may be called from any thread."""

    def __init__(self, kind: str, folder: str, uid: int, declared: str, *, die_with_thread: bool = False) -> None:
        self.kind = kind
        self.tier = "none"
        self.probes: dict[str, bool] = {}
        self._config = {"kind": kind, "folder": folder, "uid": uid, "declared": declared, "parent": die_with_thread}
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._greeted = False

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def launch(self) -> None:
        """Start the process without waiting for it, so that something else can start meanwhile."""
        with self._lock:
            if not self.alive:
                self._forget()
                self._launch()

    def start(self) -> None:
        """Start the zygote if none is running. Idempotent."""
        self.launch()
        with self._lock:
            if self._process is not None and self._control is not None and not self._greeted:
                hello = self._hello(self._control, self._process)
                self.tier, self.probes, self._greeted = str(hello["tier"]), dict(hello["probes"]), True

    def _launch(self) -> None:
        # A type of socket that keeps borders: two requests with descriptors never run together.
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with far:
            config = json.dumps({**self._config, "fd": far.fileno()})
            process = subprocess.Popen(
                # No user packages, no working folder and no bytecode: nothing that another user could have put there.
                [sys.executable, "-s", "-P", "-B", "-c", _BOOT.format(root=_ROOT), config],
                env={"PYTHONHASHSEED": "0"},  # the same order of sets in each zygote, for replays
                cwd="/",
                close_fds=True,
                pass_fds=[far.fileno()],
                # A group of its own, which `stop` kills as a whole, and which Ctrl-C does not reach.
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
        self._process, self._control, self._greeted = process, near, False

    def _hello(self, near: socket.socket, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        ready, _, _ = select.select([near], [], [], START_TIMEOUT_S)
        body = near.recv(1 << 16) if ready else b""
        if not body:
            process.kill()
            detail = process.stderr.read().decode(errors="replace")[-2000:] if process.stderr else ""
            self._forget()
            raise HostFailed(f"the {self.kind} zygote did not start: {detail.strip() or 'no answer'}")
        if process.stderr:
            process.stderr.close()
        hello: dict[str, Any] = json.loads(body)
        return hello

    def request(self, message: dict[str, Any], fds: list[int]) -> None:
        """Send one piece of work with its descriptors; the first is the leash. Restarts an exited zygote once."""
        body = json.dumps(message).encode()
        for attempt in (1, 2):
            self.start()
            control = self._control
            try:
                if control is not None:
                    socket.send_fds(control, [body], fds)
                    return
            except (BrokenPipeError, ConnectionError, OSError) as error:
                if attempt == 2:
                    raise HostFailed(f"the {self.kind} zygote does not answer: {error}") from error
                self.stop()

    def stop(self) -> None:
        """End the zygote and everything that it forked."""
        with self._lock:
            process = self._process
            self._forget()
        if process is not None:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                process.poll()
            process.wait()

    def _forget(self) -> None:
        if self._control is not None:
            self._control.close()
        self._process, self._control = None, None
