"""Who may parse on an event loop, read from syntax trees: whoever does keeps all senders of its process waiting.

In the web process a body goes through `read_aside`, in the environment server through `strict.read`, which counts
before it parses. A function that parses by any other way, by itself or through others, is not called by a coroutine,
nor by a module that runs on a loop, unless it is named here with the reason. Runs without a database.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.test_layers import ROOT

SERVING = ("awmweb", "people", "episodes", "experts", "imports", "notices", "reviews", "awmenv", "awmclient")
"""Packages of the two processes whose loops serve many senders. A rollouts worker has a loop for each episode."""
ON_LOOPS = ("episodes.live", "experts.consumers", "experts.mcp.server", "people.requests", "awmenv.server.channels")
"""Modules whose plain functions run on a loop, too, as callbacks or from coroutines."""
PARSERS = {
    *("json.loads", "json.load", "orjson.loads", "pickle.loads", "yaml.safe_load"),
    *(
        "json",
        "model_validate",
        "model_validate_json",
        "validate_python",
        "validate_json",
        "FromString",
        "ParseFromString",
    ),
}
"""Whole names, or those of methods."""
WAYS = {f"awmenv.server.strict.{name}" for name in ("read", "read_text", "read_words")}
"""Readers that count first, within bounds of milliseconds."""
ASIDE = {"read_aside", "to_thread", "in_database", "sync_to_async", "in_worker", "partial"}
"""What is handed to these runs in a thread or a child."""
EXCUSED = {
    "awmclient": "an agent's own process, and a worker that calls a model: one episode or call for each loop",
    "people.requests.forms.read": "forms of pages, whose views run in threads",
    "experts.llm": "a worker's loop, for one call to a model",
    "awmenv.batches": "the client of a rollouts worker",
    "awmenv.client": "the client of a rollouts worker",
    "experts.mcp.server._task_result": "a result that this server has just made of an expert's answer",
    "experts.mcp.server.result_of": "an expert's answer, bounded when it was given: 20,000 values of a decision",
    "experts.mcp.server.Exchange.answer": "the same",
    "experts.mcp.server.Exchange.result": "the same",
    "experts.mcp.server.Exchange.replay_events_after": "the same",
    "episodes.live.consumers.LensListener._through": "frames of 64 kB at most, once for all sockets of a lens",
    "episodes.live.live_html.drawn": "called in a thread, by `_timed`",
    "awmenv.server.channels.start_tables": "4 kB and 100 values, which the gate has counted",
    "awmenv.server.session.environment.WorldEnvironment._judge": "a text in a frame that `strict.read` has bounded",
    "awmenv.server.session.environment._made": "one text, whose size `strict.read_text` has bounded",
    "awmenv.server.session.loading.hear_pid": "4 kB of the zygote's own, before any code of a pack",
    "awmenv.server.session.loading._exit_of": "4 kB of the zygote's own",
    "awmenv.server.verify.judge": "headers of the operator's settings",
}


@dataclass
class Function:
    name: str
    is_async: bool
    calls: set[str] = field(default_factory=set)


class Reading(ast.NodeVisitor):
    """The functions of one module, what each calls by its full name, and what is handed to a thread."""

    def __init__(self, module: str) -> None:
        self.module, self.scope = module, [module]
        self.names: dict[str, str] = {}
        self.classes: list[str] = []
        self.functions: list[Function] = []
        self.open: list[Function] = []
        self.aside: set[str] = set()

    def visit_Import(self, node: ast.Import) -> None:
        for one in node.names:
            self.names[one.asname or one.name.split(".")[0]] = one.name if one.asname else one.name.split(".")[0]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for one in node.names:
            self.names[one.asname or one.name] = f"{node.module}.{one.name}"

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.names.setdefault(node.name, ".".join([*self.scope, node.name]))
        self.scope.append(node.name)
        self.classes.append(".".join(self.scope))
        self.generic_visit(node)
        self.scope.pop()
        self.classes.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        function = Function(".".join([*self.scope, node.name]), isinstance(node, ast.AsyncFunctionDef))
        if self.scope == [self.module]:
            self.names.setdefault(node.name, function.name)
        self.functions.append(function)
        self.scope.append(node.name)
        self.open.append(function)
        self.generic_visit(node)
        self.scope.pop()
        self.open.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_Call(self, node: ast.Call) -> None:
        called = self.full(node.func)
        if self.open:
            self.open[-1].calls.add(called)
        if called.rsplit(".", 1)[-1] in ASIDE:
            self.aside |= {self.full(one) for one in node.args}
        self.generic_visit(node)

    def full(self, node: ast.AST) -> str:
        if isinstance(node, ast.Name):
            return self.names.get(node.id, f"{self.module}.{node.id}")
        if isinstance(node, ast.Attribute):
            is_own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls") and self.classes
            return f"{self.classes[-1] if is_own else self.full(node.value)}.{node.attr}"
        return ""


def readings(files: dict[str, str]) -> Iterator[Reading]:
    for module, text in files.items():
        reading = Reading(module)
        tree = ast.parse(text)
        for node in tree.body:  # names first: a function can call one that is defined below it
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                reading.names[node.name] = f"{module}.{node.name}"
        reading.visit(tree)
        yield reading


def parses(called: str) -> bool:
    return called in PARSERS or called.rsplit(".", 1)[-1] in PARSERS


def on_loops(files: dict[str, str]) -> dict[str, str]:
    """Functions on an event loop that parse, each with what they call for it."""
    known = list(readings(files))
    functions = [one for reading in known for one in reading.functions]
    aside = {name for reading in known for name in reading.aside}
    parsing: set[str] = set()
    while True:
        more = {
            one.name
            for one in functions
            if not one.is_async and one.name not in WAYS | parsing and any(parses(c) or c in parsing for c in one.calls)
        }
        if not more:
            break
        parsing |= more
    found = {}
    for one in functions:
        is_on_loop = one.is_async or (one.name.startswith(ON_LOOPS) and one.name not in aside)
        wrong = sorted(called for called in one.calls if (parses(called) or called in parsing) and called not in WAYS)
        if is_on_loop and wrong:
            found[one.name] = wrong[0]
    return found


@cache
def product() -> dict[str, str]:
    paths = [path for package in SERVING for path in sorted((ROOT / package).rglob("*.py"))]
    return {_module(path): path.read_text(encoding="utf-8") for path in paths}


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _excuse(name: str) -> str:
    return next((one for one in EXCUSED if f"{name}.".startswith(f"{one}.")), "")


def test_no_stranger_is_parsed_on_an_event_loop() -> None:
    assert {name: called for name, called in on_loops(product()).items() if not _excuse(name)} == {}


def test_every_excuse_is_needed() -> None:
    assert {_excuse(name) for name in on_loops(product())} - {""} == set(EXCUSED)


def test_parser_is_found_behind_calls_and_in_callbacks() -> None:
    files = {
        "people.a": """
import json
def read(raw): return json.loads(raw)
class C:
    def of(self, raw): return self.m(raw)
    def m(self, raw): return read(raw)
""",
        "people.b": """
from people import a
from people.a import read, C
async def direct(raw): return a.read(raw)
async def handed(raw): return await read_aside(raw, read, "")
async def method(raw): return C.of(raw)
async def model(raw): return Shape.model_validate(raw)
""",
        "episodes.live.c": """
import orjson
def callback(raw): return orjson.loads(raw)
def threaded(raw): return orjson.loads(raw)
async def serve(raw): await to_thread(threaded, raw)
""",
    }
    assert set(on_loops(files)) == {"people.b.direct", "people.b.method", "people.b.model", "episodes.live.c.callback"}
