"""Nothing waits in a pool that others share (threads of requests, of the worker, an event loop) without a named bound.

A wait in a shared pool is everyone's: 160 requests that waited for a turn once held all threads of the web process. A
turn is taken before a thread (`people/requests/turns.py`), or is refused immediately (`acquire(blocking=False)`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.running import ROOT
from tests.test_layers import APPS

BLOCKING = {"sleep", "acquire", "wait", "join", "communicate", "result"}
"""Methods that wait, unless they are awaited."""
RUNS = {"run", "check_call", "check_output", "call"}
"""Functions of `subprocess` that wait."""
WAITS = {
    ("people/measures.py", "_ending.wait"): "a thread of its own",
    ("people/record/jobs.py", "child.wait"): "in `_room`: two threads of the worker for each command",
    ("people/record/jobs.py", "subprocess.run"): "in `_room`, likewise",
    ("episodes/stored/decoding.py", "_one_child.acquire"): "in `_turn`, for at most `WAIT_S`",
    ("episodes/record/committer.py", "self._news.wait"): "a thread of its own",
    ("episodes/stored/decoding.py", "subprocess.run"): "in `_turn`: two threads for a sender, four for all",
    ("episodes/events.py", "threading.Event().wait"): "a thread of its own",
    ("episodes/record/indexing.py", "time.sleep"): "the worker's one reader of steps, as long as its batch took",
    ("exports/jobs/pushing.py", "done.wait"): "a thread of the child that pushes",
    ("exports/jobs/pushing.py", "beating.join"): "the child that pushes",
    ("exports/jobs/working.py", "time.sleep"): "the child that builds",
    ("imports/trace_process.py", "child.wait"): "one thread of the worker, in `settle`",
    ("exports/assembly/parts.py", "other.join"): "the child that builds",
    ("people/known_tokens.py", "task.result"): "of a task that is done",
    ("runs/plan/servers.py", "thread.submit(asyncio.run, asked).result"): "`PROBE_S`, for who can launch; then known",
    ("runs/tasks.py", "time.sleep"): "a worker of rollouts at its start, which has no task yet",
    ("awmweb/asgi.py", "gate.wait"): "before the process serves anyone",
    ("awmweb/partitions/tables.py", "time.sleep"): "a command, or the nightly task: less than half a second",
}
"""Waits, with the pool they are in and what bounds them there."""
COMMANDS = ("management", "embedded")
"""Folders of processes that serve no one else."""


def waits(path: Path, name: str) -> Iterator[tuple[str, str]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    awaited = {id(inner) for one in ast.walk(tree) if isinstance(one, ast.Await) for inner in ast.walk(one.value)}
    for one in ast.walk(tree):
        if not isinstance(one, ast.Call) or not isinstance(one.func, ast.Attribute) or id(one) in awaited:
            continue
        said = ast.unparse(one.func)
        is_refused = any(key.arg == "blocking" and ast.unparse(key.value) == "False" for key in one.keywords)
        is_run = said.startswith("subprocess.") and one.func.attr in RUNS
        if is_run or one.func.attr in BLOCKING and not is_refused and not _is_text(one):
            yield name, said


def _is_text(call: ast.Call) -> bool:
    """Tell whether this is `join` of texts, which takes what is joined, or `join` of paths."""
    return isinstance(call.func, ast.Attribute) and call.func.attr == "join" and bool(call.args)


def found(root: Path = ROOT, folders: tuple[str, ...] = (*APPS, "awmweb")) -> set[tuple[str, str]]:
    files = [path for folder in folders for path in sorted((root / folder).rglob("*.py"))]
    named = [(path, str(path.relative_to(root))) for path in files]
    return {one for path, name in named if not set(COMMANDS) & set(path.parts) for one in waits(path, name)}


def test_each_wait_in_a_shared_pool_is_named_with_its_bound():
    assert found() - set(WAITS) == set()


def test_named_waits_are_there():
    assert set(WAITS) - found() == set()


def test_wait_for_a_turn_in_a_thread_is_found(tmp_path):
    (tmp_path / "imports").mkdir()
    code = "def view(request):\n    _turns.acquire(timeout=5)\n    ok.acquire(blocking=False)\n"
    (tmp_path / "imports" / "door.py").write_text(f"{code}\nasync def line():\n    await turn.acquire()\n")
    assert found(tmp_path, ("imports",)) == {("imports/door.py", "_turns.acquire")}
