"""A product of its own for one measurement: temporary data folder, free ports, stopped at the end. Prints nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

import psutil

ROOT = Path(__file__).resolve().parents[1]


def free_port() -> int:
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        return line.getsockname()[1]


class Product:
    """`manage.py up` as a context manager; `seconds_to_ready` says how long it took."""

    def __init__(self, var: Path | None = None, command: list[str] | None = None, **environment: str) -> None:
        self.command = command or [sys.executable, "manage.py", "up"]
        self.folder = Path(tempfile.mkdtemp(prefix="awm-", dir="/tmp"))
        self.folder.chmod(0o755)
        self.var = var or self.folder / "var"
        self.port = free_port()
        known = {"AWMWEB_VAR": str(self.var), "AWMWEB_PORT": str(self.port), "AWMENV_PORT": str(free_port())}
        inherited = {
            key: value for key, value in os.environ.items() if not key.startswith(("AWM", "DATABASE_", "REDIS_"))
        }
        self.environment = inherited | known | environment

    def __enter__(self) -> Product:
        began = time.monotonic()
        self.process = subprocess.Popen(self.command, cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout
        for line in self.process.stdout:
            if line.startswith("awmweb ready: "):
                self.login = line.removeprefix("awmweb ready: ").strip()
                self.seconds_to_ready = time.monotonic() - began
                return self
        raise RuntimeError("the product did not start")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=30)
        shutil.rmtree(self.folder, ignore_errors=True)

    def processes(self) -> list[psutil.Process]:
        """The supervisor and everything below it."""
        top = psutil.Process(self.process.pid)
        return [top, *top.children(recursive=True)]

    def names(self, tree: list[psutil.Process]) -> dict[int, str]:
        """Which part of the product each process belongs to."""
        tops = {pid: name for name, (pid, _) in json.loads((self.var / "children.json").read_text()).items()}
        tops[self.process.pid] = "supervisor"
        found = {}
        for process in tree:
            line = [process, *process.parents()]
            found[process.pid] = next(tops[step.pid] for step in line if step.pid in tops)
        return found
