"""Seconds from `make run` on an installed tree to the first HTTP 200, on an empty folder and on one with data.

The limit is one process that imports the web application, on the same machine in the same minute. Run as `python
bench/startup.py`.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.running import ROOT, free_ports, product

AIM_S = 8
REPEATS = 3


def import_alone(var: Path) -> float:
    """Return seconds to import the web application and nothing else."""
    began = time.monotonic()
    environment = os.environ | {"AWMWEB_VAR": str(var), "DJANGO_SETTINGS_MODULE": "awmweb.settings"}
    subprocess.run([sys.executable, "-c", "import awmweb.asgi"], cwd=ROOT, env=environment, check=True)
    return time.monotonic() - began


class FirstAnswer(threading.Thread):
    """A thread that polls /health from the start, and notes the first response."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.began = time.monotonic()
        self.seconds = 0.0

    def run(self) -> None:
        while not self.seconds:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=1)
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    self.seconds = time.monotonic() - self.began
            except OSError:
                time.sleep(0.01)


def start(var: Path) -> tuple[float, float]:
    """Start once; return seconds to the first 200 and to the ready line."""
    port = free_ports(1)[0]
    watcher = FirstAnswer(port)
    watcher.start()
    with product(var, ["make", "run"], AWMWEB_PORT=str(port), AWMWEB_DEMO="1") as web:
        watcher.join(30)
        return watcher.seconds, web.ready_at - web.began


def line(name: str, seconds: list[tuple[float, float]], limit: float) -> str:
    """Print the median of the repeats; the conditions have all of them."""
    first, ready = sorted(seconds)[len(seconds) // 2]
    conditions = {
        "aim": AIM_S,
        "ready_line_s": round(ready, 2),
        "all_s": [round(value, 2) for value, _ in seconds],
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
    }
    return json.dumps(
        {
            "name": name,
            "value": round(first, 2),
            "unit": "s",
            "limit": round(limit, 2),
            "ratio": round(first / limit, 2),
            "conditions": conditions,
        }
    )


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="awm-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        limit = min(import_alone(folder / "alone") for _ in range(REPEATS))
        empty = [start(folder / f"var{number}") for number in range(REPEATS)]
        again = [start(folder / f"var{number}") for number in range(REPEATS)]
    print(line("startup_empty_folder", empty, limit))
    print(line("startup_with_data", again, limit))


if __name__ == "__main__":
    main()
