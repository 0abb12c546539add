"""A pack of the size of AgentWorldModel-1K: seconds to the first response and memory of the environment server.

Writes 1,000 scenarios of 10 tasks (`--megabytes`, by default 500) into a temporary folder, starts the server on it
twice, without and with a cached index, and prints one JSON object a line. The limits of the same run are the same
server on the starter pack, and reading the bytes once. `--verifiers` also checks all verifiers, which takes minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from awmenv.packs import SCENARIO_FILES, VERIFIER_FILES, load_pack  # noqa: E402
from tests.running import free_ports  # noqa: E402

STARTER = ROOT / "packs" / "starter"
SCENARIOS, TASKS = 1000, 10


def rows(megabytes: int) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield (file, row): the starter's first scenario under a thousand names, filled up to the wanted size."""
    pack = load_pack(STARTER)
    model = next(iter(pack.scenarios))
    schema, sample, code = pack.schema(model), pack.sample(model), pack.app_code(model)
    forms = {mode: pack.verifier(model, 0, mode) for mode in VERIFIER_FILES}
    plain = len(json.dumps([schema, sample, code])) + TASKS * sum(len(one.code) for one in forms.values() if one)
    filler = "# " + "x" * max(0, (megabytes * 1_000_000 // SCENARIOS - plain) // (2 * TASKS)) + "\n"
    for number in range(SCENARIOS):
        name = f"{model}_{number}"
        yield SCENARIO_FILES["scenario"], {"name": name, "description": "One of many."}
        yield SCENARIO_FILES["tasks"], {"scenario": name, "tasks": [f"Task {idx}." for idx in range(TASKS)]}
        yield SCENARIO_FILES["db"], {"scenario": name, "db_schema": schema, "db_path": ""}
        yield SCENARIO_FILES["sample"], {"scenario": name, "sample_data": sample}
        yield SCENARIO_FILES["envs"], {"scenario": name, "full_code": code}
        for mode, file in VERIFIER_FILES.items():
            for idx in range(TASKS):
                own = f"# {name}, task {idx}\n"  # no two are the same, as in real packs
                verification = {"code": own + filler + getattr(forms[mode], "code", ""), "raw_response": ""}
                yield file, {"scenario": name, "task_idx": idx, "verification": verification}


def write(folder: Path, megabytes: int) -> float:
    """Write the pack; return its megabytes."""
    with contextlib.ExitStack() as stack:
        files = {
            name: stack.enter_context((folder / name).open("w"))
            for name in (*SCENARIO_FILES.values(), *VERIFIER_FILES.values())
        }
        for name, row in rows(megabytes):
            files[name].write(json.dumps(row) + "\n")
    return sum(path.stat().st_size for path in folder.iterdir()) / 1e6


def read_once(folder: Path) -> float:
    began = time.monotonic()
    for path in folder.iterdir():
        with path.open("rb") as stream:
            while stream.read(1 << 20):
                continue
    return time.monotonic() - began


def start(pack: Path, cache: Path) -> tuple[float, float, float]:
    """Return seconds from the command to the first 200, megabytes resident then, and the maximum until then."""
    (port,) = free_ports(1)
    environment = os.environ | {"AWMENV_CACHE_DIR": str(cache)}
    command = [sys.executable, "-m", "awmenv.server", "--packs", str(pack), "--port", str(port)]
    began = time.monotonic()
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)
    try:
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                break
            time.sleep(0.01)
        seconds = time.monotonic() - began
        status = dict(line.split(":", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
        return seconds, int(status["VmRSS"].split()[0]) / 1024, int(status["VmHWM"].split()[0]) / 1024
    finally:
        process.terminate()
        process.wait(20)


def check(pack: Path, cache: Path) -> float:
    """Return tasks a second whose two verifiers run on the unmodified database."""
    command = [sys.executable, "-m", "awmenv.server.checkpack", "--packs", str(pack)]
    environment, began = os.environ | {"AWMENV_CACHE_DIR": str(cache)}, time.monotonic()
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return (done.stdout.count("\n") - 1) / (time.monotonic() - began)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--verifiers", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pack = Path(folder) / "big"
        pack.mkdir()
        size = write(pack, options.megabytes)
        conditions = f"{size:.0f} MB, {SCENARIOS} scenarios x {TASKS} tasks, {os.cpu_count()} cores"
        reading = read_once(pack)
        small, small_resident, _ = min(start(STARTER, Path(folder) / "small") for _ in range(2))
        for name in ("first", "again"):
            seconds, resident, peak = start(pack, Path(folder) / "cache")
            _print(f"packs.{name}_start", seconds, "s", small + (reading if name == "first" else 0), conditions)
            _print(f"packs.{name}_resident", resident, "MB", small_resident, f"{conditions}, at most {peak:.0f} MB")
        if options.verifiers:
            _print("packs.verifiers_checked", check(pack, Path(folder) / "cache"), "tasks/s", None, conditions)


def _print(name: str, value: float, unit: str, limit: float | None, conditions: str) -> None:
    beside = {"limit": round(limit, 2), "ratio": round(value / limit, 2)} if limit else {"limit": None, "ratio": None}
    line = {"name": name, "value": round(value, 2), "unit": unit, **beside}
    print(json.dumps({**line, "conditions": {"aim": "none set", "pack": conditions}}), flush=True)


if __name__ == "__main__":
    main()
