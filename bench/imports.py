"""Imports of many steps: speed of each kind of file with all checks on, and memory.

The limit is PostgreSQL's time for the same rows. Starts a PostgreSQL of its own in a temporary folder. Each import has
a process of its own, as in the product. `BENCH_STEPS` (by default 40,000) sets the size of a file. Run as `python
bench/imports.py`; one JSON object a line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
STEPS = int(os.environ.get("BENCH_STEPS", "40000"))
SMALL, TURNS, LOOK_S = 2_000, 9, 0.05
PER_EPISODE = 2 * TURNS + 2
AIM = 10_000
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}
TOOL = {"name": "get_ticket", "description": "One ticket.", "input_schema": SCHEMA}
MEANT = {"type": "string", "description": "Which of the things the caller means."}
TOOLS = [
    {
        **{"name": f"list_{number}", "description": "Lists the things of a kind, newest first, a page at a time."},
        "input_schema": {"type": "object", "properties": {f"field_{one}": MEANT for one in range(6)}},
    }
    for number in range(30)
]
"""Some 17 kB, as much as a scenario with an app of its own offers."""
SENTENCE = (
    "The pump on the second floor grinds since Monday, and the customer asks when someone comes to look at it, "
    "because the spare part was ordered twice and only one of the two orders was ever confirmed by the supplier. "
)


def text_of(*numbers: int) -> str:
    """Return about 400 characters that depend on these numbers."""
    start = sum(numbers) % len(SENTENCE)
    return f"ticket {'-'.join(map(str, numbers))}:\n{(SENTENCE * 4)[start:]}"[:400]


def task_of(number: int) -> str:
    return f"Go through the open tickets of customer {number}."


def record(number: int) -> dict[str, Any]:
    """Return an awmweb record of 20 steps: the task, nine thoughts with a call each, the answer."""
    said: list[dict[str, Any]] = [{"kind": "message", "role": "user", "content": task_of(number)}]
    for turn in range(1, TURNS + 1):
        said.append({"kind": "message", "role": "assistant", "content": text_of(number, turn), "turn": turn})
        call = {"kind": "tool_call", "name": "get_ticket", "arguments": {"id": turn, "of": number}, "turn": turn}
        result = {"id": turn, "customer": number, "open": True, "text": text_of(turn, number)}
        said.append({**call, "call_id": f"c{turn}", "result": result, "at": "2026-03-01T12:00:00Z"})
    said.append({"kind": "message", "role": "assistant", "content": text_of(number), "turn": TURNS + 1})
    return {
        **{"schema_version": "awmweb.trajectory/1", "episode": f"e{number}", "project": "lab", "state": "finished"},
        **{"task": task_of(number), "scenario": "desk_1", "tools": [TOOL], "stop_reason": "done"},
        "steps": [{"seq": seq, **step} for seq, step in enumerate(said, 1)],
        "outcome": {"reward_type": "complete", "reward": 1.0, "source": "verifier"},
    }


def record_with_tools(number: int) -> dict[str, Any]:
    return {**record(number), "tools": TOOLS}


def messages(number: int) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = [{"role": "user", "content": task_of(number)}]
    for turn in range(1, TURNS + 1):
        asked = {"name": "get_ticket", "arguments": json.dumps({"id": turn, "of": number})}
        call = {"id": f"c{turn}", "type": "function", "function": asked}
        said.append({"role": "assistant", "content": text_of(number, turn), "tool_calls": [call]})
        result = {"id": turn, "customer": number, "open": True, "text": text_of(turn, number)}
        said.append({"role": "tool", "tool_call_id": f"c{turn}", "content": json.dumps(result)})
    return [*said, {"role": "assistant", "content": text_of(number)}]


def openai(number: int) -> dict[str, Any]:
    function = {"name": "get_ticket", "parameters": SCHEMA}
    return {"messages": messages(number), "tools": [{"type": "function", "function": function}]}


def atif(number: int) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"step_id": 1, "source": "user", "message": task_of(number)}]
    for turn in range(1, TURNS + 1):
        call = {"tool_call_id": f"c{turn}", "function_name": "get_ticket", "arguments": {"id": turn, "of": number}}
        result = {"source_call_id": f"c{turn}", "content": text_of(turn, number)}
        step = {"step_id": turn + 1, "source": "agent", "message": text_of(number, turn), "tool_calls": [call]}
        steps.append({**step, "observation": {"results": [result]}})
    steps.append({"step_id": TURNS + 2, "source": "agent", "message": text_of(number)})
    return {"schema_version": "ATIF-v1.7", "session_id": f"s{number}", "agent": {"name": "a"}, "steps": steps}


def lines(row: Callable[[int], dict[str, Any]]) -> Callable[[Path, int], None]:
    def write(path: Path, episodes: int) -> None:
        with path.open("w") as out:
            out.writelines(json.dumps(row(number)) + "\n" for number in range(episodes))

    return write


def log(path: Path, episodes: int) -> None:
    """Write an Inspect log: one member a sample."""
    head = {"version": 2, "status": "success", "eval": {"task": "tickets", "model": "local/m"}}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("header.json", json.dumps(head))
        for number in range(episodes):
            sample = {"id": number, "epoch": 1, "input": task_of(number), "messages": messages(number)}
            out.writestr(f"samples/{number}_epoch_1.json", json.dumps(sample))


FORMATS: dict[str, Callable[[Path, int], None]] = {
    "raw": lines(record),
    "raw_many_tools": lines(record_with_tools),
    "openai": lines(openai),
    "atif": lines(atif),
    "inspect": log,
}


def row(name: str, value: float, unit: str, limit: float | None, **conditions: object) -> None:
    """Print one measured line. `ratio` is value to limit, whichever direction is good."""
    ratio = round(value / limit, 3) if limit else None
    line = {"name": name, "value": round(value, 1), "unit": unit, "limit": limit and round(limit, 1), "ratio": ratio}
    print(json.dumps({**line, "conditions": conditions}), flush=True)


def _django() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "awmweb.settings")
    import django

    django.setup()


def take(project: str, path: str) -> None:
    """Import one file in a process of its own, as the command does, and print its cost."""
    _django()
    from imports.record import importing
    from people.access import system_actor

    actor = system_actor(project)
    began, worked = time.perf_counter(), time.process_time()
    given = importing.take(actor, Path(path))
    took = {"seconds": time.perf_counter() - began, "worked": time.process_time() - worked}
    print(json.dumps({**took, "steps": given.steps, "episodes": given.episodes}))


def imported(project: str, path: Path) -> dict[str, Any]:
    """Import a file; `peak` is the most memory of its processes together, each shared page counted once."""
    command = [sys.executable, __file__, "take", project, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        peak = max(_looks(process), default=0)
        out, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"importing {path} ended with {process.returncode}")
    found: dict[str, Any] = json.loads(out)
    return {**found, "peak": peak}


def _looks(process: subprocess.Popen[str]) -> Iterator[int]:
    whole = psutil.Process(process.pid)
    while process.poll() is None:
        try:
            yield sum(one.memory_full_info().pss for one in (whole, *whole.children(recursive=True)))
        except psutil.Error:
            continue  # it ended meanwhile
        finally:
            time.sleep(LOOK_S)


def copied(project: str, folder: Path) -> float:
    """Return how many steps a second PostgreSQL takes as prepared rows.

    The table has the same columns, checks and indexes, but not the foreign key, which no copy of a table has.
    """
    from django.db import connection

    rows = folder / "rows"
    columns = "episode_id, seq, kind, body, cut, at"
    wanted = f"""SELECT {columns} FROM episodes_step WHERE episode_id IN (SELECT id FROM episodes_episode
                 WHERE project_id = (SELECT id FROM people_project WHERE slug = '{project}'))"""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE bare (LIKE episodes_step INCLUDING ALL)")
        with rows.open("wb") as out, cursor.copy(f"COPY ({wanted}) TO STDOUT") as found:
            out.writelines(map(bytes, found))
        count = 0
        began = time.perf_counter()
        with rows.open("rb") as ready, cursor.copy(f"COPY bare ({columns}) FROM STDIN") as copy:
            while block := ready.read(1 << 20):
                count += block.count(b"\n")
                copy.write(block)
        took = time.perf_counter() - began
        cursor.execute("DROP TABLE bare")
    rows.unlink()
    return count / took


def measure(folder: Path) -> None:
    from people.record import members

    episodes = STEPS // PER_EPISODE
    for name, write in FORMATS.items():
        path = folder / f"{name}.file"
        write(path, episodes)
        members.ensure_project(name, name)
        load = os.getloadavg()[0]
        found = imported(name, path)
        about = {
            **{"aim": f"{AIM:,} steps/s", "beside": "COPY FROM of the same rows", "steps": found["steps"]},
            **{"episodes": found["episodes"], "steps_an_episode": PER_EPISODE, "cores": os.cpu_count()},
            **{"file_bytes": path.stat().st_size, "bytes_a_step": path.stat().st_size // found["steps"]},
            **{"seconds": round(found["seconds"], 2), "cpu_seconds_of_import": round(found["worked"], 2)},
            **{"peak_mb": round(found["peak"] / 1e6, 1), "load": round(load, 2)},
        }
        row(f"import_{name}", found["steps"] / found["seconds"], "steps/s", copied(name, folder), **about)
        if name in ("raw", "openai"):
            _grown(name, write, found, path, folder)
        path.unlink()


def _grown(name: str, write: Callable[[Path, int], None], large: dict[str, Any], path: Path, folder: Path) -> None:
    """Print how much more memory the large file took than a small one."""
    from people.record import members

    small = folder / "small"
    write(small, SMALL // PER_EPISODE)
    members.ensure_project("small", "small")
    least = imported("small", small)["peak"] / 1e6
    about = {"from_steps": SMALL, "to_steps": large["steps"], "file_bytes": path.stat().st_size}
    growth = large["peak"] / 1e6 - least
    row(f"import_{name}_memory_growth", growth, "MB", least, beside="peak of a small file", **about)


def main() -> None:
    if sys.argv[1:2] == ["take"]:
        take(*sys.argv[2:4])
        return
    with tempfile.TemporaryDirectory(prefix="awmweb-bench-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        os.environ["AWMWEB_VAR"] = str(folder / "var")
        from awmweb.embedded import paths, servers

        paths.ensure_folders(paths.data_paths(folder / "var"))
        with servers.running(folder / "var", queue=False):
            _django()
            from django.core.management import call_command
            from django.db import connections

            call_command("migrate", verbosity=0)
            measure(folder)
            connections.close_all()


if __name__ == "__main__":
    main()
