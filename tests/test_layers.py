"""The house's import rules, read from syntax trees: arrows point down, between packages and inside them.

`MAY_IMPORT` is printed in docs/architecture.md, and a test compares the two. A module that no floor names fails the
test, so that whoever adds one says where it stands. Runs without a database.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import TypeGuard

import pytest
from packaging.utils import canonicalize_name

from tests.parsed import is_named, nodes
from tools import locks

ROOT = Path(__file__).resolve().parent.parent
APPS = ("people", "notices", "episodes", "reviews", "experts", "runs", "curriculum", "exports", "imports")
PACKAGES = (*APPS, "awmweb", "awmenv", "awmclient")

MAY_IMPORT = {
    "people": {"awmclient.nouns", "awmclient.schema"},
    "notices": {"people", "episodes.events"},
    "episodes": {
        *("people", "awmclient.schema", "awmclient.nouns", "awmclient.words"),
        *("awmenv.attesting", "awmenv.blockers", "awmenv.errors", "awmenv.health", "awmenv.models", "awmenv.offers"),
        "awmenv.packs",
    },
    "reviews": {"people", "notices", "episodes", "awmclient.schema", "awmclient.nouns"},
    "experts": {
        *("people", "notices", "episodes", "reviews", "awmclient.schema", "awmclient.nouns", "awmclient.errors"),
        *("awmclient.asking", "awmclient.choosing", "awmclient.words", "awmenv.blockers", "awmenv.spans"),
    },
    "curriculum": {"people", "episodes", "reviews", "runs", "awmclient.schema", "awmclient.words"},
    "runs": {
        *("people", "episodes", "reviews", "experts", "awmclient"),
        *("awmenv.attesting", "awmenv.blockers", "awmenv.client", "awmenv.errors", "awmenv.health", "awmenv.models"),
        *(
            "awmenv.offers",
            "awmenv.packs",
            "awmenv.plain",
            "awmenv.repeated",
            "awmenv.sent",
            "awmenv.spans",
            "awmenv.worlds",
        ),
    },
    "exports": {
        *("people", "episodes", "reviews", "experts", "runs", "curriculum"),
        *("awmclient.schema", "awmclient.nouns", "awmclient.words"),
        *("awmenv.errors", "awmenv.health", "awmenv.packs"),
    },
    "imports": {"people", "episodes", "awmclient.schema", "awmclient.nouns", "awmclient.words"},
    "awmweb": {*APPS, "awmclient", "awmenv.kept", "awmenv.spans", "awmenv.version"},
    "awmenv": set[str](),
    "awmclient": set[str](),
}

GROUND = {"models", "errors", "migrations"}
DOORS = {"api", "tasks", "apps", "urls", "management", "pages"}
"""What every app opens to the outside: its JSON calls, jobs, addresses, commands and pages."""
ROOMS: dict[str, tuple[set[str], ...]] = {
    "people": (
        {*GROUND, "slots", "states", "sweeping"},
        {"text", "requests"},
        {
            "access",
            "audit_trail",
            "identity",
            "measures",
            "operating",
            "postgres",
            "rates",
            "revalidation",
            "rows",
            "sealing",
        },
        {"record"},
        {"http", "keyed_calls", "served", "watching", "known_tokens", *DOORS},
    ),
    "notices": (
        {*GROUND, "events", "subjects"},
        {"address_registry", "failing", "outbound", "quoting", "webpush"},
        {"record"},
        {"sending", *DOORS},
    ),
    "reviews": (
        GROUND,
        {"visible", "statistics", "notifications"},
        {"record"},
        DOORS,
    ),
    "experts": (
        {*GROUND, "endings", "events"},
        {"rules", "metrics"},
        {"who"},
        {"find", "notifications"},
        {"record"},
        {"consumers", "llm", "looking", "mcp", "metrics.pages", "slack_answers", *DOORS},
    ),
    "curriculum": (
        GROUND,
        {"rules", "counting", "next_tasks", "snapshots", "show"},
        {"record"},
        DOORS,
    ),
    "exports": (
        GROUND,
        {"recipe", "record", "rules", "formats", "writers"},
        {"select"},
        {"assembly"},
        {"explain"},
        {"jobs"},
        DOORS,
    ),
    "imports": (
        GROUND,
        {"readers"},
        {"spooling", "confining"},
        {"trace_process"},
        {"record"},
        {"otlp_http", *DOORS},
    ),
    "episodes": (
        {*GROUND, "events", "closed_schemas"},
        {"stored", "tool_schemas", "quoting"},
        {"visible"},
        {"find", "show", "templatetags"},
        {"record"},
        {"live", *DOORS},
    ),
    "runs": (
        GROUND,
        {"statistics", "rewards"},
        {"taskset", "plan"},
        {"show"},
        {"launch"},
        {"play"},
        DOORS,
    ),
}
"""The floors of each app, lowest first: folders, and the modules beside them."""
WRITING = {"record", "launch", "play", "jobs"}
"""What a room that changes rows is called: `record`; in runs what launches and plays them, in exports their jobs. The
floors above the lowest of an app's write, too; those below are reads."""

CLIENT_FLOORS = (
    {"nouns"},
    {"errors"},
    {"words"},
    {"policies"},
    {"record"},
    {"asking", "client"},
    {"choosing"},
    {"loop"},
    {"testing", "adapters.transcript", "adapters.missing"},
    {"adapters.atif_steps"},
    {"adapters.recording", "adapters.pausing", "adapters.openenv_worlds"},
    {"adapters"},
    {"adapters.openenv_collect", "adapters.openenv_harbor", "hooks", "checking"},
    {
        "schema",
        "rollout",
        "collecting",
        "chat",
        "captures",
        "conversation",
        "toolcalls",
        "check",
        "__main__",
        "__init__",
    },
)
"""The highest floor has the public paths: names for users, which no module of the client imports."""

FRAMEWORKS = {"agents": "openai_agents", "langchain_core": "langgraph", "langgraph": "langgraph"} | {
    name: name for name in ("ag_ui", "harbor", "pydantic_ai", "smolagents", "inspect_ai")
}
"""Packages of agent frameworks, each with the adapter that imports it; no other module does."""
OPENENV = {f"awmclient.adapters.{name}" for name in ("openenv", "openenv_worlds", "openenv_collect", "openenv_harbor")}
"""The modules of the client that import openenv, on which the environment server stands, too."""
SERVER_SIDE = {"django", "channels", "celery", "ninja", "psycopg", "redis"}
LATE = {
    ("people.management.commands.resetfactor", "Command.handle"),  # models that exist only with AWMWEB_MFA
    ("awmenv.server.sandbox.confine", "_open_socket"),  # a probe's own need; the process it is forked from stays small
    ("awmclient.__main__", "main"),  # a coding agent waits for each hook: one that records loads no installer
    ("awmclient.hooks.running", "handle"),  # http.client: an event that asks and records nothing calls no one
    ("awmclient.hooks.running", "_log_failure"),  # traceback
    ("awmclient.hooks.shown", "_unified"),  # difflib, for the calls that change a file
    ("awmclient.adapters.harbor", "record_trials"),  # Harbor needs Python 3.12; without it the module is read by tests
    ("awmclient.adapters.harbor", "RecordedTrial.begin"),
    ("awmclient.adapters.harbor", "RecordedTrial._offer"),
    ("runs.show.pictures", "draw"),  # matplotlib, an extra, for reports
    ("runs.show.pictures", "draw_small"),
    ("awmweb.management.commands.model", "Command.serve"),  # xllamacpp and gguf, an extra
    ("awmweb.management.commands.model", "Command.convert"),
    ("runs.statistics.gating", "_regression"),  # scikit-learn, an extra, for the command that fits a gate
    ("exports.assembly.parts", "Parts._table"),  # pyarrow and numpy: forty megabytes, for processes that write Parquet
    ("exports.assembly.datasets", "_join"),
    ("exports.assembly.storing", "reaching"),  # botocore, an extra, where datasets are in a bucket
    ("exports.rules.redaction", "_library_rules"),  # twenty megabytes, for processes that redact
    ("exports.select.ground", "load"),  # tokenizers and jinja2, for the few recipes that name a tokenizer
    (
        "curriculum.show.series",
        "in_events",
    ),  # numpy and protobuf, for the processes in which a trainer takes its curves along
    ("episodes.stored.decode_picture", "read_picture"),  # pillow, in the child that reads a picture
    ("imports.readers.otlp", "of_protobuf"),  # protobuf, for the web processes that are sent traces
    ("imports.readers.otlp", "_ProtobufReader.__init__"),
    ("imports.readers.otlp", "as_protobuf"),
    ("imports.readers.unpacking", "_of_zstandard"),  # pyarrow, for the processes that unpack such a member
    ("runs.tasks", "take_over"),  # celery's worker, for the processes that are one
    ("awmenv.spans", "start"),  # opentelemetry's sdk, for the processes that have a collector
    ("awmweb.metrics.page", "_metrics_text"),  # prometheus_client, for the web processes that are scraped
    ("notices.record.slack", "is_signed"),  # two megabytes, for the processes that Slack calls, or that call Slack
    ("notices.record.slack", "call"),
    ("notices.pages", "_push_key"),  # seven megabytes, for the web processes in which somebody opens one page
}


@dataclass(frozen=True)
class Import:
    """One import: from which module, of which, and where it stands."""

    module: str
    target: str
    line: int
    inside: str = ""

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.target}"


@dataclass(frozen=True)
class Tree:
    """Every module of the house below `root`, with what it imports."""

    modules: dict[str, Path]
    imports: list[Import]

    @classmethod
    @cache
    def read(cls, root: Path = ROOT) -> Tree:
        modules = {_name(path, root): path for package in PACKAGES for path in sorted((root / package).rglob("*.py"))}
        return cls(modules, [one for name, path in modules.items() for one in _imports(name, path, modules)])

    def ours(self) -> list[Import]:
        return [one for one in self.imports if one.target.split(".")[0] in PACKAGES]

    def outside(self, prefix: str) -> set[str]:
        """The packages of others that the modules below this one import."""
        found = {
            one.target.split(".")[0] for one in self.imports if f"{one.module}.".startswith(f"{prefix.rstrip('.')}.")
        }
        return found - set(PACKAGES) - set(sys.stdlib_module_names)


def _name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(name: str, path: Path, modules: dict[str, Path]) -> Iterator[Import]:
    parts = nodes(path.read_text(encoding="utf-8"))
    within = {id(node): where for where, body in _functions(parts[0]) for node in ast.walk(body)}
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in parts:
        inside = within.get(id(node), "")
        if isinstance(node, ast.Import):
            yield from (Import(name, alias.name, node.lineno, inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = _source(node, package)
            for alias in node.names:
                whole = f"{source}.{alias.name}"
                yield Import(name, whole if whole in modules else source, node.lineno, inside)


def _source(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    above = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*above, *([node.module] if node.module else [])])


def _functions(tree: ast.AST, path: str = "") -> Iterator[tuple[str, ast.AST]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{path}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            bases = [ast.unparse(base) for base in node.bases]
            yield from _functions(node, "AppConfig." if "AppConfig" in bases else f"{node.name}.")
        else:
            yield from _functions(node, path)


def upward_between_packages(tree: Tree) -> list[str]:
    return [
        str(one)
        for one in tree.ours()
        if (home := one.module.split(".")[0]) != one.target.split(".")[0]
        and not any(f"{one.target}.".startswith(f"{allowed}.") for allowed in MAY_IMPORT[home])
    ]


def row_of(package: str) -> str:
    """Return the line of docs/architecture.md that says what a package may import."""
    parts: dict[str, list[str]] = {}
    for allowed in sorted(MAY_IMPORT[package], key=lambda one: (list(MAY_IMPORT).index(one.split(".")[0]), one)):
        parts.setdefault(allowed.split(".")[0], []).extend(allowed.split(".")[1:])
    named = [f"`{name}`" if not inside else f"`{name}.{_together(inside)}`" for name, inside in parts.items()]
    return f"| `{package}` | {', '.join(named) or 'no other package'} |"


def _together(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{{{','.join(names)}}}"


def allowed_in_vain(tree: Tree) -> list[str]:
    """Entries of `MAY_IMPORT` that no module makes use of."""
    made = {(one.module.split(".")[0], f"{one.target}.") for one in tree.ours()}
    return sorted(
        f"{package}: {allowed}"
        for package, all_allowed in MAY_IMPORT.items()
        for allowed in all_allowed
        if not any(home == package and target.startswith(f"{allowed}.") for home, target in made)
    )


def _floor(module: str, floors: tuple[set[str], ...], strict: bool = True) -> int | None:
    """Return the floor a module stands on, by the longest path that a floor names; None for the package itself."""
    parts = module.split(".")[1:] or ["__init__"]
    for size in range(len(parts), 0, -1):
        room = ".".join(parts[:size])
        found = next((number for number, rooms in enumerate(floors) if room in rooms), None)
        if found is not None:
            return found
    assert not strict or parts == ["__init__"], f"{module}: say in tests/test_layers.py on which floor it stands"
    return next((number for number, rooms in enumerate(floors) if "__init__" in rooms), None)


def upward_inside(tree: Tree, package: str, floors: tuple[set[str], ...]) -> list[str]:
    wrong = []
    for one in tree.ours():
        if {one.module.split(".")[0], one.target.split(".")[0]} == {package}:
            here, there = _floor(one.module, floors), _floor(one.target, floors)
            if here is not None and there is not None and there > here:
                wrong.append(str(one))
    return wrong


def reads_that_write(tree: Tree) -> list[str]:
    """Imports of a write by a read, also from another app: a page that looks must leave the database as it was."""
    return [str(one) for one in tree.ours() if _is_read(one.module) and _is_write(one.target)]


def is_write_room(module: str) -> bool:
    app, _, rest = module.partition(".")
    return app in APPS and rest.split(".")[0] in WRITING


def _is_write(module: str) -> bool:
    return _is_above(module, lambda floor, lowest: floor >= lowest)


def _is_read(module: str) -> bool:
    return _is_above(module, lambda floor, lowest: 0 < floor < lowest)


def _is_above(module: str, holds: Callable[[int, int], bool]) -> bool:
    """Return what holds of a module's floor and the lowest floor of its app that writes."""
    app = module.split(".")[0]
    floor = _floor(module, ROOMS[app], strict=False) if app in APPS else None
    return floor is not None and holds(floor, next(n for n, rooms in enumerate(ROOMS[app]) if rooms & WRITING))


OUTCOMES = {
    "episodes.stored.outcomes",
    "episodes.stored.settled",
    "episodes.record.ending",
    "episodes.record.admitting",
    "episodes.record.rejudging",
    "episodes.record.whole",
    "episodes.models",
}
JOINED = {
    "experts.metrics.records": "counts asks by what became of their episodes, in one statement",
    "exports.select.selecting": "a snapshot names the outcomes that it was made with, in one statement",
}
PAST_VISIBILITY = {
    "episodes.visible.visibility": "owns who sees an outcome",
    "episodes.find.selection": "builds the condition of a filter; callers narrow it by `visibility.with_open_outcome`",
    "episodes.stored.attesting": "asks whether a session was attested, which says nothing about its outcome",
    "episodes.visible.trajectory": "builds whole records for formats, never for a page",
    "episodes.find.facets": "counts by outcome without the episodes that are withheld from who looks",
    "runs.show.comparison": "compares a whole run, and refuses who has to review blind",
    "runs.launch.briefings": "tells for which tasks there is an outcome to learn from, and none of them",
    "runs.play.distilling": "tells outcomes to an expert model, whose words are then withheld where outcomes are",
    "runs.launch.preflight": "tells the operator what the rollouts of a command earned",
    "runs.show.forks": "reads the first outcomes of branches; whether their ends are seen was asked before",
    "runs.plan.replaceable": "tells which episodes have no outcome, and none of them",
    "runs.show.errata": "reads what a repaired verifier changes; who reads an erratum is asked then",
    "runs.show.failing": "whether the judge of verifiers works, for admins; it names no episode",
    "runs.play.reverifying": "compares what a repaired verifier says with what counted, and shows it to no one",
    "runs.show.rewarding": "pays a whole run; its report and tables are made from a comparison, which refuses",
    "runs.show.held_out": "counts over all runs; rounds of a learner refuse who has to review blind",
    "curriculum.counting": "counts a whole run; its page and the next tasks refuse who has to review blind",
    "curriculum.show.series": "draws a whole run; its page and file refuse who has to review blind",
    "curriculum.show.generations": "shows turns of a whole run; its page and file refuse who has to review blind",
    "exports.select.reading": "builds what an export holds; who may have it was asked before",
    "exports.select.measured": "counts branches for what an export holds; who may have it was asked before",
    "exports.select.ground": "tells which versions of verifiers found an export's outcomes",
    "exports.select.selecting": "asks whether a task passes untouched, which says nothing about an episode's outcome",
    "reviews.statistics.worth": "ranks queues, and shows outcomes to no one",
}


def reads_past_visibility(tree: Tree) -> list[str]:
    """Modules that read outcomes without asking who looks, though `episodes.visible.visibility` does that for all."""
    return sorted(
        {one.module for one in tree.imports if one.target == "episodes.stored.outcomes"} - set(PAST_VISIBILITY)
    )


VISIBLE = "episodes.visible"
LENS = f"{VISIBLE}.lens"
HIDDEN = {"reward", "done", "reward_type", "state_diff", "traceback", "world"}
"""Names that a lens takes out of a step."""
FLAGS = {"is_blind", "verification", "marks", "sees_all", "rewards", "diffs"}
"""What readers of steps once took in place of a lens."""
LEFT_OUT = {
    "runs.play.distilling": "leaves out types of calls for brevity, after its lens has hidden the others",
    "episodes.show.findings": "looks for failed checks in the details of an outcome, which are no step's",
}
WHOLE = {
    "runs.play.certifying": "plays the recorded calls again, from their marks",
    "runs.play.reverifying": "plays the recorded calls again, from their marks",
    "runs.play.forking": "plays the recorded calls again, and begins branches with the agent's own steps",
    "runs.play.local": "gives the built-in loop its own record, to go on from",
    "episodes.record.continuing": "looks for advice whose author saw the verifier",
    "runs.show.gating": "folds a record as its loop did, with what moved the world; a comparison refuses before",
}
"""Modules that take whole steps, without a lens."""
BODIES = {
    "episodes.find.search": "quotes what `search_text` takes of a step, which holds nothing that a lens hides",
    "episodes.record.admitting": "writes them",
    "episodes.record.appending": "writes them, and compares repeats",
    "episodes.record.ask_steps": "writes them",
    "episodes.record.branching": "copies them",
    "episodes.record.ending": "writes them",
    "episodes.record.indexing": "takes the words that search finds",
    "episodes.record.whole": "writes them",
    "episodes.stored.attesting": "looks for the session that a verifier's answer names",
    "episodes.stored.trees": "makes digests of what the agents of branches chose, to tell equal ones",
    "experts.metrics.records": "counts what agents did after an answer, of episodes whose outcome is seen",
    "runs.plan.spending": "adds up tokens",
    "runs.show.rewarding": "pays a whole run; its report and tables are made from a comparison, which refuses",
    "runs.show.held_out": "counts over all runs; rounds of a learner refuse who has to review blind",
    "curriculum.counting": "counts a whole run; its page and the next tasks refuse who has to review blind",
    "exports.explain.explaining": "says why rows are left out; who may have the export was asked before",
    "exports.select.reading": "builds what an export holds; who may have it was asked before",
    "reviews.visible.pairs": "takes digests of steps, which show nothing of them",
}
"""Modules that read or write stored bodies as they are, each with the reason; all others look through a lens."""


def bodies_past_the_lens(tree: Tree) -> list[str]:
    """Modules that know rows of steps and their bodies, and neither look through a lens nor stand in `BODIES`."""
    found = []
    for module, path in tree.modules.items():
        parts = nodes(path.read_text(encoding="utf-8"))
        texts = [one.value for one in parts if _is_text(one)]
        rows = any(is_named(one, "Step.objects") for one in parts)
        rows = rows or any("episodes_step " in text for text in texts)
        body = "body" in texts or any("episodes_step" in text and "body" in text for text in texts)
        body = body or any(isinstance(one, ast.Attribute) and one.attr == "body" for one in parts)
        if rows and body and module.split(".")[0] in APPS and ".migrations." not in module:
            found += [module] if f"{LENS}.through" not in _uses(tree, module) else []
    return sorted(set(found) - set(BODIES))


def whole_steps(tree: Tree) -> list[str]:
    """Modules that import the read of steps by name, so that no call of it shows whether it has a lens."""
    return sorted({name for name in tree.modules if f"{VISIBLE}.trajectory.steps_of" in _uses(tree, name)} - set(WHOLE))


def _uses(tree: Tree, module: str) -> set[str]:
    text = tree.modules[module].read_text(encoding="utf-8")
    imports = [one for one in nodes(text) if isinstance(one, ast.ImportFrom)]
    return {f"{one.module}.{alias.name}" for one in imports for alias in one.names}


def shortened_past_the_lens(tree: Tree) -> list[str]:
    """Places in the apps that drop a name which a lens hides, or take a flag or nothing in place of a lens."""
    found = []
    for module, path in tree.modules.items():
        if module.split(".")[0] not in APPS or module == LENS or ".migrations." in module:
            continue
        parts = nodes(path.read_text(encoding="utf-8"))
        named = {
            ast.unparse(one.targets[0]): _texts(one.value)
            for one in parts
            if isinstance(one, ast.Assign) and len(one.targets) == 1
        }
        for node in parts:
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.NotIn) and module not in LEFT_OUT:
                beside = node.comparators[0]
                drops = bool(HIDDEN & (named.get(ast.unparse(beside), set()) | _texts(beside)))
            elif isinstance(node, ast.Call) and is_named(node.func, "trajectory.steps_of"):
                drops = not any(one.arg == "lens" for one in node.keywords)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "pop":
                drops = bool(HIDDEN & {text for one in node.args for text in _texts(one)})
            else:
                drops = isinstance(node, ast.arg) and node.arg in FLAGS and _is_read_of_steps(module)
            if drops:
                found.append(f"{module}:{getattr(node, 'lineno', 0)}")
    return sorted(found)


def _texts(node: ast.AST) -> set[str]:
    """Return the texts of a literal collection, or the text itself."""
    if isinstance(node, ast.Call) and node.args:
        return _texts(node.args[0])
    parts = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    return {one.value for one in parts if _is_text(one)}


def _is_read_of_steps(module: str) -> bool:
    return module.startswith(("episodes.", "reviews.visible.", "reviews.pages.", "experts.pages.", "exports.explain."))


STATES = ("queued", "running", "waiting")


def queries_of_outcomes(tree: Tree) -> list[str]:
    """Modules that ask for outcomes, by the manager or through a join, though `episodes.stored.outcomes` does that for
    all."""
    found = []
    for module, path in tree.modules.items():
        if module in OUTCOMES or ".migrations." in module:
            continue
        for node in nodes(path.read_text(encoding="utf-8")):
            asks = is_named(node, "VerifierOutcome.objects")
            words = [node.arg or ""] if isinstance(node, ast.keyword) else [node.value] if _is_text(node) else []
            joins = module not in JOINED and any("outcomes__" in word for word in words)
            if asks or joins:
                found.append(f"{module}:{getattr(node, 'lineno', 0)}")
    return sorted(found)


def _is_text(node: ast.AST) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def lists_of_live_states(tree: Tree) -> list[str]:
    """Places that spell two or more live states in a row, though `awmclient.nouns.values` holds the tables."""
    found = []
    for module, path in tree.modules.items():
        if module == "awmclient.nouns.values" or ".migrations." in module:
            continue
        for node in nodes(path.read_text(encoding="utf-8")):
            if isinstance(node, ast.Tuple | ast.List | ast.Set):
                said = {ast.unparse(one).strip("'").rpartition(".")[2].lower() for one in node.elts}
                if len(said) > 1 and said <= set(STATES):
                    found.append(f"{module}:{node.lineno}")
    return found


def late_imports(tree: Tree) -> list[str]:
    allowed = LATE | {(module, "AppConfig.ready") for module in tree.modules if module.endswith(".apps")}
    return [f"{one} in {one.inside}" for one in tree.imports if one.inside and (one.module, one.inside) not in allowed]


def circles(tree: Tree) -> list[str]:
    """Modules that reach themselves by their imports at the top of the file."""
    arrows: dict[str, set[str]] = {}
    for one in tree.ours():
        if not one.inside and one.target in tree.modules and one.target != one.module:
            arrows.setdefault(one.module, set()).add(one.target)
    return sorted(module for module in arrows if module in _reached(module, arrows))


def _reached(start: str, arrows: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    todo = list(arrows.get(start, ()))
    while todo:
        module = todo.pop()
        if module not in seen:
            seen.add(module)
            todo += arrows.get(module, ())
    return seen


@pytest.fixture(scope="module")
def tree() -> Tree:
    return Tree.read()


def test_no_arrow_between_packages_points_up(tree: Tree) -> None:
    assert upward_between_packages(tree) == []


def test_table_of_who_may_import_whom_is_that_of_the_code() -> None:
    """The assertion's message has the lines that the page needs."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.split("\n## Who may import whom\n\n")[1].split("\n\n")[0].splitlines()
    right = [row_of(package) for package in ("awmweb", *reversed(APPS), "awmclient", "awmenv")]
    assert table[2:] == right, "\n".join(right)


def test_nothing_is_allowed_that_no_module_needs(tree: Tree) -> None:
    assert allowed_in_vain(tree) == []


def test_permission_that_no_module_needs_is_found(tmp_path: Path) -> None:
    files = {"notices/sending.py": "from episodes import events\n", "episodes/events.py": "", "people/models.py": ""}
    found = allowed_in_vain(house(tmp_path, files))
    assert "people: awmclient.schema" in found and "notices: episodes.events" not in found


@pytest.mark.parametrize("app", APPS)
def test_inside_an_app_edges_call_writes_and_writes_call_reads(tree: Tree, app: str) -> None:
    for module in tree.modules:
        if module.split(".")[0] == app:
            _floor(module, ROOMS[app])
    assert upward_inside(tree, app, ROOMS[app]) == []


def test_no_read_imports_a_write_of_any_app(tree: Tree) -> None:
    assert reads_that_write(tree) == []


def test_read_that_imports_a_write_of_another_app_is_found(tmp_path: Path) -> None:
    files = {
        "reviews/record/court.py": "",
        "reviews/pages/court.py": "",
        "runs/show/comparison.py": "from reviews.record import court\n",
        "runs/show/rows.py": "from reviews.pages import court\n",
        "runs/launch/planning.py": "from reviews.record import court\n",
    }
    assert reads_that_write(house(tmp_path, files)) == [
        "runs.show.comparison:1 imports reviews.record.court",
        "runs.show.rows:1 imports reviews.pages.court",
    ]


def test_inside_the_client_the_record_format_is_the_ground(tree: Tree) -> None:
    for module in tree.modules:
        if module.split(".")[0] == "awmclient":
            _floor(module, CLIENT_FLOORS)
    assert upward_inside(tree, "awmclient", CLIENT_FLOORS) == []


def test_no_module_reaches_itself(tree: Tree) -> None:
    assert circles(tree) == []


def test_imports_stand_at_the_top_of_the_file(tree: Tree) -> None:
    assert late_imports(tree) == []


def test_outcomes_are_queried_by_their_owner_alone(tree: Tree) -> None:
    assert queries_of_outcomes(tree) == []


def test_outcomes_are_read_through_visibility(tree: Tree) -> None:
    assert reads_past_visibility(tree) == []


def test_read_past_visibility_is_found_anywhere(tmp_path: Path) -> None:
    files = {"episodes/stored/outcomes.py": "", "reviews/pages/one.py": "from episodes.stored import outcomes\n"}
    assert reads_past_visibility(house(tmp_path, files)) == ["reviews.pages.one"]


def test_steps_are_shortened_by_the_lens_alone(tree: Tree) -> None:
    assert shortened_past_the_lens(tree) == []


def test_bodies_are_read_through_a_lens_or_listed(tree: Tree) -> None:
    assert bodies_past_the_lens(tree) == []
    assert whole_steps(tree) == []
    assert sorted((set(BODIES) | set(WHOLE)) - set(tree.modules)) == []


def test_step_that_is_shortened_past_the_lens_is_found(tmp_path: Path) -> None:
    files = {
        "episodes/show/windows.py": "def shown(rows, *, is_blind=False):\n    pass\n",
        "reviews/visible/places.py": "OUT = frozenset({'reward'})\nkept = {n for n in step if n not in OUT}\n",
        "exports/select/rows.py": "step.pop('state_diff', None)\n",
        "experts/llm.py": "from episodes.visible import trajectory\nsteps = trajectory.steps_of(one, 0, 9)\n",
        "runs/play/again.py": "from episodes.visible.trajectory import steps_of\n",
        "runs/show/rows.py": "texts = Step.objects.values_list('body')\n",
        "experts/find/rows.py": "from episodes.visible.lens import through\ntexts = Step.objects.values_list('body')\n",
        "episodes/visible/lens.py": "step.pop('reward')\n",
    }
    tree = house(tmp_path, files)
    assert shortened_past_the_lens(tree) == [
        "episodes.show.windows:1",
        "experts.llm:2",
        "exports.select.rows:1",
        "reviews.visible.places:2",
    ]
    assert bodies_past_the_lens(tree) == ["runs.show.rows"]
    assert whole_steps(tree) == ["runs.play.again"]


def test_live_states_stand_in_one_table(tree: Tree) -> None:
    assert lists_of_live_states(tree) == []


def test_layer_test_finds_outcome_queries_in_sub_packages(tmp_path: Path) -> None:
    tree = house(
        tmp_path,
        {
            "experts/metrics/pages.py": "found = VerifierOutcome.objects.all()\nsome = rows.filter(outcomes__pk=1)\n",
            "exports/formats/raw.py": "live = [EpisodeState.RUNNING, EpisodeState.WAITING]\n",
        },
    )
    assert queries_of_outcomes(tree) == ["experts.metrics.pages:1", "experts.metrics.pages:2"]
    assert lists_of_live_states(tree) == ["exports.formats.raw:1"]


def test_the_client_needs_httpx_and_pydantic_only(tree: Tree) -> None:
    assert tree.outside("awmclient") - {*FRAMEWORKS, "openenv"} == {"httpx", "pydantic", "pydantic_core"}


def test_modules_load_nothing_that_the_lock_lacks(tree: Tree) -> None:
    """A first install has the packages of the lock alone; others are loaded late, by the modules named here."""
    locked = {entry.name for entry in locks.compare(locks.LOCKS[0])}
    owners = packages_distributions()
    lacking = {
        (one.target.split(".")[0], one.module)
        for one in tree.imports
        if not one.inside
        and one.target.split(".")[0] not in {*PACKAGES, *sys.stdlib_module_names, *FRAMEWORKS}
        and not {canonicalize_name(name) for name in owners.get(one.target.split(".")[0], [])} & locked
    }
    assert lacking == {
        *(("matplotlib", "runs.show.drawing"), ("botocore", "exports.assembly.s3")),
        *(("gguf", f"awmweb.weights.{name}") for name in ("serving", "converting")),
        ("xllamacpp", "awmweb.weights.serving"),
    }


def test_each_framework_is_imported_by_its_adapter_alone(tree: Tree) -> None:
    users = {(one.target.split(".")[0], one.module) for one in tree.imports}
    for framework, adapter in FRAMEWORKS.items():
        assert {module for target, module in users if target == framework} == {f"awmclient.adapters.{adapter}"}


def test_public_awmenv_modules_import_no_server_or_django(tree: Tree) -> None:
    public = [one for one in tree.imports if one.module.startswith("awmenv") and "awmenv.server" not in one.module]
    assert [str(one) for one in public if one.target.startswith("awmenv.server")] == []
    assert {one.target.split(".")[0] for one in public} & (SERVER_SIDE | {"openenv", "fastapi", "starlette"}) == set()


def test_environment_server_imports_no_driver_or_django(tree: Tree) -> None:
    assert tree.outside("awmenv.server") & SERVER_SIDE == set()


def test_the_watching_process_needs_the_standard_library_only(tree: Tree) -> None:
    assert tree.outside("awmweb.embedded") == set()
    assert [
        str(one)
        for one in tree.ours()
        if one.module.startswith("awmweb.embedded") and not one.target.startswith("awmweb.embedded")
    ] == []


def test_openenv_is_imported_by_the_server_and_its_adapter_alone(tree: Tree) -> None:
    users = {one.module for one in tree.imports if one.target.split(".")[0] == "openenv"}
    assert users > OPENENV, "the server imports openenv no more; this rule has lost its subject"
    assert [module for module in users - OPENENV if not module.startswith("awmenv.server.")] == []


def test_web_and_worker_load_nothing_that_only_some_use(tmp_path: Path) -> None:
    """What other people's packages import counts, too."""
    tmp_path.chmod(0o711)
    look = (
        "import awmweb.asgi, awmweb.urls, awmweb.celery, runs.tasks, experts.tasks, notices.tasks, sys;"
        "unwanted = ('openenv', 'prometheus_client', 'PIL', 'slack_sdk', 'fastmcp');"
        "parts = ('awmenv.server', 'opentelemetry.sdk.', 'opentelemetry.exporter', 'awmclient.hooks',"
        "         'awmclient.adapters');"
        "loaded = [name for name, one in sys.modules.items() if one is not None];"
        "print([one for one in loaded if one.split('.')[0] in unwanted or one.startswith(parts)])"
    )
    environment = {**os.environ, "AWMWEB_VAR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", look], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


def house(root: Path, files: dict[str, str]) -> Tree:
    """A small house of the given files."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Tree.read(root)


def test_an_arrow_up_is_found_wherever_it_hides(tmp_path: Path) -> None:
    tree = house(
        tmp_path,
        {
            "people/models.py": "if TYPE_CHECKING:\n    from episodes import models\n",
            "people/record/members.py": "from people.pages import people\n",
            "people/pages/people.py": "def page():\n    from people.record import members\n",
            "episodes/models.py": "import people.models\n",
            "awmclient/nouns/steps.py": "from awmclient.client import wire\n",
            "awmclient/client/wire.py": "from awmclient.nouns import steps\n",
        },
    )
    assert upward_between_packages(tree) == ["people.models:2 imports episodes.models"]
    assert upward_inside(tree, "people", ROOMS["people"]) == ["people.record.members:1 imports people.pages.people"]
    assert upward_inside(tree, "awmclient", CLIENT_FLOORS) == ["awmclient.nouns.steps:1 imports awmclient.client.wire"]
    assert late_imports(tree) == ["people.pages.people:2 imports people.record.members in page"]
    assert circles(tree) == ["awmclient.client.wire", "awmclient.nouns.steps", "episodes.models", "people.models"]


def test_a_module_of_a_sub_package_may_have_its_own_floor(tmp_path: Path) -> None:
    tree = house(
        tmp_path,
        {
            "experts/metrics/records.py": "from experts.metrics import pages\n",
            "experts/metrics/pages.py": "from experts.metrics import statistics\nfrom experts.record import queue\n",
            "experts/metrics/statistics.py": "",
            "experts/record/queue.py": "",
        },
    )
    assert upward_inside(tree, "experts", ROOMS["experts"]) == [
        "experts.metrics.records:1 imports experts.metrics.pages"
    ]


def test_a_module_without_a_floor_is_refused(tmp_path: Path) -> None:
    tree = house(tmp_path, {"people/utils.py": "from people import models\n", "people/models.py": ""})
    with pytest.raises(AssertionError, match=r"people\.utils"):
        upward_inside(tree, "people", ROOMS["people"])


def test_every_test_file_can_be_imported_beside_the_others() -> None:
    """Folders without `__init__.py` share one namespace of modules: a second file of a name stops the collection."""
    alone = [path for path in (ROOT / "tests").rglob("test_*.py") if not (path.parent / "__init__.py").exists()]
    names = [path.name for path in alone]
    assert sorted(name for name in set(names) if names.count(name) > 1) == []
