"""The processes that run a scenario's app: a template that has loaded it once, and one fork of it per session.

Owns the order of confinement for scenarios and the dispatch of a tool call into the app, as ASGI in process: no port is
opened. Forked by `zygote`, called by `scenario`. The template is confined to its scenario's folder before it runs a
line of dataset code; each session is then confined to its own folder, and loses the right to fork.
"""

import asyncio
import contextlib
import importlib
import json
import linecache
import os
import shutil
import signal
import socket
import sqlite3
import sys
import traceback
import types
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, NoReturn
from urllib.parse import unquote

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from awmenv.server import database
from awmenv.server.sandbox import confine, framing, sharing
from awmenv.server.sandbox.preloading import APP_MODULES, preload
from awmenv.server.world import seeding, tools, worldclock

MAX_LOAD = 64 << 20
MAX_CALL = 8 << 20
MAX_RESPONSE = 1 << 20
MAX_DETAIL = 16_000
SOURCE = "scenario_app.py"
TRIAL_S = 0.5
# The number of a trial is sent as one byte.
MAX_TRIALS = 200

engines: list[Any] = []


def preload_libraries() -> None:
    """Import the libraries of apps, once per zygote.

    Everything that an app may import, because a confined user cannot even reach the interpreter's folder.
    """
    _stub_servers()
    preload(APP_MODULES)
    worldclock.install()
    _patch_engine()
    _patch_threads()


def _stub_servers() -> None:
    """Replace uvicorn, which apps import for their last line only; the real one costs megabytes."""
    stub = types.ModuleType("uvicorn")
    stub.__dict__["run"] = lambda *_args, **_kwargs: None
    sys.modules["uvicorn"] = stub


def _patch_engine() -> None:
    """Connect an app to its session's file, whatever database it names.

    The path is relative, so that a fork uses the file in its own folder.
    """
    sqlalchemy = importlib.import_module("sqlalchemy")
    engine_package = importlib.import_module("sqlalchemy.engine")
    original = sqlalchemy.create_engine

    def create_engine(_url: Any = None, **options: Any) -> Any:
        arguments = {**options.pop("connect_args", {}), "check_same_thread": False}
        options.pop("creator", None)

        def connect() -> sqlite3.Connection:
            connection: sqlite3.Connection = sqlite3.connect(database.FILE, **arguments)
            connection.execute("PRAGMA synchronous=OFF")  # a session's database need not survive a power cut
            return connection

        engine = original(f"sqlite:///{database.FILE}", creator=connect, **options)
        engines.append(engine)
        return engine

    for module in (sqlalchemy, engine_package, importlib.import_module("sqlalchemy.engine.create")):
        module.__dict__["create_engine"] = create_engine


def _patch_threads() -> None:
    """Run an app's thread work in place: plain `def` endpoints, background tasks, thread pools, `to_thread`.

    A session has one call at a time, so threads would gain nothing, and the sandbox starts none.
    """
    importlib.import_module("anyio.to_thread").__dict__["run_sync"] = _run_sync
    importlib.import_module("concurrent.futures").ThreadPoolExecutor.submit = _submit


async def _run_sync(function: Callable[..., Any], *arguments: Any, **_options: Any) -> Any:
    return function(*arguments)


def _submit(_pool: Any, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
    done: Future[Any] = Future()
    try:
        done.set_result(function(*arguments, **options))
    except BaseException as error:  # as a pool's thread does
        done.set_exception(error)
    return done


def run(request: dict[str, Any], fds: list[int], tier: str, parent: int) -> None:
    """Run the session in a fork of the zygote; never returns."""
    if "recover" in request:
        run_recovery(request, fds, tier, parent)
    run_template(request, fds, tier, parent)


def run_recovery(request: dict[str, Any], fds: list[int], tier: str, parent: int) -> NoReturn:
    """Recover the database in one folder, as the user whose processes wrote it, and report the result."""
    (fd,) = confine.keep_descriptors(fds)
    _become(request["run_as"], parent)
    confine.limit(confine.Limits(**request["limits"]))
    os.chdir(request["recover"])
    confine.confine("scenario", [(request["recover"], confine.WORK)], tier)
    try:
        seeding.recover(database.FILE)
        answer: dict[str, Any] = {"recovered": True}
    except (sqlite3.Error, MemoryError) as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    with socket.socket(fileno=fd) as channel:
        framing.send(channel, answer)
    os._exit(0)


def _become(uid: int | None, parent: int) -> None:
    if uid is not None:
        confine.become(uid)
    confine.die_with_parent(parent)


def run_template(request: dict[str, Any], fds: list[int], tier: str, parent: int) -> None:
    """Run a template. `fds`: the control socket, then the socket for the one load."""
    # The zygote's own handler ends its whole group.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    control_fd, load_fd = confine.keep_descriptors(fds)
    _become(request["uid"], parent)
    # The kernel removes ended sessions by itself: no one here waits for them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    confine.limit(confine.Limits(**request["limits"]))
    os.chdir(os.path.join(request["home"], "template"))
    os.environ.update(
        DATABASE_PATH=f"sqlite:///./{database.FILE}", HOME=os.getcwd(), TMPDIR=os.getcwd(), PATH="/usr/bin:/bin"
    )
    confine.confine("template", [(request["home"], confine.WORK), *confine.library_rules()], tier)
    with socket.socket(fileno=load_fd) as channel:
        app = _load(channel)
    if app is None:
        os._exit(0)
    worldclock.use_real_clocks()
    sharing.fill_gaps()
    _fork_on_request(socket.socket(fileno=control_fd), app, tier)


class App:
    """A loaded scenario: the ASGI app and its tools, with a checker for each tool's arguments."""

    def __init__(self, asgi: Any) -> None:
        self.asgi = asgi
        self.operations = {operation.name: operation for operation in tools.operations(asgi.openapi())}
        self.checkers = {name: Draft202012Validator(op.input_schema) for name, op in self.operations.items()}
        self.starts_something = _starts_something(asgi)
        self.libraries = confine.library_rules()  # asked for here, because a confined session would have to look again


def _load(channel: socket.socket) -> App | None:
    """Load the database first, then the app; send one frame with the result of each."""
    request = framing.receive(channel, MAX_LOAD)
    if request is None:
        return None
    clock = request["clock"]
    worldclock.hold(clock, f"base/{clock}")
    report = seeding.build(database.FILE, [(table, statement) for table, statement in request["statements"]])
    framing.send(channel, report.wire())
    if not report.is_playable(request["partial"]) or request["code"] is None:  # only the database was requested
        return None
    try:
        app = App(_run_code(request["code"]))
        _warm(app)
        framing.send(channel, {"tools": [operation.listed() for operation in app.operations.values()]})
    except BaseException as error:  # the app's import can raise anything, SystemExit included
        framing.send(channel, {"error": f"{type(error).__name__}: {error}"[:2000], "detail": _detail(error)})
        return None
    return app


def _run_code(code: str) -> Any:
    module = types.ModuleType("scenario_app")
    module.__file__ = os.path.join(os.getcwd(), SOURCE)
    sys.modules["scenario_app"] = module
    linecache.cache[SOURCE] = (
        len(code),
        None,
        code.splitlines(keepends=True),
        SOURCE,
    )  # so that tracebacks show the line
    exec(compile(code, SOURCE, "exec", dont_inherit=True), module.__dict__)
    fastapi = sys.modules["fastapi"]
    candidates = [module.__dict__.get("app"), *module.__dict__.values()]
    apps = [value for value in candidates if isinstance(value, fastapi.FastAPI)]
    if not apps:
        raise LookupError("the code defines no FastAPI app")
    apps[0].debug = False  # a debug page would show tracebacks to the agent
    return apps[0]


def _warm(app: App) -> None:
    """Make every session's usual calls once, so that the memory they build is shared.

    They are reads, with arguments made from their schemas. A read that writes leaves no trace: the sessions get the
    files as they are now.
    """
    close_database()
    for suffix in ("", "-journal", "-wal"):
        if os.path.exists(f"{database.FILE}{suffix}"):
            shutil.copyfile(f"{database.FILE}{suffix}", f"{database.LOADED}{suffix}")
    _find_sources(app.asgi)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(_exchange(app.asgi, tools.ToolRequest("GET", "/__nowhere__", "", [], b"")))
    for name, arguments in _harmless_reads(app):
        call(loop, app, name, arguments)
    loop.close()
    close_database()


def _harmless_reads(app: App) -> list[tuple[str, dict[str, Any]]]:
    """Return the reads that return in time and without an error.

    Tested in a child that is discarded: one may hang or exit, or corrupt the state of the app.
    """
    reads = [operation for operation in app.operations.values() if operation.method == "GET"]
    calls = [(read.name, arguments) for read in reads for arguments in tools.samples(read)][:MAX_TRIALS]
    hear, tell = os.pipe()
    with open(hear, "rb") as answers:
        try:
            if os.fork() == 0:
                _try(app, calls, tell)
        except OSError:
            calls = []  # its import used up its processes
        os.close(tell)
        return [calls[number] for number in sorted(answers.read()) if number < len(calls)]


def _try(app: App, calls: list[tuple[str, dict[str, Any]]], tell: int) -> NoReturn:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    # If a read hangs, the alarm ends this child, and those before it count.
    signal.setitimer(signal.ITIMER_REAL, TRIAL_S)
    try:
        loop = asyncio.new_event_loop()
        for number, (name, arguments) in enumerate(calls):
            with contextlib.suppress(Exception):
                if call(loop, app, name, arguments).get("code", 200) < 500:
                    os.write(tell, bytes([number]))
    finally:
        os._exit(0)


def _find_sources(asgi: Any) -> None:
    """Read the sources of endpoints before forking: FastAPI needs them at the first call, for error messages."""
    find = getattr(sys.modules["fastapi.routing"], "_extract_endpoint_context", lambda _endpoint: None)
    for route in asgi.routes:
        if hasattr(route, "dependant"):
            find(route.endpoint)


def close_database() -> None:
    """Close every connection of the engines. The next use opens a new one, in its process's own folder."""
    for engine in engines:
        engine.connect().close()
        engine.dispose()


def _fork_on_request(control: socket.socket, app: App, tier: str) -> None:
    """Fork a session for each datagram with its one descriptor, until the server closes the socket."""
    me = os.getpid()
    while True:
        body, fds, _flags, _address = socket.recv_fds(control, 1 << 16, 2)
        if not body or not fds:
            os._exit(0)
        channel = socket.socket(fileno=fds[0])
        try:
            pid = os.fork()
        except OSError as error:
            framing.send(channel, {"failed": f"no process: {error}"})
            pid = -1
        if pid == 0:
            try:
                control.close()
                _serve_session(channel, json.loads(body), app, tier, me)
            except BaseException as error:
                framing.send(channel, {"failed": _detail(error)})
            finally:
                os._exit(96)
        channel.close()


def _serve_session(channel: socket.socket, request: dict[str, Any], app: App, tier: str, parent: int) -> None:
    confine.die_with_parent(parent)
    folder = request["folder"]
    os.chdir(folder)
    os.environ.update(HOME=folder, TMPDIR=folder)
    confine.confine("scenario", [(folder, confine.WORK), *app.libraries], tier)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    _keep_time(request)
    startup = loop.run_until_complete(_start_up(app.asgi)) if app.starts_something else None
    framing.send(channel, {"hello": os.getpid(), "error": startup})
    while True:
        message = framing.receive(channel, MAX_CALL)
        if message is None:
            os._exit(0)
        channel.sendall(_answered(loop, app, message))


def _answered(loop: asyncio.AbstractEventLoop, app: App, message: dict[str, Any]) -> bytes:
    """Return the frame of one result. Its text is JSON already, which the server forwards unchanged."""
    answer = _answer(loop, app, message)
    text = framing.literal(answer.pop("text"))
    # As JSON a body is longer, by its escapes, than it was when it was checked.
    if len(text) > MAX_RESPONSE:
        answer, text = {"status": "http", "code": 500}, framing.literal("the response is larger than 1 MiB")
    return framing.answer(answer, text)


def _keep_time(request: dict[str, Any]) -> None:
    """Set seed and clock for the start-up and each call of a recorded session; real clocks are unchanged."""
    if "seed" in request:
        worldclock.hold(request.get("clock"), request["seed"])


def _answer(loop: asyncio.AbstractEventLoop, app: App, message: dict[str, Any]) -> dict[str, Any]:
    _keep_time(message)
    try:
        return call(loop, app, message["tool"], message["arguments"])
    except Exception as error:
        return {"status": "http", "code": 500, "text": "Internal Server Error", "detail": _detail(error)}


def call(loop: asyncio.AbstractEventLoop, app: App, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    operation = app.operations[name]
    problem = _argument_problem(app.checkers[name], arguments)
    if problem:
        return {"status": "invalid", "text": f"Input validation error: {problem}"}
    code, body, error = loop.run_until_complete(_exchange(app.asgi, tools.request(operation, arguments)))
    if len(body) > MAX_RESPONSE:
        return {"status": "http", "code": 500, "text": "the response is larger than 1 MiB"}
    if 200 <= code < 300 and error is None:
        return {"status": "ok", "text": tools.shown(body)}
    text = body.decode("utf-8", "replace")
    # Debug pages and handlers of apps return tracebacks, which an agent must not read.
    if "Traceback (most recent call last)" in text:
        return {"status": "http", "code": 500, "text": "Internal Server Error", "detail": text[:MAX_DETAIL]}
    answer = {"status": "http", "code": code, "text": text}
    return answer if error is None else {**answer, "detail": _detail(error)}


def _argument_problem(checker: Any, arguments: dict[str, Any]) -> str | None:
    error = best_match(checker.iter_errors(arguments))
    return str(error.message)[:2000] if error is not None else None


async def _exchange(app: Any, request: tools.ToolRequest) -> tuple[int, bytes, BaseException | None]:
    """Make one HTTP exchange with the app, in process; return status, body, and the exception it raised, if any."""
    status = 500
    chunks: list[bytes] = []
    size = 0
    sent = False

    async def receive() -> dict[str, Any]:
        nonlocal sent
        if sent:
            return {"type": "http.disconnect"}
        sent = True
        return {"type": "http.request", "body": request.body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status, size
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message["type"] == "http.response.body" and size <= MAX_RESPONSE:
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])

    try:
        await app(_scope(request), receive, send)
    except Exception as error:
        return 500, b"".join(chunks) or b"Internal Server Error", error
    return status, b"".join(chunks), None


def _scope(request: tools.ToolRequest) -> dict[str, Any]:
    return {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1",
        "method": request.method, "scheme": "http", "path": unquote(request.path),
        "raw_path": request.path.encode(), "root_path": "",
        "query_string": request.query.encode(), "headers": [(b"host", b"scenario"), *request.headers],
        "client": ("127.0.0.1", 0), "server": ("scenario", 80),
    }  # fmt: skip


def _starts_something(app: Any) -> bool:
    """Return false only for an app whose start-up is surely empty: then no session needs to run it."""
    plain = type(sys.modules["fastapi"].FastAPI().router.lifespan_context)
    ours = all(entry.cls.__module__.startswith(("starlette.", "fastapi.")) for entry in app.user_middleware)
    empty = type(app.router.lifespan_context) is plain is not types.FunctionType and not app.router.on_startup
    return not (empty and ours)


async def _start_up(app: Any) -> str | None:
    """Run the app's start-up events, as a server would.

    A failure is reported, and the app serves all the same.
    """
    started: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
    messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    messages.put_nowait({"type": "lifespan.startup"})

    async def send(message: dict[str, Any]) -> None:
        if not started.done():
            failed = message["type"] == "lifespan.startup.failed"
            started.set_result(str(message.get("message", ""))[:MAX_DETAIL] if failed else None)

    async def live() -> None:
        run: Awaitable[None] = app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, messages.get, send)
        try:
            await run
        except BaseException as error:
            if not started.done():
                started.set_result(_detail(error))
        if not started.done():
            started.set_result(None)

    task = asyncio.ensure_future(live())
    app.__dict__["_lifespan_task"] = task  # asyncio keeps weak references only: an unreferenced task may be collected
    return await started


def _detail(error: BaseException) -> str:
    """Return the traceback from the scenario's own code on.

    The frames above are our machinery and the operator's paths.
    """
    frames = traceback.extract_tb(error.__traceback__)
    first = next((index for index, frame in enumerate(frames) if frame.filename == SOURCE), 0)
    lines = [*traceback.format_list(frames[first:]), *traceback.format_exception_only(error)]
    return "".join(lines)[-MAX_DETAIL:].encode("utf-8", "replace").decode()
