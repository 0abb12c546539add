"""One verifier run, in its own forked child: confine, read the two database copies, run, send one frame, exit.

Owns the order of confinement for verifiers and the calling convention of their functions. Forked by `zygote`, read by
`verifier`. Trusted work on untrusted databases (`diff`, `tables`) runs here too, in the same sandbox. Nothing printed
is ever parsed.
"""

import ctypes
import functools
import inspect
import io
import json
import os
import socket
import sqlite3
import sqlite3.dbapi2
import sys
import types
from typing import Any

from awmenv.server.sandbox import confine, framing, plain
from awmenv.server.verify import diffing, listing

MAX_REQUEST = 16 << 20  # the longest code and answer, where every character takes twelve bytes as JSON
MAX_STDOUT = 65_536
MEMORY = 768 << 20
FILES = 32
FUNCTIONS = {"code": "verify_task_completion", "sql": "verify_task"}


_OURS = ("sqlite3", "json.decoder", "awmenv.server.sandbox.plain", __name__)


class DoesNotCompile(ValueError):
    """A verifier whose text is no Python."""


class _Capture(io.TextIOBase):
    """The stdout of dataset code: kept up to a bound, the rest counted and dropped."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.room = MAX_STDOUT

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if type(text) is not str:
            raise TypeError("only text can be printed")
        if self.room > 0:
            self.parts.append(text[: self.room])
            self.room -= len(text)
        return len(text)


def run(data_fd: int, tier: str, parent: int) -> None:
    """Run the verifier in the forked child; never returns."""
    confine.die_with_parent(parent)
    sock = socket.socket(fileno=data_fd)
    request = framing.receive(sock, MAX_REQUEST)
    if request is None:
        # No request, so the requester has ended: there is no one to report to.
        os._exit(90)
    (fd,) = confine.keep_descriptors([sock.detach()])
    capture = _Capture()
    sys.stdout = sys.stderr = capture
    # By limits, too, because on a weaker tier seccomp can be missing.
    confine.limit(confine.Limits(int(request["wall"]) + 1, MEMORY, file_size=0, files=FILES, processes=(0, 0)))
    rules = [(path, confine.READ_FILE) for path in request["paths"]]
    confine.confine("verifier", [*rules, (confine.ZONES, confine.READ)], tier)
    _forget_tools()
    _sort_in_memory()
    # Captured before dataset code runs, so that patching modules changes nothing here.
    encode, write, leave, copy = json.JSONEncoder(allow_nan=False).encode, os.write, os._exit, plain.plain
    answer: dict[str, Any] = {"nonce": request["nonce"]}
    try:
        value = _work(request)
        answer.update(ok=True, value=copy(value))
        body = encode(answer)
    except BaseException as error:  # SystemExit and KeyboardInterrupt are results too
        body = encode({"nonce": request["nonce"], "ok": False, "error": _describe(error)})
    if len(body) > plain.MAX_SIZE:
        body = encode({"nonce": request["nonce"], "ok": False, "error": "the result is larger than 256 KiB"})
    _write_all(write, fd, len(body).to_bytes(4, "big") + body.encode("ascii"))
    leave(0)


def _write_all(write: Any, fd: int, frame: bytes) -> None:
    view = memoryview(frame)
    while view:
        # A socket takes a part of a large frame at a time.
        view = view[write(fd, view) :]


def _forget_tools() -> None:
    """Remove ctypes and socket modules. Defense in depth; the kernel sandbox is the boundary."""
    for name in ("ctypes", "_ctypes", "socket", "_socket", "subprocess"):
        sys.modules.pop(name, None)
    ctypes._reset_cache()  # type: ignore[attr-defined]


def _sort_in_memory() -> None:
    """Keep temporary tables of every connection in memory: the sandbox has no writable file."""
    original = sqlite3.connect

    @functools.wraps(original)
    def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = original(*arguments, **options)
        sqlite3.Connection.execute(connection, "PRAGMA temp_store=MEMORY")
        return connection

    for module in (sqlite3, sqlite3.dbapi2):
        module.__dict__["connect"] = connect


def _describe(error: BaseException) -> str:
    """Describe an exception without `str()` of a foreign type, whose code could do anything."""
    kind = type(error)
    name = type.__dict__["__name__"].__get__(kind)
    if kind.__module__ == "builtins" or kind.__module__ in _OURS:
        return f"{name}: {error}"[:2000].encode("utf-8", "replace").decode()
    return str(name)


def _work(request: dict[str, Any]) -> Any:
    if request["work"] == "diff":
        return diffing.diff(*request["paths"])
    if request["work"] == "tables":
        return listing.listed(request["paths"][0], json.loads(request["answer"]))
    function = _find(_load(request["code"]), FUNCTIONS[request["work"]])
    initial, final = request["paths"]
    value = _call(function, initial, final, request["answer"], with_answer=request["work"] == "code")
    if request["work"] == "code" and type(value) is dict and type(dict.get(value, "result")) is not str:
        raise TypeError("the verifier's result is not a text")
    return value


def _load(code: str) -> dict[str, Any]:
    """Return a real module object, because dataclasses and annotations look it up.

    Not `__main__`, so that guarded blocks do not run.
    """
    module = types.ModuleType("__verifier__")
    module.__dict__.update({name: sys.modules[name] for name in ("sqlite3", "json", "re", "os")})
    sys.modules["__verifier__"] = module
    try:
        # `dont_inherit`: this module's own future imports must not change how a verifier is compiled.
        program = compile(code, "<verifier>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise DoesNotCompile(f"{type(error).__name__}: {error}") from error
    exec(program, module.__dict__)
    return module.__dict__


def _find(namespace: dict[str, Any], name: str) -> Any:
    if callable(namespace.get(name)):
        return namespace[name]
    for key, value in namespace.items():
        if key.startswith("verify") and callable(value):
            return value
    raise NameError(f"the verifier defines no {name}")


def _call(function: Any, initial: str, final: str, answer: str | None, *, with_answer: bool) -> Any:
    """Call the function with arguments by keyword if the names match, otherwise by position, as many as it takes."""
    arguments = {"initial_db_path": initial, "final_db_path": final}
    if with_answer:
        arguments["final_answer"] = answer  # type: ignore[assignment]
    try:
        parameters = inspect.signature(function).parameters
    # A callable without a readable signature gets all arguments by position.
    except (TypeError, ValueError):
        return function(*arguments.values())
    if set(parameters) <= set(arguments) and len(parameters) >= 2:
        chosen = {name: arguments[name] for name in parameters}
        if answer is None and "final_answer" in chosen:
            required = parameters["final_answer"].default is inspect.Parameter.empty
            chosen = (
                {**chosen, "final_answer": ""} if required else {k: v for k, v in chosen.items() if k != "final_answer"}
            )
        return function(**chosen)
    positional = [p for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    many = any(p.kind is p.VAR_POSITIONAL for p in parameters.values())
    values = list(arguments.values())
    return function(*(values if many else values[: len(positional)]))
