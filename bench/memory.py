"""Idle memory of all processes of the product together, as proportional set size, in MB.

The limit is the memory of such a set of processes before any of our code: the same number of bare Python interpreters
plus the two servers. Run as `python bench/memory.py`; starts and stops a product of its own in a temporary folder.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.running import product

SETTLE_SECONDS = 15.0
AIM_MB = 450


def pss(pid: int) -> float:
    """Return megabytes of one process, each shared page divided among those who share it."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"no Pss for process {pid}")


def bare_interpreter() -> float:
    """Return megabytes of a Python process without any import."""
    code = "import sys; sys.stdout.write('up\\n'); sys.stdout.flush(); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1) as process:
        assert process.stdout and process.stdin
        process.stdout.readline()
        size = pss(process.pid)
        process.stdin.close()
    return size


def measure() -> dict[str, object]:
    with product() as web:
        time.sleep(SETTLE_SECONDS)
        sizes = {process.pid: (name, pss(process.pid)) for process, name in web.processes().items()}
    parts: dict[str, float] = {}
    for name, size in sizes.values():
        parts[name] = round(parts.get(name, 0.0) + size, 1)
    servers = parts["postgres"] + parts["valkey"]
    ours = [name for name in parts if name not in ("postgres", "valkey")]
    value, limit = sum(parts.values()), servers + len(ours) * bare_interpreter()
    return {
        "name": "idle_memory",
        "value": round(value, 1),
        "unit": "MB PSS",
        "limit": round(limit, 1),
        "ratio": round(value / limit, 2),
        "conditions": {"aim": AIM_MB, "idle_s": SETTLE_SECONDS, "processes": len(sizes), "parts": parts},
    }


if __name__ == "__main__":
    if not Path("/proc/self/smaps_rollup").exists():
        sys.exit("bench/memory.py needs Linux: other systems do not say how pages are shared")
    print(json.dumps(measure()))
